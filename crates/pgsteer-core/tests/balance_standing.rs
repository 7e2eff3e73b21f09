//! Whether a backend is offered requests, and when one that is not is tried again.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::time::{Duration, Instant};

use pgsteer_core::balance::{Service, Standing, StandingOptions, Streak};

const SECOND: Duration = Duration::from_secs(1);

fn standing() -> (Standing, Instant) {
    let options = StandingOptions { failed_delay: SECOND };
    (Standing::new(options), Instant::now())
}

fn is_left_out(standing: &Standing) -> bool {
    matches!(standing.service(), Service::LeftOut { .. })
}

#[test]
fn a_backend_of_which_nothing_is_known_serves() {
    let (standing, _) = standing();
    assert_eq!(standing.service(), Service::Full);
    assert_eq!(standing.next_probe(), None);
}

#[test]
fn one_that_cannot_be_dialled_and_has_no_connection_is_left_out_until_it_is_found_well() {
    let (mut standing, now) = standing();
    standing.dial_failed("refused", None, now);
    assert_eq!(standing.service(), Service::LeftOut { failed_at: now });
    assert_eq!(standing.next_probe(), Some(now + SECOND));
    assert_eq!(standing.left_out_since(), Some(now));

    let later = now + 100 * SECOND;
    standing.has_connections(0, later);
    assert!(is_left_out(&standing), "the end of a delay brings nobody back");

    standing.found_well(later);
    assert_eq!(standing.service(), Service::Full);
    assert_eq!((standing.next_probe(), standing.left_out_since()), (None, None));
}

#[test]
fn one_that_cannot_be_dialled_serves_on_the_connections_it_has_and_is_left_out_with_the_last() {
    let (mut standing, now) = standing();
    standing.has_connections(3, now);
    standing.dial_failed("refused", None, now);
    assert_eq!(standing.service(), Service::Capped { connections: 3 });
    assert_eq!(standing.left_out_since(), None);
    let later = now + SECOND;
    standing.has_connections(0, later);
    assert_eq!(standing.service(), Service::LeftOut { failed_at: now });
    assert_eq!(standing.left_out_since(), Some(later));
}

#[test]
fn one_that_fails_requests_is_left_out_whatever_connections_it_has_and_though_it_can_be_dialled() {
    let (mut standing, now) = standing();
    standing.has_connections(3, now);
    standing.requests_failed("no answer", now);
    assert_eq!(standing.service(), Service::LeftOut { failed_at: now });
    standing.dial_failed("refused", None, now);
    assert!(is_left_out(&standing));
    standing.found_well(now);
    assert_eq!(standing.service(), Service::Full);
}

/// The delay after a failure, how long a breaker lets nobody dial, and when it is tried again.
#[test]
fn it_is_tried_again_after_its_delay_or_when_its_breaker_allows_it_if_that_is_later() {
    let table = [(None, 1), (Some(0), 1), (Some(500), 1), (Some(7_000), 7)];
    for (barred, seconds) in table {
        let (mut standing, now) = standing();
        standing.dial_failed("refused", barred.map(Duration::from_millis), now);
        assert_eq!(standing.next_probe(), Some(now + seconds * SECOND), "{barred:?}");
    }
    let (mut standing, now) = standing();
    standing.dial_failed("refused", Some(Duration::MAX), now);
    assert!(standing.next_probe().is_some(), "no clock reaches that far");
}

#[test]
fn each_failure_begins_the_delay_anew_and_is_counted_until_it_is_found_well() {
    let (mut standing, now) = standing();
    for round in 0..3 {
        let at = now + round * SECOND;
        standing.dial_failed("refused", None, at);
        assert_eq!(standing.failures(), round + 1);
        assert_eq!(standing.failed_at(), Some(at));
        assert_eq!(standing.next_probe(), Some(at + SECOND));
        assert_eq!(standing.left_out_since(), Some(now), "since the first");
    }
    standing.found_well(now);
    assert_eq!((standing.failures(), standing.failed_at()), (0, None));
}

/// Answers and failures in the order in which they are reported, and after which of them it is told.
#[test]
fn too_many_failures_in_a_row_are_told_once_and_an_answer_begins_anew() {
    let table = [
        (3, "xxx", vec![2]),
        (3, "xx.xx.xxx", vec![8]),
        (3, "xxxxxxx", vec![2, 5]),
        (1, "x.x", vec![0, 2]),
        (0, "xxxxxxxxxx", vec![]),
    ];
    for (threshold, history, expected) in table {
        let streak = Streak::new(threshold);
        let mut told = Vec::new();
        for (number, outcome) in history.chars().enumerate() {
            match outcome {
                '.' => streak.answered(),
                _ if streak.failed() => told.push(number),
                _ => {}
            }
        }
        assert_eq!(told, expected, "{threshold} {history}");
    }
}
