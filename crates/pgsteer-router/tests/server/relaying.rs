//! Frames that pass: any length, many on a connection, each in one write, through bounded memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pgsteer_router::server::ServerOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::rig::*;

/// Covers: S-06
#[tokio::test(start_paused = true)]
async fn one_client_connection_carries_many_requests_and_their_answers_in_order() {
    let router = Backends::one(echo()).router(ServerOptions::default()).await;
    let mut client = connect(&router);

    for number in 0..100 {
        let request = format!("request {number}");
        assert_eq!(ask(&mut client, request.as_bytes()).await, Some(request));
    }

    let totals = router.totals();
    assert_eq!((totals.accepted, totals.requests, totals.answered), (1, 100, 100));
}

/// Covers: S-01, S-02
#[tokio::test(start_paused = true)]
async fn frames_of_every_length_pass_unchanged() {
    let router = Backends::one(echo()).router(ServerOptions::default()).await;
    let mut client = connect(&router);
    let held = 16 * 1024 - 4;
    let longest = 16 * 1024 * 1024;

    for length in [0, 1, 64, held - 1, held, held + 1, 65_536, 1_000_003, longest] {
        let request = payload(length);
        let (mut reading, mut writing) = tokio::io::split(&mut client);
        let sent = send(&mut writing, &request);
        let (sent, answer) = tokio::join!(sent, receive(&mut reading));

        sent.unwrap();
        assert!(answer.as_ref() == Some(&request), "a payload of {length} bytes");
    }
}

/// Covers: S-13
#[tokio::test(start_paused = true)]
async fn frames_that_come_byte_by_byte_or_several_at_once_are_the_same_frames() {
    let router = Backends::one(echo()).router(ServerOptions::default()).await;
    let mut client = connect(&router);
    let requests = [payload(3), Vec::new(), payload(20_000), payload(5)];
    let bytes: Vec<u8> = requests.iter().flat_map(|request| frame(request)).collect();

    for piece in [1, 7, 4096, bytes.len()] {
        let (mut reading, mut writing) = tokio::io::split(&mut client);
        let sent = async {
            for piece in bytes.chunks(piece) {
                writing.write_all(piece).await.unwrap();
            }
        };
        let answered = async {
            for request in &requests {
                assert_eq!(receive(&mut reading).await.as_ref(), Some(request));
            }
        };
        tokio::join!(sent, answered);
    }
}

/// Covers: S-11
#[tokio::test(start_paused = true)]
async fn each_frame_leaves_in_one_write_on_either_side() {
    let backends = Backends::one(echo());
    let router = backends.router(ServerOptions::default()).await;
    let (mut client, far) = tokio::io::duplex(PIPE);
    let writes = Arc::new(AtomicUsize::new(0));
    tokio::spawn(router.serve(Counted {
        stream: far,
        writes: Arc::clone(&writes),
    }));

    for length in [0, 64, 4096, 16_000] {
        let (to_backend, to_client) = (backends.writes(), writes.load(Ordering::SeqCst));
        let request = payload(length);
        // The request itself comes in two.
        let framed = frame(&request);
        client.write_all(&framed[..4]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        client.write_all(&framed[4..]).await.unwrap();
        assert_eq!(receive(&mut client).await, Some(request));

        assert_eq!(backends.writes() - to_backend, 1, "{length} bytes to the backend");
        assert_eq!(
            writes.load(Ordering::SeqCst) - to_client,
            1,
            "{length} bytes to the client"
        );
    }
}

/// More than the router may hold of a frame that it passes on: two buffers of 64 KiB, and what is in the pipes.
const BOUND: usize = 2 * 64 * 1024 + 2 * PIPE;

/// Covers: S-14
#[tokio::test(start_paused = true)]
async fn of_a_long_answer_no_more_is_held_than_the_buffers_while_the_client_does_not_read() {
    let written = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&written);
    let answers = manner(move |_, mut stream| {
        let written = Arc::clone(&written);
        async move {
            receive(&mut stream).await;
            stream.write_all(&(16_000_000u32).to_be_bytes()).await.unwrap();
            while let Ok(count) = stream.write(&[7; 1000]).await {
                written.fetch_add(count, Ordering::SeqCst);
            }
        }
    });
    let router = Backends::one(answers).router(ServerOptions::default()).await;
    let mut client = connect(&router);

    send(&mut client, b"a long answer, please").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;

    let written = seen.load(Ordering::SeqCst);
    assert!(written > 0 && written <= BOUND, "{written} bytes were taken");
}

/// Covers: S-14
#[tokio::test(start_paused = true)]
async fn of_a_long_request_no_more_is_held_than_the_buffers_while_the_backend_does_not_read() {
    let hangs = manner(|_, stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
    });
    let router = Backends::one(hangs).router(ServerOptions::default()).await;
    let mut client = connect(&router);
    client.write_all(&(16_000_000u32).to_be_bytes()).await.unwrap();

    let mut taken = 0;
    let feed = async {
        while let Ok(count) = client.write(&[7; 1000]).await {
            taken += count;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(1), feed).await.is_err());

    assert!(taken > 0 && taken <= BOUND, "{taken} bytes were taken");
}

#[tokio::test(start_paused = true)]
async fn a_backend_may_answer_a_long_request_while_it_is_still_coming() {
    let mirror = manner(|_, stream| async move {
        let (mut reading, mut writing) = tokio::io::split(stream);
        let _ = tokio::io::copy(&mut reading, &mut writing).await;
    });
    let router = Backends::one(mirror)
        .pipe(512)
        .router(ServerOptions::default())
        .await;
    let mut client = connect_over(&router, 512);
    let request = payload(1_000_000);

    let (mut reading, mut writing) = tokio::io::split(&mut client);
    let (sent, answer) = tokio::join!(send(&mut writing, &request), receive(&mut reading));

    sent.unwrap();
    assert!(answer == Some(request));
}

/// Covers: S-07
#[tokio::test(start_paused = true)]
async fn an_idle_connection_to_a_backend_serves_the_next_request_of_whomever() {
    let backends = Backends::one(echo());
    let router = backends.router(ServerOptions::default()).await;

    for _ in 0..10 {
        let mut client = connect(&router);
        ask(&mut client, b"one request").await.unwrap();
    }

    assert_eq!(backends.dials(), 1);
}

/// Covers: S-38
#[tokio::test(start_paused = true)]
async fn a_backend_that_answers_twice_has_its_connection_closed_and_crosses_no_answers() {
    let twice = manner(|_, mut stream| async move {
        while let Some(payload) = receive(&mut stream).await {
            let both = [frame(&payload), frame(&payload)].concat();
            stream.write_all(&both).await.unwrap();
        }
    });
    let backends = Backends::one(twice);
    let router = backends.router(ServerOptions::default()).await;
    let mut client = connect(&router);

    for number in 0..5 {
        let request = number.to_string();
        assert_eq!(ask(&mut client, request.as_bytes()).await, Some(request));
    }

    assert_eq!(backends.dials(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_ends_its_side_still_gets_its_answers() {
    let router = Backends::one(echo()).router(ServerOptions::default()).await;
    let mut client = connect(&router);

    send(&mut client, b"the last").await.unwrap();
    client.shutdown().await.unwrap();

    assert_eq!(receive(&mut client).await.as_deref(), Some(&b"the last"[..]));
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(router.totals().ended(), 1);
}
