//! A router on several threads: which of them has a client, and which the connection to its backend, makes no difference to
//! either.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pgsteer_router::backend::{BackendAddress, BackendOptions};
use pgsteer_router::server::{Router, RouterConfig, Threads};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use crate::rig::*;

const GRACE: Duration = Duration::from_secs(30);

/// A backend that sends every frame back after this long, and how many connections it has had at once.
async fn backend(delay: Duration) -> (BackendAddress, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let most = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    tokio::spawn(async move {
        let open = Arc::new(AtomicUsize::new(0));
        while let Ok((mut stream, _)) = listener.accept().await {
            seen.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let open = Arc::clone(&open);
            tokio::spawn(async move {
                while let Some(payload) = receive(&mut stream).await {
                    sleep(delay).await;
                    if send(&mut stream, &payload).await.is_err() {
                        break;
                    }
                }
                open.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    (BackendAddress::new("127.0.0.1", port).unwrap(), most)
}

async fn router(backend: BackendAddress, max_size: u32, threads: &Threads) -> Router {
    let config = RouterConfig {
        listen: "127.0.0.1:0".to_owned(),
        backends: vec![backend],
        backend: BackendOptions {
            max_size,
            ..BackendOptions::default()
        },
        ..RouterConfig::default()
    };
    Router::start_across(config, threads).await.unwrap()
}

/// Covers: S-82
#[tokio::test]
async fn clients_of_all_threads_get_their_own_answers_over_no_more_connections_than_there_may_be() {
    // More threads than connections: some of them have none of their own.
    for (further, max_size) in [(1, 16), (2, 2), (3, 1)] {
        let threads = Threads::start(further).unwrap();
        let (backend, most) = backend(Duration::ZERO).await;
        let router = router(backend, max_size, &threads).await;
        let address = router.local_addr();
        let clients: Vec<_> = (0..24u32)
            .map(|client| {
                tokio::spawn(async move {
                    let mut stream = TcpStream::connect(address).await.unwrap();
                    for request in 0..50u32 {
                        let payload = [client.to_be_bytes(), request.to_be_bytes()].concat();
                        send(&mut stream, &payload).await.unwrap();
                        assert_eq!(receive(&mut stream).await, Some(payload));
                    }
                })
            })
            .collect();

        for client in clients {
            client.await.unwrap();
        }

        let most = most.load(Ordering::SeqCst);
        assert!((1..=max_size as usize).contains(&most), "{most} of {max_size}");
        let drained = router.shutdown(GRACE).await;
        assert_eq!((router.totals().answered, drained.dropped), (24 * 50, 0));
    }
}

/// Covers: S-57
#[tokio::test]
async fn a_drain_answers_what_is_at_work_on_all_threads_and_whom_the_kernel_had_accepted() {
    let threads = Threads::start(2).unwrap();
    let (backend, _) = backend(Duration::from_millis(20)).await;
    let router = router(backend, 8, &threads).await;
    let mut clients = Vec::new();
    // The router accepts nobody before this thread has yielded to it: half of them are at work then, half are not accepted.
    for half in 0..2u32 {
        for number in 0..30u32 {
            let mut client = std::net::TcpStream::connect(router.local_addr()).unwrap();
            std::io::Write::write_all(&mut client, &frame(&[half as u8, number as u8])).unwrap();
            client.set_nonblocking(true).unwrap();
            clients.push(TcpStream::from_std(client).unwrap());
        }
        if half == 0 {
            until(|| router.totals().requests == 30).await;
        }
    }

    let drained = tokio::spawn(async move { (router.shutdown(GRACE).await, router.totals()) });
    for (number, client) in clients.iter_mut().enumerate() {
        let expected = [(number / 30) as u8, (number % 30) as u8];
        assert_eq!(receive(client).await.as_deref(), Some(&expected[..]));
        assert_eq!(rest(client).await, b"", "it is ended after its answer");
    }
    drop(clients);

    let (drained, totals) = drained.await.unwrap();
    assert_eq!((drained.dropped, drained.cut, totals.answered), (0, 0, 60));
}

#[tokio::test]
async fn what_is_at_work_on_another_thread_when_the_grace_is_over_is_dropped_and_counted() {
    let threads = Threads::start(3).unwrap();
    let (backend, _) = backend(Duration::from_secs(60)).await;
    let router = router(backend, 8, &threads).await;
    let mut clients = Vec::new();
    for _ in 0..8 {
        let mut client = TcpStream::connect(router.local_addr()).await.unwrap();
        send(&mut client, b"never answered").await.unwrap();
        clients.push(client);
    }
    until(|| router.totals().requests == 8).await;

    let drained = router.shutdown(Duration::from_millis(50)).await;

    assert_eq!((drained.dropped, drained.cut), (8, 8));
    for client in &mut clients {
        assert_eq!(receive(client).await, None);
    }
}

#[tokio::test]
async fn a_router_that_is_dropped_cuts_the_clients_of_all_threads() {
    let threads = Threads::start(2).unwrap();
    let (backend, _) = backend(Duration::ZERO).await;
    let router = router(backend, 4, &threads).await;
    let mut clients = Vec::new();
    for _ in 0..6 {
        let mut client = TcpStream::connect(router.local_addr()).await.unwrap();
        ask(&mut client, b"served").await.unwrap();
        clients.push(client);
    }

    drop(router);

    for client in &mut clients {
        assert_eq!(rest(client).await, b"");
    }
}
