//! How long windows last, and which numbers are allowed.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod breaker_rig;

use std::time::Duration;

use pgsteer_core::breaker::{BreakerOptions, Cause, State};

use breaker_rig::{MS, Rig, SECOND, ends, exact, windows};

/// Lets this many probes fail, each as soon as it is admitted, and returns the windows after each.
fn failed_probes(rig: &Rig, count: usize) -> Vec<Duration> {
    rig.told();
    for _ in 0..count {
        rig.advance(rig.retry_after());
        rig.probe().failure("refused");
    }
    windows(&rig.told())
        .into_iter()
        .map(|(window, cause)| {
            assert_eq!(cause, Cause::Probe);
            window
        })
        .collect()
}

/// Covers: B-11, B-32
#[test]
fn windows_double_up_to_the_cap_and_stay_there() {
    let rig = Rig::tripped();
    let expected = [2, 4, 8, 16, 32, 60, 60, 60, 60, 60, 60, 60].map(Duration::from_secs);
    assert_eq!(failed_probes(&rig, 12), expected);
}

/// Covers: B-11
#[test]
fn only_the_end_of_an_outage_makes_windows_short_again() {
    let rig = Rig::tripped();
    failed_probes(&rig, 4);
    rig.advance(16 * SECOND);
    rig.probe().success();
    rig.fail(5);
    assert_eq!(rig.retry_after(), SECOND);
}

/// Covers: B-11
#[test]
fn a_probe_given_up_does_not_lengthen_the_window_that_the_next_failure_doubles() {
    let rig = Rig::tripped();
    assert_eq!(failed_probes(&rig, 2), [2 * SECOND, 4 * SECOND]);
    rig.advance(4 * SECOND);
    drop(rig.probe());
    assert_eq!(rig.retry_after(), 4 * SECOND);
    assert_eq!(failed_probes(&rig, 1), [8 * SECOND]);
}

/// Covers: B-13
#[test]
fn ten_thousand_failed_probes_overflow_nothing() {
    let rig = Rig::tripped();
    let windows = failed_probes(&rig, 10_000);
    assert!(windows[5..].iter().all(|window| *window == 60 * SECOND));
    assert_eq!(rig.breaker.status().trips, 10_001);
}

#[test]
fn windows_double_from_any_base_to_any_cap() {
    let day = Duration::from_secs(24 * 3600);
    let table = [
        // base, cap, windows after the first
        (SECOND, SECOND, vec![SECOND, SECOND, SECOND]),
        (60 * SECOND, 60 * SECOND, vec![60 * SECOND, 60 * SECOND]),
        (MS, 3 * MS, vec![2 * MS, 3 * MS, 3 * MS]),
        (day, day, vec![day, day]),
        (day / 2, day, vec![day, day]),
    ];
    for (base, cap, expected) in table {
        let rig = Rig::new(BreakerOptions { base, cap, ..exact() });
        rig.fail(5);
        assert_eq!(rig.retry_after(), base);
        assert_eq!(
            failed_probes(&rig, expected.len()),
            expected,
            "{base:?} to {cap:?}"
        );
    }
}

#[test]
fn the_longest_cap_is_reached_from_the_shortest_base_and_held() {
    let rig = Rig::new(BreakerOptions {
        base: MS,
        cap: Duration::from_secs(24 * 3600),
        ..exact()
    });
    rig.fail(5);
    let windows = failed_probes(&rig, 100);
    assert!(windows.is_sorted());
    assert_eq!(windows.last(), Some(&Duration::from_secs(24 * 3600)));
}

/// Covers: B-12
#[test]
fn jitter_only_lengthens_a_window_and_by_less_than_its_share() {
    let table = [
        (0, SECOND),
        (1 << 63, 1_100 * MS),
        (u64::MAX, 1_200 * MS - Duration::from_nanos(1)),
    ];
    for (draw, expected) in table {
        let rig = Rig::new(BreakerOptions::default());
        rig.draws(draw);
        rig.fail(5);
        assert_eq!(rig.retry_after(), expected, "{draw}");
    }
}

/// Covers: B-12
#[test]
fn jitter_is_drawn_anew_for_each_window_and_spread_over_the_whole_share() {
    let mut random = fastrand::Rng::with_seed(7);
    let rig = Rig::new(BreakerOptions::default());
    rig.fail(5);
    let mut shares = Vec::new();
    for trips in 2..=5_000 {
        rig.draws(random.u64(..));
        let plain = Duration::from_secs(1 << (trips - 1).min(6)).min(60 * SECOND);
        let window = failed_probes(&rig, 1)[0];
        shares.push(window.as_secs_f64() / plain.as_secs_f64());
    }
    assert!(shares.iter().all(|share| (1.0..1.2).contains(share)));
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    assert!((1.098..1.102).contains(&mean), "{mean}");
}

#[test]
fn the_end_of_a_lengthened_window_is_as_sharp_as_that_of_a_plain_one() {
    let rig = Rig::new(BreakerOptions::default());
    rig.draws(1 << 63);
    rig.fail(5);
    rig.advance(1_099 * MS);
    assert!(rig.rejects());
    rig.advance(MS);
    assert!(rig.admit().is_probe());
}

#[test]
fn a_window_given_up_is_repeated_with_the_jitter_it_had() {
    let rig = Rig::new(BreakerOptions::default());
    rig.draws(1 << 63);
    rig.fail(5);
    rig.advance(2 * SECOND);
    rig.draws(0);
    drop(rig.probe());
    assert_eq!(rig.retry_after(), 1_100 * MS);
}

#[test]
fn the_defaults_are_the_documented_ones() {
    let BreakerOptions {
        threshold,
        base,
        cap,
        jitter,
        probe_lease,
    } = BreakerOptions::default();
    assert_eq!((threshold, jitter), (5, 0.2));
    assert_eq!((base, cap, probe_lease), (SECOND, 60 * SECOND, 60 * SECOND));
    assert_eq!(BreakerOptions::default().check(), Ok(()));
}

#[test]
fn numbers_at_the_edge_of_their_range_are_allowed() {
    let day = Duration::from_secs(24 * 3600);
    for (base, cap, jitter, probe_lease) in [(MS, MS, 0.0, MS), (day, day, 1.0, day)] {
        let options = BreakerOptions {
            base,
            cap,
            jitter,
            probe_lease,
            ..exact()
        };
        assert_eq!(options.check(), Ok(()));
    }
}

#[test]
fn a_number_out_of_its_range_is_refused_by_its_name_with_what_is_allowed() {
    let day = Duration::from_secs(24 * 3600);
    let table = [
        (
            BreakerOptions {
                base: Duration::ZERO,
                ..exact()
            },
            "option breaker_base cannot be `0ns`: it takes a duration from 1 ms to breaker_cap",
        ),
        (
            BreakerOptions {
                base: 61 * SECOND,
                ..exact()
            },
            "option breaker_base cannot be `61s`: it takes a duration from 1 ms to breaker_cap",
        ),
        (
            BreakerOptions {
                cap: Duration::ZERO,
                ..exact()
            },
            "option breaker_cap cannot be `0ns`: it takes a duration from 1 ms to 24 h",
        ),
        (
            BreakerOptions {
                cap: SECOND - MS,
                ..exact()
            },
            "option breaker_cap cannot be `999ms`: it takes a duration from breaker_base to 24 h",
        ),
        (
            BreakerOptions {
                base: 2 * SECOND,
                cap: SECOND - MS,
                ..exact()
            },
            "option breaker_base cannot be `2s`: it takes a duration from 1 ms to breaker_cap",
        ),
        (
            BreakerOptions {
                cap: day + MS,
                ..exact()
            },
            "option breaker_cap cannot be `86400.001s`: it takes a duration from 1 ms to 24 h",
        ),
        (
            BreakerOptions {
                jitter: -0.1,
                ..exact()
            },
            "option breaker_jitter cannot be `-0.1`: it takes a number from 0 to 1",
        ),
        (
            BreakerOptions {
                jitter: 1.1,
                ..exact()
            },
            "option breaker_jitter cannot be `1.1`: it takes a number from 0 to 1",
        ),
        (
            BreakerOptions {
                jitter: f64::NAN,
                ..exact()
            },
            "option breaker_jitter cannot be `NaN`: it takes a number from 0 to 1",
        ),
        (
            BreakerOptions {
                probe_lease: Duration::ZERO,
                ..exact()
            },
            "option breaker_probe_lease cannot be `0ns`: it takes a duration from 1 ms to 24 h",
        ),
        (
            BreakerOptions {
                probe_lease: 2 * day,
                ..exact()
            },
            "option breaker_probe_lease cannot be `172800s`: it takes a duration from 1 ms to 24 h",
        ),
    ];
    for (options, expected) in table {
        assert_eq!(options.check().unwrap_err().to_string(), expected);
    }
}

#[test]
fn an_open_breaker_outlasts_a_clock_that_stands_still() {
    let rig = Rig::tripped();
    for _ in 0..1_000 {
        assert!(rig.rejects());
    }
    assert_eq!(rig.breaker.state(), State::Open);
    assert_eq!(rig.retry_after(), SECOND);
}

/// Covers: B-12
#[test]
fn a_clock_that_goes_back_makes_windows_and_leases_longer_and_nothing_else() {
    let rig = Rig::exact();
    rig.advance(100 * SECOND);
    rig.fail(5);
    rig.go_back(10 * SECOND);
    assert_eq!(rig.retry_after(), SECOND, "never more than the window");
    assert_eq!(rig.breaker.status().down_for, Some(Duration::ZERO));
    rig.advance(10 * SECOND);
    assert!(rig.rejects());
    rig.advance(SECOND);
    let probe = rig.probe();
    rig.go_back(50 * SECOND);
    assert!(rig.rejects());
    probe.success();
    assert_eq!(rig.breaker.state(), State::Closed);
    assert_eq!(
        ends(&rig.told())[0].outage,
        Duration::ZERO,
        "it has not gone on yet"
    );
}

#[test]
fn the_highest_threshold_is_a_threshold() {
    let rig = Rig::new(BreakerOptions {
        threshold: u32::MAX,
        ..exact()
    });
    rig.fail(10_000);
    assert_eq!(rig.breaker.status().streak, 10_000);
    assert_eq!(rig.breaker.state(), State::Closed);
}
