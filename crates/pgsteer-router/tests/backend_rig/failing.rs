//! Pools whose backends fail.

use pgsteer_router::backend::{BackendOptions, BackendPool, BreakerOptions};

use super::{ask, quiet};

/// With windows that are exactly as long as they are said to be.
pub fn exact() -> BackendOptions {
    let breaker = BreakerOptions {
        jitter: 0.0,
        ..BackendOptions::default().breaker
    };
    BackendOptions { breaker, ..quiet() }
}

pub fn is_left_out(pool: &BackendPool) -> bool {
    pool.status().left_out_for.is_some()
}

pub async fn answered(pool: &BackendPool) -> bool {
    let Ok(mut borrowed) = pool.borrow().await else {
        return false;
    };
    let answered = ask(borrowed.io(), b"word").await.is_ok();
    borrowed.release();
    answered
}
