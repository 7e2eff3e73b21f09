//! Where new connections go and where existing ones may stay, for every mode, keys or none, and every state of the hosts.

#![allow(clippy::expect_used, reason = "a test that cannot go on is to fail")]

mod hosts_rig;

use hosts_rig::{
    Listing, Rig, ZONE_THEN_REGION, ZONE_THEN_ZONES, joined, key, keyed, options, primary, replica, row,
};
use pgsteer_core::host::{HostKey, NodeType};
use pgsteer_core::hosts::{ClusterOptions, DiscoveredRow, FailureKind, LoadBalance, NoHost, Refused};
use pgsteer_core::topology::TopologyKeys;
use proptest::prelude::*;

const ZONE_B: &str = "gcp.us-east1.us-east1-b:1";
const ZONE_B_THEN_C: &str = "gcp.us-east1.us-east1-b:1,gcp.us-east1.us-east1-c:2";

fn west(host: &str, node_type: NodeType) -> DiscoveredRow {
    row(host, node_type, "us-west1", "b")
}

fn with(mode: LoadBalance, keys: &str, fallback_only: bool) -> ClusterOptions {
    ClusterOptions {
        load_balance: mode,
        fallback_only,
        ..keyed(keys)
    }
}

/// A cluster whose seed is none of its servers, with some of these down.
fn cluster(options: ClusterOptions, rows: Vec<DiscoveredRow>, down: &[&str]) -> Rig {
    let mut rig = Rig::new(options, &["seed"], Listing::Rows(rows));
    rig.settle();
    mark_down(&mut rig, down);
    rig
}

fn mark_down(rig: &mut Rig, hosts: &[&str]) {
    for host in hosts {
        rig.cluster
            .open_failed(&key(host), FailureKind::Down, "connection refused", rig.now);
    }
}

fn found_back(rig: &mut Rig, host: &str) {
    rig.cluster.opened(&key(host), None, rig.now);
}

/// Covers: E-100, E-101
#[test]
fn the_mode_picks_the_node_types() {
    use LoadBalance::{Any, OnlyPrimary, OnlyReplica, PreferPrimary, PreferReplica};
    let table: [(LoadBalance, &[&str], &str); 10] = [
        (Any, &[], "p r"),
        (OnlyPrimary, &[], "p"),
        (OnlyReplica, &[], "r"),
        (PreferPrimary, &[], "p"),
        (PreferReplica, &[], "r"),
        (PreferPrimary, &["p"], "r"),
        (PreferReplica, &["r"], "p"),
        (OnlyReplica, &["r"], ""),
        (OnlyPrimary, &["p"], ""),
        (Any, &["p"], "r"),
    ];
    for (mode, down, candidates) in table {
        let rig = cluster(
            with(mode, "", false),
            vec![primary("p", "b"), replica("r", "b")],
            down,
        );
        assert_eq!(rig.placement(), candidates, "{mode:?} without {down:?}");
    }
}

/// Covers: E-102, E-103, E-104, E-105
#[test]
fn the_lowest_level_that_has_a_working_server_is_used() {
    let table: [(bool, &[&str], &str); 4] = [
        (false, &[], "b"),
        (false, &["b"], "c"),
        (false, &["b", "c"], "w"),
        (true, &["b", "c"], ""),
    ];
    for (fallback_only, down, candidates) in table {
        let rows = vec![primary("b", "b"), primary("c", "c"), west("w", NodeType::Primary)];
        let rig = cluster(
            with(LoadBalance::Any, ZONE_THEN_REGION, fallback_only),
            rows,
            down,
        );
        assert_eq!(
            rig.placement(),
            candidates,
            "fallback only {fallback_only}, without {down:?}"
        );
    }
}

/// pb in zone b, pc in zone c, a replica rb in zone b and a replica rw in another region.
fn two_and_two() -> Vec<DiscoveredRow> {
    vec![
        primary("pb", "b"),
        primary("pc", "c"),
        replica("rb", "b"),
        west("rw", NodeType::ReadReplica),
    ]
}

/// Covers: E-106, E-108, E-110, E-111, E-112
#[test]
fn node_type_comes_before_place() {
    use LoadBalance::{OnlyPrimary, OnlyReplica, PreferPrimary, PreferReplica};
    let table: [(LoadBalance, &[&str], &str); 8] = [
        (PreferPrimary, &[], "pb"),
        (PreferPrimary, &["pb"], "pc"),
        (PreferPrimary, &["pb", "pc"], "rb rw"),
        (OnlyPrimary, &["pb"], ""),
        (PreferReplica, &[], "rb"),
        (PreferReplica, &["rb"], "rw"),
        (OnlyReplica, &["rb"], ""),
        (PreferReplica, &["rb", "rw"], "pb pc"),
    ];
    for (mode, down, candidates) in table {
        let rig = cluster(with(mode, ZONE_B, true), two_and_two(), down);
        assert_eq!(rig.placement(), candidates, "{mode:?} without {down:?}");
    }
}

/// Covers: E-113
#[test]
fn keys_of_one_preference_form_one_level() {
    let rows = vec![primary("a", "b"), primary("b", "c"), primary("c", "d")];
    let rig = cluster(with(LoadBalance::Any, ZONE_THEN_ZONES, false), rows, &["a"]);
    assert_eq!(rig.placement(), "b c");
}

/// b1 and b2 in zone b, c in zone c, w in another region.
fn two_b_one_c_one_west() -> Vec<DiscoveredRow> {
    vec![
        primary("b1", "b"),
        primary("b2", "b"),
        primary("c", "c"),
        west("w", NodeType::Primary),
    ]
}

/// Covers: E-114, E-116, E-118, E-119, E-120, E-121
#[test]
fn a_server_of_the_preferred_level_may_keep_its_connections_though_it_failed() {
    let table: [(&str, bool, &[&str], &str); 8] = [
        (ZONE_B_THEN_C, false, &["b1"], "b1 b2"),
        (ZONE_B_THEN_C, false, &[], "b1 b2"),
        (ZONE_B_THEN_C, false, &["b1", "b2"], "b1 b2 c"),
        (ZONE_B_THEN_C, false, &["b1", "b2", "c"], "b1 b2 c w"),
        (ZONE_B_THEN_C, true, &["b1", "b2", "c"], "b1 b2"),
        (ZONE_B_THEN_C, true, &["b1", "b2", "c", "w"], "b1 b2"),
        // nothing works: as if nothing had failed, and the seed
        (ZONE_B_THEN_C, false, &["b1", "b2", "c", "w"], "b1 b2 seed"),
        ("", false, &["b1"], "b1 b2 c w"),
    ];
    for (keys, fallback_only, down, allowed) in table {
        let rig = cluster(
            with(LoadBalance::Any, keys, fallback_only),
            two_b_one_c_one_west(),
            down,
        );
        assert_eq!(
            rig.allowed(),
            allowed,
            "{keys:?} {fallback_only} without {down:?}"
        );
    }
}

/// Covers: E-117, E-120
#[test]
fn an_unlisted_server_may_keep_nothing() {
    for down in [&[][..], &["b1", "b2"]] {
        let rows = vec![primary("b1", "b"), primary("b2", "b")];
        let rig = cluster(with(LoadBalance::Any, ZONE_B_THEN_C, true), rows, down);
        assert_eq!(rig.allowed(), "b1 b2", "without {down:?}");
    }
}

/// Covers: E-122
#[test]
fn nothing_is_allowed_when_no_server_is_in_the_only_places() {
    let rows = vec![west("w", NodeType::Primary)];
    let rig = cluster(with(LoadBalance::Any, ZONE_B, true), rows, &[]);
    assert_eq!((rig.allowed().as_str(), rig.placement().as_str()), ("", ""));
}

/// Covers: E-123, E-124, E-125
#[test]
fn the_other_node_type_is_allowed_only_while_the_preferred_one_is_down() {
    let rows = vec![primary("p1", "b"), primary("p2", "b"), replica("r", "b")];
    let mut rig = cluster(with(LoadBalance::PreferPrimary, "", false), rows, &["p1"]);
    assert_eq!(rig.allowed(), "p1 p2");
    mark_down(&mut rig, &["p2"]);
    assert_eq!(rig.allowed(), "p1 p2 r");
    mark_down(&mut rig, &["r"]);
    assert_eq!(rig.allowed(), "p1 p2 seed");
    found_back(&mut rig, "p2");
    assert_eq!(rig.allowed(), "p1 p2");
}

/// Covers: E-127
#[test]
fn the_only_replica_stays_allowed_while_it_is_down() {
    let rows = vec![primary("p", "b"), replica("r", "b")];
    let rig = cluster(with(LoadBalance::OnlyReplica, "", false), rows, &["r"]);
    assert_eq!(rig.allowed(), "r");
}

/// Covers: E-128
#[test]
fn a_fallback_level_is_allowed_until_the_preferred_one_is_found_back() {
    let rows = vec![primary("a", "b"), primary("b", "c"), primary("c", "d")];
    let mut rig = cluster(with(LoadBalance::Any, ZONE_THEN_ZONES, true), rows, &["a"]);
    assert_eq!(rig.allowed(), "a b c");
    mark_down(&mut rig, &["b", "c"]);
    assert_eq!(rig.allowed(), "a");
    found_back(&mut rig, "a");
    assert_eq!(rig.allowed(), "a");
}

/// Covers: E-129
#[test]
fn a_preferring_mode_leaves_the_places_before_the_node_type() {
    let rig = cluster(
        with(LoadBalance::PreferPrimary, ZONE_B, true),
        two_and_two(),
        &["pb"],
    );
    assert_eq!(rig.allowed(), "pb pc");
}

/// A level has every member that matches one of its keys, also a failed one that a lower level has too.
#[test]
fn a_failed_server_that_also_matches_the_level_in_use_is_allowed() {
    let keys = format!("{ZONE_B_THEN_C},gcp.us-east1.*:3");
    let rows = vec![
        primary("one", "b"),
        primary("two", "c"),
        primary("three", "d"),
        west("w", NodeType::Primary),
    ];
    let rig = cluster(with(LoadBalance::Any, &keys, false), rows, &["one", "two"]);
    assert_eq!(
        (rig.placement().as_str(), rig.allowed().as_str()),
        ("three", "one two three")
    );
}

#[test]
fn the_levels_of_the_servers_are_told() {
    let rig = cluster(
        with(LoadBalance::Any, ZONE_B_THEN_C, false),
        two_b_one_c_one_west(),
        &[],
    );
    let levels: Vec<(String, Option<u8>)> = rig
        .snapshot()
        .levels
        .into_iter()
        .map(|(host, level)| (host.name().to_owned(), level))
        .collect();
    let expected = [("b1", Some(1)), ("b2", Some(1)), ("c", Some(2)), ("w", None)];
    assert_eq!(levels, expected.map(|(host, level)| (host.to_owned(), level)));
}

/// One row of the truth table: the order in which hosts are used up, and what a pick says in the end.
struct Row {
    mode: LoadBalance,
    keys: &'static str,
    /// What `fallback_only` may be for the row to hold.
    fallback_only: &'static [bool],
    discovered: bool,
    order: &'static [&'static str],
    end: NoHost,
}

const EITHER: &[bool] = &[false, true];

/// Three primaries and three replicas: the first of each in the preferred zone, the second in the next, the third in none.
fn six() -> Vec<DiscoveredRow> {
    vec![
        primary("p1", "b"),
        primary("p2", "c"),
        west("p3", NodeType::Primary),
        replica("r1", "b"),
        replica("r2", "c"),
        west("r3", NodeType::ReadReplica),
    ]
}

fn truth_table() -> Vec<Row> {
    use LoadBalance::{Any, Off, OnlyPrimary, OnlyReplica, PreferPrimary, PreferReplica};
    const K: &str = ZONE_B_THEN_C;
    let no_server = NoHost::NoServer;
    let refuse = NoHost::NoNode;
    let row = |mode, keys, fallback_only, order, end| Row {
        mode,
        keys,
        fallback_only,
        discovered: true,
        order,
        end,
    };
    let mut rows = vec![
        row(Any, "", EITHER, &["p1 p2 p3 r1 r2 r3", "s1", "s2"], no_server),
        row(
            Any,
            K,
            &[false],
            &["p1 r1", "p2 r2", "p3 r3", "s1", "s2"],
            no_server,
        ),
        row(Any, K, &[true], &["p1 r1", "p2 r2"], refuse(Refused::Cluster)),
        row(OnlyPrimary, "", EITHER, &["p1 p2 p3"], refuse(Refused::Primary)),
        row(
            OnlyPrimary,
            K,
            &[false],
            &["p1", "p2", "p3"],
            refuse(Refused::Primary),
        ),
        row(OnlyPrimary, K, &[true], &["p1", "p2"], refuse(Refused::Primary)),
        row(
            OnlyReplica,
            "",
            EITHER,
            &["r1 r2 r3"],
            refuse(Refused::ReadReplica),
        ),
        row(
            OnlyReplica,
            K,
            &[false],
            &["r1", "r2", "r3"],
            refuse(Refused::ReadReplica),
        ),
        row(
            OnlyReplica,
            K,
            &[true],
            &["r1", "r2"],
            refuse(Refused::ReadReplica),
        ),
        row(
            PreferPrimary,
            "",
            EITHER,
            &["p1 p2 p3", "r1 r2 r3", "s1", "s2"],
            no_server,
        ),
        row(
            PreferPrimary,
            K,
            EITHER,
            &["p1", "p2", "p3", "r1 r2 r3", "s1", "s2"],
            no_server,
        ),
        row(
            PreferReplica,
            "",
            EITHER,
            &["r1 r2 r3", "p1 p2 p3", "s1", "s2"],
            no_server,
        ),
        row(
            PreferReplica,
            K,
            EITHER,
            &["r1", "r2", "r3", "p1 p2 p3", "s1", "s2"],
            no_server,
        ),
    ];
    for mode in [Off, Any, OnlyPrimary, OnlyReplica, PreferPrimary, PreferReplica] {
        for keys in ["", K] {
            let order = &["s1", "s2"];
            rows.push(Row {
                mode,
                keys,
                fallback_only: EITHER,
                discovered: false,
                order,
                end: no_server,
            });
        }
    }
    rows
}

fn each_case(check: impl Fn(&Row, Rig, &str)) {
    for row in truth_table() {
        for fallback_only in row.fallback_only {
            let listing = if row.discovered {
                Listing::Rows(six())
            } else {
                Listing::Error
            };
            let mut rig = Rig::new(with(row.mode, row.keys, *fallback_only), &["s1", "s2"], listing);
            rig.settle();
            assert_eq!(rig.snapshot().discovered, row.discovered);
            let name = format!(
                "{:?}, keys {:?}, fallback only {fallback_only}",
                row.mode, row.keys
            );
            check(&row, rig, &name);
        }
    }
}

/// Every host that picks come to, with these tried.
fn picked(rig: &mut Rig, tried: &[HostKey]) -> Result<String, NoHost> {
    let mut hosts = Vec::new();
    for _ in 0..64 {
        let host = rig.pick(tried, &[])?;
        rig.cluster.cancelled(&host);
        hosts.push(host);
    }
    hosts.sort();
    hosts.dedup();
    Ok(joined(&hosts))
}

/// Covers: E-212, E-213
#[test]
fn hosts_that_fail_are_used_up_in_the_order_of_the_truth_table() {
    each_case(|row, mut rig, name| {
        for hosts in row.order {
            assert_eq!(rig.placement(), *hosts, "{name}");
            assert_eq!(picked(&mut rig, &[]).as_deref(), Ok(*hosts), "{name}");
            mark_down(&mut rig, &hosts.split(' ').collect::<Vec<_>>());
        }
        if row.end == NoHost::NoServer {
            // the last resort: failed seeds, in order
            assert_eq!(rig.placement(), "s1", "{name}");
            assert_eq!(picked(&mut rig, &[]).as_deref(), Ok("s1"), "{name}");
            assert_eq!(picked(&mut rig, &[key("s1")]).as_deref(), Ok("s2"), "{name}");
        } else {
            assert_eq!(rig.placement(), "", "{name}");
        }
        assert_eq!(picked(&mut rig, &[key("s1"), key("s2")]), Err(row.end), "{name}");
    });
}

#[test]
fn hosts_that_were_tried_are_used_up_in_the_order_of_the_truth_table() {
    each_case(|row, mut rig, name| {
        let mut tried = Vec::new();
        for hosts in row.order {
            assert_eq!(
                picked(&mut rig, &tried).as_deref(),
                Ok(*hosts),
                "{name} after {tried:?}"
            );
            tried.extend(hosts.split(' ').map(key));
        }
        assert_eq!(picked(&mut rig, &tried), Err(row.end), "{name}");
        let nothing_reserved = rig.snapshot().pending.is_empty();
        assert!(
            nothing_reserved,
            "{name}: a pick that finds nothing reserves nothing"
        );
    });
}

#[test]
fn a_server_that_is_also_a_seed_is_not_tried_a_second_time_as_a_seed() {
    let mut rig = Rig::new(
        options(),
        &["a", "s"],
        Listing::Rows(vec![primary("a", "b"), primary("b", "c")]),
    );
    rig.settle();
    assert_eq!(rig.pick(&[key("a"), key("b")], &[]), Ok(key("s")));
    assert_eq!(
        rig.pick(&[key("a"), key("b"), key("s")], &[]),
        Err(NoHost::NoServer)
    );
}

/// Covers: E-235
#[test]
fn avoiding_hosts_never_leaves_their_level() {
    let rows = vec![
        primary("a", "b"),
        primary("a2", "b"),
        primary("b", "c"),
        primary("c", "d"),
    ];
    let mut rig = cluster(with(LoadBalance::Any, ZONE_THEN_REGION, false), rows, &[]);
    assert_eq!(rig.picks(&["a"], 40), "a2");
    assert_eq!(rig.picks(&["a", "a2"], 40), "a a2");
    assert_eq!(rig.picks(&["a", "a2", "b", "c"], 40), "a a2");
    assert_eq!(rig.open_avoiding(&["a"]).as_deref(), Ok("a2"));
}

/// Covers: E-237
#[test]
fn avoiding_hosts_never_changes_the_node_type() {
    let rows = vec![primary("a", "b"), primary("a2", "b"), replica("r", "b")];
    let mut rig = cluster(with(LoadBalance::OnlyPrimary, "", false), rows, &[]);
    assert_eq!(rig.picks(&["a"], 40), "a2");
    assert_eq!(rig.picks(&["a", "a2"], 40), "a a2");
}

/// Covers: E-238
#[test]
fn avoiding_hosts_never_changes_the_order_of_seeds() {
    let options = ClusterOptions {
        load_balance: LoadBalance::Off,
        ..options()
    };
    let mut rig = Rig::standard(options);
    assert_eq!(rig.picks(&["a"], 10), "a");
    assert_eq!(rig.open_avoiding(&["a"]).as_deref(), Ok("a"));
}

/// Covers: E-239
#[test]
fn avoiding_hosts_never_changes_the_tier() {
    let rows = vec![primary("a", "b"), primary("b", "c"), primary("c", "d")];
    let mut rig = cluster(options(), rows, &[]);
    assert_eq!(rig.picks(&["a", "b", "c"], 60), "a b c");
    mark_down(&mut rig, &["a", "b", "c"]);
    assert_eq!(rig.picks(&["seed"], 10), "seed");
}

/// Covers: E-240
#[test]
fn avoiding_hosts_never_turns_a_refusal_into_a_host_or_back() {
    let rows = vec![primary("a", "b"), primary("b", "c")];
    let mut rig = cluster(with(LoadBalance::Any, ZONE_B, true), rows, &[]);
    assert_eq!(rig.picks(&["a"], 10), "a");
    mark_down(&mut rig, &["a"]);
    for avoid in [&[][..], &["a"]] {
        assert_eq!(rig.pick(&[], avoid), Err(NoHost::NoNode(Refused::Cluster)));
    }
}

#[test]
fn hosts_nobody_has_heard_of_may_be_tried_and_avoided() {
    let mut rig = Rig::standard(options());
    assert_eq!(rig.picks(&["elsewhere"], 40), "a b c");
    assert!(rig.pick(&[key("elsewhere")], &[]).is_ok());
}

/// Covers: E-019, E-020, E-021, E-023, E-025
#[test]
fn modes_are_read_in_their_hyphenated_spelling_only() {
    use LoadBalance::{Any, Off, OnlyPrimary, OnlyReplica, PreferPrimary, PreferReplica};
    let spellings = [
        ("true", Any),
        ("false", Off),
        ("any", Any),
        ("only-primary", OnlyPrimary),
        ("only-rr", OnlyReplica),
        ("prefer-primary", PreferPrimary),
        ("prefer-rr", PreferReplica),
        ("Prefer-Primary", PreferPrimary),
        ("ANY", Any),
        ("FALSE", Off),
    ];
    for (text, mode) in spellings {
        assert_eq!(LoadBalance::parse_text(text), Some(mode), "{text}");
        assert_eq!(LoadBalance::parse_text(&mode.to_string()), Some(mode), "{text}");
    }
    for text in [
        "sometimes",
        "",
        " any",
        "only_primary",
        "only_rr",
        "prefer_primary",
        "prefer_rr",
        "ＡＮＹ",
    ] {
        assert_eq!(LoadBalance::parse_text(text), None, "{text:?}");
    }
    assert_eq!(OnlyReplica.to_string(), "only-rr");
    assert_eq!(Any.to_string(), "any");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..ProptestConfig::default() })]

    /// Existing connections never have to leave a host that new ones may go to, the last resort aside.
    #[test]
    fn wherever_connections_go_they_may_stay(
        mode in prop::sample::select(vec![
            LoadBalance::Off, LoadBalance::Any, LoadBalance::OnlyPrimary, LoadBalance::OnlyReplica,
            LoadBalance::PreferPrimary, LoadBalance::PreferReplica,
        ]),
        keys in prop::sample::select(vec!["", ZONE_B, ZONE_B_THEN_C, ZONE_THEN_REGION]),
        fallback_only: bool,
        down in prop::collection::vec(prop::sample::select(vec!["p1", "p2", "p3", "r1", "r2", "r3", "s1", "s2"]), 0..9),
    ) {
        let options = ClusterOptions {
            load_balance: mode,
            topology_keys: TopologyKeys::parse(keys).expect("keys of a test"),
            fallback_only,
            ..options()
        };
        let mut rig = Rig::new(options, &["s1", "s2"], Listing::Rows(six()));
        rig.settle();
        mark_down(&mut rig, &down);
        let known = rig.snapshot();
        for host in &known.placement {
            prop_assert!(known.allowed.contains(host), "{host} of {:?} {:?}", known.placement, known.allowed);
        }
    }
}
