//! What an acceptor does when the process or the system has no descriptor left.
//!
//! First it rests, ever longer, and leaves new clients in the kernel's queue: descriptors come back as other clients go.
//! Only when that has lasted is a spare descriptor given up to accept those in the queue and close them at once, so
//! that nobody hangs there for ever. One warning says that it began, one line that it is over.

use std::time::Duration;

use tokio::time::Instant;

/// The first rest; each further one is twice as long.
const FIRST_REST: Duration = Duration::from_millis(5);
const LONGEST_REST: Duration = Duration::from_millis(500);

/// How long new clients are left in the queue before they are turned away.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// A run of failures to accept.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shortage {
    run: Option<Run>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    since: Instant,
    rest: Duration,
    turned_away: u64,
}

/// What to do after one more failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Advice {
    /// It is the first of the run: say so.
    pub(crate) tell: bool,
    /// Whether to turn those in the queue away.
    pub(crate) turn_away: bool,
    pub(crate) rest: Duration,
}

/// What a run that is over came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Over {
    pub(crate) lasted: Duration,
    pub(crate) turned_away: u64,
}

impl Shortage {
    pub(crate) fn failed(&mut self, now: Instant) -> Advice {
        let tell = self.run.is_none();
        let run = self.run.get_or_insert(Run {
            since: now,
            rest: FIRST_REST,
            turned_away: 0,
        });
        let rest = run.rest;
        run.rest = (run.rest * 2).min(LONGEST_REST);
        Advice {
            tell,
            turn_away: now.duration_since(run.since) >= PATIENCE,
            rest,
        }
    }

    pub(crate) fn turned_away(&mut self) {
        if let Some(run) = &mut self.run {
            run.turned_away += 1;
        }
    }

    /// A client was accepted. If a run ends with that, what it came to.
    pub(crate) fn accepted(&mut self, now: Instant) -> Option<Over> {
        self.run.take().map(|run| Over {
            lasted: now.duration_since(run.since),
            turned_away: run.turned_away,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{Over, PATIENCE, Shortage};

    /// Covers: S-18
    #[test]
    fn a_run_is_told_once_and_rests_get_longer_up_to_a_bound() {
        let now = Instant::now();
        let mut shortage = Shortage::default();

        let advice: Vec<_> = (0..10).map(|_| shortage.failed(now)).collect();

        let told: Vec<bool> = advice.iter().map(|advice| advice.tell).collect();
        assert_eq!(told, [[true].as_slice(), &[false; 9]].concat());
        let rests: Vec<u128> = advice.iter().map(|advice| advice.rest.as_millis()).collect();
        assert_eq!(rests, [5, 10, 20, 40, 80, 160, 320, 500, 500, 500]);
    }

    /// Covers: S-18
    #[test]
    fn clients_are_turned_away_only_after_the_shortage_has_lasted() {
        let now = Instant::now();
        let mut shortage = Shortage::default();

        assert!(!shortage.failed(now).turn_away);
        assert!(
            !shortage
                .failed(now + PATIENCE - Duration::from_millis(1))
                .turn_away
        );
        assert!(shortage.failed(now + PATIENCE).turn_away);
    }

    #[test]
    fn a_run_ends_with_the_next_client_accepted_and_tells_what_it_came_to() {
        let now = Instant::now();
        let mut shortage = Shortage::default();
        shortage.failed(now);
        shortage.turned_away();

        let over = shortage.accepted(now + Duration::from_secs(3));

        let expected = Over {
            lasted: Duration::from_secs(3),
            turned_away: 1,
        };
        assert_eq!(over, Some(expected));
        assert_eq!(shortage.accepted(now), None);
    }
}
