//! The hosts of a cluster over time: load, failures, sessions, readiness, seeds and what may stay where.

mod hosts_rig;

use std::time::Duration;

use hosts_rig::{
    Behaviour, Listing, NotOpened, Rig, ZONE_THEN_REGION, ZONE_THEN_ZONES, joined, key, keyed, millis,
    options, primary, row, three,
};
use pgsteer_core::host::NodeType;
use pgsteer_core::hosts::{ClusterOptions, LoadBalance, NoHost, Refused, Role, TargetSessionAttrs};

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

/// A seed lb that is no server, in front of these.
fn behind_a_balancer(options: ClusterOptions) -> Rig {
    let mut rig = Rig::new(options, &["lb"], Listing::Rows(three()));
    rig.settle();
    rig.forget_connects();
    rig
}

/// Covers: E-168
#[test]
fn connections_spread_evenly() {
    let mut rig = Rig::standard(options());
    rig.open_all(9);
    assert_eq!(rig.counts(), "a=3 b=3 c=3");
}

/// Covers: E-169
#[test]
fn connections_go_to_the_preferred_zone_until_it_fails() {
    let mut rig = Rig::standard(keyed(ZONE_THEN_REGION));
    assert_eq!(rig.open_all(4), "a a a a");
    rig.set("a", Behaviour::Down);
    let host = rig.open().expect("b and c are up");
    assert!(["b", "c"].contains(&host.as_str()), "{host}");
    assert_eq!(rig.failed(), "a");
}

/// Covers: E-171
#[test]
fn a_preferring_mode_goes_on_outside_the_only_places() {
    let load_balance = LoadBalance::PreferPrimary;
    let options = ClusterOptions {
        load_balance,
        fallback_only: true,
        ..keyed("gcp.us-east1.us-east1-b:1")
    };
    let mut rig = Rig::standard(options);
    rig.set("a", Behaviour::Down);
    let host = rig.open().expect("b and c are up");
    assert!(["b", "c"].contains(&host.as_str()), "{host}");
}

/// Covers: E-172
#[test]
fn the_host_that_lost_a_connection_gets_the_next() {
    let mut rig = Rig::standard(options());
    assert_eq!(rig.open_all(3), "a b c");
    rig.cluster.closed(&key("b"));
    assert_eq!(rig.counts(), "a=1 c=1");
    assert_eq!(rig.open().as_deref(), Ok("b"));
}

/// Covers: E-173
#[test]
fn the_case_of_names_does_not_matter() {
    let mixed = vec![
        row("a", NodeType::Primary, "US-East1", "B"),
        row("b", NodeType::Primary, "us-EAST1", "C"),
        row("c", NodeType::Primary, "us-east1", "D"),
    ];
    for (keys, rows) in [
        (ZONE_THEN_REGION.to_owned(), mixed),
        (ZONE_THEN_REGION.to_uppercase(), three()),
    ] {
        let mut rig = Rig::new(keyed(&keys), &["a", "b", "c"], Listing::Rows(rows));
        assert_eq!(rig.open_all(4), "a a a a", "{keys}");
        assert_eq!(
            (rig.placement().as_str(), rig.allowed().as_str()),
            ("a", "a"),
            "{keys}"
        );
    }
}

/// Covers: E-174, E-175
#[test]
fn a_reservation_counts_until_it_is_settled() {
    let mut rig = Rig::standard(options());
    let host = rig.pick(&[], &[]).expect("every host is up");
    assert_eq!(rig.snapshot().pending.get(&host), Some(&1));
    rig.cluster.cancelled(&host);
    assert!(rig.snapshot().pending.is_empty());
    assert_eq!(rig.failed(), "");

    rig.set("a", Behaviour::Down);
    rig.open_all(3);
    assert!(rig.snapshot().pending.is_empty());
}

#[test]
fn what_is_being_opened_counts_as_load() {
    let mut rig = Rig::standard(options());
    let mut reserved: Vec<_> = (0..3)
        .map(|_| rig.pick(&[], &[]).expect("every host is up"))
        .collect();
    reserved.sort();
    assert_eq!(joined(&reserved), "a b c");
}

/// Covers: E-186
#[test]
fn a_lone_host_is_the_last_resort_although_it_failed() {
    let options = ClusterOptions {
        failed_host_delay: Duration::from_secs(30),
        ..options()
    };
    let mut rig = Rig::new(options, &["pg"], Listing::NoFunction);
    rig.set("pg", Behaviour::Down);
    assert_eq!(
        rig.open(),
        Err(NotOpened::Connect("connection refused".to_owned()))
    );
    assert_eq!((rig.failed().as_str(), rig.placement().as_str()), ("pg", "pg"));

    rig.set("pg", Behaviour::Up);
    assert_eq!(rig.open().as_deref(), Ok("pg"));
    assert_eq!((rig.failed().as_str(), rig.probes.len()), ("", 0));
}

/// Covers: E-188
#[test]
fn a_standby_is_passed_over_where_writes_are_wanted() {
    let mut rig = Rig::new(options(), &["pg1", "pg2", "pg3"], Listing::NoFunction);
    rig.target = TargetSessionAttrs::ReadWrite;
    rig.cluster.watch_roles(true);
    rig.set("pg1", Behaviour::Is(Role::Standby));
    assert_eq!(rig.open_all(4), "pg2 pg2 pg2 pg2");
    assert_eq!((rig.failed().as_str(), rig.read_only().as_str()), ("", "pg1"));
}

/// Covers: E-189
#[test]
fn a_probe_finds_a_promoted_standby() {
    let options = ClusterOptions {
        role_ttl: millis(900),
        ..every(millis(1000))
    };
    let mut rig = Rig::new(options, &["pg1"], Listing::NoFunction);
    rig.target = TargetSessionAttrs::ReadWrite;
    rig.cluster.watch_roles(true);
    rig.set("pg1", Behaviour::Is(Role::Standby));
    assert_eq!(rig.open(), Err(NotOpened::NoFit("pg1 standby".to_owned())));
    rig.advance(millis(3500));
    assert!(rig.probes.len() >= 2, "{:?}", rig.probes);
    assert_eq!((rig.read_only().as_str(), rig.counts().as_str()), ("pg1", ""));

    rig.set("pg1", Behaviour::Up);
    rig.advance(millis(2100));
    assert_eq!(rig.read_only(), "");
}

/// Covers: E-190
#[test]
fn without_discovery_a_cluster_is_ready_at_once_and_with_it_after_the_first() {
    let mut rig = Rig::new(off(), &["a"], Listing::Rows(three()));
    assert!(rig.cluster.is_ready());
    rig.settle();
    assert_eq!((rig.ready_actions, rig.discoveries), (1, 0));

    let mut rig = Rig::new(options(), &["a"], Listing::Rows(three()));
    assert!(!rig.cluster.is_ready() && !rig.snapshot().discovered);
    rig.settle();
    rig.refresh();
    assert!(rig.cluster.is_ready() && rig.snapshot().discovered);
    assert_eq!((rig.ready_actions, rig.discoveries), (1, 2));
}

/// Covers: E-185, E-192
#[test]
fn on_a_plain_server_every_mode_uses_the_seeds() {
    for mode in [
        LoadBalance::Any,
        LoadBalance::OnlyReplica,
        LoadBalance::OnlyPrimary,
        LoadBalance::PreferReplica,
    ] {
        let mut rig = Rig::new(
            ClusterOptions {
                load_balance: mode,
                ..options()
            },
            &["pg"],
            Listing::NoFunction,
        );
        assert_eq!(rig.open().as_deref(), Ok("pg"), "{mode}");
        let known = rig.snapshot();
        assert!(!known.discovering && !known.discovered, "{mode}");
    }
}

/// Covers: E-192
#[test]
fn a_failing_discovery_leaves_the_seeds_whatever_the_mode() {
    let options = ClusterOptions {
        load_balance: LoadBalance::OnlyReplica,
        ..options()
    };
    let mut rig = Rig::new(options, &["s"], Listing::Rows(three()));
    rig.listing_takes = Duration::from_secs(3600);
    assert_eq!(rig.open().as_deref(), Ok("s"));
    assert!(!rig.snapshot().discovered);
    let why = rig
        .snapshot()
        .discovery
        .last_failure
        .expect("it ran out of time")
        .1;
    assert_eq!(why, "discovery timed out");
}

/// Covers: E-193
#[test]
fn a_server_that_is_no_longer_listed_is_no_longer_allowed() {
    let mut rig = Rig::standard(options());
    assert_eq!(rig.open_all(3), "a b c");
    rig.listing = Listing::Rows(vec![primary("a", "b"), primary("b", "c")]);
    rig.refresh();
    assert_eq!(
        (rig.allowed().as_str(), rig.counts().as_str()),
        ("a b", "a=1 b=1 c=1")
    );
    rig.cluster.closed(&key("c"));
    assert_eq!(rig.counts(), "a=1 b=1");
}

/// Covers: E-194
#[test]
fn the_fallback_level_stays_allowed_until_the_preferred_one_is_found_back() {
    let connect_timeout = millis(500);
    let refresh_interval = millis(1000);
    let mut rig = Rig::standard(ClusterOptions {
        connect_timeout,
        refresh_interval,
        ..keyed(ZONE_THEN_ZONES)
    });
    assert_eq!((rig.placement().as_str(), rig.allowed().as_str()), ("a", "a"));
    rig.set("a", Behaviour::Down);
    rig.open_all(1);
    assert_eq!(
        (rig.placement().as_str(), rig.allowed().as_str()),
        ("b c", "a b c")
    );
    rig.set("a", Behaviour::Unreachable);
    rig.advance(millis(1500));
    assert!(!rig.probes.is_empty());
    assert_eq!(
        (rig.placement().as_str(), rig.allowed().as_str()),
        ("b c", "a b c")
    );
    rig.set("a", Behaviour::Up);
    rig.advance(millis(3000));
    assert_eq!((rig.placement().as_str(), rig.allowed().as_str()), ("a", "a"));
}

/// Covers: E-195
#[test]
fn a_failed_host_of_the_level_in_use_stays_allowed() {
    let rows = vec![primary("a", "b"), primary("a2", "b"), primary("b", "c")];
    let mut rig = Rig::new(keyed(ZONE_THEN_REGION), &["a", "b"], Listing::Rows(rows));
    rig.settle();
    rig.set("a", Behaviour::Down);
    rig.fail("a");
    assert_eq!(rig.open_all(2), "a2 a2");
    assert_eq!((rig.placement().as_str(), rig.allowed().as_str()), ("a2", "a a2"));
}

/// Covers: E-196
#[test]
fn the_seed_is_allowed_while_every_server_is_down() {
    let mut rig = Rig::new(every(millis(1000)), &["seed"], Listing::Rows(three()));
    rig.settle();
    for host in ["a", "b", "c"] {
        rig.fail(host);
    }
    assert_eq!(
        (rig.placement().as_str(), rig.allowed().as_str()),
        ("seed", "a b c seed")
    );
    rig.advance(millis(2100));
    assert_eq!(
        (rig.placement().as_str(), rig.allowed().as_str()),
        ("a b c", "a b c")
    );
}

/// Covers: E-198
#[test]
fn nothing_moves_when_the_seed_fails_after_every_server() {
    let options = ClusterOptions {
        connect_timeout: millis(1000),
        ..every(millis(1000))
    };
    let mut rig = Rig::new(options, &["seed"], Listing::Rows(three()));
    for host in ["a", "b", "c"] {
        rig.set(host, Behaviour::Down);
    }
    assert_eq!(rig.open_all(2), "seed seed");
    let settled = ("seed".to_owned(), "a b c seed".to_owned());
    assert_eq!((rig.placement(), rig.allowed()), settled);
    for host in ["a", "b", "c"] {
        rig.set(host, Behaviour::Unreachable);
    }
    rig.advance(millis(1500));
    assert_eq!((rig.placement(), rig.allowed()), settled);
    rig.fail("seed");
    assert_eq!((rig.placement(), rig.allowed()), settled);
}

/// Covers: E-210
#[test]
fn unreachable_servers_cost_one_open_only() {
    let mut rig = behind_a_balancer(ClusterOptions {
        connect_timeout: millis(300),
        ..options()
    });
    for host in ["a", "b", "c"] {
        rig.set(host, Behaviour::Unreachable);
    }
    let tried = |rig: &Rig| ["a", "b", "c"].map(|host| rig.connects(host));
    assert_eq!(rig.open().as_deref(), Ok("lb"));
    assert_eq!((tried(&rig), rig.failed().as_str()), ([1, 1, 1], "a b c"));

    for _ in 0..3 {
        rig.advance(millis(600));
        let before = rig.now;
        assert_eq!(rig.open().as_deref(), Ok("lb"));
        assert_eq!(rig.now, before, "it cost no connect timeout");
    }
    assert_eq!(tried(&rig), [1, 1, 1]);

    rig.refresh();
    rig.advance(millis(700));
    assert_eq!((tried(&rig), rig.failed().as_str()), ([2, 2, 2], "a b c"));
    assert_eq!(rig.open().as_deref(), Ok("lb"));
    rig.advance(millis(5000));
    assert_eq!(tried(&rig), [2, 2, 2]);
}

/// Covers: E-212
#[test]
fn a_mode_that_refuses_does_not_use_the_seed() {
    use LoadBalance::{Any, OnlyPrimary, OnlyReplica};
    let table = [
        (OnlyPrimary, "", false, Refused::Primary, 3),
        (OnlyReplica, "", false, Refused::ReadReplica, 0),
        (Any, ZONE_THEN_REGION, true, Refused::Cluster, 3),
        (OnlyPrimary, ZONE_THEN_REGION, true, Refused::Primary, 3),
    ];
    for (load_balance, keys, fallback_only, refused, tried) in table {
        let mut rig = behind_a_balancer(ClusterOptions {
            load_balance,
            fallback_only,
            ..keyed(keys)
        });
        for host in ["a", "b", "c"] {
            rig.set(host, Behaviour::Down);
        }
        for _ in 0..2 {
            assert_eq!(
                rig.open(),
                Err(NotOpened::NoHost(NoHost::NoNode(refused))),
                "{load_balance}"
            );
        }
        let connects: usize = ["a", "b", "c"].map(|host| rig.connects(host)).iter().sum();
        assert_eq!((connects, rig.connects("lb")), (tried, 0), "{load_balance}");
        assert_eq!(rig.placement(), "", "{load_balance}");
        assert!(!rig.allowed().contains("lb"), "{load_balance}");
    }
}

/// Covers: E-213
#[test]
fn the_other_modes_use_the_seed_when_no_server_is_up() {
    use LoadBalance::{Any, PreferPrimary, PreferReplica};
    let table = [
        (Any, "", false),
        (PreferPrimary, "", false),
        (PreferReplica, "", false),
        (Any, "", true),
        (PreferPrimary, ZONE_THEN_REGION, true),
    ];
    for (load_balance, keys, fallback_only) in table {
        let mut rig = behind_a_balancer(ClusterOptions {
            load_balance,
            fallback_only,
            ..keyed(keys)
        });
        for host in ["a", "b", "c"] {
            rig.set(host, Behaviour::Down);
        }
        assert_eq!(
            (rig.open().as_deref(), rig.placement().as_str()),
            (Ok("lb"), "lb"),
            "{load_balance}"
        );
    }
}

/// Covers: E-214
#[test]
fn every_server_is_tried_once_before_the_seed() {
    let hosts = ["a", "b", "c", "d", "e"];
    let rows = hosts.map(|host| primary(host, "b")).to_vec();
    let mut rig = Rig::new(options(), &["seed"], Listing::Rows(rows));
    for host in hosts {
        rig.set(host, Behaviour::Down);
    }
    assert_eq!(rig.open().as_deref(), Ok("seed"));
    assert_eq!(hosts.map(|host| rig.connects(host)), [1; 5]);
    assert_eq!(rig.failed(), "a b c d e");
}

/// Covers: E-216
#[test]
fn without_discovery_connections_follow_the_first_host_that_works() {
    let mut rig = Rig::standard(ClusterOptions {
        refresh_interval: millis(1000),
        ..off()
    });
    assert_eq!(rig.open_all(4), "a a a a");
    assert_eq!((rig.placement().as_str(), rig.allowed().as_str()), ("a", "a"));

    rig.set("a", Behaviour::Down);
    assert_eq!(rig.open_all(2), "b b");
    assert_eq!(
        (
            rig.failed().as_str(),
            rig.placement().as_str(),
            rig.allowed().as_str()
        ),
        ("a", "b", "a b")
    );

    rig.set("b", Behaviour::Down);
    assert_eq!(rig.open_all(1), "c");
    assert_eq!((rig.placement().as_str(), rig.allowed().as_str()), ("c", "a c"));

    rig.set("a", Behaviour::Up);
    rig.advance(millis(2100));
    assert_eq!(
        (
            rig.failed().as_str(),
            rig.placement().as_str(),
            rig.allowed().as_str()
        ),
        ("b", "a", "a")
    );
    assert_eq!(rig.open_all(1), "a");
    assert_eq!((rig.discoveries, rig.asked.len()), (0, 0));
}

/// Covers: E-217
#[test]
fn seeds_are_used_in_order() {
    let mut rig = Rig::new(options(), &["lb1", "lb2"], Listing::Error);
    assert_eq!(rig.open_all(3), "lb1 lb1 lb1");

    let mut rig = Rig::new(options(), &["lb1", "lb2"], Listing::Rows(three()));
    for host in ["a", "b", "c"] {
        rig.set(host, Behaviour::Down);
    }
    assert_eq!(rig.open_all(3), "lb1 lb1 lb1");
    rig.set("lb1", Behaviour::Down);
    assert_eq!(rig.open_all(2), "lb2 lb2");
    assert_eq!(
        (rig.placement().as_str(), rig.allowed().as_str()),
        ("lb2", "a b c lb1 lb2")
    );
}

/// Covers: E-230
#[test]
fn a_host_that_rejects_is_left_alone_and_told_apart_from_one_that_is_down() {
    let behaviours = [
        (Behaviour::Errors("28P01"), "28P01"),
        (Behaviour::Errors("53300"), "53300"),
        (Behaviour::Errors("3D000"), "3D000"),
        (Behaviour::Errors("57P03"), "57P03"),
        (Behaviour::BreaksTls, "closed"),
    ];
    for (behaviour, word) in behaviours {
        let mut rig = behind_a_balancer(keyed(ZONE_THEN_REGION));
        rig.take_lines();
        rig.set("a", behaviour);
        let hosts = rig.open_all(3);
        assert!(!hosts.contains('a'), "{hosts}");
        assert_eq!(rig.connects("a"), 1, "{behaviour:?}");
        assert_eq!(
            (rig.failed().as_str(), rig.rejected().as_str()),
            ("", "a"),
            "{behaviour:?}"
        );
        assert_eq!(
            (rig.placement().as_str(), rig.allowed().as_str()),
            ("b c", "a b c"),
            "{behaviour:?}"
        );
        let lines = rig.take_lines();
        let [(level, line)] = &lines[..] else {
            panic!("one line for one host: {lines:?}")
        };
        assert_eq!(format!("{level:?}"), "Warning");
        assert!(
            line.contains("a:5433") && line.contains(word) && !line.contains("could not connect"),
            "{line}"
        );
    }

    let mut rig = behind_a_balancer(keyed(ZONE_THEN_REGION));
    rig.take_lines();
    rig.set("a", Behaviour::Nameless);
    rig.open_all(1);
    assert_eq!((rig.failed().as_str(), rig.rejected().as_str()), ("a", ""));
    assert!(rig.take_lines()[0].1.contains("could not connect"));
}

#[test]
fn credentials_that_every_host_refuses_mark_none() {
    let mut rig = Rig::standard(options());
    for host in ["a", "b", "c"] {
        rig.set(host, Behaviour::Errors("28P01"));
    }
    rig.take_lines();
    rig.forget_connects();
    assert_eq!(rig.open(), Err(NotOpened::Connect("28P01".to_owned())));
    assert_eq!(["a", "b", "c"].map(|host| rig.connects(host)), [1, 1, 1]);
    assert_eq!(
        (rig.rejected().as_str(), rig.failed().as_str(), rig.take_lines()),
        ("", "", vec![])
    );
    assert!(rig.snapshot().pending.is_empty());
}

/// Covers: E-231
#[test]
fn a_host_that_starts_up_goes_from_down_to_rejected_to_working() {
    let mut rig = behind_a_balancer(options());
    rig.set("a", Behaviour::Down);
    rig.fail("a");
    rig.set("a", Behaviour::Errors("57P03"));
    rig.advance(millis(1000));
    rig.refresh();
    assert_eq!((rig.failed().as_str(), rig.rejected().as_str()), ("", "a"));
    assert_eq!(rig.placement(), "b c");
    let before = rig.connects("a");
    rig.open_all(3);
    assert_eq!(rig.connects("a"), before);

    rig.set("a", Behaviour::Up);
    rig.advance(millis(1000));
    rig.refresh();
    assert_eq!((rig.rejected().as_str(), rig.placement().as_str()), ("", "a b c"));
}

/// Covers: E-233
#[test]
fn without_discovery_rejecting_seeds_are_probed_and_come_back() {
    let mut rig = Rig::standard(off());
    rig.set("a", Behaviour::Down);
    rig.set("b", Behaviour::Errors("53300"));
    assert_eq!(rig.open_all(2), "c c");
    assert_eq!((rig.connects("a"), rig.connects("b")), (1, 1));

    rig.advance(millis(1100));
    rig.refresh();
    assert_eq!((rig.connects("a"), rig.connects("b")), (2, 2));
    assert_eq!((rig.failed().as_str(), rig.rejected().as_str()), ("a", "b"));

    rig.set("b", Behaviour::Up);
    rig.advance(millis(1000));
    rig.refresh();
    assert_eq!((rig.rejected().as_str(), rig.placement().as_str()), ("", "b"));
    assert_eq!(rig.open().as_deref(), Ok("b"));
}

#[test]
fn a_server_listed_twice_is_one_server() {
    let mut rows = three();
    rows.push(primary("a", "d"));
    let mut rig = Rig::new(options(), &["a"], Listing::Rows(rows));
    rig.settle();
    assert_eq!(rig.servers(), "a b c");
    rig.open_all(6);
    assert_eq!(rig.counts(), "a=2 b=2 c=2");
}

#[test]
fn a_seed_given_twice_is_one_seed() {
    let mut rig = Rig::new(off(), &["a", "b", "a"], Listing::NoFunction);
    rig.settle();
    assert_eq!(joined(&rig.snapshot().seeds), "a b");
    assert_eq!(rig.pick(&[key("a"), key("b")], &[]), Err(NoHost::NoServer));
}

#[test]
fn an_empty_list_of_servers_changes_nothing() {
    let mut rig = Rig::new(options(), &["a"], Listing::Rows(vec![]));
    rig.settle();
    let known = rig.snapshot();
    assert!(rig.cluster.is_ready() && !known.discovered && known.discovering);
    assert_eq!(known.discovery.last_answer, Some(rig.now));
    assert_eq!(rig.open().as_deref(), Ok("a"));

    rig.listing = Listing::Rows(three());
    rig.refresh();
    rig.listing = Listing::Rows(vec![]);
    rig.refresh();
    assert_eq!(
        (rig.servers().as_str(), rig.snapshot().discovered),
        ("a b c", true)
    );
}

#[test]
fn settling_and_closing_what_was_never_there_is_harmless() {
    let mut rig = Rig::standard(options());
    rig.cluster.cancelled(&key("a"));
    rig.cluster.closed(&key("a"));
    rig.cluster.closed(&key("nobody"));
    rig.cluster.cancelled(&key("nobody"));
    assert_eq!(rig.counts(), "");
    assert!(rig.snapshot().pending.is_empty());
}

#[test]
fn a_cluster_without_seeds_has_no_server() {
    let mut rig = Rig::new(off(), &[], Listing::NoFunction);
    assert_eq!(rig.pick(&[], &[]), Err(NoHost::NoServer));
}

#[test]
fn a_server_found_after_a_plain_answer_is_used_and_keeps_being_used_after_another() {
    let mut rig = Rig::new(options(), &["a"], Listing::NoFunction);
    rig.settle();
    assert!(!rig.snapshot().discovering);

    rig.listing = Listing::Rows(three());
    rig.refresh();
    assert_eq!(
        (rig.servers().as_str(), rig.snapshot().discovering),
        ("a b c", true)
    );

    rig.listing = Listing::NoFunction;
    rig.refresh();
    assert_eq!(
        (rig.servers().as_str(), rig.snapshot().discovering),
        ("a b c", false)
    );
}
