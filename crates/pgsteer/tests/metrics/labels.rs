//! What tells pools apart.

use pgsteer::TargetSessionAttrs;

use crate::rig::{MS, SECOND, config, full, next_look, pass, recorded, sim};

#[test]
fn a_pool_is_told_by_application_database_and_target() {
    recorded(|kept| async move {
        let sim = sim();
        let pool = full(&sim, config("named").pool_size(1)).await;
        let reads = pool.with_target(TargetSessionAttrs::PreferStandby).unwrap();
        reads.ready(1, 10 * SECOND).await.unwrap();
        next_look().await;
        for target in ["any", "prefer-standby"] {
            let target = format!("target={target}");
            assert_eq!(
                kept.number("pool_size", &["pool=named,", "database=shop", &target]),
                1.0
            );
        }
    });
}

#[test]
fn pools_that_would_be_told_alike_are_numbered_for_as_long_as_both_are_there() {
    recorded(|kept| async move {
        let sim = sim();
        let first = full(&sim, config("twins").pool_size(1)).await;
        let second = full(&sim, config("twins").pool_size(2)).await;
        next_look().await;
        assert_eq!(kept.number("pool_size", &["pool=twins,"]), 1.0);
        assert_eq!(kept.number("pool_size", &["pool=twins-2,"]), 2.0);
        first.close(SECOND).await;
        drop(first);
        pass(10 * MS).await;
        let third = full(&sim, config("twins").pool_size(3)).await;
        next_look().await;
        assert_eq!(
            kept.number("pool_size", &["pool=twins,"]),
            3.0,
            "its name is free"
        );
        drop((second, third));
    });
}
