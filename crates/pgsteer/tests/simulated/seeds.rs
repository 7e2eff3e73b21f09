//! The configured hosts: in their order without discovery, and behind the servers with it.

use pgsteer::config::LoadBalance;
use pgsteer_sim::{Discovery, ServerSpec, Sim};

use crate::rig::*;

fn off() -> pgsteer::Config {
    abc().load_balance(LoadBalance::Off)
}

/// Covers: E-186
#[tokio::test(start_paused = true)]
async fn a_lone_server_that_failed_is_tried_at_once_all_the_same() {
    let sim = plain([ServerSpec::new("pg")]);
    let config = config(&["pg"])
        .load_balance(LoadBalance::Off)
        .failed_host_reconnect_delay_secs(30);
    let cluster = cluster(&sim, config).await;
    refuse(&sim.server("pg"));
    let error = cluster.connect().await.unwrap_err();
    assert_eq!(tried(&error), "pg down");
    let snapshot = cluster.snapshot();
    assert_eq!(
        (names(&snapshot.failed()), names(&snapshot.placement)),
        (vec!["pg"], vec!["pg"])
    );
    serve(&sim.server("pg"));
    assert_eq!(landing(&cluster).await, "pg");
    assert!(cluster.snapshot().failures.is_empty());
}

/// Covers: E-196
#[tokio::test(start_paused = true)]
async fn a_seed_stands_in_while_every_server_is_down() {
    let sim = three().server(ServerSpec::new("seed").unlisted()).build();
    let cluster = cluster(&sim, config(&["seed"]).yb_servers_refresh_interval(seconds(1))).await;
    ["a", "b", "c"].iter().for_each(|name| refuse(&sim.server(name)));
    assert_eq!(landing(&cluster).await, "seed");
    assert_eq!(names(&cluster.snapshot().placement), ["seed"]);
    assert_eq!(sorted(&cluster.snapshot().allowed), ["a", "b", "c", "seed"]);
    ["a", "b", "c"].iter().for_each(|name| serve(&sim.server(name)));
    within("they are found back", seconds(4), || {
        sorted(&cluster.snapshot().placement) == ["a", "b", "c"]
    })
    .await;
    assert_eq!(sorted(&cluster.snapshot().allowed), ["a", "b", "c"]);
}

/// Covers: E-198
#[tokio::test(start_paused = true)]
async fn a_seed_that_fails_after_every_server_changes_nothing() {
    let sim = three().server(ServerSpec::new("seed").unlisted()).build();
    let config = config(&["seed"])
        .connect_timeout(seconds(1))
        .yb_servers_refresh_interval(seconds(1));
    let cluster = cluster(&sim, config).await;
    ["a", "b", "c"].iter().for_each(|name| refuse(&sim.server(name)));
    let lists = || {
        let snapshot = cluster.snapshot();
        (
            names(&snapshot.placement).join(" "),
            sorted(&snapshot.allowed).join(" "),
        )
    };
    let on_the_seed = ("seed".to_owned(), "a b c seed".to_owned());
    for _ in 0..2 {
        assert_eq!(landing(&cluster).await, "seed");
    }
    assert_eq!(lists(), on_the_seed);
    ["a", "b", "c"]
        .iter()
        .for_each(|name| blackhole(&sim.server(name)));
    pass(millis(1500)).await;
    assert_eq!(lists(), on_the_seed);
    refuse(&sim.server("seed"));
    assert!(cluster.connect().await.is_err());
    assert_eq!(lists(), on_the_seed);
}

/// Covers: E-210
#[tokio::test(start_paused = true)]
async fn servers_out_of_reach_cost_one_open_and_no_more() {
    let sim = behind_lb();
    let cluster = cluster(&sim, config(&["lb"]).connect_timeout(millis(300))).await;
    let servers = ["a", "b", "c"];
    servers.iter().for_each(|name| blackhole(&sim.server(name)));
    let tries = || servers.map(|name| attempts(&sim, name));
    let (host, took) = timed(landing(&cluster)).await;
    assert_eq!((host.as_str(), tries()), ("lb", [1; 3]));
    assert!(
        took >= millis(900) && took < millis(1000),
        "each costs one connect timeout: {took:?}"
    );
    assert_eq!(sorted(&cluster.snapshot().failed()), servers);
    // The failures began an early refresh, which was too early to probe anything.
    for wait in [0, 0, 1200] {
        pass(millis(wait)).await;
        let (host, took) = timed(landing(&cluster)).await;
        assert!(host == "lb" && took < millis(250), "{host} after {took:?}");
    }
    let before = tries();
    cluster.refresh();
    pass(seconds(1)).await;
    assert_eq!(
        tries(),
        before.map(|tries| tries + 1),
        "a refresh probes each of them once"
    );
    for _ in 0..3 {
        let (host, took) = timed(landing(&cluster)).await;
        assert!(host == "lb" && took < millis(250), "{host} after {took:?}");
    }
    assert_eq!(tries(), before.map(|tries| tries + 1));
    assert_eq!(sorted(&cluster.snapshot().failed()), servers);
}

/// Covers: E-216
#[tokio::test(start_paused = true)]
async fn without_discovery_the_first_host_that_works_is_used() {
    let sim = three().build();
    let cluster = cluster(&sim, off().yb_servers_refresh_interval(seconds(1))).await;
    let lists = || {
        let snapshot = cluster.snapshot();
        [snapshot.failed(), snapshot.placement, snapshot.allowed].map(|keys| sorted(&keys).join(" "))
    };
    let four = open(&cluster, 4).await;
    assert_eq!(hosts_of(&four), ["a"; 4]);
    assert_eq!(lists(), ["", "a", "a"]);
    refuse(&sim.server("a"));
    let two = open(&cluster, 2).await;
    assert_eq!(hosts_of(&two), ["b"; 2]);
    assert_eq!(lists(), ["a", "b", "a b"]);
    refuse(&sim.server("b"));
    assert_eq!(landing(&cluster).await, "c");
    assert_eq!(lists(), ["a b", "c", "a c"]);
    serve(&sim.server("a"));
    within("a is found back", seconds(3), || lists() == ["b", "a", "a"]).await;
    assert_eq!(landing(&cluster).await, "a");
}

/// Covers: E-217
#[tokio::test(start_paused = true)]
async fn seeds_are_used_in_their_order() {
    let two_in_front = || {
        three()
            .server(ServerSpec::new("lb1").unlisted())
            .server(ServerSpec::new("lb2").unlisted())
            .build()
    };

    let sim = two_in_front();
    for server in sim.servers() {
        server.set_discovery(Discovery::Fail("58000".into()));
    }
    let failing = cluster(&sim, config(&["lb1", "lb2"])).await;
    let three = open(&failing, 3).await;
    assert_eq!(hosts_of(&three), ["lb1"; 3]);

    let sim = two_in_front();
    let cluster = cluster(&sim, config(&["lb1", "lb2"])).await;
    ["a", "b", "c"].iter().for_each(|name| refuse(&sim.server(name)));
    let three = open(&cluster, 3).await;
    assert_eq!(hosts_of(&three), ["lb1"; 3]);
    refuse(&sim.server("lb1"));
    let two = open(&cluster, 2).await;
    assert_eq!(hosts_of(&two), ["lb2"; 2]);
    assert_eq!(names(&cluster.snapshot().placement), ["lb2"]);
    assert_eq!(sorted(&cluster.snapshot().allowed), ["a", "b", "c", "lb1", "lb2"]);
}

/// Covers: E-185
#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_list_servers_makes_the_configured_hosts_all_there_is() {
    let sim = Sim::builder(1).server(ServerSpec::new("pg").port(5432)).build();
    sim.server("pg").set_discovery(Discovery::Missing);
    let cluster = cluster(&sim, config(&["pg"]).port(5432)).await;
    assert!(!cluster.snapshot().discovering);
    let connection = cluster.connect().await.unwrap();
    assert_eq!(
        pgsteer::ClusterConnection::host(&connection).to_string(),
        "pg:5432"
    );
}
