//! Who is connected, in the order of coming, and who has to go when there is no room for another. Nothing here knows sockets.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use tokio_util::sync::CancellationToken;

/// One connection, for as long as it is held.
#[derive(Debug)]
pub(super) struct Visit {
    /// Told when it has to go.
    pub(super) leave: CancellationToken,
    asked: AtomicBool,
}

impl Visit {
    /// The head of a request has come to its end.
    pub(super) fn has_asked(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    fn is_silent(&self) -> bool {
        !self.asked.load(Ordering::Relaxed)
    }
}

/// All that were begun and may not be over yet, oldest first.
#[derive(Debug, Default)]
pub(super) struct Visits(VecDeque<Weak<Visit>>);

impl Visits {
    pub(super) fn begin(&mut self, leave: CancellationToken) -> Arc<Visit> {
        self.0.retain(|visit| visit.strong_count() > 0);
        let asked = AtomicBool::new(false);
        let visit = Arc::new(Visit { leave, asked });
        self.0.push_back(Arc::downgrade(&visit));
        visit
    }

    /// Tells the oldest that is silent to go; if none is, the oldest of all. One that has been told is not told again.
    pub(super) fn send_one_away(&self) {
        let staying = || {
            let visits = self.0.iter().filter_map(Weak::upgrade);
            visits.filter(|visit| !visit.leave.is_cancelled())
        };
        let silent = staying().find(|visit| visit.is_silent());
        if let Some(visit) = silent.or_else(|| staying().next()) {
            visit.leave.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> (Visits, [Arc<Visit>; 3]) {
        let mut visits = Visits::default();
        let held = [(); 3].map(|()| visits.begin(CancellationToken::new()));
        (visits, held)
    }

    fn gone(held: &[Arc<Visit>]) -> Vec<bool> {
        held.iter().map(|visit| visit.leave.is_cancelled()).collect()
    }

    #[test]
    fn the_oldest_that_is_silent_goes_first_and_those_that_have_asked_go_last() {
        let (visits, held) = three();
        held[0].has_asked();

        visits.send_one_away();
        assert_eq!(gone(&held), [false, true, false]);
        visits.send_one_away();
        assert_eq!(gone(&held), [false, true, true]);
        visits.send_one_away();
        assert_eq!(gone(&held), [true, true, true]);
    }

    #[test]
    fn those_that_are_over_are_forgotten() {
        let (mut visits, held) = three();
        drop(held);

        let last = visits.begin(CancellationToken::new());
        visits.send_one_away();

        assert_eq!(visits.0.len(), 1);
        assert!(last.leave.is_cancelled());
    }
}
