//! Random histories with time, beside a model that is written as the rules are told and not as the breaker is built: it
//! keeps every permit with the period it was given in, and looks up what the rules say. A failing history prints its seed;
//! `PGSTEER_SEED=<seed>` replays that one alone.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod breaker_rig;

use std::time::Duration;

use pgsteer_core::breaker::{BreakerOptions, Cause, ClosedBy, Event, Permit, State};

use breaker_rig::{Rig, Why};

const HISTORIES: u64 = 4_000;
const STEPS: usize = 400;

/// All times are whole milliseconds since the start.
struct Model {
    threshold: u32,
    base: u64,
    cap: u64,
    lease: u64,
    now: u64,
    /// Counts every change of state, and what is reset by hand.
    period: u64,
    stage: Stage,
    outages: u64,
    rejected: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Closed {
        failures_in_a_row: u32,
    },
    Open {
        tripped: u64,
        number: u32,
        length: u64,
        ends: u64,
        error: Why,
    },
    Probing {
        tripped: u64,
        number: u32,
        length: u64,
        lost_at: u64,
        error: Why,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Success,
    Failure(Why),
    Neutral,
    Dropped,
}

#[derive(Debug, PartialEq)]
enum Told {
    Opened(u64, u32, Cause, Why),
    HalfOpened(u32, bool),
    Closed(u64, ClosedBy),
}

impl Model {
    /// By repeated doubling, which is what the rule says.
    fn window(&self, number: u32) -> u64 {
        (1..number).fold(self.base, |length, _| (length * 2).min(self.cap))
    }

    fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        self.period += 1;
    }

    /// The period of whoever is admitted, or when to come back and what failed.
    fn ask(&mut self, told: &mut Vec<Told>) -> Result<u64, (u64, Why)> {
        match self.stage {
            Stage::Closed { .. } => {}
            Stage::Open { ends, error, .. } if self.now < ends => {
                self.rejected += 1;
                return Err((ends - self.now, error));
            }
            Stage::Probing { lost_at, error, .. } if self.now < lost_at => {
                self.rejected += 1;
                return Err(((lost_at - self.now).min(self.base), error));
            }
            Stage::Open {
                tripped,
                number,
                length,
                error,
                ..
            }
            | Stage::Probing {
                tripped,
                number,
                length,
                error,
                ..
            } => {
                told.push(Told::HalfOpened(
                    number,
                    matches!(self.stage, Stage::Probing { .. }),
                ));
                let lost_at = self.now + self.lease;
                self.enter(Stage::Probing {
                    tripped,
                    number,
                    length,
                    lost_at,
                    error,
                });
            }
        }
        Ok(self.period)
    }

    fn open(&mut self, tripped: u64, number: u32, cause: Cause, error: Why, told: &mut Vec<Told>) {
        let length = self.window(number);
        told.push(Told::Opened(length, number, cause, error));
        let ends = self.now + length;
        self.enter(Stage::Open {
            tripped,
            number,
            length,
            ends,
            error,
        });
    }

    fn close(&mut self, by: ClosedBy, told: &mut Vec<Told>) {
        match self.stage {
            Stage::Closed { .. } => self.stage = Stage::Closed { failures_in_a_row: 0 },
            Stage::Open { tripped, .. } | Stage::Probing { tripped, .. } => {
                told.push(Told::Closed(self.now - tripped, by));
                self.enter(Stage::Closed { failures_in_a_row: 0 });
            }
        }
    }

    /// The probe is still at it.
    fn renew(&mut self, of: u64) {
        if let Stage::Probing { lost_at, .. } = &mut self.stage {
            if of == self.period {
                *lost_at = self.now + self.lease;
            }
        }
    }

    fn outcome(&mut self, period: u64, outcome: Outcome, told: &mut Vec<Told>) {
        if period != self.period {
            return;
        }
        match (self.stage, outcome) {
            (Stage::Closed { .. }, Outcome::Neutral | Outcome::Dropped) => {}
            (_, Outcome::Success | Outcome::Neutral) => self.close(ClosedBy::Probe, told),
            (Stage::Closed { failures_in_a_row }, Outcome::Failure(error)) => {
                let failures_in_a_row = failures_in_a_row + 1;
                self.stage = Stage::Closed { failures_in_a_row };
                if failures_in_a_row == self.threshold {
                    self.outages += 1;
                    self.open(self.now, 1, Cause::Threshold, error, told);
                }
            }
            (Stage::Probing { tripped, number, .. }, Outcome::Failure(error)) => {
                self.open(tripped, number + 1, Cause::Probe, error, told);
            }
            (
                Stage::Probing {
                    tripped,
                    number,
                    length,
                    error,
                    ..
                },
                Outcome::Dropped,
            ) => {
                told.push(Told::Opened(length, number, Cause::Abandoned, error));
                let ends = self.now + length;
                self.enter(Stage::Open {
                    tripped,
                    number,
                    length,
                    ends,
                    error,
                });
            }
            (Stage::Open { .. }, _) => panic!("nobody is admitted while it is open"),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    assert_eq!(duration.as_nanos() % 1_000_000, 0, "{duration:?}");
    u64::try_from(duration.as_millis()).unwrap()
}

fn told(event: &Event<Why>) -> Told {
    match event {
        Event::Opened(opened) => Told::Opened(
            millis(opened.window),
            opened.trips,
            opened.cause,
            opened.last_error,
        ),
        Event::HalfOpened(half) => Told::HalfOpened(half.trips, half.replaces_lost),
        Event::Closed(closed) => Told::Closed(millis(closed.outage), closed.by),
        _ => panic!("unknown: {event:?}"),
    }
}

fn assert_agrees(rig: &Rig, model: &Model) {
    let status = rig.breaker.status();
    assert_eq!(rig.breaker.state(), status.state);
    assert_eq!(rig.breaker.retry_after(), status.retry_after);
    assert_eq!(status.rejected, model.rejected);
    assert_eq!(status.outages, model.outages);
    let seen = (
        status.state,
        status.streak,
        status.trips,
        status.retry_after.map(millis),
        status.down_for.map(millis),
        status.last_error,
    );
    let now = model.now;
    let expected = match model.stage {
        Stage::Closed { failures_in_a_row } => (State::Closed, failures_in_a_row, 0, None, None, None),
        Stage::Open {
            tripped,
            number,
            ends,
            error,
            ..
        } => {
            let left = ends.saturating_sub(now);
            (
                State::Open,
                0,
                number,
                Some(left),
                Some(now - tripped),
                Some(error),
            )
        }
        Stage::Probing {
            tripped,
            number,
            lost_at,
            error,
            ..
        } => {
            let left = lost_at.saturating_sub(now).min(model.base);
            (
                State::HalfOpen,
                0,
                number,
                Some(left),
                Some(now - tripped),
                Some(error),
            )
        }
    };
    assert_eq!(seen, expected);
}

/// A moment worth waiting for: an edge, just before it, just after it, or any other.
fn pause(random: &mut fastrand::Rng, model: &Model) -> u64 {
    let edge = match model.stage {
        Stage::Closed { .. } => None,
        Stage::Open { ends, .. } => Some(ends),
        Stage::Probing { lost_at, .. } => Some(lost_at),
    };
    let to_edge = edge.and_then(|edge| edge.checked_sub(model.now));
    match (random.u32(..8), to_edge) {
        (0..3, Some(left)) => left,
        (3, Some(left)) => left.saturating_sub(1),
        (4, Some(left)) => left + 1,
        (5, _) => random.u64(..10_000),
        _ => random.u64(..20),
    }
}

/// Counts of what came up, so that it is known that the histories went everywhere.
#[derive(Default)]
struct Seen {
    trips: usize,
    failed_probes: usize,
    abandoned: usize,
    replaced: usize,
    stragglers: usize,
    renewals: usize,
}

fn run(seed: u64, seen: &mut Seen) {
    let mut random = fastrand::Rng::with_seed(seed);
    let random = &mut random;
    let mut model = Model {
        threshold: random.u32(1..=5),
        base: random.u64(1..200),
        cap: 0,
        lease: random.u64(1..2_000),
        now: 0,
        period: 0,
        stage: Stage::Closed { failures_in_a_row: 0 },
        outages: 0,
        rejected: 0,
    };
    model.cap = model.base * random.u64(1..50) + random.u64(..3);
    let failing = random.u32(1..=9);
    let rig = Rig::new(BreakerOptions {
        threshold: model.threshold,
        base: Duration::from_millis(model.base),
        cap: Duration::from_millis(model.cap),
        jitter: 0.0,
        probe_lease: Duration::from_millis(model.lease),
    });
    let mut out: Vec<(Permit<'_, Why>, u64)> = Vec::new();
    for _ in 0..STEPS {
        let mut expected = Vec::new();
        match random.u32(..100) {
            0..45 => match (rig.breaker.admit(), model.ask(&mut expected)) {
                (Ok(permit), Ok(period)) => {
                    let probing = matches!(model.stage, Stage::Probing { .. });
                    assert_eq!(permit.is_probe(), probing);
                    out.push((permit, period));
                }
                (Err(rejected), Err((retry_after, error))) => {
                    assert_eq!(millis(rejected.retry_after), retry_after);
                    assert_eq!(rejected.last_error, error);
                    assert_eq!(rejected.probing, matches!(model.stage, Stage::Probing { .. }));
                }
                (breaker, model) => panic!("the breaker says {breaker:?}, the model {model:?}"),
            },
            45..80 if !out.is_empty() => {
                let (permit, period) = out.swap_remove(random.usize(..out.len()));
                seen.stragglers += usize::from(period != model.period);
                let outcome = match random.u32(..12) {
                    number if number < failing => {
                        Outcome::Failure(["refused", "reset", "unreachable"][random.usize(..3)])
                    }
                    9 => Outcome::Neutral,
                    10 => Outcome::Dropped,
                    _ => Outcome::Success,
                };
                match outcome {
                    Outcome::Success => permit.success(),
                    Outcome::Failure(error) => permit.failure(error),
                    Outcome::Neutral => permit.neutral(),
                    Outcome::Dropped => drop(permit),
                }
                model.outcome(period, outcome, &mut expected);
            }
            95..98 if !out.is_empty() => {
                let (permit, period) = &out[random.usize(..out.len())];
                seen.renewals += usize::from(permit.is_probe() && *period == model.period);
                permit.renew();
                model.renew(*period);
            }
            98 => {
                rig.breaker.sign_of_life();
                model.close(ClosedBy::SignOfLife, &mut expected);
            }
            99 => {
                rig.breaker.reset();
                let was_closed = matches!(model.stage, Stage::Closed { .. });
                model.close(ClosedBy::Reset, &mut expected);
                model.period += u64::from(was_closed);
            }
            _ => {
                let pause = pause(random, &model);
                rig.advance(Duration::from_millis(pause));
                model.now += pause;
            }
        }
        assert_eq!(rig.told().iter().map(told).collect::<Vec<_>>(), expected);
        for event in &expected {
            match event {
                Told::Opened(_, _, Cause::Threshold, _) => seen.trips += 1,
                Told::Opened(_, _, Cause::Probe, _) => seen.failed_probes += 1,
                Told::Opened(..) => seen.abandoned += 1,
                Told::HalfOpened(_, true) => seen.replaced += 1,
                _ => {}
            }
        }
        assert_agrees(&rig, &model);
    }
    // Whatever is still out ends without an outcome, and nothing is stuck.
    drop(out);
    rig.advance(Duration::from_millis(model.cap + model.lease));
    rig.admit().success();
    assert_eq!(rig.breaker.state(), State::Closed);
}

/// Says which history failed.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay this history with PGSTEER_SEED={}", self.0);
        }
    }
}

#[test]
fn every_history_goes_as_the_rules_say() {
    let chosen = std::env::var("PGSTEER_SEED").ok();
    let mut seen = Seen::default();
    if let Some(seed) = chosen {
        run(seed.parse().expect("a seed is a number"), &mut seen);
        return;
    }
    for seed in 0..HISTORIES {
        let _named = Named(seed);
        run(seed, &mut seen);
    }
    for (what, count) in [
        ("trips", seen.trips),
        ("failed probes", seen.failed_probes),
        ("probes given up", seen.abandoned),
        ("lost probes replaced", seen.replaced),
        ("stragglers", seen.stragglers),
        ("leases renewed", seen.renewals),
    ] {
        assert!(count > 1_000, "only {count} {what}: these histories prove little");
    }
}
