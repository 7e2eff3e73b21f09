//! When a cluster looks for servers and probes failed hosts, and what comes of it.

mod hosts_rig;

use std::time::Duration;

use hosts_rig::{Behaviour, Listing, Rig, joined, key, millis, options, primary, three};
use pgsteer_core::hosts::{
    Action, Answer, ClusterOptions, ClusterState, DiscoveryOutcome, FailureKind, LoadBalance,
};
use pgsteer_core::verdict::HostEffect;

const DOWN: HostEffect = HostEffect::Failed(FailureKind::Down);

fn off() -> ClusterOptions {
    ClusterOptions {
        load_balance: LoadBalance::Off,
        ..options()
    }
}

fn every(refresh_interval: Duration) -> ClusterOptions {
    ClusterOptions {
        refresh_interval,
        ..options()
    }
}

fn behind_a_balancer(options: ClusterOptions) -> Rig {
    let mut rig = Rig::new(options, &["lb"], Listing::Rows(three()));
    rig.settle();
    rig.forget_connects();
    rig
}

/// How long until the host works, with a refresh every 20 ms.
fn time_until_back(rig: &mut Rig, host: &str, limit: Duration) -> Duration {
    let start = rig.now;
    while rig.snapshot().failures.contains_key(&key(host)) {
        rig.refresh();
        rig.advance(millis(20));
        assert!(rig.now - start < limit, "{host} is not back after {limit:?}");
    }
    rig.now - start
}

/// Covers: E-177
#[test]
fn a_host_that_is_up_again_is_back_within_a_refresh_after_its_delay() {
    let mut rig = Rig::standard(every(millis(1000)));
    rig.set("a", Behaviour::Down);
    rig.open_all(6);
    assert_eq!((rig.counts().as_str(), rig.failed().as_str()), ("b=3 c=3", "a"));
    rig.set("a", Behaviour::Up);
    rig.advance(millis(2000));
    assert_eq!(rig.failed(), "");
    assert_eq!(rig.open().as_deref(), Ok("a"));
}

/// Covers: E-178
#[test]
fn the_delay_is_the_same_after_every_failure_without_a_cap() {
    let mut rig = behind_a_balancer(options());
    rig.set("a", Behaviour::Down);
    rig.fail("a");
    let failed_at = rig.now;
    while rig.probes.is_empty() {
        rig.refresh();
        rig.advance(millis(20));
    }
    assert_eq!(rig.probes[0].1 - failed_at, millis(1000));
    rig.set("a", Behaviour::Up);
    time_until_back(&mut rig, "a", millis(5000));
    let back = rig.probes[1].1 - failed_at;
    assert!((millis(1900)..millis(2700)).contains(&back), "{back:?}");
}

/// Covers: E-179
#[test]
fn the_delay_doubles_with_a_cap() {
    let mut rig = behind_a_balancer(ClusterOptions {
        failed_host_max_delay: Some(millis(4000)),
        ..options()
    });
    rig.set("a", Behaviour::Down);
    rig.fail("a");
    let failed_at = rig.now;
    while rig.probes.is_empty() {
        rig.refresh();
        rig.advance(millis(20));
    }
    rig.set("a", Behaviour::Up);
    time_until_back(&mut rig, "a", millis(5000));
    let back = rig.probes[1].1 - failed_at;
    assert!((millis(2900)..millis(3700)).contains(&back), "{back:?}");
}

/// Covers: E-181
#[test]
fn with_no_delay_a_failure_is_probed_by_the_refresh_it_starts() {
    let mut rig = behind_a_balancer(ClusterOptions {
        failed_host_delay: Duration::ZERO,
        ..options()
    });
    rig.advance(millis(1000));
    rig.fail("a");
    assert_eq!((rig.probes.len(), rig.failed().as_str()), (1, ""));

    // within a second of that refresh it waits for the next
    rig.fail("a");
    rig.advance(millis(900));
    assert_eq!((rig.probes.len(), rig.failed().as_str()), (1, "a"));
    rig.refresh();
    assert_eq!((rig.probes.len(), rig.failed().as_str()), (2, ""));
}

/// Covers: E-183
#[test]
fn without_discovery_the_timer_finds_a_host_back() {
    let mut rig = Rig::standard(ClusterOptions {
        refresh_interval: millis(2000),
        ..off()
    });
    rig.fail("a");
    rig.advance(millis(1999));
    assert_eq!(rig.failed(), "a");
    rig.advance(millis(1));
    assert_eq!(rig.failed(), "");
}

/// Covers: E-184
#[test]
fn with_no_interval_only_picks_find_a_host_back() {
    let mut rig = Rig::standard(ClusterOptions {
        refresh_interval: Duration::ZERO,
        ..off()
    });
    rig.fail("a");
    rig.advance(millis(1500));
    assert_eq!((rig.failed().as_str(), rig.cluster.next_timer()), ("a", None));
    assert_eq!(rig.open().as_deref(), Ok("b"));
    assert_eq!(rig.failed(), "");
}

/// A cluster where c hangs in a probe, and discovery then lists a and b only.
fn while_c_is_probed_it_is_no_longer_listed(seeds: &[&str]) -> Rig {
    let options = ClusterOptions {
        connect_timeout: Duration::from_secs(60),
        ..options()
    };
    let mut rig = Rig::new(options, seeds, Listing::Rows(three()));
    rig.settle();
    rig.set("c", Behaviour::Hangs);
    rig.fail("c");
    rig.advance(millis(1000));
    rig.refresh();
    assert_eq!(rig.probes.len(), 1);
    rig.listing = Listing::Rows(vec![primary("a", "b"), primary("b", "c")]);
    rig.refresh();
    rig
}

/// Covers: E-205
#[test]
fn a_server_that_is_no_longer_listed_is_forgotten_with_its_probe() {
    let rig = while_c_is_probed_it_is_no_longer_listed(&["a"]);
    assert_eq!(
        (rig.stopped_probes.join(" "), rig.failed()),
        ("c".to_owned(), String::new())
    );
}

#[test]
fn a_seed_is_never_forgotten() {
    let rig = while_c_is_probed_it_is_no_longer_listed(&["a", "c"]);
    assert_eq!(
        (rig.stopped_probes.join(" "), rig.failed()),
        (String::new(), "c".to_owned())
    );
}

/// Covers: E-207
#[test]
fn at_most_one_probe_runs_for_a_host_and_it_ends_in_time() {
    let mut rig = behind_a_balancer(ClusterOptions {
        connect_timeout: millis(800),
        ..options()
    });
    rig.reserve("a");
    rig.fail("a");
    rig.set("a", Behaviour::Hangs);
    rig.advance(millis(1000));
    rig.refresh();
    assert_eq!(rig.probes.len(), 1);

    rig.cluster
        .open_failed(&key("a"), FailureKind::Down, "timed out", rig.now);
    for _ in 0..12 {
        rig.advance(millis(100));
        rig.refresh();
    }
    assert_eq!(rig.probes.len(), 1);
    assert_eq!(rig.snapshot().failures[&key("a")].consecutive, 2);

    rig.advance(millis(400));
    let failure = rig.snapshot().failures[&key("a")].clone();
    assert_eq!(
        (failure.consecutive, failure.reason.as_str()),
        (3, "probe timed out")
    );
    assert_eq!(failure.at - rig.probes[0].1, millis(1600));

    rig.advance(millis(1300));
    assert_eq!(rig.probes.len(), 1, "nothing but a refresh probes");
    rig.refresh();
    assert_eq!(rig.probes.len(), 2);
}

/// Covers: E-208
#[test]
fn a_probe_is_one_connect_that_counts_nowhere() {
    let mut rig = Rig::standard(off());
    rig.fail_as("a", FailureKind::Down, "connection refused");
    rig.advance(millis(1000));
    rig.forget_connects();
    rig.refresh();
    assert_eq!(
        (rig.connects("a"), rig.failed().as_str(), rig.counts().as_str()),
        (1, "", "")
    );
    assert!(rig.snapshot().pending.is_empty());
}

#[test]
fn a_connection_that_opens_stops_the_probe_and_its_late_report_is_ignored() {
    let mut rig = Rig::standard(off());
    rig.reserve("a");
    rig.fail("a");
    rig.set("a", Behaviour::Hangs);
    rig.advance(millis(1000));
    rig.refresh();
    rig.cluster.opened(&key("a"), None, rig.now);
    rig.settle();
    assert_eq!(rig.stopped_probes, ["a"]);
    rig.cluster
        .probe_finished(&key("a"), 1, Err((DOWN, "late".to_owned())), rig.now);
    rig.cluster
        .probe_finished(&key("nobody"), 1, Ok(Answer::default()), rig.now);
    assert_eq!(rig.failed(), "");
}

/// Covers: E-220
#[test]
fn a_manual_refresh_moves_the_next_scheduled_one() {
    let mut rig = Rig::standard(every(millis(2000)));
    rig.advance(millis(1000));
    rig.refresh();
    assert_eq!(rig.discoveries, 2);
    rig.advance(millis(1999));
    assert_eq!(rig.discoveries, 2);
    rig.advance(millis(1));
    assert_eq!(rig.discoveries, 3);
}

/// Covers: E-221
#[test]
fn with_no_interval_every_pick_looks_for_servers_unless_somebody_does() {
    let mut rig = Rig::standard(every(Duration::ZERO));
    assert_eq!(rig.asked.len(), 1);
    rig.advance(millis(300));
    assert_eq!(rig.asked.len(), 1);
    rig.open_all(1);
    assert_eq!(rig.asked.len(), 2);

    rig.listing_takes = millis(1000);
    let before = rig.now;
    rig.open_all(4);
    assert_eq!((rig.now, rig.asked.len()), (before, 3));
    rig.open_all(2);
    assert_eq!(rig.asked.len(), 3);
    rig.advance(millis(1000));
    rig.open_all(1);
    assert_eq!(rig.asked.len(), 4);
}

#[test]
fn a_pick_refreshes_when_the_interval_is_over_and_does_not_wait() {
    let mut rig = Rig::standard(every(millis(10_000)));
    rig.listing_takes = Duration::from_secs(9);
    rig.refresh();
    rig.advance(millis(9000));
    // the timer is armed from the end of the discovery, the pick counts from its start
    rig.advance(millis(999));
    rig.open_all(1);
    assert_eq!(rig.asked.len(), 2);
    rig.advance(millis(1));
    let before = rig.now;
    rig.open_all(1);
    assert_eq!((rig.asked.len(), rig.now), (3, before));
}

#[test]
fn while_a_discovery_is_owed_picks_bring_one_forward_once_a_second() {
    let mut rig = Rig::standard(options());
    rig.listing = Listing::Error;
    rig.refresh();
    let failed = rig.asked.len();
    rig.advance(millis(999));
    rig.open_all(2);
    assert_eq!(rig.asked.len(), failed);
    rig.advance(millis(1));
    rig.open_all(5);
    assert_eq!(rig.asked.len(), failed + 1);

    rig.advance(Duration::from_secs(20));
    assert_eq!(
        rig.asked.len(),
        failed + 1,
        "without picks it waits for the interval"
    );
    rig.advance(Duration::from_secs(280));
    assert_eq!(rig.asked.len(), failed + 2);
}

#[test]
fn a_failure_brings_a_refresh_forward_once_a_second() {
    let mut rig = behind_a_balancer(options());
    rig.fail("a");
    assert_eq!(rig.asked.len(), 1);
    rig.advance(millis(1000));
    rig.fail_as("b", FailureKind::Rejected, "53300");
    rig.fail_as("c", FailureKind::Full, "53300");
    assert_eq!(rig.asked.len(), 2);
}

#[test]
fn a_pick_that_finds_nothing_and_a_failed_probe_bring_nothing_forward() {
    let options = ClusterOptions {
        load_balance: LoadBalance::OnlyReplica,
        ..options()
    };
    let mut rig = behind_a_balancer(options);
    rig.cluster
        .open_failed(&key("a"), FailureKind::Down, "connection refused", rig.now);
    rig.set("a", Behaviour::Down);
    rig.advance(millis(1000));
    rig.refresh();
    let (asked, probes) = (rig.asked.len(), rig.probes.len());
    assert_eq!((asked, probes), (2, 1));
    rig.advance(Duration::from_secs(100));
    for _ in 0..10 {
        assert!(rig.pick(&[], &[]).is_err());
    }
    rig.cluster.closed(&key("b"));
    rig.settle();
    assert_eq!((rig.asked.len(), rig.probes.len()), (asked, probes));
}

#[test]
fn a_refresh_asked_for_during_a_discovery_only_probes() {
    let mut rig = behind_a_balancer(options());
    rig.listing_takes = Duration::from_secs(5);
    rig.fail("a");
    rig.refresh();
    rig.advance(millis(1000));
    rig.refresh();
    rig.refresh();
    assert_eq!((rig.asked.len(), rig.probes.len()), (2, 1));
    rig.advance(Duration::from_secs(10));
    assert_eq!(rig.asked.len(), 2, "nothing was queued");
}

#[test]
fn a_discovery_that_succeeds_probes_the_hosts_that_fell_due_meanwhile() {
    let mut rig = behind_a_balancer(options());
    rig.listing_takes = Duration::from_secs(2);
    rig.fail("a");
    rig.refresh();
    rig.advance(millis(1500));
    assert_eq!(rig.probes.len(), 0);
    rig.advance(millis(500));
    assert_eq!((rig.probes.len(), rig.failed().as_str()), (1, ""));
}

#[test]
fn discovery_asks_every_seed_and_each_other_server_that_is_not_down() {
    let mut rig = Rig::new(options(), &["lb", "b"], Listing::Rows(three()));
    rig.settle();
    rig.fail_as("a", FailureKind::Down, "connection refused");
    rig.fail_as("b", FailureKind::Down, "connection refused");
    rig.fail_as("c", FailureKind::Rejected, "57P03");
    rig.refresh();
    assert_eq!(joined(rig.asked.last().expect("it was asked for")), "lb b c");
}

#[test]
fn limits_follow_the_connect_timeout() {
    let now = std::time::Instant::now();
    let options = ClusterOptions {
        connect_timeout: millis(700),
        ..options()
    };
    let mut cluster = ClusterState::new(options, vec![key("s"), key("t")], now);
    let limit = millis(700 * 3 + 5000);
    let targets = vec![key("s"), key("t")];
    assert_eq!(
        cluster.take_actions(),
        [Action::StartDiscovery { targets, limit }]
    );

    cluster.open_failed(&key("s"), FailureKind::Down, "connection refused", now);
    cluster.take_actions();
    cluster.refresh(now + millis(1000));
    let probe = Action::StartProbe {
        key: key("s"),
        id: 1,
        limit: millis(1400),
        ask_role: false,
        ask_timeline: false,
    };
    assert_eq!(cluster.take_actions(), [probe]);
}

#[test]
fn a_report_of_a_discovery_nobody_asked_for_is_ignored() {
    let mut rig = Rig::standard(options());
    let timer = rig.cluster.next_timer();
    rig.advance(millis(10));
    rig.cluster
        .discovery_finished(DiscoveryOutcome::Failed("late".to_owned()), rig.now);
    assert!(rig.snapshot().discovery.last_failure.is_none());
    assert_eq!(rig.cluster.next_timer(), timer);
}

#[test]
fn a_plain_server_is_asked_again_at_each_refresh_and_told_of_once() {
    let mut rig = Rig::new(every(millis(1000)), &["pg"], Listing::NoFunction);
    rig.advance(millis(3500));
    assert_eq!(rig.discoveries, 4);
    let lines = rig.take_lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].1.contains("not YugabyteDB"), "{lines:?}");
}

#[test]
fn the_end_of_a_delay_alone_does_nothing() {
    let mut rig = Rig::standard(off());
    rig.fail("a");
    rig.advance(Duration::from_secs(200));
    assert_eq!(
        (rig.failed().as_str(), rig.placement().as_str(), rig.probes.len()),
        ("a", "b", 0)
    );
}

#[test]
fn a_failure_of_a_host_that_is_not_listed_is_kept_unprobed_until_it_is_listed_again() {
    let mut rig = Rig::new(options(), &["lb"], Listing::Rows(three()));
    rig.settle();
    rig.reserve("c");
    rig.listing = Listing::Rows(vec![primary("a", "b")]);
    rig.refresh();
    rig.cluster
        .open_failed(&key("c"), FailureKind::Down, "connection refused", rig.now);
    rig.advance(millis(1000));
    rig.cluster.take_actions();
    assert_eq!((rig.failed().as_str(), rig.probes.len()), ("c", 0));

    rig.listing = Listing::Rows(three());
    rig.refresh();
    assert_eq!((rig.probes.len(), rig.failed().as_str()), (1, ""));
}

#[test]
fn a_failure_of_a_host_that_stays_unlisted_is_forgotten_by_the_next_discovery() {
    let mut rig = Rig::new(options(), &["lb"], Listing::Rows(three()));
    rig.settle();
    rig.reserve("c");
    rig.listing = Listing::Rows(vec![primary("a", "b")]);
    rig.refresh();
    rig.cluster
        .open_failed(&key("c"), FailureKind::Down, "connection refused", rig.now);
    assert_eq!(rig.failed(), "c");
    rig.refresh();
    assert_eq!(rig.failed(), "");
}

#[test]
fn the_longest_settings_overflow_nothing() {
    let options = ClusterOptions {
        refresh_interval: Duration::MAX,
        failed_host_delay: Duration::MAX,
        failed_host_max_delay: Some(Duration::MAX),
        connect_timeout: Duration::MAX,
        log_window: Duration::MAX,
        ..options()
    };
    let mut rig = Rig::standard(options);
    rig.fail("a");
    rig.refresh();
    rig.cluster.opened(&key("a"), None, rig.now);
    assert!(
        rig.cluster
            .next_timer()
            .is_some_and(|at| at > rig.now + Duration::from_secs(1 << 25))
    );
}
