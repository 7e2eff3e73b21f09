//! What becomes of a transaction whose COMMIT was sent and whose answer did not come. The simulated servers keep one table
//! for all, so that it can be looked up afterwards what was really committed.

use pgsteer::Error;
use pgsteer_sim::{Death, Effect, Scope, Script, ServerSpec, Sim};

use crate::rig::*;
use crate::transactions::{backend, insert, one, options, script};

fn committed(sim: &Sim) -> bool {
    !sim.ledger().is_empty()
}

/// The server commits and dies, or dies before it commits: the caller cannot see which, and is told so.
///
/// Covers: E-301
#[tokio::test(start_paused = true)]
async fn a_connection_lost_at_commit_leaves_the_outcome_unknown_and_is_not_run_again() {
    let rows = [
        (Effect::DieAfter(Death::Fin, Scope::Session), true),
        (Effect::DieAfter(Death::Rst, Scope::Session), true),
        (Effect::DieBefore(Death::Fin, Scope::Session), false),
        (Effect::DieBefore(Death::Rst, Scope::Session), false),
        (Effect::fatal("57P01"), false),
        (Effect::error("08006"), false),
        (Effect::error("40003"), false),
        (Effect::error("XX000"), false),
    ];
    for (effect, done) in rows {
        let (sim, pool) = one().await;
        script(&sim, Script::on("commit", effect.clone()));
        let (runs, result) = insert(&pool, options()).await;
        let error = result.unwrap_err();
        assert!(
            matches!(error, Error::CommitOutcomeUnknown(_)),
            "{effect:?}: {error:?}"
        );
        assert!(error.to_string().contains("may have been done"), "{error}");
        assert_eq!((runs, committed(&sim)), (1, done), "{effect:?}");
        assert!(pool.snapshot().failed().is_empty(), "{effect:?}");
        until("the pool is whole", || pool.status().idle == 2).await;
    }
}

/// Covers: E-322
#[tokio::test(start_paused = true)]
async fn silence_at_the_commit_leaves_the_outcome_unknown_within_the_limit() {
    let limited_by = ["socket_timeout", "attempt_timeout"];
    let effects = [
        (Effect::Hang { cancellable: false }, false),
        (Effect::RunThenHang, true),
    ];
    for (limit, (effect, done)) in limited_by
        .iter()
        .flat_map(|limit| effects.iter().map(move |row| (limit, row)))
    {
        let sim = plain([ServerSpec::new("a")]);
        let (config, options) = match *limit {
            "socket_timeout" => (config(&["a"]).socket_timeout(millis(300)), options()),
            _ => (config(&["a"]), options().attempt_timeout(millis(300))),
        };
        let pool = full(&sim, config.pool_size(1)).await;
        let before = backend(&pool).await;
        script(&sim, Script::on("commit", effect.clone()).once());
        let ((runs, result), took) = timed(insert(&pool, options)).await;
        assert!(
            matches!(result, Err(Error::CommitOutcomeUnknown(_))),
            "{limit} {effect:?}: {result:?}"
        );
        assert_eq!((runs, committed(&sim)), (1, *done), "{limit} {effect:?}");
        assert!((millis(300)..millis(1000)).contains(&took), "{took:?}");
        until("the pool is whole", || pool.status().idle == 1).await;
        assert_ne!(backend(&pool).await, before);
    }
}
