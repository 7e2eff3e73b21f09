//! `pgsteer route` told to end while clients are at it: what was accepted is answered.

use rustix::process::Signal;

use crate::process::until;
use crate::tools::{Echo, Load, Router};

/// Covers: S-72
#[test]
fn sigterm_under_load_loses_nothing_that_was_accepted() {
    let backends = [Echo::start(&["--delay-ms", "2"]), Echo::start(&[])];
    let router = Router::start(&[&backends[0], &backends[1]], &[]);
    let options = ["--clients", "50", "--seconds", "2.5", "--dial-per-request"];
    let mut under_way = Load::start(&router.address, &options);
    under_way.until_answered();

    let ended = router.process.terminate();
    let account = under_way.end();

    assert_eq!(ended.code, Some(0), "{ended:?}");
    account.assert_all_answered();
    assert!(account.count("connect_failures") > 0, "{account:?}");
}

/// Covers: S-16, S-57
#[test]
fn those_still_in_the_kernels_queue_are_answered_too() {
    let backend = Echo::start(&["--delay-ms", "20"]);
    // Two are served at a time; nearly all clients are connected and wait unseen.
    let router = Router::start(&[&backend], &["--max-connections", "2"]);
    let options = ["--clients", "40", "--seconds", "2.5", "--dial-per-request"];
    let mut under_way = Load::start(&router.address, &options);
    under_way.until_answered();

    let ended = router.process.terminate();
    let account = under_way.end();

    assert_eq!(ended.code, Some(0), "{ended:?}");
    account.assert_all_answered();
    assert!(account.count("connect_failures") > 0, "{account:?}");
}

/// Covers: S-72
#[test]
fn clients_that_stay_connected_are_answered_and_let_go_between_two_requests() {
    let backend = Echo::start(&["--delay-ms", "2"]);
    let router = Router::start(&[&backend], &[]);
    let mut under_way = Load::start(&router.address, &["--clients", "30", "--seconds", "2.5"]);
    under_way.until_answered();

    let ended = router.process.terminate();
    let account = under_way.end();

    assert_eq!(ended.code, Some(0), "{ended:?}");
    account.assert_sound();
    assert_eq!(account.count("lost") + account.count("errors"), 0, "{account:?}");
    // One each that had just been sent when the router said that it would read no more; some have connected again by then.
    assert!(
        account.count("turned_away") <= account.count("connects"),
        "{account:?}"
    );
}

/// Covers: S-56
#[test]
fn it_is_not_ready_while_it_drains_and_ends_when_the_last_answer_is_out() {
    let backend = Echo::start(&["--delay-ms", "1500"]);
    let router = Router::start(&[&backend], &[]);
    assert!(router.is_ready());
    let under_way = Load::start(&router.address, &["--clients", "8", "--requests", "8"]);
    until("all are at the backend", || {
        router.figure("backend_in_flight") == 8
    });

    router.process.signal(Signal::TERM);
    until("it says that it is not ready", || !router.is_ready());
    let ended = router.process.end();
    let account = under_way.end();

    assert_eq!(ended.code, Some(0), "{ended:?}");
    account.assert_all_answered();
}

/// Covers: S-59
#[test]
fn when_the_grace_is_over_it_ends_all_the_same_and_tells_what_it_dropped() {
    let backend = Echo::start(&["--fault", "hang", "--spare-pings"]);
    let options = ["--shutdown-grace", "500ms", "--backend-timeout", "60s"];
    let router = Router::start(&[&backend], &options);
    let under_way = Load::start(&router.address, &["--clients", "5", "--requests", "5"]);
    until("all are at the backend", || {
        router.figure("backend_in_flight") == 5
    });

    let ended = router.process.terminate();
    let account = under_way.end();

    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("5 requests were dropped"), "{ended:?}");
    account.assert_sound();
    assert_eq!(account.count("answered"), 0, "{account:?}");
}

/// Covers: S-55, S-75
#[test]
fn a_second_signal_ends_it_at_once() {
    let backend = Echo::start(&["--fault", "hang", "--spare-pings"]);
    let options = ["--shutdown-grace", "1h", "--backend-timeout", "1h"];
    let router = Router::start(&[&backend], &options);
    let under_way = Load::start(&router.address, &["--clients", "5", "--requests", "5"]);
    until("all are at the backend", || {
        router.figure("backend_in_flight") == 5
    });

    router.process.signal(Signal::TERM);
    until("it says that it is not ready", || !router.is_ready());
    let ended = router.process.terminate();
    let account = under_way.end();

    assert_eq!(ended.code, Some(130), "{ended:?}");
    account.assert_sound();
    assert_eq!(account.count("answered"), 0, "{account:?}");
}
