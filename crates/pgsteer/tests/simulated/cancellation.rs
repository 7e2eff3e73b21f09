//! Futures dropped at any moment: nothing is lost, nobody is stuck, and nothing stays behind on the servers.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::SinkExt;
use pgsteer::{Conn, Pool};
use pgsteer_sim::Sim;
use tokio::task::JoinSet;

use crate::rig::*;

const CALLERS: u64 = 64;
const SIZE: u32 = 8;

/// How a future is given up.
#[derive(Clone, Copy, Debug)]
pub enum Patience {
    /// Polled this often, each time it was woken, and dropped at the end of the last poll.
    Polls(u32),
    /// Polled at every turn of the scheduler, and dropped after this many, perhaps between its waking and its poll.
    Turns(u32),
}

impl Patience {
    pub fn random(random: &mut fastrand::Rng) -> Self {
        match random.bool() {
            true => Patience::Polls(random.u32(0..4)),
            false => Patience::Turns(random.u32(0..12)),
        }
    }

    /// What the future came to, if it did in time.
    pub async fn with<T>(self, future: impl Future<Output = T>) -> Option<T> {
        let (left, hurried) = match self {
            Patience::Polls(polls) => (polls, false),
            Patience::Turns(turns) => (turns, true),
        };
        let mut left = left;
        let mut future = pin!(future);
        poll_fn(move |cx| {
            if left == 0 {
                return Poll::Ready(None);
            }
            left -= 1;
            match future.as_mut().poll(cx) {
                Poll::Ready(result) => Poll::Ready(Some(result)),
                Poll::Pending if left == 0 => Poll::Ready(None),
                Poll::Pending => {
                    if hurried {
                        cx.waker().wake_by_ref();
                    }
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// One caller's round: begins something and gives it up.
async fn round(pool: &Pool, random: &mut fastrand::Rng) {
    let patience = Patience::random(random);
    match random.u32(0..12) {
        0 => drop(patience.with(pool.get()).await),
        1 => drop(patience.with(pool.get_ref()).await),
        2 => drop(patience.with(pool.get_timeout(millis(random.u64(0..20)))).await),
        3 => drop(patience.with(pool.batch_execute("SELECT 1")).await),
        4 => drop(patience.with(pool.ready(random.u32(0..=SIZE), millis(5))).await),
        5 => drop(patience.with(pool.cluster().connect()).await),
        6 => drop(pool.try_get()),
        kind => {
            let Some(Ok(conn)) = patience.with(pool.get()).await else {
                return;
            };
            assert_eq!(
                Conn::transaction_status(&conn),
                Some(pgsteer::TransactionStatus::Idle)
            );
            let patience = Patience::random(random);
            match kind {
                7 => drop(
                    patience
                        .with(conn.query("SELECT generate_series(1, 50)", &[]))
                        .await,
                ),
                8 => drop(
                    patience
                        .with(conn.batch_execute("BEGIN; INSERT INTO ledger VALUES (1, 'no')"))
                        .await,
                ),
                9 => drop(patience.with(conn.prepare("SELECT $1::int")).await),
                10 => {
                    let copying = async {
                        let sink = conn.copy_in::<_, bytes::Bytes>("COPY ledger FROM STDIN").await?;
                        let mut sink = pin!(sink);
                        sink.send("2\tno\n".into()).await?;
                        std::future::pending::<Result<(), tokio_postgres::Error>>().await
                    };
                    drop(patience.with(copying).await);
                }
                _ => {
                    // Answered in full, and correctly, whatever those before left behind.
                    let number = random.i32(0..1_000_000);
                    let row = conn.query_one("SELECT $1::int + 1", &[&number]).await.unwrap();
                    assert_eq!(row.get::<_, i32>(0), number + 1);
                }
            }
        }
    }
}

use pgsteer::tokio_postgres;

async fn callers(pool: &Pool, seed: u64, rounds: u64) {
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let pool = pool.clone();
        let mut random = fastrand::Rng::with_seed(seed << 8 | caller);
        callers.spawn(async move {
            for _ in 0..rounds {
                round(&pool, &mut random).await;
                if random.u32(0..8) == 0 {
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller.expect("no caller panics");
    }
}

/// Every slot can be held at once, nobody waits, and the servers have what the pool has and no more.
async fn all_is_well(sim: &Sim, pool: &Pool, settle: Duration) {
    tokio::time::sleep(settle).await;
    let status = pool.status();
    assert_eq!(
        (status.idle, status.waiting, status.leased),
        (SIZE, 0, 0),
        "{status:?}"
    );
    let mut held = Vec::new();
    for _ in 0..SIZE {
        let conn = pool
            .get_timeout(seconds(1))
            .await
            .expect("every slot can be held");
        conn.batch_execute("SELECT 1").await.expect("and works");
        held.push(conn);
    }
    assert_eq!(sim.live(), SIZE as usize);
    let snapshot = pool.cluster().snapshot();
    assert!(
        snapshot.pending.is_empty() && snapshot.failures.is_empty(),
        "{snapshot:?}"
    );
    assert_eq!(snapshot.counts.values().sum::<u32>(), SIZE);
    assert!(sim.ledger().is_empty(), "nothing that was given up was committed");
}

#[test]
fn a_hundred_thousand_rounds_of_giving_up_lose_nothing() {
    const SEEDS: u64 = 16;
    for seed in 0..SEEDS {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let sim = three().log_limit(0).build();
            let pool = full(&sim, abc().pool_size(SIZE).application_name("given up")).await;
            callers(&pool, seed, 100_000 / SEEDS / CALLERS + 1).await;
            all_is_well(&sim, &pool, seconds(10)).await;
            assert_eq!(pool.close(seconds(5)).await.still_out, 0);
            assert_eq!(sim.live(), 0);
            drop(pool);
            until("no task is left", || tasks() == 0).await;
        });
    }
}

/// The same in real time on four threads, where everything really happens at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rounds_of_giving_up_on_several_threads_lose_nothing() {
    let sim = three().log_limit(0).build();
    let config = abc()
        .pool_size(SIZE)
        .return_cancel_after(millis(200))
        .rebalance_interval(seconds(60));
    let pool = full(&sim, config).await;
    for seed in 0..4 {
        callers(&pool, seed, 80).await;
        let calm = tokio::time::timeout(seconds(20), async {
            while pool.status().idle != SIZE {
                tokio::time::sleep(millis(5)).await;
            }
        });
        calm.await
            .unwrap_or_else(|_| panic!("seed {seed}: {:?}", pool.status()));
        all_is_well(&sim, &pool, millis(50)).await;
    }
    assert_eq!(pool.close(seconds(20)).await.still_out, 0);
    assert_eq!(sim.live(), 0);
}

/// Pools begun, used and ended by futures that are given up: each goes by itself.
#[tokio::test(start_paused = true)]
async fn pools_whose_start_use_or_end_is_given_up_go_by_themselves() {
    let sim = three().log_limit(0).build();
    sim.servers()
        .iter()
        .for_each(|server| server.set_answer_latency(millis(2)));
    let before = tasks();
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..300 {
        let pool = start(&sim, abc().pool_size(random.u32(1..4)));
        tokio::time::sleep(millis(random.u64(0..20))).await;
        let held = pool.try_get();
        if random.bool() {
            Patience::random(&mut random).with(pool.get()).await;
        }
        if random.bool() {
            Patience::random(&mut random)
                .with(pool.close(millis(random.u64(0..50))))
                .await;
        }
        drop(pool);
        if random.bool() {
            tokio::time::sleep(millis(random.u64(0..10))).await;
        }
        drop(held);
    }
    within("all is gone", seconds(20), || {
        sim.live() == 0 && tasks() == before
    })
    .await;
}
