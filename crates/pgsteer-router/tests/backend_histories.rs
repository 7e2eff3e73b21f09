//! Random histories of three backends that fail in every way there is, with requests that come, wait, are given up and come
//! to all kinds of ends. What must never happen is looked for all the while, and in the end everything is as it was. A failing
//! history prints its seed; `PGSTEER_SEED=<seed>` replays that one alone.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod backend_rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use backend_rig::{Backend, Door, MS, Manners, SECOND, World, ask, settle};
use fastrand::Rng;
use pgsteer_router::backend::{BackendAddress, BackendOptions, BackendSet, BorrowError, Routed};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const HISTORIES: u64 = 60;

struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay this history with PGSTEER_SEED={}", self.0);
        }
    }
}

/// Covers: S-29
#[test]
fn whatever_happens_no_slot_is_lost_no_bound_is_passed_and_every_answer_is_the_right_one() {
    let chosen = std::env::var("PGSTEER_SEED").ok();
    let seeds: Vec<u64> = match chosen {
        Some(text) => vec![text.parse().expect("a seed is a number")],
        None => (0..HISTORIES).collect(),
    };
    for seed in seeds {
        let _named = Named(seed);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(history(seed));
    }
}

fn between(random: &mut Rng, low: u64, high: u64) -> Duration {
    Duration::from_millis(random.u64(low..=high))
}

fn options(random: &mut Rng) -> BackendOptions {
    BackendOptions {
        max_size: random.u32(1..=6),
        min_idle: random.u32(0..=3),
        idle_timeout: random.bool().then(|| between(random, 500, 20_000)),
        max_lifetime: random.bool().then(|| between(random, 1_000, 30_000)),
        lifetime_jitter: random.f64() * 0.9,
        enable_health_check: random.u8(0..3) > 0,
        health_check_interval: between(random, 200, 5_000),
        health_check_timeout: between(random, 50, 1_500),
        connect_timeout: between(random, 100, 2_000),
        borrow_timeout: between(random, 50, 3_000),
        max_dials: random.u32(1..=6),
        failed_backend_delay: between(random, 50, 3_000),
        failure_threshold: random.u32(0..=6),
        close_timeout: between(random, 10, 2_000),
        ..BackendOptions::default()
    }
}

fn change(random: &mut Rng, backend: &Backend) {
    match random.u8(0..20) {
        0 => backend.door(Door::Refuse),
        1 => backend.door(Door::RefuseAfter(between(random, 1, 1_000))),
        2 => backend.door(Door::Hang),
        3 => backend.door(Door::Slow(between(random, 1, 2_500))),
        4 => backend.door(Door::NoDescriptors),
        5 => backend.kill(),
        6..9 => backend.door(Door::Open),
        9 => backend.manners(Manners::Silent),
        10 => backend.manners(Manners::SlowEcho(between(random, 1, 2_000))),
        11 => backend.manners(Manners::Garbage),
        12 => backend.manners(Manners::CloseAtOnce),
        13 => backend.manners(Manners::Chatty),
        14 => backend.manners(Manners::NeverLetsGo),
        15..18 => backend.manners(Manners::Echo),
        18 => backend.close_all(),
        _ => backend.speak(),
    }
}

/// One request, with whatever end the draw says. Returns whether an answer came, and came whole.
async fn request(set: BackendSet, backends: Vec<BackendAddress>, number: usize, mut random: Rng) -> bool {
    let patience = between(&mut random, 0, 4_000);
    let borrow = async {
        match random.u8(0..6) {
            0 => set.borrow_fresh().await,
            1 => set.borrow_other(&backends[random.usize(0..backends.len())]).await,
            _ => set.borrow().await,
        }
    };
    let Ok(Ok(mut routed)) = timeout(patience, borrow).await else {
        return false;
    };
    if random.u8(0..10) == 0 {
        return false;
    }
    let word = format!("request {number}");
    let answer = timeout(between(&mut random, 1, 2_000), ask(routed.io(), word.as_bytes())).await;
    match answer {
        Ok(Ok(answer)) if answer == word.as_bytes() => {
            if random.u8(0..20) > 0 {
                routed.answered();
            }
            true
        }
        // Garbage announces more than there is; nothing else may come in an answer's place.
        Ok(Ok(answer)) => panic!("{word} was answered by {answer:?}"),
        Ok(Err(error)) if routed.is_reused() && random.bool() => {
            drop(error);
            routed.stale();
            false
        }
        Ok(Err(error)) => {
            routed.failed(&error);
            false
        }
        Err(_) => {
            if random.bool() {
                routed.failed(&"no answer in time");
            }
            false
        }
    }
}

async fn history(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let world = World::default();
    let backends: Vec<Arc<Backend>> = ["a:1:1", "b:1:2", "c:1:5"].map(|text| world.backend(text)).into();
    let addresses: Vec<BackendAddress> = backends.iter().map(|backend| backend.address.clone()).collect();
    let mut list: Vec<_> = addresses
        .iter()
        .map(|address| (address.clone(), options(&mut random)))
        .collect();
    let set = BackendSet::start(list.clone(), world.dialer()).unwrap();
    let (mut requests, mut number) = (JoinSet::new(), 0);
    let answered = Arc::new(AtomicUsize::new(0));
    for _ in 0..random.u32(20..200) {
        match random.u8(0..10) {
            0..3 => {
                let one = random.usize(0..3);
                change(&mut random, &backends[one]);
            }
            3 if random.u8(0..4) == 0 => {
                // The same pools with other weights: so the bounds stay those of one pool each.
                for (address, _) in &mut list {
                    let weight = std::num::NonZeroU32::new(random.u32(1..10)).unwrap();
                    *address = address.clone().with_weight(weight);
                }
                set.update(list.clone()).unwrap();
            }
            3..5 => sleep(between(&mut random, 0, 3_000)).await,
            _ => {
                for _ in 0..random.u32(1..8) {
                    number += 1;
                    let request = request(set.clone(), addresses.clone(), number, random.fork());
                    let answered = Arc::clone(&answered);
                    requests.spawn(async move {
                        if request.await {
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
                if random.bool() {
                    settle().await;
                }
            }
        }
    }
    if random.bool() {
        requests.abort_all();
    }
    while let Some(ended) = requests.join_next().await {
        assert!(ended.is_ok() || ended.is_err_and(|error| error.is_cancelled()));
    }
    assert!(!backends.iter().any(|backend| backend.was_dialled_in_a_circle()));
    assert_all_is_well_again(&set, &backends, &list).await;
}

/// Once nothing ails the backends any more, every slot of every pool can be had, and at the end no socket is left.
async fn assert_all_is_well_again(
    set: &BackendSet,
    backends: &[Arc<Backend>],
    list: &[(BackendAddress, BackendOptions)],
) {
    for backend in backends {
        backend.door(Door::Open);
        backend.manners(Manners::Echo);
        backend.close_all();
    }
    let began = Instant::now();
    while set.status().iter().any(|status| status.left_out_for.is_some()) {
        assert!(
            began.elapsed() < 60 * SECOND,
            "not found well: {:?}",
            set.status()
        );
        sleep(100 * MS).await;
    }
    // Those that could not be dialled for a while, but served, have their rest too.
    sleep(15 * SECOND).await;
    let whole: usize = list.iter().map(|(_, options)| options.max_size as usize).sum();
    let mut held: Vec<Routed> = Vec::new();
    while held.len() < whole {
        match set.borrow().await {
            Ok(mut routed) => {
                assert_eq!(ask(routed.io(), b"last").await.unwrap(), b"last");
                held.push(routed);
            }
            // A pool that renews many connections at once may need more than a short borrow_timeout.
            Err(BorrowError::TimedOut(_)) if began.elapsed() < 300 * SECOND => {}
            Err(error) => panic!("{} of {whole}: {error}", held.len()),
        }
    }
    let status = set.status();
    for ((status, backend), (_, options)) in status.iter().zip(backends).zip(list) {
        assert_eq!(
            (status.in_use, status.waiting),
            (options.max_size, 0),
            "{status:?}"
        );
        assert_eq!(status.in_flight, u64::from(options.max_size));
        assert!(backend.most_sockets() <= options.max_size as usize, "{status:?}");
    }
    held.into_iter().for_each(Routed::answered);
    settle().await;
    for (status, backend) in set.status().iter().zip(backends) {
        assert_eq!(status.in_flight, 0);
        let open = status.open() + status.opening + status.closing;
        assert_eq!(backend.sockets(), open as usize, "{status:?}");
    }
    let closed = set.close(60 * SECOND).await;
    assert_eq!(closed.still_out, 0);
    assert!(backends.iter().all(|backend| backend.sockets() == 0));
}
