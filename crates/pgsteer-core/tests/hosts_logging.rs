//! Runs of failures in the log: one line when a trouble begins, one when it is over, none in between.

mod hosts_rig;

use std::time::Duration;

use hosts_rig::{Behaviour, Listing, Rig, key, millis, options, three};
use pgsteer_core::hosts::{
    ClusterOptions, FailureKind, LoadBalance, LogEvent, LogLevel, Role, TargetSessionAttrs,
};

fn off(log_window: Duration) -> ClusterOptions {
    ClusterOptions {
        load_balance: LoadBalance::Off,
        // no scheduled refresh comes between
        refresh_interval: Duration::from_secs(1 << 30),
        log_window,
        ..options()
    }
}

/// The lines since the last call, as `level: line`.
fn lines(rig: &mut Rig) -> Vec<String> {
    rig.take_lines()
        .into_iter()
        .map(|(level, line)| format!("{level:?}: {line}"))
        .collect()
}

fn cluster(log_window: Duration) -> Rig {
    let mut rig = Rig::standard(off(log_window));
    rig.take_lines();
    rig
}

/// Covers: E-200
#[test]
fn a_run_of_a_host_that_is_down_begins_with_a_warning() {
    let mut rig = cluster(millis(60_000));
    rig.set("a", Behaviour::Down);
    rig.open_all(1);
    assert_eq!(
        lines(&mut rig),
        ["Warning: could not connect to a:5433: connection refused; not tried again for at least 1s"]
    );
}

#[test]
fn every_kind_of_line_says_what_it_must() {
    let mut rig = cluster(millis(60_000));
    rig.fail_as(
        "a",
        FailureKind::Rejected,
        "57P03 the database system is starting up",
    );
    rig.fail_as("b", FailureKind::NotReady, "57P03 not yet accepting connections");
    rig.fail_as("c", FailureKind::Full, "53300 sorry, too many clients already");
    let lines = lines(&mut rig);
    assert!(
        lines[0].starts_with("Warning: a:5433") && lines[0].contains("57P03"),
        "{lines:?}"
    );
    assert!(!lines[0].contains("could not connect"), "{lines:?}");
    assert_eq!(
        lines[1..],
        [
            "Warning: b:5433 is not ready for connections: 57P03 not yet accepting connections; asked again after \
             100ms, then less often",
            "Warning: c:5433 takes no more connections: 53300 sorry, too many clients already; asked again after 500ms, \
             then less often"
        ]
    );
}

#[test]
fn further_failures_of_the_kind_are_counted_and_not_told() {
    let mut rig = cluster(millis(1000));
    for _ in 0..5 {
        rig.fail("a");
        rig.advance(Duration::from_secs(3600));
    }
    assert_eq!(lines(&mut rig).len(), 1, "silence is no proof that it works");

    rig.cluster.opened(&key("a"), None, rig.now);
    rig.settle();
    assert_eq!(
        lines(&mut rig),
        ["Info: a:5433 can be connected to again (5 failures in the run)"]
    );
}

#[test]
fn a_run_ends_by_the_timer_when_the_quiet_time_is_over_after_an_opening() {
    let mut rig = cluster(millis(1000));
    rig.fail("a");
    lines(&mut rig);
    rig.advance(millis(300));
    rig.cluster.opened(&key("a"), None, rig.now);
    rig.settle();
    assert_eq!(rig.cluster.next_timer(), Some(rig.now + millis(700)));
    rig.advance(millis(699));
    assert_eq!(lines(&mut rig), [""; 0]);
    rig.advance(millis(1));
    assert_eq!(
        lines(&mut rig),
        ["Info: a:5433 can be connected to again (1 failure in the run)"]
    );
    rig.advance(millis(5000));
    assert_eq!(lines(&mut rig), [""; 0]);
}

#[test]
fn a_host_that_opens_and_fails_within_the_quiet_time_stays_in_its_run() {
    let mut rig = cluster(millis(1000));
    for _ in 0..10 {
        rig.fail("a");
        rig.advance(millis(500));
        rig.cluster.opened(&key("a"), None, rig.now);
        rig.advance(millis(400));
    }
    assert_eq!(lines(&mut rig).len(), 1);
    rig.advance(millis(1000));
    assert_eq!(
        lines(&mut rig),
        ["Info: a:5433 can be connected to again (10 failures in the run)"]
    );
}

#[test]
fn a_failure_after_the_quiet_time_is_a_new_run_even_if_the_timer_is_late() {
    let mut rig = cluster(millis(1000));
    rig.fail("a");
    rig.cluster.opened(&key("a"), None, rig.now);
    lines(&mut rig);
    let late = rig.now + millis(2000);
    rig.cluster
        .open_failed(&key("a"), FailureKind::Down, "connection refused", late);
    rig.now = late;
    rig.settle();
    let lines = lines(&mut rig);
    assert!(lines[0].contains("again (1 failure"), "{lines:?}");
    assert!(lines[1].starts_with("Warning: could not connect"), "{lines:?}");
}

#[test]
fn a_failure_of_another_kind_begins_a_run_of_its_own_at_once() {
    let mut rig = cluster(millis(1000));
    rig.fail("a");
    rig.fail("a");
    rig.fail_as("a", FailureKind::Rejected, "57P03");
    rig.cluster.opened(&key("a"), None, rig.now);
    rig.advance(millis(1000));
    let lines = lines(&mut rig);
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[1].contains("57P03"), "{lines:?}");
    assert_eq!(
        lines[2],
        "Info: a:5433 gives connections again (1 failure in the run)"
    );
}

/// Covers: E-202
#[test]
fn a_standby_that_goes_down_comes_back_and_is_promoted_is_told_step_by_step() {
    let options = ClusterOptions {
        log_window: millis(500),
        role_ttl: millis(900),
        ..options()
    };
    let mut rig = Rig::new(options, &["pg1"], Listing::NoFunction);
    rig.target = TargetSessionAttrs::ReadWrite;
    rig.cluster.watch_roles(true);
    rig.settle();
    lines(&mut rig);
    let state = |rig: &Rig| (rig.failed(), rig.read_only());
    let at = |failed: &str, read_only: &str| (failed.to_owned(), read_only.to_owned());

    rig.set("pg1", Behaviour::Is(Role::Standby));
    assert!(rig.open().is_err());
    assert_eq!(state(&rig), at("", "pg1"));
    let told = lines(&mut rig);
    assert!(
        told.len() == 1 && told[0].starts_with("Info") && told[0].contains("standby"),
        "{told:?}"
    );

    rig.set("pg1", Behaviour::Down);
    rig.advance(millis(1000));
    rig.refresh();
    assert_eq!(state(&rig), at("pg1", ""));
    // discovery has nobody to ask now, which is a trouble of its own
    let told: Vec<String> = lines(&mut rig)
        .into_iter()
        .filter(|line| line.contains("pg1"))
        .collect();
    assert!(
        told.len() == 1 && told[0].starts_with("Warning") && told[0].contains("refused"),
        "{told:?}"
    );

    rig.set("pg1", Behaviour::Is(Role::Standby));
    rig.advance(millis(1000));
    rig.refresh();
    assert_eq!(state(&rig), at("", "pg1"));
    let told: Vec<String> = lines(&mut rig)
        .into_iter()
        .filter(|line| line.contains("pg1"))
        .collect();
    assert!(
        told.len() == 1 && told[0].starts_with("Info") && told[0].contains("standby"),
        "{told:?}"
    );

    rig.set("pg1", Behaviour::Up);
    rig.advance(millis(1000));
    rig.refresh();
    assert_eq!((state(&rig), rig.placement().as_str()), (at("", ""), "pg1"));
    rig.advance(millis(500));
    let told: Vec<String> = lines(&mut rig)
        .into_iter()
        .filter(|line| line.contains("pg1"))
        .collect();
    assert_eq!(told, ["Info: pg1:5433 is a primary now; it was a standby"]);
}

/// Covers: E-203
#[test]
fn failing_discoveries_are_told_once_and_their_end_after_the_quiet_time() {
    let mut rig = Rig::standard(ClusterOptions {
        log_window: millis(1000),
        ..options()
    });
    lines(&mut rig);
    for host in ["a", "b", "c"] {
        rig.set(host, Behaviour::Down);
    }
    rig.forget_connects();
    for _ in 0..3 {
        rig.refresh();
    }
    assert_eq!(["a", "b", "c"].map(|host| rig.connects(host)), [3, 3, 3]);
    assert_eq!(
        lines(&mut rig),
        ["Warning: discovery of servers failed: no server reachable; going on with what is known"]
    );
    for host in ["a", "b", "c"] {
        rig.set(host, Behaviour::Up);
    }
    rig.advance(millis(200));
    rig.refresh();
    assert_eq!(lines(&mut rig), [""; 0]);
    rig.advance(millis(800));
    assert_eq!(
        lines(&mut rig),
        ["Info: discovery of servers works again (3 failures in the run)"]
    );
}

#[test]
fn a_host_that_is_gone_takes_its_run_with_it_silently() {
    let mut rig = Rig::new(
        ClusterOptions {
            log_window: millis(1000),
            ..options()
        },
        &["lb"],
        Listing::Rows(three()),
    );
    rig.settle();
    rig.fail("c");
    rig.cluster.hook_failed(&key("c"), "nope", millis(1000), rig.now);
    rig.settle();
    lines(&mut rig);
    rig.listing = Listing::Rows(three().into_iter().filter(|row| row.host != "c").collect());
    rig.refresh();
    rig.advance(millis(5000));
    assert_eq!(lines(&mut rig), [""; 0]);

    // listed again it starts afresh
    rig.listing = Listing::Rows(three());
    rig.refresh();
    rig.fail("c");
    assert_eq!(lines(&mut rig).len(), 1);
}

/// Covers: E-286
#[test]
fn a_failing_hook_is_told_in_runs_of_its_own_and_marks_no_host() {
    let mut rig = cluster(millis(1000));
    for _ in 0..3 {
        rig.cluster.hook_failed(&key("c"), "nope", millis(1000), rig.now);
        rig.advance(millis(100));
    }
    assert_eq!(
        lines(&mut rig),
        ["Warning: after_connect failed on c:5433: nope; keeping off it for 1s"]
    );
    assert!(rig.snapshot().failures.is_empty());
    rig.cluster.hook_passed(&key("c"), rig.now);
    rig.cluster.hook_passed(&key("b"), rig.now);
    rig.advance(millis(900));
    assert_eq!(
        lines(&mut rig),
        ["Info: after_connect works again on c:5433 (3 failures in the run)"]
    );
    rig.cluster.hook_failed(&key("c"), "nope", millis(1000), rig.now);
    rig.settle();
    assert_eq!(lines(&mut rig).len(), 1);
}

#[test]
fn the_level_is_known_before_the_line_is_written() {
    let down = LogEvent::Down {
        host: key("a"),
        reason: "refused".to_owned(),
        delay: millis(1),
    };
    assert_eq!(down.level(), LogLevel::Warning);
    assert_eq!(LogEvent::NotYugabyte.level(), LogLevel::Info);
}
