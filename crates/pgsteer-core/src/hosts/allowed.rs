//! Where existing connections may stay.
//!
//! Wider than where new ones go: a host that merely failed keeps its place, and so does a fallback while what is preferred
//! to it is down. Otherwise every failure would move connections twice. What a host said it is counts as long as it says
//! nothing else, however old that is; a host that is known to be unfit has no place.

use super::picker::{Facts, Filter, Policy};
use super::roles::Standing;

/// The ranks a host can have for staying on, the best first.
const RANKS: std::ops::RangeInclusive<u8> = 0..=2;

/// How good a host is for staying on. `None`: nothing may stay there.
pub(super) fn rank(standing: Standing, spread: bool) -> Option<u8> {
    match standing {
        Standing::Wanted => Some(0),
        Standing::Unknown => Some(if spread { 0 } else { 1 }),
        Standing::Accepted => Some(2),
        Standing::Unfit => None,
    }
}

/// The places of discovered servers that may keep connections, and whether one of them works.
pub(super) fn servers(
    policy: &Policy,
    servers: &[Facts],
    rank: impl Fn(usize) -> Option<u8>,
    works: impl Fn(usize) -> bool,
) -> (Vec<usize>, bool) {
    // the best group of servers of which one is usable
    let best = |usable: &dyn Fn(usize) -> bool| -> Option<(u8, Filter)> {
        RANKS.into_iter().find_map(|number| {
            let of_rank = servers
                .iter()
                .filter(|server| usable(server.place) && rank(server.place) == Some(number));
            let filter = policy.filter(of_rank.clone());
            of_rank
                .clone()
                .any(|server| filter.admits(server))
                .then_some((number, filter))
        })
    };
    let healthy = best(&|_| true);
    let now = best(&works);
    let is_in = |group: Option<(u8, Filter)>, server: &Facts| {
        group.is_some_and(|(number, filter)| rank(server.place) == Some(number) && filter.admits(server))
    };
    let allowed = servers
        .iter()
        .filter(|server| is_in(healthy, server) || is_in(now, server))
        .map(|server| server.place)
        .collect();
    (allowed, now.is_some())
}

/// The places of seeds that may keep connections: all that are fit while none of those works, else the best and the best
/// that works. `spread`: with one seed all that are as good as it.
pub(super) fn seeds(
    seeds: &[usize],
    spread: bool,
    rank: impl Fn(usize) -> Option<u8>,
    works: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let fit = || seeds.iter().copied().filter(|place| rank(*place).is_some());
    let best = |usable: &dyn Fn(usize) -> bool| {
        fit()
            .filter(|place| usable(*place))
            .min_by_key(|place| rank(*place))
    };
    let Some(now) = best(&works) else {
        return fit().collect();
    };
    let healthy = best(&|_| true);
    let stays = |place: usize| match spread {
        true => rank(place) == rank(now) || rank(place) == healthy.and_then(&rank),
        false => place == now || Some(place) == healthy,
    };
    fit().filter(|place| stays(*place)).collect()
}
