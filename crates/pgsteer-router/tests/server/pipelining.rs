//! Several requests of one client at a time: spread over backends, bounded, answered in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pgsteer_router::server::ServerOptions;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep};

use crate::rig::*;

fn pipeline(requests: u32) -> ServerOptions {
    ServerOptions {
        pipeline: requests,
        ..ServerOptions::default()
    }
}

/// A backend that sleeps for as many milliseconds as the request says, and sends it back. Also the most requests that were
/// at work on all connections at the same time.
fn sleeper() -> (Manner, Arc<AtomicUsize>) {
    let most = Arc::new(AtomicUsize::new(0));
    let now = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    let manner = manner(move |_, mut stream| {
        let (most, now) = (Arc::clone(&most), Arc::clone(&now));
        async move {
            while let Some(payload) = receive(&mut stream).await {
                let at_work = now.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(at_work, Ordering::SeqCst);
                let millis = String::from_utf8(payload.clone()).unwrap().parse().unwrap();
                sleep(Duration::from_millis(millis)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                if send(&mut stream, &payload).await.is_err() {
                    return;
                }
            }
        }
    });
    (manner, seen)
}

/// Covers: S-06
#[tokio::test(start_paused = true)]
async fn answers_leave_in_the_order_of_the_requests_though_the_last_is_done_first() {
    let (manner, _) = sleeper();
    let router = Backends::one(manner).router(pipeline(8)).await;
    let mut client = connect(&router);
    let began = Instant::now();

    let requests = ["80", "70", "60", "50", "40", "30", "20", "10"];
    let all: Vec<u8> = requests.iter().flat_map(|text| frame(text.as_bytes())).collect();
    client.write_all(&all).await.unwrap();

    for request in requests {
        assert_eq!(receive(&mut client).await.as_deref(), Some(request.as_bytes()));
    }
    assert_eq!(began.elapsed().as_millis(), 80);
}

#[tokio::test(start_paused = true)]
async fn no_more_requests_of_a_client_are_at_work_than_it_may_have() {
    for allowed in [1, 3] {
        let (manner, most) = sleeper();
        let router = Backends::one(manner).router(pipeline(allowed)).await;
        let mut client = connect(&router);

        let all = frame(b"10").repeat(20);
        client.write_all(&all).await.unwrap();
        for _ in 0..20 {
            receive(&mut client).await.unwrap();
        }

        assert_eq!(most.load(Ordering::SeqCst), allowed as usize);
    }
}

#[tokio::test(start_paused = true)]
async fn requests_of_one_client_are_spread_over_the_backends() {
    let (first, _) = sleeper();
    let (second, _) = sleeper();
    let router = Backends::default()
        .with(1, first)
        .with(2, second)
        .router(pipeline(8))
        .await;
    let mut client = connect(&router);

    client.write_all(&frame(b"10").repeat(8)).await.unwrap();
    for _ in 0..8 {
        receive(&mut client).await.unwrap();
    }

    let handled: Vec<u64> = router.backends().iter().map(|backend| backend.handled).collect();
    assert_eq!(handled, [4, 4]);
}

#[tokio::test(start_paused = true)]
async fn an_error_takes_its_place_among_the_answers() {
    let rude = manner(|_, mut stream| async move {
        while let Some(payload) = receive(&mut stream).await {
            if payload == b"go" {
                return;
            }
            sleep(Duration::from_millis(10)).await;
            if send(&mut stream, &payload).await.is_err() {
                return;
            }
        }
    });
    let router = Backends::one(rude).router(pipeline(8)).await;
    let mut client = connect(&router);

    let all: Vec<u8> = [&b"one"[..], b"go", b"three"]
        .iter()
        .flat_map(|request| frame(request))
        .collect();
    client.write_all(&all).await.unwrap();

    for answer in ["one", "ERR backend read", "three"] {
        assert_eq!(receive(&mut client).await.as_deref(), Some(answer.as_bytes()));
    }
}

#[tokio::test(start_paused = true)]
async fn long_requests_and_answers_keep_their_places_among_short_ones() {
    let router = Backends::one(echo()).router(pipeline(4)).await;
    let mut client = connect(&router);
    let requests: Vec<Vec<u8>> = [5, 100_000, 6, 7, 300_000, 200_000, 0, 16_380, 16_381]
        .iter()
        .map(|length| payload(*length))
        .collect();

    let (mut reading, mut writing) = tokio::io::split(&mut client);
    let sent = async {
        for request in &requests {
            send(&mut writing, request).await.unwrap();
        }
    };
    let answered = async {
        for request in &requests {
            assert!(receive(&mut reading).await.as_ref() == Some(request));
        }
    };
    tokio::join!(sent, answered);

    assert_eq!(router.totals().ended(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_takes_its_requests_with_it() {
    let (manner, _) = sleeper();
    let router = Backends::one(manner).router(pipeline(4)).await;
    let mut client = connect(&router);
    client.write_all(&frame(b"100").repeat(4)).await.unwrap();
    sleep(Duration::from_millis(50)).await;

    drop(client);

    until(|| router.totals().connected == 0).await;
    let totals = router.totals();
    assert_eq!((totals.requests, totals.ended()), (4, 4));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_for_a_slow_answer_is_not_idle_and_its_idle_time_counts_from_that_answer() {
    let (manner, _) = sleeper();
    let options = ServerOptions {
        client_idle_timeout: Some(Duration::from_secs(1)),
        ..pipeline(2)
    };
    let router = Backends::one(manner).router(options).await;
    let mut client = connect(&router);
    let began = Instant::now();

    assert_eq!(ask(&mut client, b"3500").await.as_deref(), Some("3500"));
    sleep(Duration::from_millis(900)).await;
    assert_eq!(ask(&mut client, b"0").await.as_deref(), Some("0"));

    assert_eq!(receive(&mut client).await, None);
    assert_eq!(began.elapsed().as_millis(), 3500 + 900 + 1000);
}
