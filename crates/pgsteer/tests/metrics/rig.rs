//! A recorder of the test's own, and pools on a simulated server.

use std::future::Future;
use std::time::Duration;

use pgsteer::{Config, Pool};
use pgsteer_sim::{ServerSpec, Sim};

use crate::recorder::Kept;

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Runs a test in simulated time with a recorder that only it has.
pub(crate) fn recorded<Fut: Future<Output = ()>>(test: impl FnOnce(Kept) -> Fut) {
    let kept = Kept::default();
    let runtime = runtime();
    metrics::with_local_recorder(&kept, || runtime.block_on(test(kept.clone())));
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
}

pub(crate) fn sim() -> Sim {
    Sim::builder(1).server(ServerSpec::new("a")).build()
}

/// Tests run side by side, so each has an application of its own.
pub(crate) fn config(application: &str) -> Config {
    Config::yugabyte()
        .hosts(["a"])
        .user("app")
        .database("shop")
        .application_name(application)
        .failed_host_reconnect_delay_secs(1)
        .breaker_jitter(0.0)
}

/// A pool whose connections are all open.
pub(crate) async fn full(sim: &Sim, config: Config) -> Pool {
    let pool = Pool::start_in(config, sim.world()).unwrap();
    pool.ready(u32::MAX, 10 * SECOND).await.unwrap();
    pass(10 * MS).await;
    pool
}

pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Until the recorder has been told what there is now.
pub(crate) async fn next_look() {
    pass(SECOND + MS).await;
}
