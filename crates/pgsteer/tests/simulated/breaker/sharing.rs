//! Pools on one cluster share its breaker.

use pgsteer::config::{ConfigError, TargetSessionAttrs};
use pgsteer::health::State;
use pgsteer::{Error, Pool};

use super::{breaker, exact, servers, start_again, state, stop, turned_away};
use crate::rig::*;

#[tokio::test(start_paused = true)]
async fn pools_on_one_cluster_dial_one_pass_a_window_between_them() {
    let sim = servers(&["a"]);
    let writes = full(&sim, exact(&["a"]).pool_size(2)).await;
    let reads = writes.with_target(TargetSessionAttrs::PreferStandby).unwrap();
    reads.ready(2, seconds(5)).await.unwrap();
    stop(&sim.server("a"));
    until("it opens", || breaker(&writes).state == State::Open).await;
    pass(millis(10)).await;
    let (dialled, trips) = (attempts(&sim, "a"), breaker(&writes).trips);
    for pool in [&writes, &reads] {
        turned_away(pool.get().await.unwrap_err());
    }
    pass(seconds(40)).await;
    let now = breaker(&reads);
    assert_eq!(now.trips, breaker(&writes).trips);
    assert!(now.trips > 4, "{now:?}");
    assert_eq!(attempts(&sim, "a") - dialled, u64::from(now.trips - trips));
    start_again(&sim.server("a"));
    until("both are served", || {
        writes.status().idle == 2 && reads.status().idle == 2
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_the_breaker_is_the_clusters() {
    let sim = servers(&["a"]);
    let cluster = cluster(&sim, exact(&["a"])).await;
    let rows = [
        (exact(&["a"]).breaker_threshold(4), "breaker_threshold"),
        (exact(&["a"]).breaker_base(millis(1)), "breaker_base"),
        (exact(&["a"]).breaker_cap(seconds(2)), "breaker_cap"),
        (exact(&["a"]).breaker_jitter(0.5), "breaker_jitter"),
    ];
    for (config, option) in rows {
        let Err(Error::Config(error)) = Pool::start_on(&cluster, config) else {
            panic!("{option} differs")
        };
        assert!(
            matches!(*error, ConfigError::InvalidOption { name, .. } if name == option),
            "{error}"
        );
    }
}

/// Who waits while somebody else's probe is on its way has nothing to wait for once that has failed.
#[tokio::test(start_paused = true)]
async fn callers_of_one_pool_are_told_at_once_when_the_probe_of_another_user_fails() {
    let sim = servers(&["a"]);
    stop(&sim.server("a"));
    let config = exact(&["a"])
        .breaker_base(seconds(30))
        .connect_timeout(seconds(2));
    let cluster = cluster(&sim, config.clone()).await;
    // It opens nothing by itself, so that the probe is not its own.
    let pool = Pool::start_on(&cluster, config.pool_size(1).min_idle(0)).unwrap();
    for _ in 0..5 {
        cluster.connect().await.unwrap_err();
    }
    pass(seconds(30)).await;
    blackhole(&sim.server("a"));
    let probe = tokio::spawn({
        let cluster = cluster.clone();
        async move { cluster.connect().await.map(drop) }
    });
    until("the probe is under way", || state(&cluster) == State::HalfOpen).await;
    // The failure brings no refresh with it then, which would wake the pool for a reason of its own.
    tokio::spawn({
        let cluster = cluster.clone();
        async move {
            pass(millis(1_500)).await;
            cluster.refresh();
        }
    });
    let (error, took) = timed(pool.get_timeout(seconds(20))).await;
    let (retry_after, _) = turned_away(error.unwrap_err());
    assert!(took <= seconds(2), "{took:?}");
    assert!(retry_after > seconds(59), "{retry_after:?}: the next window");
    assert!(matches!(probe.await.unwrap(), Err(Error::Connect(_))));
}
