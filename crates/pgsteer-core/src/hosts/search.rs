//! Where a search for a connection goes next.
//!
//! Hosts come in turns by what is known of their role, the best for the target first, and every one comes in the end, so
//! that knowledge that was true once keeps nobody out for ever. Within a turn the load-balance mode, the topology and
//! the loads decide among servers, and the configured order among seeds.

use std::time::Instant;

use super::load::HostTable;
use super::picker::{Policy, least_loaded, nth_of};
use super::roles::Standing;
use super::{ClusterState, HostOrder, TargetSessionAttrs};
use crate::host::HostKey;

/// One search for a connection, as far as it has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Search<'a> {
    /// Which servers will do.
    pub target: TargetSessionAttrs,
    /// The hosts it has been to already.
    pub tried: &'a [HostKey],
    /// Hosts to be used only if there are no others as good.
    pub avoid: &'a [HostKey],
    /// A host has answered, though not with a connection that will do. Failed hosts whose delay is not over are then left
    /// out, as are those being probed: one that swallows packets would hold up each round of a search that is repeated.
    pub answered: bool,
    /// A connection that will do is kept already: only hosts that may be better are worth a connect.
    pub spare: bool,
}

/// The turn of failed seeds, after all that work.
const LAST_RESORT: u8 = 5;

/// The turns of working hosts.
const TURNS: std::ops::Range<u8> = 0..LAST_RESORT;

/// When a host comes. `spread`: connections are shared among equally good hosts, so that those that may be as good as the
/// best count as such; else the first good one has them all. `None`: it is not worth a connect.
fn turn(standing: Standing, fresh: bool, spread: bool, spare: bool) -> Option<u8> {
    match standing {
        Standing::Wanted => Some(0),
        Standing::Unknown => Some(if spread { 0 } else { 1 }),
        Standing::Accepted | Standing::Unfit if fresh && spare => None,
        Standing::Accepted => Some(2),
        // what it was a while ago it may no longer be
        Standing::Unfit => Some(if fresh { 4 } else { 3 }),
    }
}

/// Some hosts by their places. Kept from pick to pick, so that a pick allocates nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    is_in: Vec<bool>,
    members: Vec<usize>,
}

impl Places {
    /// Holds these hosts from now on, as far as they are known, and no others.
    fn hold(&mut self, keys: &[HostKey], table: &HostTable) {
        for place in self.members.drain(..) {
            if let Some(is_in) = self.is_in.get_mut(place) {
                *is_in = false;
            }
        }
        self.is_in.resize(table.len(), false);
        for place in keys.iter().filter_map(|key| table.place(key)) {
            if !std::mem::replace(&mut self.is_in[place], true) {
                self.members.push(place);
            }
        }
    }

    pub(super) fn contains(&self, place: usize) -> bool {
        self.is_in.get(place).copied().unwrap_or(false)
    }

    fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

impl ClusterState {
    pub(super) fn choose(&mut self, search: &Search<'_>, draw: u64, now: Instant) -> Option<usize> {
        self.find_candidates(search.target);
        let (mut tried, mut avoided) = std::mem::take(&mut self.scratch);
        tried.hold(search.tried, &self.table);
        avoided.hold(search.avoid, &self.table);
        let place = self
            .choose_server(search, &tried, &avoided, draw, now)
            .or_else(|| self.choose_seed(search, &tried, &avoided, draw, now));
        self.scratch = (tried, avoided);
        place
    }

    fn choose_server(
        &self,
        search: &Search<'_>,
        tried: &Places,
        avoided: &Places,
        draw: u64,
        now: Instant,
    ) -> Option<usize> {
        if self.facts.is_empty() {
            return None;
        }
        let loads = self.table.loads();
        let least = |places: &[usize]| {
            if tried.is_empty() && avoided.is_empty() {
                return least_loaded(places, loads, draw, |_| false);
            }
            let welcome = |place: usize| !tried.contains(place) && !avoided.contains(place);
            least_loaded(places, loads, draw, |place| !welcome(place))
                .or_else(|| least_loaded(places, loads, draw, |place| tried.contains(place)))
        };
        // those of the first turn that are left are the best that is left
        let first = least(&self.candidates[search.target as usize]).filter(|_| !search.spare);
        first.or_else(|| {
            let is_tried = |place| tried.contains(place);
            least(&self.servers_on_offer(search, is_tried, now))
        })
    }

    /// The servers that a search chooses among.
    pub(super) fn servers_on_offer(
        &self,
        search: &Search<'_>,
        is_tried: impl Fn(usize) -> bool,
        now: Instant,
    ) -> Vec<usize> {
        let turn = |place| {
            let standing = self.standing(place, search.target);
            turn(standing, self.is_fresh(place, now), true, search.spare)
        };
        TURNS
            .map(|number| {
                self.best_servers(|place| {
                    self.table.host(place).works() && !is_tried(place) && turn(place) == Some(number)
                })
            })
            .find(|places| !places.is_empty())
            .unwrap_or_default()
    }

    /// Of those servers for which `usable` is true, those that the mode and the topology prefer.
    pub(super) fn best_servers(&self, usable: impl Fn(usize) -> bool) -> Vec<usize> {
        let usable = || self.facts.iter().filter(|server| usable(server.place));
        let filter = self.policy().filter(usable());
        usable()
            .filter(|server| filter.admits(server))
            .map(|server| server.place)
            .collect()
    }

    /// Keeps at hand the servers that a search with nothing tried chooses among, as far as age does not matter for that.
    fn find_candidates(&mut self, target: TargetSessionAttrs) {
        if std::mem::replace(&mut self.candidates_known[target as usize], true) {
            return;
        }
        let of = |standings: &[Standing]| {
            self.best_servers(|place| {
                self.table.host(place).works() && standings.contains(&self.standing(place, target))
            })
        };
        let mut candidates = of(&[Standing::Wanted, Standing::Unknown]);
        if candidates.is_empty() {
            candidates = of(&[Standing::Accepted]);
        }
        self.candidates[target as usize] = candidates;
    }

    /// What is a good choice has changed.
    pub(super) fn outdate_candidates(&mut self) {
        self.candidates_known = Default::default();
    }

    fn choose_seed(
        &self,
        search: &Search<'_>,
        tried: &Places,
        avoided: &Places,
        draw: u64,
        now: Instant,
    ) -> Option<usize> {
        let mut seeds = self.seeds_on_offer(search, |place| tried.contains(place), now);
        match self.options.host_order {
            HostOrder::Listed => seeds.next(),
            HostOrder::Random => {
                let welcome = seeds.clone().filter(|place| !avoided.contains(*place));
                nth_of(welcome, draw).or_else(|| nth_of(seeds, draw))
            }
        }
    }

    /// The seeds whose turn it is: of working ones those that suit best, else failed ones. In listed order only the first
    /// is on offer.
    pub(super) fn seeds_on_offer<'s>(
        &'s self,
        search: &'s Search<'_>,
        is_tried: impl Fn(usize) -> bool + Clone + 's,
        now: Instant,
    ) -> impl Iterator<Item = usize> + Clone + 's {
        let turn = move |place: usize| match is_tried(place) {
            true => None,
            false => self.turn_of_seed(place, search, now),
        };
        let seeds = || self.seeds.iter().copied().filter(|_| self.refusal().is_none());
        let first = seeds().filter_map(&turn).min();
        let limit = match self.options.host_order {
            HostOrder::Listed => 1,
            HostOrder::Random => usize::MAX,
        };
        seeds()
            .filter(move |place| first.is_some() && turn(*place) == first)
            .take(limit)
    }

    fn turn_of_seed(&self, place: usize, search: &Search<'_>, now: Instant) -> Option<u8> {
        let host = self.table.host(place);
        match &host.failure {
            None => {
                let standing = self.standing(place, search.target);
                turn(
                    standing,
                    self.is_fresh(place, now),
                    self.spreads_seeds(),
                    search.spare,
                )
            }
            Some(_) if search.spare => None,
            Some(failure) if search.answered && (failure.next_probe > now || host.probe.is_some()) => None,
            Some(_) => Some(LAST_RESORT),
        }
    }

    /// Whether connections are shared among configured hosts rather than gathered on the first.
    pub(super) fn spreads_seeds(&self) -> bool {
        self.options.host_order == HostOrder::Random
    }

    /// Why the seeds may not be used, if they may not: a mode that refuses does so from the first discovered server on.
    pub(super) fn refusal(&self) -> Option<super::Refused> {
        if self.discovered {
            self.policy().refuses()
        } else {
            None
        }
    }

    pub(super) fn policy(&self) -> Policy {
        Policy {
            mode: self.options.load_balance,
            keyed: !self.options.topology_keys.is_empty(),
            fallback_only: self.options.fallback_only,
        }
    }

    /// Whether a server that the mode would take will soon take connections: it is starting up, or full.
    pub(super) fn some_server_is_coming(&self) -> bool {
        let policy = self.policy();
        self.facts.iter().any(|server| {
            let failure = self.table.host(server.place).failure.as_ref();
            let is_coming = failure.is_some_and(|failure| super::failures::has_own_schedule(failure.kind));
            is_coming && policy.takes(server)
        })
    }
}
