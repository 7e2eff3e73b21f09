//! Whole histories: many clients, backends that fail in every way, and an account of each request at the end. A history
//! follows from its seed, which a failure names.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use pgsteer_router::server::{Router, ServerOptions};
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::time::sleep;

use crate::rig::*;

const CLIENTS: u64 = 12;
const REQUESTS: u64 = 25;

/// A backend that mostly sends back what it gets, and otherwise fails as chance has it.
fn unreliable(seed: u64) -> Manner {
    let rng = Arc::new(Mutex::new(Rng::with_seed(seed)));
    manner(move |_, mut stream| {
        let rng = Arc::clone(&rng);
        async move {
            while let Some(payload) = receive(&mut stream).await {
                let (fate, wait) = {
                    let mut rng = rng.lock().unwrap();
                    (rng.u32(..100), rng.u64(..100))
                };
                let answer = frame(&payload);
                let written = match fate {
                    0..70 => stream.write_all(&answer).await,
                    70..80 => {
                        sleep(Duration::from_millis(wait)).await;
                        stream.write_all(&answer).await
                    }
                    80..84 => return,
                    84..88 => {
                        let _ = stream.write_all(&answer[..answer.len() / 2]).await;
                        return;
                    }
                    88..90 => stream.write_all(b"\xff\xff\xff\xffnonsense").await,
                    90..91 => {
                        sleep(Duration::from_secs(10)).await;
                        stream.write_all(&answer).await
                    }
                    91..95 => {
                        let _ = stream.write_all(&answer).await;
                        return;
                    }
                    _ => stream.write_all(&[&answer[..], &answer[..]].concat()).await,
                };
                if written.is_err() {
                    return;
                }
            }
        }
    })
}

/// What the clients of a history have seen.
#[derive(Default)]
struct Seen {
    answered: u64,
    errors: u64,
    cut: u64,
}

/// A request that no other is like.
fn request(rng: &mut Rng, client: u64, number: u64) -> Vec<u8> {
    let length = match rng.u32(..10) {
        0 => rng.usize(100_000..400_000),
        1 => rng.usize(16_370..16_390),
        2 => rng.usize(16_390..70_000),
        _ => rng.usize(16..200),
    };
    let mut request = payload(length);
    request[..8].copy_from_slice(&client.to_be_bytes());
    request[8..16].copy_from_slice(&number.to_be_bytes());
    request
}

/// Sends requests in batches, and looks at every answer. Connects again where it was cut off.
async fn client(router: &Router, seed: u64, number: u64) -> Seen {
    let mut rng = Rng::with_seed(seed ^ (number << 32));
    let mut seen = Seen::default();
    let mut stream: Option<DuplexStream> = None;
    let mut sent = 0;
    while sent < REQUESTS {
        let count = rng.u64(1..=4);
        let batch: Vec<Vec<u8>> = (sent..sent + count)
            .map(|nth| request(&mut rng, number, nth))
            .collect();
        sent += count;
        let near = stream.get_or_insert_with(|| connect(router));
        let (mut reading, mut writing) = tokio::io::split(near);
        let all = async {
            for request in &batch {
                if send(&mut writing, request).await.is_err() {
                    return;
                }
            }
        };
        let answers = async {
            for request in &batch {
                match receive(&mut reading).await {
                    Some(answer) if answer == *request => seen.answered += 1,
                    Some(answer) => {
                        let text = String::from_utf8_lossy(&answer);
                        let known = ["ERR backend unavailable", "ERR backend write", "ERR backend read"];
                        assert!(
                            known.contains(&&*text),
                            "seed {seed}: an answer of {} bytes",
                            answer.len()
                        );
                        seen.errors += 1;
                    }
                    None => return true,
                }
            }
            false
        };
        let ((), cut) = tokio::join!(all, answers);
        if cut {
            seen.cut += 1;
            stream = None;
        }
        sleep(Duration::from_millis(rng.u64(..50))).await;
    }
    seen
}

async fn history(seed: u64, pipeline: u32) {
    let backends = Backends::default()
        .with(1, unreliable(seed))
        .with(2, unreliable(seed + 1))
        .with(3, echo());
    let mut config = backends.config(ServerOptions {
        pipeline,
        ..ServerOptions::default()
    });
    config.backend.max_size = 3;
    config.backend.borrow_timeout = Duration::from_secs(60);
    let router = Arc::new(Router::start_over(config, Arc::new(backends)).await.unwrap());

    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let router = Arc::clone(&router);
            tokio::spawn(async move { client(&router, seed, number).await })
        })
        .collect();
    let mut seen = Seen::default();
    for client in clients {
        let one = client.await.unwrap();
        seen.answered += one.answered;
        seen.errors += one.errors;
        seen.cut += one.cut;
    }
    let drained = router.shutdown(Duration::from_secs(120)).await;

    let totals = router.totals();
    assert_eq!(drained.dropped, 0, "seed {seed}");
    assert_eq!(totals.ended(), totals.requests, "seed {seed}: {totals:?}");
    assert_eq!(totals.answered, seen.answered, "seed {seed}: {totals:?}");
    assert_eq!(
        totals.answered_with_errors(),
        seen.errors,
        "seed {seed}: {totals:?}"
    );
    assert_eq!(totals.errors.answer_cut, seen.cut, "seed {seed}: {totals:?}");
    assert_eq!(totals.connected, 0, "seed {seed}");
    assert!(seen.answered > CLIENTS * REQUESTS / 2, "seed {seed}: {totals:?}");
    for backend in router.backends() {
        assert_eq!(backend.in_flight, 0, "seed {seed}: {backend}");
    }
}

/// Covers: S-82
#[tokio::test(start_paused = true)]
async fn every_answer_is_its_own_requests_and_every_request_is_accounted_for_one_at_a_time() {
    for seed in 0..8 {
        history(seed * 2, 1).await;
    }
}

/// Covers: S-07
#[tokio::test(start_paused = true)]
async fn every_answer_is_its_own_requests_and_every_request_is_accounted_for_several_at_work() {
    for seed in 0..8 {
        history(1_000 + seed * 2, 4).await;
    }
}
