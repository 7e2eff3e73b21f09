//! Which backend gets the next request.

use std::cmp::Ordering;
use std::num::NonZeroU32;

use super::turns::{Group, Turns};

/// What a backend carries, as whoever chooses sees it at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Requests that have it or wait for it.
    pub in_flight: u64,
    /// Its share beside others. A backend of weight 0 would be one that gets nothing; that is said by leaving it out.
    pub weight: NonZeroU32,
    /// How many requests it serves at once. One that has as many already is passed over while another has room.
    pub capacity: u64,
}

impl Load {
    fn has_room(&self) -> bool {
        self.in_flight < self.capacity
    }

    /// By requests in flight for the weight, without a division: in `u128` no product overflows.
    fn compare(&self, other: &Load) -> Ordering {
        let product = |load: &Load, weight: NonZeroU32| u128::from(load.in_flight) * u128::from(weight.get());
        let room = other.has_room().cmp(&self.has_room());
        room.then_with(|| product(self, other.weight).cmp(&product(other, self.weight)))
    }
}

/// What there is to choose from. `At` is a moment, in whatever unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidate<At> {
    /// It serves.
    Serving(Load),
    /// It is left out since it failed, last at this moment.
    LeftOut {
        /// When it last failed.
        failed_at: At,
    },
}

impl<At> Candidate<At> {
    /// A backend that serves, or that has last failed at `failed_at` and not been found well since: such a one serves only
    /// as long as it has room on the connections that it has left, which is then its capacity.
    pub fn new(load: Load, failed_at: Option<At>) -> Self {
        match failed_at {
            Some(failed_at) if !load.has_room() => Candidate::LeftOut { failed_at },
            _ => Candidate::Serving(load),
        }
    }
}

/// What was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picked {
    /// The place of the backend.
    pub place: usize,
    /// How many requests it had in flight when it was looked at. Whoever counts itself in can see whether that is still so,
    /// and choose again if somebody else was faster. `None` if it is left out, as they all are, and is to be tried all the same.
    pub in_flight: Option<u64>,
}

impl Picked {
    /// Whether it is left out, as they all are, and is to be tried all the same.
    pub fn is_anyway(&self) -> bool {
        self.in_flight.is_none()
    }
}

/// Chooses among `count` backends by what `look` says of each; `None` is one that is not to be chosen, as it has been tried.
///
/// The rule is the load as it is, without the request that is to come. So while few requests are in flight those of little
/// weight get more than their share: of four in flight at weights 1, 2 and 5 one is at the first. The more there are, the closer
/// the shares.
///
/// Where several are equally good, each comes up as often as its weight says, and never long in a row. A choice that
/// depended on place would send all light traffic to the first backend.
///
/// `look` is called once or twice for each backend and may answer differently; whatever it does, some backend that it
/// offered is chosen.
pub fn pick<At: Ord>(
    count: usize,
    look: impl Fn(usize) -> Option<Candidate<At>>,
    turns: &Turns,
) -> Option<Picked> {
    let mut best: Option<Best> = None;
    let mut oldest: Option<(usize, At)> = None;
    for place in 0..count {
        match look(place) {
            Some(Candidate::Serving(load)) => {
                let order = best.map_or(Ordering::Less, |best| load.compare(&best.load));
                match (order, &mut best) {
                    (Ordering::Equal, Some(best)) => best.tie(place, load),
                    (Ordering::Less, _) => best = Some(Best::new(place, load)),
                    _ => {}
                }
            }
            Some(Candidate::LeftOut { failed_at })
                if oldest.as_ref().is_none_or(|(_, oldest)| failed_at < *oldest) =>
            {
                oldest = Some((place, failed_at));
            }
            Some(Candidate::LeftOut { .. }) | None => {}
        }
    }
    let Some(best) = best else {
        return oldest.map(|(place, _)| Picked {
            place,
            in_flight: None,
        });
    };
    let (place, load) = if best.is_tied {
        one_of_tied(best, count, look, turns.next(best.group, best.weight))
    } else {
        (best.first, best.load)
    };
    let in_flight = Some(load.in_flight);
    Some(Picked { place, in_flight })
}

/// The best so far, and those that are as good.
#[derive(Clone, Copy)]
struct Best {
    first: usize,
    load: Load,
    is_tied: bool,
    group: Group,
    /// Of all in the group.
    weight: u64,
}

impl Best {
    fn new(place: usize, load: Load) -> Self {
        let mut group = Group::default();
        group.add(place);
        Best {
            first: place,
            load,
            is_tied: false,
            group,
            weight: u64::from(load.weight.get()),
        }
    }

    fn tie(&mut self, place: usize, load: Load) {
        self.is_tied = true;
        self.group.add(place);
        self.weight = self.weight.saturating_add(u64::from(load.weight.get()));
    }
}

/// The one of the tied backends into whose weight `position` falls.
fn one_of_tied<At>(
    best: Best,
    count: usize,
    look: impl Fn(usize) -> Option<Candidate<At>>,
    position: u64,
) -> (usize, Load) {
    let mut before = 0_u64;
    for place in best.first..count {
        let Some(Candidate::Serving(load)) = look(place) else {
            continue;
        };
        if load.compare(&best.load) == Ordering::Equal {
            before = before.saturating_add(u64::from(load.weight.get()));
            if position < before {
                return (place, load);
            }
        }
    }
    // Somebody else has chosen meanwhile and the tie is no more.
    (best.first, best.load)
}
