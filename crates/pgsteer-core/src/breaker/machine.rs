//! The decisions of a breaker: plain code, with the time, the random draws and the outcomes as arguments. It knows of no
//! thread, lock or clock; what it wants to tell, it queues.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::events::{Cause, Closed, ClosedBy, Event, HalfOpened, Opened};
use super::options::BreakerOptions;

/// Where a breaker stands. It stays [`State::Open`] when its window is over until somebody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Everything is admitted.
    Closed,
    /// Nothing is admitted until the window is over.
    Open,
    /// A probe is on its way, and nothing else is admitted.
    HalfOpen,
}

/// Not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejected<E> {
    /// When asking again may be of use. While the breaker is open this is what is left of its window, exactly; while a
    /// probe is on its way nobody knows, and this is `base`, or what is left of the probe's lease if that is shorter.
    pub retry_after: Duration,
    /// Whether a probe is on its way.
    pub probing: bool,
    /// The last failure that counted.
    pub last_error: E,
}

/// A breaker at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status<E> {
    /// Where it stands.
    pub state: State,
    /// Failures in a row, while closed.
    pub streak: u32,
    /// Windows in this outage as in [`Opened::trips`]; 0 while closed.
    pub trips: u32,
    /// As in [`Rejected::retry_after`]; `None` while closed, zero if whoever asks now is admitted as the probe.
    pub retry_after: Option<Duration>,
    /// Time since it tripped; `None` while closed.
    pub down_for: Option<Duration>,
    /// How often it has tripped since it was made: outages, not windows.
    pub outages: u64,
    /// How often it has rejected somebody since it was made.
    pub rejected: u64,
    /// The last failure that counted; `None` while closed.
    pub last_error: Option<E>,
}

/// State and generation in one word: two bits for the state, one that says whether a success would have anything to
/// clear, the rest for the generation. Without the third bit it is the *ticket* of whoever is admitted.
pub(super) const STREAK: u64 = 0b100;
const STATE: u64 = 0b011;
const CLOSED: u64 = 0;
const OPEN: u64 = 1;
const HALF_OPEN: u64 = 2;

pub(super) const fn is_closed(word: u64) -> bool {
    word & STATE == CLOSED
}

impl State {
    pub(super) const fn of(word: u64) -> Self {
        match word & STATE {
            CLOSED => State::Closed,
            OPEN => State::Open,
            _ => State::HalfOpen,
        }
    }
}

#[derive(Debug)]
enum Phase<E> {
    Closed { streak: u32 },
    Down(Outage<E>),
}

#[derive(Debug)]
struct Outage<E> {
    /// When it tripped.
    began: Instant,
    trips: u32,
    window: Duration,
    /// When the window began, or when the probe was admitted or last renewed its lease.
    since: Instant,
    probing: bool,
    last_error: E,
}

/// The state machine.
#[derive(Debug)]
pub(super) struct Machine<E> {
    options: BreakerOptions,
    phase: Phase<E>,
    generation: u64,
    outages: u64,
    rejected: u64,
    /// What has not been told yet, oldest first.
    pub(super) events: VecDeque<Event<E>>,
}

/// What is left of `span` at `now`, if it began at `since`. No sum of times is formed that could overflow, and a clock
/// that goes back makes nothing end early.
fn left(span: Duration, since: Instant, now: Instant) -> Duration {
    span.saturating_sub(now.saturating_duration_since(since))
}

impl<E: Clone> Machine<E> {
    pub(super) fn new(options: BreakerOptions) -> Self {
        Machine {
            options,
            phase: Phase::Closed { streak: 0 },
            generation: 0,
            outages: 0,
            rejected: 0,
            events: VecDeque::new(),
        }
    }

    /// The word that stands for the machine as it is.
    pub(super) fn word(&self) -> u64 {
        let low = match &self.phase {
            Phase::Closed { streak: 0 } => CLOSED,
            Phase::Closed { .. } => CLOSED | STREAK,
            Phase::Down(outage) if outage.probing => HALF_OPEN,
            Phase::Down(_) => OPEN,
        };
        self.generation << 3 | low
    }

    /// Whether an outcome under this ticket counts. It says in which state it was given too, because a generation is
    /// only ever in one.
    fn counts(&self, ticket: u64) -> bool {
        self.word() & !STREAK == ticket
    }

    /// Somebody wants to begin. The ticket, if so.
    pub(super) fn ask(&mut self, now: Instant) -> Result<u64, Rejected<E>> {
        if let Phase::Down(outage) = &mut self.phase {
            let replaces_lost = outage.probing;
            let span = if outage.probing {
                self.options.probe_lease
            } else {
                outage.window
            };
            if !left(span, outage.since, now).is_zero() {
                self.rejected = self.rejected.saturating_add(1);
                return Err(Rejected {
                    retry_after: retry_after(outage, &self.options, now),
                    probing: outage.probing,
                    last_error: outage.last_error.clone(),
                });
            }
            outage.probing = true;
            outage.since = now;
            let trips = outage.trips;
            self.changed(Event::HalfOpened(HalfOpened { trips, replaces_lost }));
        }
        Ok(self.word() & !STREAK)
    }

    /// What was admitted worked.
    pub(super) fn succeeded(&mut self, ticket: u64, now: Instant) {
        if self.counts(ticket) {
            self.works(ClosedBy::Probe, now);
        }
    }

    /// What was admitted failed. A breaker that is off is not told.
    pub(super) fn failed(&mut self, ticket: u64, error: E, now: Instant, draw: u64) {
        if !self.counts(ticket) {
            return;
        }
        let (cause, began, trips) = match &mut self.phase {
            Phase::Closed { streak } => {
                *streak = streak.saturating_add(1);
                if *streak < self.options.threshold {
                    return;
                }
                self.outages = self.outages.saturating_add(1);
                (Cause::Threshold, now, 1)
            }
            Phase::Down(outage) => (Cause::Probe, outage.began, outage.trips.saturating_add(1)),
        };
        let window = self.options.window(trips, draw);
        self.phase = Phase::Down(Outage {
            began,
            trips,
            window,
            since: now,
            probing: false,
            last_error: error.clone(),
        });
        self.changed(Event::Opened(Opened {
            window,
            trips,
            cause,
            last_error: error,
        }));
    }

    /// What was admitted is still at it. A probe's lease begins again.
    pub(super) fn renewed(&mut self, ticket: u64, now: Instant) {
        if !self.counts(ticket) {
            return;
        }
        if let Phase::Down(outage) = &mut self.phase {
            outage.since = now;
        }
    }

    /// What was admitted ended without an outcome. A probe's window begins again, and does not grow: nothing was learnt.
    pub(super) fn abandoned(&mut self, ticket: u64, now: Instant) {
        if !self.counts(ticket) {
            return;
        }
        if let Phase::Down(outage) = &mut self.phase {
            outage.probing = false;
            outage.since = now;
            let opened = Opened {
                window: outage.window,
                trips: outage.trips,
                cause: Cause::Abandoned,
                last_error: outage.last_error.clone(),
            };
            self.changed(Event::Opened(opened));
        }
    }

    /// The database is known to work: no failure counts any more, and an outage is over.
    pub(super) fn works(&mut self, by: ClosedBy, now: Instant) {
        let before = std::mem::replace(&mut self.phase, Phase::Closed { streak: 0 });
        if let Phase::Down(outage) = before {
            let outage = now.saturating_duration_since(outage.began);
            self.changed(Event::Closed(Closed { outage, by }));
        }
    }

    /// Closes it by hand; what is under way no longer counts.
    pub(super) fn reset(&mut self, now: Instant) {
        match self.phase {
            Phase::Closed { .. } => self.begin_generation(),
            Phase::Down(_) => {}
        }
        self.works(ClosedBy::Reset, now);
    }

    pub(super) fn status(&self, now: Instant) -> Status<E> {
        let (streak, outage) = match &self.phase {
            Phase::Closed { streak } => (*streak, None),
            Phase::Down(outage) => (0, Some(outage)),
        };
        Status {
            state: State::of(self.word()),
            streak,
            trips: outage.map_or(0, |outage| outage.trips),
            retry_after: outage.map(|outage| retry_after(outage, &self.options, now)),
            down_for: outage.map(|outage| now.saturating_duration_since(outage.began)),
            outages: self.outages,
            rejected: self.rejected,
            last_error: outage.map(|outage| outage.last_error.clone()),
        }
    }

    fn changed(&mut self, event: Event<E>) {
        self.begin_generation();
        self.events.push_back(event);
    }

    fn begin_generation(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }
}

fn retry_after<E>(outage: &Outage<E>, options: &BreakerOptions, now: Instant) -> Duration {
    if outage.probing {
        left(options.probe_lease, outage.since, now).min(options.base)
    } else {
        left(outage.window, outage.since, now)
    }
}
