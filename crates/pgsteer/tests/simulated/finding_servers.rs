//! Discovery: when it runs, what follows from it, and that nothing waits for it but the first open.

use std::time::Duration;

use pgsteer::config::LoadBalance;
use pgsteer::{Cluster, Error};
use pgsteer_sim::{Discovery, Effect, Script, ServerSpec, Sim};
use tokio::time::Instant;

use crate::rig::*;

/// Covers: E-190
#[tokio::test(start_paused = true)]
async fn a_cluster_is_ready_at_once_without_discovery_and_after_the_first_with_it() {
    let sim = three().build();
    let off = Cluster::start_in(abc().load_balance(LoadBalance::Off), sim.world()).unwrap();
    assert_eq!(timed(off.ready()).await.1, Duration::ZERO);
    assert!(!off.snapshot().discovering);

    slow_discovery(&sim, millis(700));
    let cluster = Cluster::start_in(abc(), sim.world()).unwrap();
    assert!(!cluster.snapshot().discovered);
    let (ready, took) = timed(cluster.ready()).await;
    ready.unwrap();
    assert_eq!(took, millis(700));
    assert!(cluster.snapshot().discovered);
}

fn slow_discovery(sim: &Sim, time: Duration) {
    for server in sim.servers() {
        server.script(Script::on("yb_servers", Effect::Delay(time)));
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_cluster_that_is_stopped_ends() {
    let sim = three().build();
    slow_discovery(&sim, seconds(5));
    let cluster = Cluster::start_in(abc(), sim.world()).unwrap();
    let waiting = tokio::spawn({
        let cluster = cluster.clone();
        async move { (cluster.ready().await, cluster.connect().await) }
    });
    pass(seconds(1)).await;
    cluster.stop();
    let (ready, connect) = waiting.await.unwrap();
    assert!(matches!(
        (ready, connect),
        (Err(Error::Closed), Err(Error::Closed))
    ));
}

/// Covers: E-192
#[tokio::test(start_paused = true)]
async fn replicas_only_uses_the_seeds_while_no_servers_are_known() {
    let sim = plain([ServerSpec::new("pg")]);
    let on_plain = cluster(&sim, config(&["pg"]).load_balance(LoadBalance::OnlyReplica)).await;
    assert_eq!(landing(&on_plain).await, "pg");
    assert!(!on_plain.snapshot().discovering);

    let sim = three().build();
    for server in sim.servers() {
        server.script(Script::on("yb_servers", Effect::Hang { cancellable: false }));
    }
    let config = abc()
        .load_balance(LoadBalance::OnlyReplica)
        .connect_timeout(seconds(1));
    let (failing, took) = timed(cluster(&sim, config)).await;
    // Three targets: the limit is a connect timeout for each, one for the names, and 5 s.
    assert!(took <= seconds(9), "{took:?}");
    assert!(["a", "b", "c"].contains(&landing(&failing).await.as_str()));
    assert!(!failing.snapshot().discovered);
}

/// Covers: E-193
#[tokio::test(start_paused = true)]
async fn a_server_that_is_no_longer_listed_is_no_longer_allowed() {
    let sim = three().build();
    let cluster = cluster(&sim, config(&["a"])).await;
    assert_eq!(sorted(&cluster.snapshot().allowed), ["a", "b", "c"]);
    sim.server("c").unlist();
    cluster.refresh();
    until("c is gone", || sorted(&cluster.snapshot().allowed) == ["a", "b"]).await;
}

/// Covers: E-220
#[tokio::test(start_paused = true)]
async fn a_refresh_by_hand_moves_the_next_scheduled_one() {
    let sim = three().build();
    let cluster = cluster(&sim, abc().yb_servers_refresh_interval(seconds(2))).await;
    pass(seconds(1)).await;
    cluster.refresh();
    pass(millis(10)).await;
    assert_eq!(discoveries(&sim), 2);
    pass(millis(1500)).await;
    assert_eq!(discoveries(&sim), 2, "the old timer is gone");
    pass(millis(600)).await;
    assert_eq!(discoveries(&sim), 3);
}

/// Covers: E-221
#[tokio::test(start_paused = true)]
async fn without_an_interval_each_open_looks_for_servers_unless_somebody_does() {
    let sim = three().build();
    let cluster = cluster(&sim, abc().yb_servers_refresh_interval(Duration::ZERO)).await;
    let so_far = discoveries(&sim);
    pass(millis(300)).await;
    assert_eq!(discoveries(&sim), so_far, "nobody opens, nobody looks");
    landing(&cluster).await;
    pass(millis(10)).await;
    assert_eq!(discoveries(&sim), so_far + 1);

    slow_discovery(&sim, seconds(1));
    let (_four, took) = timed(open(&cluster, 4)).await;
    assert!(took < millis(500), "opens do not wait for it: {took:?}");
    pass(millis(100)).await;
    assert_eq!(discoveries(&sim), so_far + 2);
    let _two = open(&cluster, 2).await;
    assert_eq!(discoveries(&sim), so_far + 2);
    pass(seconds(1)).await;
    landing(&cluster).await;
    pass(millis(10)).await;
    assert_eq!(discoveries(&sim), so_far + 3);
}

#[tokio::test(start_paused = true)]
async fn servers_that_make_no_sense_are_left_out_and_the_others_used() {
    let sim = three().build();
    let good = sim.table();
    let with = |change: fn(&mut pgsteer_sim::DiscoveryRow)| {
        let mut row = good[1].clone();
        change(&mut row);
        row
    };
    let rows = vec![
        good[0].clone(),
        with(|row| row.host = None),
        with(|row| row.port = Some(0)),
        with(|row| row.port = Some(70_000)),
        with(|row| row.host = Some(String::new())),
        good[0].clone(),
        good[2].clone(),
    ];
    for server in sim.servers() {
        server.set_discovery(Discovery::Rows(rows.clone()));
    }
    let pool = full(&sim, config(&["a"]).pool_size(4)).await;
    assert_eq!(placed(&pool.status()), "a:2 c:2");
}

#[tokio::test(start_paused = true)]
async fn no_rows_at_all_keep_what_is_known() {
    let sim = three().build();
    let cluster = cluster(&sim, abc()).await;
    for server in sim.servers() {
        server.set_discovery(Discovery::Rows(Vec::new()));
    }
    cluster.refresh();
    pass(seconds(1)).await;
    assert_eq!(sorted(&cluster.snapshot().allowed), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_discovery_that_fails_is_tried_again_at_once_a_second_while_connections_open() {
    let sim = three().build();
    let cluster = cluster(&sim, config(&["a"])).await;
    sim.servers()
        .iter()
        .for_each(|server| server.set_discovery(Discovery::Fail("58000".into())));
    cluster.refresh();
    pass(millis(50)).await;
    let (started, before) = (Instant::now(), discoveries(&sim));
    while started.elapsed() < seconds(10) {
        landing(&cluster).await;
        pass(millis(50)).await;
    }
    let rounds = (discoveries(&sim) - before) / 3;
    assert!((9..=10).contains(&rounds), "{rounds} discoveries in 10 s");
    let before = discoveries(&sim);
    pass(seconds(200)).await;
    assert_eq!(
        discoveries(&sim),
        before,
        "while nothing opens it waits for the interval"
    );
}
