//! How long things took.

use crate::rig::{MS, SECOND, config, full, next_look, pass, recorded, sim};

#[test]
fn waits_are_told_by_those_that_had_to_wait_and_got_a_connection() {
    recorded(|kept| async move {
        let sim = sim();
        let pool = full(&sim, config("waits").pool_size(1)).await;
        let held = pool.get().await.unwrap();
        assert!(kept.values("checkout_wait_seconds").is_empty(), "it was there");
        let waiting = tokio::spawn({
            let pool = pool.clone();
            async move { pool.get().await.map(drop) }
        });
        pool.get_timeout(10 * MS).await.unwrap_err();
        pass(240 * MS).await;
        drop(held);
        waiting.await.unwrap().unwrap();
        assert_eq!(kept.values("checkout_wait_seconds"), [0.25]);
    });
}

#[test]
fn the_opening_of_each_connection_is_told_with_how_long_it_took() {
    recorded(|kept| async move {
        let sim = sim();
        sim.server("a").set_connect_latency(SECOND / 4);
        let pool = full(&sim, config("opens").pool_size(1)).await;
        next_look().await;
        assert_eq!(kept.values("connect_seconds"), [0.25]);
        drop(pool);
    });
}
