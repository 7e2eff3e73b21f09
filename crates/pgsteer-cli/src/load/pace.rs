//! When requests are due in an open loop. Nothing here reads a clock.

use std::time::{Duration, Instant};

/// How late a timer may be. A request sent so little after it was due was not held up by the target.
const GRAIN: Duration = Duration::from_millis(2);

/// The times at which one client's requests are due: its share of a rate that all clients keep together.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    begin: Instant,
    between: Duration,
    issued: u32,
}

impl Pace {
    /// The pace of client number `client` of `clients`, which together send `rate` requests a second. They take turns.
    pub(super) fn new(begin: Instant, rate: f64, client: u32, clients: u32) -> Self {
        Pace {
            begin: begin + Duration::from_secs_f64(f64::from(client) / rate),
            between: Duration::from_secs_f64(f64::from(clients) / rate),
            issued: 0,
        }
    }

    /// When the next request is due.
    pub(super) fn due(&self) -> Instant {
        self.begin + self.between * self.issued
    }

    /// The next request is sent now; says from when its time counts. `busy` tells that something else than the timer kept
    /// the client from sending it when it was due.
    pub(super) fn issue(&mut self, now: Instant, busy: bool) -> Instant {
        let due = self.due();
        self.issued += 1;
        if busy || now.saturating_duration_since(due) > GRAIN {
            due.min(now)
        } else {
            now
        }
    }

    /// How many requests were due before a time and have not been sent.
    pub(super) fn behind(&self, at: Instant) -> u64 {
        match at.checked_duration_since(self.due()) {
            Some(late) => 1 + (late.as_nanos() / self.between.as_nanos().max(1)) as u64,
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn clients_take_turns_at_the_common_rate() {
        let begin = Instant::now();
        // 100 a second by 4 clients: one every 10 ms, each client every 40 ms.
        let mut second = Pace::new(begin, 100.0, 1, 4);

        let first = second.due() - begin;
        second.issue(begin + millis(10), false);
        let next = second.due() - begin;

        assert_eq!((first, next), (millis(10), millis(50)));
    }

    #[test]
    fn time_counts_from_when_a_request_was_due_unless_only_the_timer_was_late() {
        let begin = Instant::now();
        // (sent after it was due, busy, counted from after it was due)
        let cases = [
            (millis(0), false, millis(0)),
            (millis(1), false, millis(1)),
            (millis(1), true, millis(0)),
            (millis(500), true, millis(0)),
            (millis(500), false, millis(0)),
        ];

        for (late, busy, counted) in cases {
            let mut pace = Pace::new(begin, 100.0, 0, 1);

            let from = pace.issue(begin + late, busy);

            assert_eq!(from - begin, counted, "{late:?} late, busy: {busy}");
        }
    }

    #[test]
    fn requests_that_were_due_and_not_sent_are_counted() {
        let begin = Instant::now();
        let mut pace = Pace::new(begin, 100.0, 0, 1);
        pace.issue(begin, false);

        assert_eq!(pace.behind(begin + millis(5)), 0);
        assert_eq!(pace.behind(begin + millis(10)), 1);
        assert_eq!(pace.behind(begin + millis(39)), 3);
    }
}
