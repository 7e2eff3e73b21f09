//! Who is told when the guard opens and closes.

use std::sync::{Arc, Mutex, OnceLock};

use pgsteer::ConnectionHealth;
use pgsteer::health::{Builder, Cause};

use crate::rig::{SECOND, exact, fail, pass, rejected, succeed};

/// What was told, in words.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn listen(&self, builder: Builder) -> Builder {
        let (opened, closed) = (self.clone(), self.clone());
        builder
            .on_open(move |open| {
                opened.say(format!("open for {:?}: {}", open.window, open.last_error));
            })
            .on_close(move |close| closed.say(format!("closed after {:?}", close.outage)))
    }

    fn say(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// Covers: B-33
#[tokio::test(start_paused = true)]
async fn each_window_and_each_end_of_an_outage_is_told_once() {
    crate::log_lines::install();
    let told = Told::default();
    let health = told.listen(exact()).build().unwrap();
    fail(&health, 5).await;
    for _ in 0..100 {
        rejected(&health).await;
    }
    pass(SECOND).await;
    fail(&health, 1).await;
    pass(2 * SECOND).await;
    succeed(&health).await;
    succeed(&health).await;
    assert_eq!(
        told.all(),
        [
            "open for 1s: connection refused",
            "open for 2s: connection refused",
            "closed after 3s"
        ]
    );
}

/// Covers: B-14
#[tokio::test(start_paused = true)]
async fn a_callback_may_use_the_guard() {
    crate::log_lines::install();
    let own: Arc<OnceLock<ConnectionHealth>> = Arc::default();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (within, saw) = (own.clone(), seen.clone());
    let health = exact()
        .on_open(move |open| {
            let health = within.get().unwrap();
            saw.lock().unwrap().push((health.is_open(), open.cause));
            health.sign_of_life();
        })
        .build()
        .unwrap();
    own.set(health.clone()).unwrap();
    fail(&health, 5).await;
    assert!(health.is_closed());
    assert_eq!(*seen.lock().unwrap(), [(true, Cause::Threshold)]);
}

/// Covers: B-14
#[tokio::test(start_paused = true)]
async fn a_callback_that_panics_takes_nobodys_result() {
    crate::log_lines::install();
    let health = exact()
        .on_open(|_| panic!("a callback"))
        .on_close(|_| panic!("another"))
        .build()
        .unwrap();
    fail(&health, 5).await;
    assert!(health.is_open());
    pass(SECOND).await;
    succeed(&health).await;
    assert!(health.is_closed());
}

/// Covers: B-14
#[tokio::test(start_paused = true)]
async fn work_that_a_callback_runs_behind_the_same_guard_is_rejected_and_not_stuck() {
    use futures_util::FutureExt;
    crate::log_lines::install();
    let own: Arc<OnceLock<ConnectionHealth>> = Arc::default();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (within, saw) = (own.clone(), seen.clone());
    let health = exact()
        .on_open(move |_| {
            let work = crate::rig::run(within.get().unwrap(), Ok(1)).now_or_never();
            saw.lock().unwrap().push(work.expect("it is not kept waiting"));
        })
        .build()
        .unwrap();
    own.set(health.clone()).unwrap();
    fail(&health, 5).await;
    let seen = seen.lock().unwrap();
    assert!(
        matches!(seen[..], [Err(pgsteer::Guarded::CircuitOpen(_))]),
        "{seen:?}"
    );
}
