//! What there is.

use crate::recorder::Kept;
use crate::rig::{MS, SECOND, config, full, next_look, pass, recorded, runtime, sim};

use pgsteer_sim::Accept;

#[test]
fn they_show_the_pool_as_it_is() {
    recorded(|kept| async move {
        let sim = sim();
        let pool = full(&sim, config("gauges").pool_size(3)).await;
        let held = [pool.get().await.unwrap(), pool.get().await.unwrap()];
        next_look().await;
        let state = |state| kept.number("connections", &[&format!("state={state}")]);
        assert_eq!(kept.number("pool_size", &[]), 3.0);
        assert_eq!((state("idle"), state("leased")), (1.0, 2.0));
        assert_eq!(
            (state("opening"), state("settling"), state("closing")),
            (0.0, 0.0, 0.0)
        );
        assert_eq!(kept.number("host_connections", &["host=a:5433"]), 3.0);
        assert_eq!(kept.number("waiting", &[]), 0.0);
        assert_eq!(kept.number("breaker_state", &[]), 0.0);

        let more = pool.get().await.unwrap();
        let waiting: Vec<_> = (0..2)
            .map(|_| {
                let pool = pool.clone();
                tokio::spawn(async move { pool.get().await.map(drop) })
            })
            .collect();
        next_look().await;
        assert_eq!((state("idle"), state("leased")), (0.0, 3.0));
        assert_eq!(kept.number("waiting", &[]), 2.0);
        drop((held, more));
        for waiting in waiting {
            waiting.await.unwrap().unwrap();
        }
        next_look().await;
        assert_eq!((state("idle"), kept.number("waiting", &[])), (3.0, 0.0));
    });
}

#[test]
fn they_show_the_breaker_and_the_host_that_has_nothing_any_more() {
    recorded(|kept| async move {
        let sim = sim();
        let pool = full(&sim, config("breaker").pool_size(1)).await;
        next_look().await;
        assert_eq!(kept.number("host_connections", &["host=a:5433"]), 1.0);
        sim.server("a").set_accept(Accept::Refuse);
        sim.server("a").terminate_all();
        pass(6 * SECOND).await;
        assert_eq!(kept.number("breaker_state", &[]), 2.0);
        assert_eq!(kept.number("host_connections", &["host=a:5433"]), 0.0);
        sim.server("a").set_accept(Accept::Serve);
        pass(3 * SECOND).await;
        assert_eq!(kept.number("breaker_state", &[]), 0.0);
        drop(pool.get().await.unwrap());
    });
}

#[test]
fn without_a_breaker_there_is_nothing_to_show_of_one() {
    recorded(|kept| async move {
        let sim = sim();
        let pool = full(&sim, config("unguarded").breaker_threshold(0).pool_size(1)).await;
        next_look().await;
        pool.close(SECOND).await;
        pass(10 * MS).await;
        let names = kept.names();
        assert!(!names.is_empty());
        assert!(!names.iter().any(|name| name.contains("breaker")), "{names:?}");
    });
}

#[test]
fn of_a_pool_that_is_gone_they_show_nothing() {
    recorded(|kept| async move {
        let sim = sim();
        let pool = full(&sim, config("gone").pool_size(2)).await;
        next_look().await;
        assert_eq!(kept.number("connections", &["state=idle"]), 2.0);
        drop(pool);
        pass(100 * MS).await;
        for name in kept.names() {
            let (name, labels) = name.trim_start_matches("pgsteer_").split_once('{').unwrap();
            let gauges = [
                "pool_size",
                "connections",
                "host_connections",
                "waiting",
                "breaker_state",
            ];
            if gauges.contains(&name) {
                let labels = labels.trim_end_matches('}');
                assert_eq!(kept.number(name, &[labels]), 0.0, "{name} {labels}");
            }
        }
        assert_eq!(kept.number("connections_closed_total", &["reason=shutdown"]), 2.0);
    });
}

/// As when the exporter is set up after the pool.
#[test]
fn a_recorder_that_comes_later_is_told_what_there_is_then() {
    let runtime = runtime();
    let sim = runtime.block_on(async { sim() });
    let pool = runtime.block_on(full(&sim, config("later").pool_size(2)));
    let kept = Kept::default();
    metrics::with_local_recorder(&kept, || runtime.block_on(next_look()));
    assert_eq!(kept.number("connections", &["state=idle"]), 2.0);
    runtime.block_on(pool.close(SECOND));
}
