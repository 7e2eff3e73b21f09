//! Where connections go: even spread, near zones first, and around what fails. Real connects through a cluster.

use pgsteer::config::{LoadBalance, TargetSessionAttrs};
use pgsteer::{Cluster, Refused};
use pgsteer_sim::{Death, Login, ServerSpec, Sim};

use crate::rig::*;

/// Covers: E-168
#[tokio::test(start_paused = true)]
async fn nine_connections_are_three_on_each_of_three_servers() {
    let sim = three().build();
    let cluster = cluster(&sim, abc()).await;
    let _open = open(&cluster, 9).await;
    assert_eq!(counted(&cluster.snapshot()), "a:3 b:3 c:3");
}

/// Covers: E-169
#[tokio::test(start_paused = true)]
async fn the_near_zone_is_used_until_it_fails() {
    let sim = three().build();
    let cluster = cluster(&sim, abc().topology_keys(NEAR_A)).await;
    let near = open(&cluster, 4).await;
    assert_eq!(hosts_of(&near), ["a"; 4]);
    refuse(&sim.server("a"));
    assert_ne!(landing(&cluster).await, "a");
    assert_eq!(names(&cluster.snapshot().failed()), ["a"]);
}

/// Covers: E-171
#[tokio::test(start_paused = true)]
async fn preferring_primaries_goes_on_beyond_the_only_places() {
    let sim = three().build();
    let config = abc()
        .topology_keys(NEAR_A)
        .load_balance(LoadBalance::PreferPrimary)
        .fallback_to_topology_keys_only(true);
    let cluster = cluster(&sim, config).await;
    refuse(&sim.server("a"));
    assert!(["b", "c"].contains(&landing(&cluster).await.as_str()));
}

/// Covers: E-172
#[tokio::test(start_paused = true)]
async fn a_host_that_lost_a_connection_gets_the_next_one() {
    let sim = three().build();
    let cluster = cluster(&sim, abc()).await;
    let _open = open(&cluster, 3).await;
    sim.server("b").terminate_all();
    until("the loss is noticed", || {
        counted(&cluster.snapshot()) == "a:1 c:1"
    })
    .await;
    assert!(
        cluster.snapshot().failures.is_empty(),
        "a lost connection marks nothing"
    );
    assert_eq!(landing(&cluster).await, "b");
}

/// Covers: E-173
#[tokio::test(start_paused = true)]
async fn placements_match_in_any_case() {
    let keys = ["gcp.us-east1.us-east1-b:1", "GCP.US-EAST1.US-EAST1-B:1"];
    let servers = [("gcp", "us-east1", "us-east1-"), ("GCP", "US-East1", "US-EAST1-")];
    for (keys, (cloud, region, zone)) in keys.into_iter().zip(servers.into_iter().rev()) {
        let server =
            |name, letter| ServerSpec::new(name).placement(cloud, region, &format!("{zone}{letter}"));
        let sim = Sim::builder(1)
            .server(server("a", "B"))
            .server(server("b", "C"))
            .server(server("c", "D"))
            .build();
        let cluster = cluster(&sim, abc().topology_keys(keys)).await;
        let open = open(&cluster, 4).await;
        assert_eq!(hosts_of(&open), ["a"; 4]);
        assert_eq!(names(&cluster.snapshot().placement), ["a"]);
        assert_eq!(names(&cluster.snapshot().allowed), ["a"]);
    }
}

/// Covers: E-174
#[tokio::test(start_paused = true)]
async fn a_connect_that_is_dropped_gives_its_reservation_back_and_marks_nothing() {
    let sim = three().build();
    let cluster = cluster(&sim, abc()).await;
    sim.servers().iter().for_each(blackhole);
    let connecting = tokio::spawn({
        let cluster = cluster.clone();
        async move { cluster.connect().await.map(drop) }
    });
    until("a host is reserved", || {
        cluster.snapshot().pending.values().sum::<u32>() == 1
    })
    .await;
    connecting.abort();
    assert!(connecting.await.unwrap_err().is_cancelled());
    assert!(cluster.snapshot().pending.is_empty());
    assert!(cluster.snapshot().failures.is_empty());
}

/// Covers: E-175
#[tokio::test(start_paused = true)]
async fn opens_that_went_past_a_failed_host_leave_no_reservation() {
    let sim = three().build();
    let cluster = cluster(&sim, abc()).await;
    refuse(&sim.server("a"));
    let three = open(&cluster, 3).await;
    assert!(!hosts_of(&three).contains(&"a"));
    assert!(cluster.snapshot().pending.is_empty());
}

/// Covers: E-188
#[tokio::test(start_paused = true)]
async fn writes_go_past_a_standby_to_the_first_primary() {
    let sim = plain([
        ServerSpec::new("pg1").standby(),
        ServerSpec::new("pg2"),
        ServerSpec::new("pg3"),
    ]);
    let cluster = cluster(&sim, writing(&["pg1", "pg2", "pg3"])).await;
    let four = open(&cluster, 4).await;
    assert_eq!(hosts_of(&four), ["pg2"; 4]);
    let snapshot = cluster.snapshot();
    assert_eq!(
        (names(&snapshot.failed()), names(&snapshot.read_only())),
        (vec![], vec!["pg1"])
    );
    assert_eq!(attempts(&sim, "pg3"), 0);
}

fn writing(seeds: &[&str]) -> pgsteer::Config {
    config(seeds)
        .load_balance(LoadBalance::Off)
        .target_session_attrs(TargetSessionAttrs::ReadWrite)
        .yb_servers_refresh_interval(seconds(2))
}

/// Covers: E-189
#[tokio::test(start_paused = true)]
async fn a_standby_is_probed_without_a_trace_until_it_is_promoted() {
    let sim = plain([ServerSpec::new("pg1").standby(), ServerSpec::new("pg2")]);
    let cluster = cluster(&sim, writing(&["pg1", "pg2"])).await;
    let _open = open(&cluster, 1).await;
    let before = attempts(&sim, "pg1");
    pass(seconds(25)).await;
    assert!(
        attempts(&sim, "pg1") >= before + 2,
        "it is asked again whenever what is known is older than 10 s"
    );
    assert_eq!(names(&cluster.snapshot().read_only()), ["pg1"]);
    assert_eq!(sim.server("pg1").counts().live, 0, "probes leave no session");
    sim.server("pg1").promote();
    pass(seconds(12)).await;
    assert!(cluster.snapshot().read_only().is_empty());
    assert_eq!(landing(&cluster).await, "pg1");
}

/// Covers: E-194
#[tokio::test(start_paused = true)]
async fn the_next_level_is_allowed_only_while_the_preferred_one_is_down() {
    let keys = "gcp.us-east1.us-east1-b:1,gcp.us-east1.us-east1-c:2,gcp.us-east1.us-east1-d:2";
    let sim = three().build();
    let config = abc()
        .topology_keys(keys)
        .connect_timeout(millis(500))
        .yb_servers_refresh_interval(seconds(1));
    let cluster = cluster(&sim, config).await;
    let lists = |cluster: &Cluster| {
        let snapshot = cluster.snapshot();
        (
            sorted(&snapshot.placement).join(" "),
            sorted(&snapshot.allowed).join(" "),
        )
    };
    assert_eq!(lists(&cluster), ("a".into(), "a".into()));
    refuse(&sim.server("a"));
    landing(&cluster).await;
    assert_eq!(lists(&cluster), ("b c".into(), "a b c".into()));
    blackhole(&sim.server("a"));
    pass(millis(1500)).await;
    assert_eq!(lists(&cluster), ("b c".into(), "a b c".into()));
    serve(&sim.server("a"));
    within("a is found back", seconds(3), || {
        lists(&cluster) == ("a".into(), "a".into())
    })
    .await;
}

/// Covers: E-195
#[tokio::test(start_paused = true)]
async fn another_host_of_the_near_zone_takes_over_alone() {
    let sim = three().server(in_zone("a2", "us-east1-b")).build();
    let cluster = cluster(&sim, abc().topology_keys(NEAR_A)).await;
    refuse(&sim.server("a"));
    let two = open(&cluster, 2).await;
    assert_eq!(hosts_of(&two), ["a2"; 2]);
    // Which of the two was tried first is drawn; whether a has failed follows from it.
    until("a has been tried", || {
        let snapshot = cluster.snapshot();
        names(&snapshot.failed()) == ["a"]
            && names(&snapshot.placement) == ["a2"]
            && sorted(&snapshot.allowed) == ["a", "a2"]
    })
    .await;
}

/// Covers: E-212
#[tokio::test(start_paused = true)]
async fn modes_that_forbid_others_refuse_although_a_seed_works() {
    let table = [
        (LoadBalance::OnlyPrimary, "", Refused::Primary),
        (LoadBalance::OnlyReplica, "", Refused::ReadReplica),
        (LoadBalance::Any, NEAR_A, Refused::Cluster),
    ];
    for (mode, keys, refused) in table {
        let sim = behind_lb();
        let config = config(&["lb"])
            .load_balance(mode)
            .topology_keys(keys)
            .fallback_to_topology_keys_only(!keys.is_empty());
        let cluster = cluster(&sim, config).await;
        ["a", "b", "c"].iter().for_each(|name| refuse(&sim.server(name)));
        for _ in 0..2 {
            match cluster.connect().await {
                Err(pgsteer::Error::NoNode(got)) => assert_eq!(got, refused, "{mode:?}"),
                other => panic!("{mode:?}: {other:?}"),
            }
        }
        let snapshot = cluster.snapshot();
        assert_eq!(names(&snapshot.placement), [""; 0], "{mode:?}");
        assert!(!snapshot.allowed.contains(&key("lb")), "{mode:?}");
    }
}

/// Covers: E-213
#[tokio::test(start_paused = true)]
async fn the_other_modes_land_on_the_seed_when_no_server_is_up() {
    let table = [
        (LoadBalance::Any, "", false),
        (LoadBalance::PreferPrimary, "", false),
        (LoadBalance::PreferReplica, "", false),
        (LoadBalance::Any, "", true),
        (LoadBalance::PreferPrimary, NEAR_A, true),
    ];
    for (mode, keys, only) in table {
        let sim = behind_lb();
        let config = config(&["lb"])
            .load_balance(mode)
            .topology_keys(keys)
            .fallback_to_topology_keys_only(only);
        let cluster = cluster(&sim, config).await;
        ["a", "b", "c"].iter().for_each(|name| refuse(&sim.server(name)));
        assert_eq!(landing(&cluster).await, "lb", "{mode:?} {keys:?} {only}");
        assert_eq!(
            names(&cluster.snapshot().placement),
            ["lb"],
            "{mode:?} {keys:?} {only}"
        );
    }
}

/// Covers: E-214
#[tokio::test(start_paused = true)]
async fn every_server_is_tried_once_before_the_seed() {
    let servers = ["s1", "s2", "s3", "s4", "s5"];
    let builder = servers
        .iter()
        .fold(Sim::builder(1), |sim, name| sim.server(ServerSpec::new(name)));
    let sim = builder.server(ServerSpec::new("lb").unlisted()).build();
    let cluster = cluster(&sim, config(&["lb"])).await;
    servers.iter().for_each(|name| sim.server(name).kill(Death::Fin));
    assert_eq!(landing(&cluster).await, "lb");
    for name in servers {
        assert_eq!(attempts(&sim, name), 1, "{name}");
    }
    assert_eq!(sorted(&cluster.snapshot().failed()), servers);
}

/// Covers: E-230
#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_the_login_is_left_out_and_is_not_called_down() {
    for code in ["28P01", "53300", "3D000", "57P03"] {
        let sim = behind_lb();
        let cluster = cluster(&sim, config(&["lb"]).topology_keys(NEAR_A)).await;
        sim.server("a").set_login(Login::fatal(code));
        for _ in 0..3 {
            assert!(["b", "c"].contains(&landing(&cluster).await.as_str()), "{code}");
        }
        let snapshot = cluster.snapshot();
        assert_eq!(attempts(&sim, "a"), 1, "{code}");
        assert_eq!(
            (names(&snapshot.failed()), names(&snapshot.rejected())),
            (vec![], vec!["a"]),
            "{code}"
        );
        assert_eq!(sorted(&snapshot.placement), ["b", "c"], "{code}");
        assert_eq!(sorted(&snapshot.allowed), ["a", "b", "c"], "{code}");
    }
    let sim = behind_lb();
    let cluster = cluster(&sim, config(&["lb"]).topology_keys(NEAR_A)).await;
    sim.set_name("a", pgsteer_sim::Resolution::Unknown);
    assert!(["b", "c"].contains(&landing(&cluster).await.as_str()));
    assert_eq!(
        names(&cluster.snapshot().failed()),
        ["a"],
        "a name that is gone cannot be connected to"
    );
}

/// Covers: E-231
#[tokio::test(start_paused = true)]
async fn a_host_that_is_starting_up_is_rejected_until_it_takes_connections() {
    let sim = behind_lb();
    let config = config(&["lb"])
        .topology_keys(NEAR_A)
        .yb_servers_refresh_interval(seconds(1));
    let cluster = cluster(&sim, config).await;
    sim.server("a").kill(Death::Fin);
    landing(&cluster).await;
    assert_eq!(names(&cluster.snapshot().failed()), ["a"]);
    sim.server("a").start();
    sim.server("a").set_login(Login::fatal("57P03"));
    within("a probe sees that it answers", seconds(3), || {
        names(&cluster.snapshot().rejected()) == ["a"]
    })
    .await;
    assert!(cluster.snapshot().failed().is_empty());
    let before = sim.server("a").counts().attempts;
    for _ in 0..3 {
        assert_ne!(landing(&cluster).await, "a");
    }
    assert_eq!(sim.server("a").counts().attempts, before, "no open tries it");
    sim.server("a").set_login(Login::Work);
    within("a probe clears it", seconds(3), || {
        cluster.snapshot().failures.is_empty()
    })
    .await;
    assert_eq!(landing(&cluster).await, "a");
}

/// Covers: E-233
#[tokio::test(start_paused = true)]
async fn without_discovery_hosts_that_fail_in_different_ways_come_back_in_their_order() {
    let sim = three().build();
    let config = abc().load_balance(LoadBalance::Off);
    let cluster = cluster(&sim, config).await;
    refuse(&sim.server("a"));
    sim.server("b").set_login(Login::fatal("53300"));
    for _ in 0..2 {
        assert_eq!(landing(&cluster).await, "c");
    }
    assert_eq!((attempts(&sim, "a"), attempts(&sim, "b")), (1, 1));
    pass(millis(1100)).await;
    cluster.refresh();
    pass(millis(50)).await;
    assert_eq!(
        (attempts(&sim, "a"), attempts(&sim, "b")),
        (2, 2),
        "each is probed once"
    );
    sim.server("b").set_login(Login::Work);
    pass(millis(1100)).await;
    cluster.refresh();
    within("b is found back", seconds(1), || {
        names(&cluster.snapshot().placement) == ["b"]
    })
    .await;
    assert_eq!(names(&cluster.snapshot().failed()), ["a"]);
    assert_eq!(landing(&cluster).await, "b");
}
