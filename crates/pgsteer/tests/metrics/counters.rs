//! What has happened.

use pgsteer::{Conn, Error};
use pgsteer_sim::{Accept, Death, Effect, Scope, Script};

use crate::rig::{MS, SECOND, config, full, next_look, pass, recorded, sim};

#[test]
fn checkouts_and_connections_are_counted_once_each() {
    recorded(|kept| async move {
        let sim = sim();
        let pool = full(&sim, config("counts").pool_size(2)).await;
        for _ in 0..10 {
            drop(pool.get().await.unwrap());
            drop(pool.get_ref().await.unwrap());
            drop(pool.try_get().unwrap());
        }
        Conn::discard(pool.get().await.unwrap());
        next_look().await;
        next_look().await;
        assert_eq!(kept.number("checkouts_total", &[]), 31.0);
        assert_eq!(kept.number("connections_opened_total", &[]), 3.0);
        assert_eq!(
            kept.number("connections_closed_total", &["reason=discarded"]),
            1.0
        );
        assert_eq!(kept.number("connections_closed_total", &["reason=lost"]), 0.0);
        sim.server("a").terminate_all();
        drop(pool.get_timeout(SECOND).await.unwrap());
        next_look().await;
        assert_eq!(kept.number("connections_closed_total", &["reason=lost"]), 2.0);
        assert_eq!(
            kept.number("connections_closed_total", &["reason=discarded"]),
            1.0
        );
    });
}

#[test]
fn what_happened_between_the_last_look_and_the_end_is_counted_too() {
    recorded(|kept| async move {
        let sim = sim();
        let pool = full(&sim, config("end").pool_size(1)).await;
        next_look().await;
        drop(pool.get().await.unwrap());
        pool.close(SECOND).await;
        pass(10 * MS).await;
        assert_eq!(kept.number("checkouts_total", &[]), 1.0);
    });
}

#[test]
fn an_outage_is_a_trip_and_those_it_turns_away_are_counted() {
    recorded(|kept| async move {
        let sim = sim();
        sim.server("a").set_accept(Accept::Refuse);
        let config = config("outage").pool_size(1);
        let pool = pgsteer::Pool::start_in(config, sim.world()).unwrap();
        pass(4_500 * MS).await;
        for _ in 0..7 {
            let error = pool.get().await.unwrap_err();
            assert!(matches!(error, Error::CircuitOpen { .. }), "{error}");
        }
        // Further windows are no further trips.
        pass(10 * SECOND).await;
        assert_eq!(kept.number("breaker_trips_total", &[]), 1.0);
        assert_eq!(kept.number("checkouts_turned_away_total", &[]), 7.0);
        assert!(kept.number("opens_failed_total", &[]) >= 5.0);
        assert_eq!(kept.number("checkouts_total", &[]), 0.0);
    });
}

#[test]
fn callers_that_ran_out_of_time_are_counted() {
    recorded(|kept| async move {
        let sim = sim();
        let pool = full(&sim, config("exhausted").pool_size(1)).await;
        let held = pool.get().await.unwrap();
        for _ in 0..3 {
            pool.get_timeout(10 * MS).await.unwrap_err();
        }
        next_look().await;
        assert_eq!(kept.number("checkouts_timed_out_total", &[]), 3.0);
        drop(held);
    });
}

#[test]
fn what_came_back_unclean_is_counted_by_what_was_done() {
    recorded(|kept| async move {
        let sim = sim();
        let pool = full(&sim, config("unclean").pool_size(1)).await;
        let conn = pool.get().await.unwrap();
        conn.batch_execute("BEGIN").await.unwrap();
        drop(conn);
        for hangs in [
            Effect::Hang { cancellable: true },
            Effect::Hang { cancellable: false },
        ] {
            let conn = pool.get().await.unwrap();
            sim.server("a").script(Script::on("select 1", hangs).once());
            let query = tokio::time::timeout(MS, conn.batch_execute("SELECT 1")).await;
            assert!(query.is_err());
            drop(conn);
            pass(10 * SECOND).await;
        }
        let done = |done| kept.number("returns_cleaned_total", &[&format!("done={done}")]);
        assert_eq!(
            (done("rolled_back"), done("cancelled"), done("cut")),
            (1.0, 2.0, 1.0)
        );
    });
}

#[test]
fn transactions_run_again_and_commits_in_doubt_are_counted() {
    recorded(|kept| async move {
        let sim = sim();
        let pool = full(&sim, config("transactions").pool_size(1)).await;
        let run = || {
            pool.transaction(|tx| async move {
                tx.batch_execute("SELECT 1").await?;
                Ok::<_, Error>(())
            })
        };
        sim.server("a")
            .script(Script::on("select 1", Effect::error("40P01")).once());
        run().await.unwrap();
        let lost = Effect::DieAfter(Death::Fin, Scope::Session);
        sim.server("a").script(Script::on("commit", lost).once());
        run().await.unwrap_err();
        next_look().await;
        assert_eq!(kept.number("transactions_retried_total", &[]), 1.0);
        assert_eq!(kept.number("commits_unknown_total", &[]), 1.0);
    });
}

#[test]
fn commits_whose_outcome_was_found_are_counted_by_what_it_is() {
    recorded(|kept| async move {
        let sim = sim();
        let pool = full(&sim, config("found").pool_size(1).resolve_commit(true)).await;
        let before = Effect::DieBefore(Death::Fin, Scope::Session);
        let after = Effect::DieAfter(Death::Fin, Scope::Session);
        for effect in [before, after.clone(), after] {
            sim.server("a").script(Script::at("commit", effect).once());
            let found = pool.transaction(|tx| async move { tx.batch_execute("SELECT 1").await });
            found.await.unwrap();
        }
        next_look().await;
        let found = |outcome| kept.number("commits_found_total", &[&format!("outcome={outcome}")]);
        assert_eq!((found("committed"), found("aborted")), (2.0, 1.0));
        assert_eq!(kept.number("commits_unknown_total", &[]), 0.0);
    });
}

#[test]
fn hooks_that_fail_are_counted() {
    recorded(|kept| async move {
        let sim = sim();
        let config = config("hooks").on_return(|_| Box::pin(async { Err("no".into()) }));
        let pool = full(&sim, config.pool_size(1)).await;
        drop(pool.get().await.unwrap());
        next_look().await;
        assert_eq!(kept.number("hooks_failed_total", &[]), 1.0);
        assert_eq!(kept.number("connections_closed_total", &["reason=unclean"]), 1.0);
    });
}

#[test]
fn a_checkout_that_finds_a_connection_and_a_return_ask_for_no_number() {
    recorded(|kept| async move {
        let sim = sim();
        let pool = full(&sim, config("quick").pool_size(1)).await;
        next_look().await;
        let before = kept.asked();
        for _ in 0..1_000 {
            drop(pool.get().await.unwrap());
        }
        assert_eq!(kept.asked(), before);
        next_look().await;
        assert_eq!(kept.number("checkouts_total", &[]), 1_000.0);
    });
}
