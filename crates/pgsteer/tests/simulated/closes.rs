//! Why connections are no more: each is counted once, under its reason.

use pgsteer::config::LoadBalance;
use pgsteer::{Conn, Pool, Status, TargetSessionAttrs};
use pgsteer_sim::{Death, Effect, Script, ServerSpec, Sim};

use crate::rig::*;

fn one() -> pgsteer::Config {
    config(&["a"])
        .load_balance(LoadBalance::Off)
        .pool_size(1)
        .max_lifetime(seconds(86_400))
}

/// The reasons that have come up, with their counts; and nothing is missing.
fn gone(status: &Status) -> Vec<(&'static str, u64)> {
    let open = status.idle + status.leased + status.settling + status.closing;
    let totals = &status.totals;
    assert_eq!(
        totals.opened,
        totals.closes.total() + u64::from(open),
        "{status:?}"
    );
    let reasons = totals.closes.by_reason();
    reasons.filter(|(_, count)| *count > 0).collect()
}

async fn until_gone(pool: &Pool, count: u64) -> Vec<(&'static str, u64)> {
    within("they are gone", seconds(120), || {
        pool.status().totals.closes.total() == count
    })
    .await;
    gone(&pool.status())
}

#[tokio::test(start_paused = true)]
async fn one_whose_session_is_killed_is_lost_whether_somebody_holds_it_or_not() {
    let sim = three().build();
    let pool = full(&sim, one()).await;
    sim.kill_session(sessions(&sim)[0], Death::Rst);
    assert_eq!(until_gone(&pool, 1).await, [("lost", 1)]);
    let held = pool.get().await.unwrap();
    sim.kill_session(sessions(&sim)[0], Death::Rst);
    pass(seconds(1)).await;
    drop(held);
    assert_eq!(until_gone(&pool, 2).await, [("lost", 2)]);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_old_or_unused_goes_for_that() {
    let sim = three().build();
    let pool = full(&sim, one().max_lifetime(seconds(60))).await;
    assert_eq!(until_gone(&pool, 1).await, [("expired", 1)]);

    let config = one().pool_size(3).min_idle(0).idle_timeout(seconds(10));
    let pool = start(&sim, config);
    drop(pool.get().await.unwrap());
    assert_eq!(until_gone(&pool, 1).await, [("unused", 1)]);
}

#[tokio::test(start_paused = true)]
async fn one_that_evens_out_the_spread_or_may_not_stay_is_moved() {
    let sim = three().build();
    refuse(&sim.server("a"));
    let config = abc().pool_size(6).yb_servers_refresh_interval(seconds(1));
    let pool = full(&sim, config).await;
    serve(&sim.server("a"));
    assert_eq!(until_gone(&pool, 2).await, [("moved", 2)]);
}

#[tokio::test(start_paused = true)]
async fn one_whose_host_is_no_primary_any_more_is_unfit() {
    let sim = plain([ServerSpec::new("a"), ServerSpec::new("b").standby()]);
    let config = config(&["a", "b"]).load_balance(LoadBalance::Off).pool_size(1);
    let pool = full(&sim, config.target_session_attrs(TargetSessionAttrs::ReadWrite)).await;
    sim.server("b").promote();
    sim.server("a").demote();
    pool.cluster().refresh();
    let gone = until_gone(&pool, 1).await;
    assert!(
        matches!(gone[..], [("unfit" | "lost", 1)]),
        "the server may be quicker: {gone:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_application_does_away_with_is_told_from_what_it_takes_out() {
    let sim = three().build();
    let pool = full(&sim, one()).await;
    Conn::discard(pool.get().await.unwrap());
    assert_eq!(until_gone(&pool, 1).await, [("discarded", 1)]);
    drop(Conn::detach(pool.get().await.unwrap()));
    assert_eq!(until_gone(&pool, 2).await, [("discarded", 1), ("detached", 1)]);
    drop(pool.get().await.unwrap());
    pool.retire_all();
    assert_eq!(
        until_gone(&pool, 3).await,
        [("retired", 1), ("discarded", 1), ("detached", 1)]
    );
}

#[tokio::test(start_paused = true)]
async fn one_that_before_checkout_refuses_is_refused() {
    let sim = three().build();
    let pool = full(
        &sim,
        one().before_checkout(|candidate| candidate.age() < seconds(10)),
    )
    .await;
    pass(seconds(20)).await;
    drop(pool.get().await.unwrap());
    assert_eq!(until_gone(&pool, 1).await, [("refused", 1)]);
}

#[tokio::test(start_paused = true)]
async fn one_that_does_not_come_clean_is_told_by_how_it_went() {
    let sim = three().build();
    let fails = one().on_return(|_| Box::pin(async { Err("no".into()) }));
    let pool = full(&sim, fails).await;
    drop(pool.get().await.unwrap());
    assert_eq!(until_gone(&pool, 1).await, [("unclean", 1)]);

    let pool = full(&sim, one()).await;
    sim.server("a")
        .script(Script::on("silent", Effect::Hang { cancellable: false }).once());
    let conn = pool.get().await.unwrap();
    let query = tokio::time::timeout(millis(1), conn.batch_execute("SELECT 'silent'")).await;
    assert!(query.is_err());
    drop(conn);
    let gone = until_gone(&pool, 1).await;
    assert!(matches!(gone[..], [("cut", 1)]), "{gone:?}");
}

#[tokio::test(start_paused = true)]
async fn one_whose_call_took_too_long_has_timed_out() {
    let sim = three().build();
    let pool = full(&sim, one().socket_timeout(millis(300))).await;
    sim.server("a")
        .script(Script::on("silent", Effect::Delay(seconds(5))).once());
    pool.query("SELECT 'silent'", &[]).await.unwrap_err();
    assert_eq!(until_gone(&pool, 1).await, [("timed_out", 1)]);
}

#[tokio::test(start_paused = true)]
async fn what_goes_with_the_pool_went_with_the_pool() {
    let sim = three().build();
    let pool = full(&sim, one().pool_size(3)).await;
    let held = pool.get().await.unwrap();
    pool.close(seconds(1)).await;
    pass(seconds(1)).await;
    drop(held);
    let gone = until_gone(&pool, 3).await;
    assert_eq!(gone, [("cut", 1), ("shutdown", 2)], "the one held was cut");
}

#[tokio::test(start_paused = true)]
async fn attempts_at_a_transaction_and_unknown_commits_are_counted() {
    let sim: Sim = three().build();
    let pool = full(&sim, one()).await;
    let insert = |sql: &'static str| {
        pool.transaction(move |tx| async move {
            tx.batch_execute(sql).await?;
            Ok::<_, pgsteer::Error>(())
        })
    };
    sim.server("a")
        .script(Script::on("conflicts", Effect::error("40001")).times(2));
    insert("SELECT 'conflicts'").await.unwrap();
    let totals = pool.status().totals;
    assert_eq!((totals.transactions_retried, totals.commits_unknown), (2, 0));

    let lost = Effect::DieAfter(Death::Fin, pgsteer_sim::Scope::Session);
    sim.server("a").script(Script::on("commit", lost).once());
    let unknown = insert("SELECT 1").await.unwrap_err();
    assert!(
        matches!(unknown, pgsteer::Error::CommitOutcomeUnknown(_)),
        "{unknown}"
    );
    let totals = pool.status().totals;
    assert_eq!((totals.transactions_retried, totals.commits_unknown), (2, 1));
}
