//! How failed hosts are found back: probes at refreshes, after their delay, one at a time and bounded.

use std::time::Duration;

use pgsteer::Cluster;
use pgsteer::config::LoadBalance;
use pgsteer_sim::{Accept, Event, Sim};
use tokio::time::Instant;

use crate::rig::*;

/// Covers: E-177
#[tokio::test(start_paused = true)]
async fn a_host_that_is_up_again_is_back_within_a_refresh_after_its_delay() {
    let sim = three().build();
    let cluster = cluster(&sim, abc().yb_servers_refresh_interval(seconds(1))).await;
    refuse(&sim.server("a"));
    let _open = open(&cluster, 6).await;
    assert_eq!(counted(&cluster.snapshot()), "b:3 c:3");
    serve(&sim.server("a"));
    within("a is found back", seconds(2), || {
        cluster.snapshot().failures.is_empty()
    })
    .await;
    assert_eq!(landing(&cluster).await, "a");
}

/// Refreshes every 20 ms, with servers behind a seed, so that discovery never dials `a`.
async fn refreshed(sim: &Sim, cap: Option<u64>) -> (Cluster, tokio::task::JoinHandle<()>) {
    let config = config(&["lb"])
        .topology_keys("gcp.us-east1.us-east1-b:1")
        .failed_host_max_delay_secs(cap);
    let cluster = cluster(sim, config).await;
    let refreshing = tokio::spawn({
        let cluster = cluster.clone();
        async move {
            loop {
                tokio::time::sleep(millis(20)).await;
                cluster.refresh();
            }
        }
    });
    (cluster, refreshing)
}

/// Fails `a`, lets its first probe fail, and says how long after the failure that was and when it was found back.
async fn found_back_after(sim: &Sim, cluster: &Cluster) -> (Duration, Duration) {
    refuse(&sim.server("a"));
    assert_ne!(landing(cluster).await, "a");
    let failed = Instant::now();
    let before = attempts(sim, "a");
    until("a is probed", || attempts(sim, "a") > before).await;
    let probed = failed.elapsed();
    serve(&sim.server("a"));
    until("a is found back", || cluster.snapshot().failures.is_empty()).await;
    assert_eq!(
        attempts(sim, "a"),
        before + 2,
        "one probe failed and one found it back"
    );
    (probed, failed.elapsed())
}

/// Covers: E-178
#[tokio::test(start_paused = true)]
async fn without_a_cap_probes_come_at_the_same_distance() {
    let sim = behind_lb();
    let (cluster, refreshing) = refreshed(&sim, None).await;
    let (probed, back) = found_back_after(&sim, &cluster).await;
    assert!(probed >= millis(950), "{probed:?}");
    assert!((millis(1900)..=millis(2700)).contains(&back), "{back:?}");
    refreshing.abort();
}

/// Covers: E-179
#[tokio::test(start_paused = true)]
async fn with_a_cap_the_distance_doubles() {
    let sim = behind_lb();
    let (cluster, refreshing) = refreshed(&sim, Some(4)).await;
    let (_, back) = found_back_after(&sim, &cluster).await;
    assert!((millis(2900)..=millis(3700)).contains(&back), "{back:?}");
    refreshing.abort();
}

/// Covers: E-181
#[tokio::test(start_paused = true)]
async fn without_a_delay_a_failure_is_probed_by_the_refresh_it_starts() {
    let sim = behind_lb();
    let config = config(&["lb"])
        .topology_keys(NEAR_A)
        .failed_host_reconnect_delay_secs(0);
    let cluster = cluster(&sim, config).await;
    pass(millis(1100)).await;
    // It refuses the open and, while the probe is on its way, begins to work.
    sim.server("a").set_connect_latency(millis(50));
    refuse(&sim.server("a"));
    assert_ne!(landing(&cluster).await, "a");
    pass(millis(20)).await;
    serve(&sim.server("a"));
    within("a is found back", millis(500), || {
        cluster.snapshot().failures.is_empty()
    })
    .await;
    pass(seconds(2)).await;
    assert_eq!(attempts(&sim, "a"), 2, "it was probed once");
}

/// Covers: E-183
#[tokio::test(start_paused = true)]
async fn without_discovery_the_timer_finds_a_host_back() {
    let sim = three().build();
    let started = Instant::now();
    let config = abc()
        .load_balance(LoadBalance::Off)
        .yb_servers_refresh_interval(seconds(2));
    let cluster = cluster(&sim, config).await;
    refuse(&sim.server("a"));
    assert_eq!(landing(&cluster).await, "b");
    serve(&sim.server("a"));
    tokio::time::sleep_until(started + millis(1500)).await;
    assert_eq!(
        names(&cluster.snapshot().failed()),
        ["a"],
        "the end of its delay alone changes nothing"
    );
    until("a is found back", || cluster.snapshot().failures.is_empty()).await;
    assert!(started.elapsed() >= millis(1900), "{:?}", started.elapsed());
}

/// Covers: E-184
#[tokio::test(start_paused = true)]
async fn without_an_interval_only_opens_find_a_host_back() {
    let sim = three().build();
    let config = abc()
        .load_balance(LoadBalance::Off)
        .yb_servers_refresh_interval(Duration::ZERO);
    let cluster = cluster(&sim, config).await;
    refuse(&sim.server("a"));
    assert_eq!(landing(&cluster).await, "b");
    serve(&sim.server("a"));
    pass(millis(1500)).await;
    assert_eq!(names(&cluster.snapshot().failed()), ["a"]);
    assert_eq!(landing(&cluster).await, "b");
    within("a is found back", seconds(1), || {
        cluster.snapshot().failures.is_empty()
    })
    .await;
}

/// Covers: E-205
#[tokio::test(start_paused = true)]
async fn a_hanging_probe_of_a_server_that_is_no_longer_listed_is_ended() {
    let sim = three().build();
    let cluster = cluster(&sim, config(&["a"]).connect_timeout(seconds(60))).await;
    refuse(&sim.server("c"));
    // Failures are noticed by opening: the fewest connections are on c for as long as it fails.
    let _open = open(&cluster, 3).await;
    sim.server("c").set_accept(Accept::Hang);
    let idle = tasks();
    pass(millis(1100)).await;
    cluster.refresh();
    until("c is probed", || attempts(&sim, "c") == 2).await;
    assert!(tasks() > idle, "the probe hangs");
    sim.server("c").unlist();
    cluster.refresh();
    until("c is forgotten", || cluster.snapshot().failures.is_empty()).await;
    until("the probe is gone", || tasks() == idle).await;
}

/// Covers: E-207
#[tokio::test(start_paused = true)]
async fn one_probe_at_a_time_within_its_limit_and_none_without_a_refresh() {
    let sim = behind_lb();
    let config = config(&["lb"]).topology_keys(NEAR_A).connect_timeout(millis(800));
    let cluster = cluster(&sim, config).await;
    blackhole(&sim.server("a"));
    let connecting = |after: Duration| {
        let cluster = cluster.clone();
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            landing(&cluster).await
        })
    };
    // Both are reserved on a while it works, and fail one after the other.
    let (first, second) = (connecting(Duration::ZERO), connecting(millis(780)));
    until("both are reserved", || {
        cluster.snapshot().pending.get(&key("a")) == Some(&2)
    })
    .await;
    until("the first has failed", || {
        names(&cluster.snapshot().failed()) == ["a"]
    })
    .await;
    let failed = Instant::now();
    tokio::time::sleep_until(failed + millis(700)).await;
    cluster.refresh();
    pass(millis(10)).await;
    assert_eq!(attempts(&sim, "a"), 2, "its delay is not over");
    let (_, _) = (first.await.unwrap(), second.await.unwrap());
    // The second failure moved the delay's end.
    let due = cluster.snapshot().failures[&key("a")].next_probe;
    tokio::time::sleep_until(Instant::from_std(due) + millis(1)).await;
    cluster.refresh();
    pass(millis(5)).await;
    assert_eq!(attempts(&sim, "a"), 3);
    let (snapshot, took) = timed(async { cluster.snapshot() }).await;
    assert!(took.is_zero() && names(&snapshot.failed()) == ["a"]);
    for _ in 0..12 {
        pass(millis(50)).await;
        cluster.refresh();
    }
    assert_eq!(
        attempts(&sim, "a"),
        3,
        "a second probe is not begun while one runs"
    );
    pass(seconds(3)).await;
    assert_eq!(attempts(&sim, "a"), 3, "none is begun without a refresh");
    assert_eq!(names(&cluster.snapshot().failed()), ["a"]);
    let idle = tasks();
    cluster.refresh();
    pass(millis(10)).await;
    assert_eq!(attempts(&sim, "a"), 4);
    assert!(tasks() > idle);
    cluster.stop();
    // The timer task goes with the probe.
    until("the probe is gone", || tasks() < idle).await;
}

/// Covers: E-208
#[tokio::test(start_paused = true)]
async fn a_probe_is_one_connect_that_is_closed_and_counts_nowhere() {
    let sim = three().build();
    let config = config(&["c", "a"]).load_balance(LoadBalance::Off);
    let cluster = cluster(&sim, config).await;
    refuse(&sim.server("c"));
    assert_eq!(landing(&cluster).await, "a");
    pass(millis(1100)).await;
    serve(&sim.server("c"));
    sim.clear_log();
    cluster.refresh();
    until("c is found back", || cluster.snapshot().failures.is_empty()).await;
    until("its connection is closed", || sim.live() == 0).await;
    let connects = sim
        .log()
        .iter()
        .filter(|entry| &*entry.server == "c" && entry.event == Event::Connected)
        .count();
    assert_eq!(connects, 1);
    let snapshot = cluster.snapshot();
    assert!(snapshot.counts.is_empty() && snapshot.pending.is_empty());
}

/// However busy an application is, a host that is down is dialled by probes alone: once per refresh.
#[tokio::test(start_paused = true)]
async fn a_host_that_is_down_for_an_hour_is_dialled_once_per_refresh_whatever_the_load() {
    let sim = three().build();
    // The seed answers discovery, so that only opens and probes could go to b.
    let pool = full(
        &sim,
        config(&["a"])
            .pool_size(6)
            .yb_servers_refresh_interval(seconds(60)),
    )
    .await;
    sim.server("b").kill(pgsteer_sim::Death::Rst);
    let started = Instant::now();
    let mut opens = 0;
    while started.elapsed() < seconds(3600) {
        pgsteer::Conn::discard(pool.get().await.expect("others work"));
        opens += 1;
        tokio::time::sleep(seconds(2)).await;
    }
    assert!(opens > 1500);
    let dialled = attempts(&sim, "b") - 2;
    // Two more were on their way when it died or were opened before that was known.
    assert!(
        (55..=66).contains(&dialled),
        "{dialled} dials in an hour of 60 refreshes"
    );
}
