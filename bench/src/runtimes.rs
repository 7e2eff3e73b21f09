//! The two kinds of runtime that are measured on.

use tokio::runtime::{Builder, Runtime};

/// Worker threads where tasks compete.
pub const WORKERS: usize = 2;

pub fn current_thread() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the system gives a runtime")
}

pub fn two_workers() -> Runtime {
    let runtime = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build();
    runtime.expect("the system gives a runtime")
}
