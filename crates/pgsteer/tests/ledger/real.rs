//! Short runs on real servers.

use std::sync::Arc;
use std::time::Duration;

use crate::run::faults::Fault;
use crate::run::{Ha, Many, Outcome, Plan, Site, run};

/// From the environment, or a new one.
fn seed() -> u64 {
    match std::env::var("PGSTEER_SEED") {
        Ok(seed) => seed.parse().expect("PGSTEER_SEED is a number"),
        Err(_) => fastrand::u64(..),
    }
}

/// 32 callers transfer while each of these faults is done once, and one of the others that there are.
async fn each_once_and_another(site: impl Site + 'static, faults: &[Fault]) {
    let seed = seed();
    eprintln!("seed {seed}: PGSTEER_SEED={seed} cargo test -p pgsteer --test ledger");
    let others = site.faults().iter().filter(|fault| !faults.contains(fault));
    let others: Vec<Fault> = others.copied().collect();
    let mut faults = faults.to_vec();
    faults.extend(fastrand::Rng::with_seed(seed).choice(others));
    let plan = Plan {
        seed,
        faults,
        time: None,
        longest: Duration::from_millis(600),
        tasks: 32,
        resolve: None,
    };
    check(&run(Arc::new(site), plan).await);
}

/// All that was told is true, and there was something to tell.
fn check(outcome: &Outcome) {
    eprintln!("{outcome}");
    assert_eq!(outcome.wrong(), "", "seed {}", outcome.seed);
    for end in ["committed", "conflict", "connection lost", "rolled back"] {
        assert!(
            outcome.attempts.contains_key(end),
            "no attempt ended {end}: {outcome}"
        );
    }
    for (fault, times) in &outcome.faults {
        assert!(*times > 0, "no {fault}: {outcome}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_callers_are_told_is_true_of_servers_that_share_nothing() {
    let site = tokio::task::block_in_place(Many::start);
    let faults = [
        Fault::CrashBackend,
        Fault::Kill,
        Fault::FastStop,
        Fault::Freeze,
        Fault::Blackhole,
        Fault::Outage,
    ];
    each_once_and_another(site, &faults).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_callers_are_told_is_true_of_a_primary_that_fails_over() {
    let site = tokio::task::block_in_place(Ha::start);
    let faults = [
        Fault::CrashBackend,
        Fault::Kill,
        Fault::Freeze,
        Fault::Blackhole,
        Fault::PromoteAfterKill,
        Fault::PromoteAfterCancel,
    ];
    each_once_and_another(site, &faults).await;
}
