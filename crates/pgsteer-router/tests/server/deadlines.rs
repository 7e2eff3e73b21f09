//! Time limits are those of whole messages: nothing is gained by sending a byte now and then, and nothing is lost by being
//! long.

use std::time::Duration;

use pgsteer_router::server::ServerOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep};

use crate::rig::*;

const SECOND: Duration = Duration::from_secs(1);

/// Sends bytes one at a time, each after this pause, until nobody takes them.
async fn trickle(stream: &mut (impl tokio::io::AsyncWrite + Unpin), bytes: &[u8], pause: Duration) {
    for byte in bytes {
        sleep(pause).await;
        if stream.write_all(&[*byte]).await.is_err() {
            return;
        }
    }
}

/// Covers: S-10, S-20
#[tokio::test(start_paused = true)]
async fn a_client_that_sends_a_byte_every_4_9_seconds_is_cut_off_5_seconds_after_the_first() {
    let router = Backends::one(echo()).router(ServerOptions::default()).await;
    let client = connect(&router);
    let (mut reading, mut writing) = tokio::io::split(client);
    let began = Instant::now();

    tokio::spawn(async move { trickle(&mut writing, &frame(b"slow loris"), SECOND * 49 / 10).await });
    let got = rest(&mut reading).await;

    assert_eq!(got, b"");
    assert!((9_900..=9_902).contains(&began.elapsed().as_millis()));
    assert_eq!(router.totals().errors.client_slow, 1);
}

/// Covers: S-10
#[tokio::test(start_paused = true)]
async fn a_backend_that_answers_a_byte_every_4_9_seconds_has_failed_after_5_seconds() {
    let slow = manner(|_, mut stream| async move {
        receive(&mut stream).await;
        trickle(&mut stream, &frame(b"slow loris"), SECOND * 49 / 10).await;
    });
    let router = Backends::one(slow).router(ServerOptions::default()).await;
    let mut client = connect(&router);
    let began = Instant::now();

    let told = ask(&mut client, b"well?").await;

    assert_eq!(told.as_deref(), Some("ERR backend read"));
    assert!((5_000..=5_002).contains(&began.elapsed().as_millis()));
}

#[tokio::test(start_paused = true)]
async fn what_a_client_took_to_send_its_request_is_not_taken_from_the_backends_time() {
    let slow = manner(|_, mut stream| async move {
        let request = receive(&mut stream).await.unwrap();
        sleep(SECOND * 4).await;
        send(&mut stream, &request).await.unwrap();
    });
    let router = Backends::one(slow).router(ServerOptions::default()).await;
    let mut client = connect(&router);
    let request = frame(b"slow on both sides");

    client.write_all(&request[..10]).await.unwrap();
    sleep(SECOND * 4).await;
    client.write_all(&request[10..]).await.unwrap();

    assert_eq!(
        receive(&mut client).await.as_deref(),
        Some(&b"slow on both sides"[..])
    );
}

/// Covers: S-24
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_take_its_answer_is_cut_off_short_or_long() {
    for length in [100, 1_000_000] {
        let answers = manner(move |_, mut stream| async move {
            while receive(&mut stream).await.is_some() {
                let _ = send(&mut stream, &payload(length)).await;
            }
        });
        let router = Backends::one(answers).router(ServerOptions::default()).await;
        let mut client = connect_over(&router, 16);
        let began = Instant::now();

        send(&mut client, b"").await.unwrap();
        until(|| router.totals().errors.client_write == 1).await;

        let allowed = 5.0 + (length + 4) as f64 / 262_144.0;
        let took = began.elapsed().as_secs_f64();
        assert!(
            (allowed..allowed + 0.1).contains(&took),
            "{length} bytes: {took} s"
        );
        assert_eq!(router.totals().connected, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_request_at_the_slowest_rate_passes_and_a_slower_one_is_cut_off() {
    let options = ServerOptions {
        min_rate: 100_000,
        ..ServerOptions::default()
    };
    // A million bytes: 10 seconds at the slowest rate, and 5 beside that.
    for (pause, passes) in [
        (Duration::from_millis(14), true),
        (Duration::from_millis(16), false),
    ] {
        let router = Backends::one(echo()).router(options.clone()).await;
        let mut client = connect(&router);
        let request = payload(999_996);

        let (mut reading, mut writing) = tokio::io::split(&mut client);
        let sent = async {
            for piece in frame(&request).chunks(1000) {
                sleep(pause).await;
                if writing.write_all(piece).await.is_err() {
                    return;
                }
            }
        };
        let (_, answer) = tokio::join!(sent, receive(&mut reading));

        assert_eq!(answer == Some(request), passes, "{pause:?} for a thousand bytes");
        assert_eq!(router.totals().errors.client_slow, u64::from(!passes));
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_answer_at_the_slowest_rate_passes_and_a_slower_one_is_cut() {
    let options = ServerOptions {
        min_rate: 100_000,
        ..ServerOptions::default()
    };
    for (pause, passes) in [
        (Duration::from_millis(14), true),
        (Duration::from_millis(16), false),
    ] {
        let slow = manner(move |_, mut stream| async move {
            receive(&mut stream).await;
            for piece in frame(&payload(999_996)).chunks(1000) {
                sleep(pause).await;
                if stream.write_all(piece).await.is_err() {
                    return;
                }
            }
            sleep(Duration::from_secs(3600)).await;
        });
        let router = Backends::one(slow).router(options.clone()).await;
        let mut client = connect(&router);

        send(&mut client, b"slowly").await.unwrap();
        let answer = receive(&mut client).await;

        assert_eq!(answer.is_some(), passes, "{pause:?} for a thousand bytes");
        assert_eq!(router.totals().errors.answer_cut, u64::from(!passes));
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_client_is_left_alone_for_ever_unless_told_otherwise() {
    let router = Backends::one(echo()).router(ServerOptions::default()).await;
    let mut client = connect(&router);
    ask(&mut client, b"one").await.unwrap();

    sleep(Duration::from_secs(24 * 3600)).await;

    assert_eq!(ask(&mut client, b"two").await.as_deref(), Some("two"));
}

#[tokio::test(start_paused = true)]
async fn an_idle_client_is_ended_after_client_idle_timeout_counted_from_its_last_answer() {
    let options = ServerOptions {
        client_idle_timeout: Some(SECOND * 60),
        ..ServerOptions::default()
    };
    let router = Backends::one(echo()).router(options).await;
    let mut client = connect(&router);
    sleep(SECOND * 59).await;
    ask(&mut client, b"just in time").await.unwrap();
    let began = Instant::now();

    let read = client.read(&mut [0]).await.unwrap();

    assert_eq!((read, began.elapsed().as_secs()), (0, 60));
}

/// Covers: S-36
#[tokio::test(start_paused = true)]
async fn a_request_waits_for_a_connection_as_long_as_borrow_timeout_says() {
    let hang = manner(|_, stream| async move {
        sleep(Duration::from_secs(3600)).await;
        drop(stream);
    });
    let backends = Backends::one(hang);
    let mut config = backends.config(ServerOptions::default());
    config.backend.max_size = 1;
    let router = pgsteer_router::server::Router::start_over(config, std::sync::Arc::new(backends));
    let router = router.await.unwrap();
    let mut first = connect(&router);
    send(&mut first, b"has the only connection").await.unwrap();
    sleep(SECOND).await;
    let mut second = connect(&router);
    let began = Instant::now();

    let told = ask(&mut second, b"has none").await;

    assert_eq!(told.as_deref(), Some("ERR backend unavailable"));
    assert_eq!(began.elapsed().as_secs(), 2);
}
