//! Ending: readiness first, then nobody new, then everything that was accepted is answered, and at the end of the grace what
//! is left is dropped and counted.

use std::sync::Arc;
use std::time::Duration;

use pgsteer_router::server::{Router, ServerOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::rig::*;

const GRACE: Duration = Duration::from_secs(30);

/// A backend that takes this long for each answer.
fn slow(millis: u64) -> Manner {
    manner(move |_, mut stream| async move {
        while let Some(payload) = receive(&mut stream).await {
            sleep(Duration::from_millis(millis)).await;
            if send(&mut stream, &payload).await.is_err() {
                return;
            }
        }
    })
}

#[tokio::test(start_paused = true)]
async fn requests_at_work_are_answered_and_then_their_clients_are_ended() {
    let router = Backends::one(slow(2_000)).router(ServerOptions::default()).await;
    let mut clients: Vec<_> = (0..5).map(|_| connect(&router)).collect();
    for client in &mut clients {
        send(client, b"at work").await.unwrap();
    }
    sleep(Duration::from_millis(10)).await;

    let drained = tokio::spawn(async move { (router.shutdown(GRACE).await, router.totals()) });
    for client in &mut clients {
        assert_eq!(receive(client).await.as_deref(), Some(&b"at work"[..]));
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    }
    drop(clients);

    let (drained, totals) = drained.await.unwrap();
    assert_eq!((drained.answered, drained.dropped, drained.cut), (5, 0, 0));
    assert_eq!(totals.ended(), totals.requests);
}

/// Covers: S-58
#[tokio::test(start_paused = true)]
async fn a_request_of_which_a_part_has_come_is_waited_for_and_answered() {
    let router = Backends::one(echo()).router(ServerOptions::default()).await;
    let mut client = connect(&router);
    let request = frame(b"in two parts");
    client.write_all(&request[..6]).await.unwrap();
    sleep(Duration::from_millis(10)).await;

    let drained = tokio::spawn(async move { router.shutdown(GRACE).await });
    sleep(Duration::from_secs(1)).await;
    client.write_all(&request[6..]).await.unwrap();

    assert_eq!(receive(&mut client).await.as_deref(), Some(&b"in two parts"[..]));
    drop(client);
    assert_eq!(drained.await.unwrap().dropped, 0);
}

/// Covers: S-58
#[tokio::test(start_paused = true)]
async fn requests_that_had_come_with_the_one_at_work_are_answered_as_well() {
    let router = Backends::one(slow(100)).router(ServerOptions::default()).await;
    let mut client = connect(&router);
    client.write_all(&frame(b"queued").repeat(5)).await.unwrap();
    sleep(Duration::from_millis(10)).await;

    let drained = tokio::spawn(async move { router.shutdown(GRACE).await });
    for _ in 0..5 {
        assert_eq!(receive(&mut client).await.as_deref(), Some(&b"queued"[..]));
    }
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    drop(client);

    let drained = drained.await.unwrap();
    assert_eq!((drained.answered, drained.dropped), (5, 0));
}

#[tokio::test(start_paused = true)]
async fn an_idle_client_is_ended_at_once_and_one_that_has_asked_nothing_yet_is_given_a_moment() {
    let router = Backends::one(echo()).router(ServerOptions::default()).await;
    let mut idle = connect(&router);
    ask(&mut idle, b"before").await.unwrap();
    let mut silent = connect(&router);
    let mut late = connect(&router);
    sleep(Duration::from_millis(10)).await;
    let began = Instant::now();

    let drained = tokio::spawn(async move { router.shutdown(GRACE).await });
    assert_eq!(idle.read(&mut [0]).await.unwrap(), 0);
    let idle_for = began.elapsed();
    sleep(Duration::from_millis(400)).await;
    assert_eq!(ask(&mut late, b"my first").await.as_deref(), Some("my first"));
    assert_eq!(silent.read(&mut [0]).await.unwrap(), 0);
    let silent_for = began.elapsed();

    assert!(idle_for < Duration::from_millis(5), "{idle_for:?}");
    assert!((500..=505).contains(&silent_for.as_millis()), "{silent_for:?}");
    drop((idle, silent, late));
    assert_eq!(drained.await.unwrap().dropped, 0);
}

/// Covers: S-59
#[tokio::test(start_paused = true)]
async fn what_is_not_done_when_the_grace_is_over_is_dropped_and_counted() {
    let router = Backends::one(slow(3_600_000)).router(ServerOptions {
        backend_timeout: Duration::from_secs(3_600),
        ..ServerOptions::default()
    });
    let router = router.await;
    let mut clients: Vec<_> = (0..3).map(|_| connect(&router)).collect();
    for client in &mut clients {
        send(client, b"never answered").await.unwrap();
    }
    sleep(Duration::from_millis(10)).await;
    let began = Instant::now();

    let drained = router.shutdown(Duration::from_secs(2)).await;

    assert!(
        (2_000..=2_005).contains(&began.elapsed().as_millis()),
        "{:?}",
        began.elapsed()
    );
    assert_eq!((drained.answered, drained.dropped, drained.cut), (0, 3, 3));
    for client in &mut clients {
        assert_eq!(receive(client).await, None);
    }
    let totals = router.totals();
    assert_eq!((totals.dropped, totals.answered, totals.ended()), (3, 0, 3));
}

/// Covers: S-59
#[tokio::test(start_paused = true)]
async fn without_a_grace_what_is_at_work_is_dropped_at_once_and_not_answered_after_all() {
    let router = Backends::one(slow(50)).router(ServerOptions::default()).await;
    let mut client = connect(&router);
    send(&mut client, b"dropped").await.unwrap();
    sleep(Duration::from_millis(10)).await;

    let drained = router.shutdown(Duration::ZERO).await;
    sleep(Duration::from_secs(10)).await;

    assert_eq!(drained.dropped, 1);
    assert_eq!(receive(&mut client).await, None);
    assert_eq!(router.totals().answered, 0);
}

/// Covers: S-56
#[tokio::test(start_paused = true)]
async fn readiness_is_taken_back_first_and_clients_are_served_as_before_for_drain_delay() {
    let router = Backends::one(echo()).router(ServerOptions {
        drain_delay: Duration::from_secs(5),
        ..ServerOptions::default()
    });
    let router = Arc::new(router.await);
    let mut client = connect(&router);
    assert!(router.is_ready());

    let ending = Arc::clone(&router);
    let drained = tokio::spawn(async move { ending.shutdown(GRACE).await });
    sleep(Duration::from_secs(4)).await;

    assert!(!router.is_ready());
    for _ in 0..3 {
        assert!(ask(&mut client, b"still served").await.is_some());
    }
    drop(client);
    assert_eq!(drained.await.unwrap().took.as_secs(), 5);
}

/// Covers: S-60
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_its_last_answer_holds_the_drain_up_no_longer_than_the_grace() {
    let router = Backends::one(echo()).router(ServerOptions {
        client_timeout: Duration::from_secs(3_600),
        ..ServerOptions::default()
    });
    let router = router.await;
    let mut stalled = connect_over(&router, 64);
    stalled.write_all(&frame(&payload(60))).await.unwrap();
    let mut other = stalled;
    let request = frame(&payload(10_000));
    let feeding = async { other.write_all(&request).await };
    let _ = tokio::time::timeout(Duration::from_secs(1), feeding).await;

    let drained = router.shutdown(Duration::from_secs(2)).await;

    assert_eq!(drained.took.as_secs(), 2);
    assert_eq!(drained.dropped, router.totals().dropped);
    assert!(drained.dropped > 0);
}

/// An echo on loopback, for what depends on the system.
pub(crate) async fn tcp_router(server: ServerOptions) -> Router {
    let mut config = Backends::one(echo()).config(server);
    config.backends = vec![backend(1)];
    let router = Router::start_over(config, Arc::new(Backends::one(echo())));
    router.await.expect("the router starts")
}

/// Covers: S-57
#[tokio::test]
async fn clients_whom_the_kernel_had_accepted_are_answered_though_the_router_had_not_come_to_them() {
    // The router runs on this thread alone, so it accepts nobody while the clients connect without yielding to it.
    let router = tcp_router(ServerOptions::default()).await;
    let address = router.local_addr();
    let mut clients = Vec::new();
    for number in 0..200u32 {
        let mut client = std::net::TcpStream::connect(address).unwrap();
        std::io::Write::write_all(&mut client, &frame(&number.to_be_bytes())).unwrap();
        clients.push(client);
    }
    assert_eq!(router.totals().accepted, 0);

    let drained = tokio::spawn(async move { (router.shutdown(GRACE).await, router.totals()) });
    for (number, client) in clients.into_iter().enumerate() {
        client.set_nonblocking(true).unwrap();
        let mut client = TcpStream::from_std(client).unwrap();
        let expected = u32::try_from(number).unwrap().to_be_bytes();
        assert_eq!(
            receive(&mut client).await.as_deref(),
            Some(&expected[..]),
            "client {number}"
        );
    }

    let (drained, totals) = drained.await.unwrap();
    assert_eq!((drained.answered, drained.dropped), (200, 0));
    assert_eq!((totals.accepted, totals.answered), (200, 200));
}

#[tokio::test]
async fn whoever_connects_after_the_drain_is_refused() {
    let router = tcp_router(ServerOptions::default()).await;
    let address = router.local_addr();

    router.shutdown(GRACE).await;

    let refused = TcpStream::connect(address).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

/// Covers: S-57
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_clients_that_dial_for_each_request_while_the_drain_begins_none_that_connected_is_left_without_an_answer()
 {
    let router = tcp_router(ServerOptions::default()).await;
    let address = router.local_addr();
    let clients: Vec<_> = (0..20)
        .map(|client: u32| {
            tokio::spawn(async move {
                let mut answered = 0u64;
                loop {
                    // Nobody listens any more: the drain has come this far.
                    let Ok(mut stream) = TcpStream::connect(address).await else {
                        return answered;
                    };
                    let request = client.to_be_bytes();
                    send(&mut stream, &request).await.unwrap();
                    assert_eq!(receive(&mut stream).await.as_deref(), Some(&request[..]));
                    answered += 1;
                }
            })
        })
        .collect();
    until(|| router.totals().answered > 200).await;

    let drained = router.shutdown(GRACE).await;

    let mut answered = 0;
    for client in clients {
        answered += client.await.unwrap();
    }
    assert_eq!(drained.dropped, 0);
    assert_eq!(router.totals().answered, answered);
}

#[tokio::test]
async fn a_router_that_is_dropped_stops_listening_and_cuts_its_clients() {
    let router = tcp_router(ServerOptions::default()).await;
    let address = router.local_addr();
    let mut client = TcpStream::connect(address).await.unwrap();
    ask(&mut client, b"served").await.unwrap();

    drop(router);

    assert_eq!(rest(&mut client).await, b"");
    for _ in 0..1_000 {
        if TcpStream::connect(address).await.is_err() {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("it still listens");
}

/// It always has the next request under way before it has the last answer.
/// Covers: S-60
#[tokio::test]
async fn a_client_that_never_stops_sending_is_answered_what_had_come_and_then_ended() {
    for pipeline in [1, 4] {
        let router = tcp_router(ServerOptions {
            pipeline,
            ..ServerOptions::default()
        })
        .await;
        let client = TcpStream::connect(router.local_addr()).await.unwrap();
        let (mut reading, mut writing) = client.into_split();
        let sending = tokio::spawn(async move {
            let requests = frame(b"and on and on").repeat(100);
            while writing.write_all(&requests).await.is_ok() {}
        });
        for _ in 0..1_000 {
            assert_eq!(
                receive(&mut reading).await.as_deref(),
                Some(&b"and on and on"[..])
            );
        }

        let drained = tokio::spawn(async move { (router.shutdown(GRACE).await, router.totals()) });
        let mut answered = 1_000u64;
        while receive(&mut reading).await.is_some() {
            answered += 1;
        }
        drop(reading);
        sending.await.unwrap();

        let (drained, totals) = drained.await.unwrap();
        assert_eq!((drained.dropped, drained.cut), (0, 0), "{drained:?}");
        assert_eq!((totals.requests, totals.answered), (answered, answered));
    }
}

/// Covers: S-60
#[tokio::test]
async fn clients_that_do_not_close_hold_nobody_up_who_waits_to_be_accepted() {
    let router = tcp_router(ServerOptions {
        max_connections: 1,
        linger: Duration::from_secs(1),
        ..ServerOptions::default()
    });
    let router = router.await;
    let mut first = TcpStream::connect(router.local_addr()).await.unwrap();
    ask(&mut first, b"first").await.unwrap();
    let mut queued = Vec::new();
    for _ in 0..6 {
        let mut client = TcpStream::connect(router.local_addr()).await.unwrap();
        send(&mut client, b"queued").await.unwrap();
        queued.push(client);
    }

    // One after the other they would linger twice as long as this.
    let drained = tokio::spawn(async move { router.shutdown(Duration::from_secs(3)).await });

    for client in &mut queued {
        assert_eq!(receive(client).await.as_deref(), Some(&b"queued"[..]));
    }
    let drained = drained.await.unwrap();
    assert_eq!((drained.answered, drained.dropped), (6, 0));
}

/// Covers: S-59
#[tokio::test]
async fn requests_still_in_the_kernels_queue_when_the_grace_is_over_are_counted_as_dropped() {
    for grace in [Duration::from_millis(300), Duration::ZERO] {
        let options = ServerOptions {
            max_connections: 1,
            ..ServerOptions::default()
        };
        let router = tcp_router(options).await;
        let mut stalled = TcpStream::connect(router.local_addr()).await.unwrap();
        ask(&mut stalled, b"first").await.unwrap();
        stalled.write_all(&frame(b"a part of it")[..6]).await.unwrap();
        let mut queued = Vec::new();
        for number in 0..4 {
            let mut client = TcpStream::connect(router.local_addr()).await.unwrap();
            if number > 0 {
                send(&mut client, b"queued").await.unwrap();
            }
            queued.push(client);
        }
        until(|| router.totals().requests == 2).await;

        let drained = router.shutdown(grace).await;

        let totals = router.totals();
        // The one that has stalled and the three of four that have asked.
        assert_eq!(drained.dropped, 4, "{grace:?}");
        assert_eq!(
            (totals.turned_away, totals.ended()),
            (4, totals.requests),
            "{grace:?}"
        );
    }
}
