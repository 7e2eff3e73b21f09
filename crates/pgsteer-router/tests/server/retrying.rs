//! A request is sent a second time only if it cannot have been acted on: a connection that had been open before it came was
//! closed without a byte of an answer, and all of the request is still at hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pgsteer_router::server::ServerOptions;
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

use crate::rig::*;

/// What the connection that the request goes to does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// Closes without a byte.
    Closes,
    /// Closes after a byte.
    ClosesInside,
    /// Says nothing any more.
    Hangs,
    /// Sends what is no frame.
    Raves,
}

/// A backend that does that with the request of this number on its first connection, and echoes everything else. Also how
/// many requests it has got.
fn backend_that(does: Does, on: usize) -> (Manner, Arc<AtomicUsize>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&requests);
    let manner = manner(move |number, mut stream| {
        let requests = Arc::clone(&requests);
        async move {
            let mut nth = 0;
            while let Some(payload) = receive(&mut stream).await {
                requests.fetch_add(1, Ordering::SeqCst);
                if (number, nth) != (0, on) {
                    nth += 1;
                    send(&mut stream, &payload).await.unwrap();
                    continue;
                }
                match does {
                    Does::Closes => {}
                    Does::ClosesInside => stream.write_all(b"\0").await.unwrap(),
                    Does::Hangs => sleep(Duration::from_secs(3600)).await,
                    Does::Raves => {
                        stream.write_all(b"\xff\xff\xff\xff").await.unwrap();
                        sleep(Duration::from_secs(3600)).await;
                    }
                }
                return;
            }
        }
    });
    (manner, seen)
}

/// Covers: S-27
#[tokio::test(start_paused = true)]
async fn what_is_sent_again_is_what_a_reused_connection_swallowed_without_a_byte_of_an_answer() {
    use Does::{Closes, ClosesInside, Hangs, Raves};
    let held = 100;
    let streamed = 100_000;
    // What the connection does, whether it was reused, the request's length, whether it is sent again.
    let cases = [
        (Closes, true, held, true),
        (Closes, false, held, false),
        (Closes, true, streamed, false),
        (Closes, false, streamed, false),
        (ClosesInside, true, held, false),
        (ClosesInside, false, held, false),
        (Hangs, true, held, false),
        (Hangs, false, held, false),
        (Raves, true, held, false),
        (Raves, false, held, false),
    ];
    for (does, reused, length, again) in cases {
        let (manner, requests) = backend_that(does, usize::from(reused));
        let router = Backends::one(manner).router(ServerOptions::default()).await;
        let mut client = connect(&router);
        if reused {
            ask(&mut client, b"before").await.unwrap();
        }
        let before = requests.load(Ordering::SeqCst);

        let request = payload(length);
        send(&mut client, &request).await.unwrap();
        let answer = receive(&mut client).await;

        let case = (does, reused, length);
        let expected = match again {
            true => request,
            false => b"ERR backend read".to_vec(),
        };
        assert!(answer == Some(expected), "{case:?}");
        let sent = requests.load(Ordering::SeqCst) - before;
        assert_eq!(sent, 1 + usize::from(again), "{case:?}");
        assert_eq!(router.totals().retried, u64::from(again), "{case:?}");
    }
}

/// Covers: S-27
#[tokio::test(start_paused = true)]
async fn the_second_time_is_the_last() {
    let requests = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&requests);
    let swallows = manner(move |number, mut stream| {
        let requests = Arc::clone(&requests);
        async move {
            if number == 0 {
                let first = receive(&mut stream).await.unwrap();
                send(&mut stream, &first).await.unwrap();
            }
            receive(&mut stream).await;
            requests.fetch_add(1, Ordering::SeqCst);
        }
    });
    let router = Backends::one(swallows).router(ServerOptions::default()).await;
    let mut client = connect(&router);
    ask(&mut client, b"before").await.unwrap();

    let told = ask(&mut client, b"swallowed twice").await;

    assert_eq!(told.as_deref(), Some("ERR backend read"));
    assert_eq!(seen.load(Ordering::SeqCst), 2);
}

/// Covers: S-27
#[tokio::test(start_paused = true)]
async fn of_many_stale_connections_none_costs_a_client_an_error() {
    // Each connection answers one request and closes when the next comes.
    let stale = manner(|_, mut stream| async move {
        let first = receive(&mut stream).await.unwrap();
        send(&mut stream, &first).await.unwrap();
        receive(&mut stream).await;
    });
    let router = Backends::one(stale).router(ServerOptions::default()).await;
    let mut clients: Vec<_> = (0..8).map(|_| connect(&router)).collect();

    for round in 0..20 {
        let request = round.to_string();
        for client in &mut clients {
            send(client, request.as_bytes()).await.unwrap();
        }
        for client in &mut clients {
            assert_eq!(receive(client).await.as_deref(), Some(request.as_bytes()));
        }
    }

    assert_eq!(router.totals().answered, 160);
    assert!(router.totals().retried > 0);
}
