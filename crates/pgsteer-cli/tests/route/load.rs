//! `pgsteer load` against echo servers: what it sends, and that it sees everything that can go wrong with an answer.

use std::net::TcpListener;

use rustix::process::Signal;

use crate::process::Process;
use crate::tools::{Account, Echo, Load, load};

fn of(echo: &Echo, options: &[&str]) -> Account {
    load(&echo.address, options)
}

/// Covers: S-77
#[test]
fn every_request_is_sent_once_and_its_answer_checked_whatever_its_size() {
    let echo = Echo::start(&[]);
    for size in ["0", "1", "15", "16", "64", "70000", "1500000"] {
        for pipeline in ["1", "8"] {
            let account = of(
                &echo,
                &[
                    "--clients",
                    "4",
                    "--requests",
                    "40",
                    "--size",
                    size,
                    "--pipeline",
                    pipeline,
                ],
            );

            assert_eq!(account.code, Some(0), "{size} bytes: {account:?}");
            assert_eq!(
                (account.count("sent"), account.count("answered")),
                (40, 40),
                "{account:?}"
            );
            account.assert_sound();
        }
    }
    let ended = echo.process.terminate();
    assert!(
        ended
            .stdout
            .join("")
            .contains(&format!(" {} requests", 40 * 7 * 2)),
        "{ended:?}"
    );
}

/// Covers: S-76
#[test]
fn what_becomes_of_a_request_is_told_by_its_cause() {
    // (fault, what the requests count as, by which cause, exit code)
    let cases = [
        ("close", "lost", Some("closed"), 1),
        ("cut=2", "lost", Some("cut"), 1),
        ("cut=70", "lost", Some("cut"), 1),
        ("hang", "lost", Some("timeout"), 1),
        ("oversize", "lost", Some("oversize"), 1),
        ("garbage", "lost", Some("oversize"), 1),
        ("corrupt", "corrupted", None, 1),
        ("twice", "answered", None, 1),
        ("refuse", "connect_failures", Some("refused"), 1),
        ("trickle=1", "answered", None, 0),
    ];

    for (fault, counted, cause, code) in cases {
        let echo = Echo::start(&["--fault", fault]);

        let account = of(
            &echo,
            &[
                "--clients",
                "2",
                "--requests",
                "6",
                "--size",
                "100",
                "--timeout",
                "0.5",
            ],
        );

        assert_eq!(account.code, Some(code), "{fault}: {account:?}");
        assert_eq!(account.count(counted), 6, "{fault}: {account:?}");
        if let Some(cause) = cause {
            assert_eq!(account.total[counted][cause], 6, "{fault}: {account:?}");
        }
        let duplicated = if fault == "twice" { 6 } else { 0 };
        assert_eq!(account.count("duplicated"), duplicated, "{fault}: {account:?}");
    }
}

#[test]
fn a_connection_ended_between_two_answers_turns_requests_away_and_loses_none() {
    let echo = Echo::start(&["--answers-per-connection", "3"]);

    let account = of(&echo, &["--clients", "2", "--requests", "60"]);

    account.assert_sound();
    assert_eq!(account.code, Some(0), "{account:?}");
    assert_eq!(
        account.count("answered") + account.count("turned_away") + account.count("lost"),
        60
    );
    assert!(account.count("connects") >= 15, "{account:?}");
    // The server may have reset what it had not read; it is never told to be more than that.
    assert_eq!(account.count("lost"), account.lost("reset"), "{account:?}");
}

/// Covers: S-77
#[test]
fn a_new_connection_for_every_request_if_asked() {
    let echo = Echo::start(&[]);
    for close in [&[][..], &["--reset"]] {
        let options = [
            &["--clients", "4", "--requests", "100", "--dial-per-request"],
            close,
        ]
        .concat();

        let account = of(&echo, &options);

        account.assert_sound();
        assert_eq!(
            (account.count("answered"), account.count("connects")),
            (100, 100),
            "{account:?}"
        );
    }
}

/// Covers: S-77
#[test]
fn a_fixed_rate_is_kept_and_the_time_that_requests_waited_to_be_sent_counts() {
    // One client, 20 answers a second at most, 100 requests a second.
    let echo = Echo::start(&["--delay-ms", "50"]);

    let account = of(&echo, &["--clients", "1", "--rate", "100", "--seconds", "1"]);

    account.assert_sound();
    let (sent, unsent) = (account.count("sent"), account.count("unsent"));
    assert!(sent + unsent >= 98 && sent <= 40, "{account:?}");
    let slowest = account.total["latency_us"]["max"].as_f64().expect("a time");
    // The last one sent was due after some 200 ms and answered after 1000.
    assert!(slowest > 500_000.0, "{account:?}");
}

#[test]
fn idle_connections_wait_for_the_end_and_are_answered_then() {
    let echo = Echo::start(&[]);

    let account = of(&echo, &["--clients", "2", "--requests", "10", "--idle", "30"]);

    let opened = &account.lines[0];
    assert_eq!(
        (&opened["type"], &opened["connections"]),
        (&"idle".into(), &30.into())
    );
    assert_eq!(
        (
            &account.total["idle"]["connects"],
            &account.total["idle"]["answered"]
        ),
        (&30.into(), &30.into())
    );
    // A client that is fast enough leaves nothing to the other.
    assert_eq!(account.count("answered"), 10);
    assert!((1..=2).contains(&account.count("connects")), "{account:?}");
}

/// Covers: S-77
#[test]
fn there_is_an_object_a_second_and_the_total_is_their_sum_without_the_warm_up() {
    let echo = Echo::start(&[]);

    let account = of(
        &echo,
        &[
            "--clients",
            "2",
            "--seconds",
            "2.5",
            "--warmup",
            "0.2",
            "--rate",
            "200",
        ],
    );

    account.assert_sound();
    assert!(account.lines.len() >= 2, "{account:?}");
    let seconds: u64 = account
        .lines
        .iter()
        .filter_map(|line| line["answered"].as_u64())
        .sum();
    assert!(account.count("answered") >= seconds, "{account:?}");
    assert!(
        account.total["warmup"]["answered"].as_u64() > Some(0),
        "{account:?}"
    );
    let latency =
        ["p50", "p90", "p99", "p999", "max"].map(|figure| account.total["latency_us"][figure].as_f64());
    assert!(latency.is_sorted() && latency[0] > Some(0.0), "{account:?}");
}

/// Covers: S-78
#[test]
fn times_near_a_multiple_of_a_delayed_acknowledgement_are_warned_of() {
    let echo = Echo::start(&["--delay-ms", "40"]);

    let account = of(&echo, &["--clients", "1", "--requests", "10"]);

    // A busy machine can push the times out of the range that is suspect; then nothing is to be said.
    let warned = account.total["warning"]
        .as_str()
        .is_some_and(|warning| warning.contains("TCP_NODELAY"));
    assert_eq!(warned, account.stderr.contains("TCP_NODELAY"), "{account:?}");
    let median = account.total["latency_us"]["p50"].as_f64().expect("a time");
    assert!(warned || median > 48_000.0, "{account:?}");
}

/// Covers: S-76
#[test]
fn a_target_that_is_killed_loses_what_was_under_way_and_refuses_what_comes_after() {
    let echo = Echo::start(&["--delay-ms", "5"]);
    let mut load = Load::start(&echo.address, &["--clients", "4", "--seconds", "2.5"]);
    load.until_answered();

    echo.process.kill();
    let account = load.end();

    account.assert_sound();
    // The system ends a killed process's connections as if it had closed them, so that some look like those of a drain; and
    // some clients may connect again before its listener is gone as well.
    let unanswered = account.count("lost") + account.count("turned_away");
    assert!(unanswered >= 4, "{account:?}");
    assert!(
        account.total["connect_failures"]["refused"].as_u64() > Some(0),
        "{account:?}"
    );
}

#[test]
fn an_interrupt_ends_it_with_the_total() {
    let echo = Echo::start(&[]);
    let mut load = Load::start(
        &echo.address,
        &["--clients", "2", "--rate", "50", "--seconds", "600"],
    );
    load.until_answered();

    load.process().signal(Signal::INT);
    let account = load.end();

    assert_eq!(account.code, Some(0), "{account:?}");
    account.assert_sound();
}

#[test]
fn a_target_that_is_not_there_fails_the_work_and_bad_usage_says_what_is_allowed() {
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let nobody_there = nobody.local_addr().expect("it is bound").to_string();
    drop(nobody);
    let cases: [(&[&str], i32, &str); 10] = [
        (
            &["--target", &nobody_there, "--requests", "3"],
            1,
            "no request was answered",
        ),
        (&[], 2, "--target"),
        (&["--target", "router"], 2, "--target router: the port is missing"),
        (&["--target", "a:1", "--rate", "0"], 2, "requests a second"),
        (
            &["--target", "a:1", "--requests", "1", "--seconds", "1"],
            2,
            "cannot be used with",
        ),
        (&["--target", "a:1", "--tls"], 2, "--ca"),
        (
            &["--target", "a:1", "--clients", "-1"],
            2,
            "-1 is not in 1..=1000000",
        ),
        (
            &["--target", "127.0.0.1:1", "--source", "192.0.2.1"],
            2,
            "--source 192.0.2.1: ",
        ),
        (
            &["--target", "127.0.0.1:1", "--source", "::1"],
            2,
            "--source ::1: the target has no address of that IP version",
        ),
        (
            &["--target", "127.0.0.1:1", "--tls", "--ca", "/nonexistent.pem"],
            1,
            "--ca /nonexistent.pem",
        ),
    ];

    for (options, code, told) in cases {
        let ended = Process::start(&[&["load"], options].concat()).end();

        assert_eq!(ended.code, Some(code), "{options:?}: {ended:?}");
        assert!(ended.stderr.contains(told), "{options:?}: {ended:?}");
    }
}
