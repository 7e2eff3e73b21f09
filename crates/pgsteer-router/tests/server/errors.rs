//! Requests that cannot be answered: the client is told by a frame and goes on, or is cut off where it would be misled.

use std::time::Duration;

use pgsteer_router::server::{Errors, ServerOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::rig::*;

/// A backend that does this with the first request of its first connection, and echoes everything after that.
fn first<F>(act: impl Fn(Vec<u8>, tokio::io::DuplexStream) -> F + Clone + Send + Sync + 'static) -> Manner
where
    F: Future<Output = ()> + Send + 'static,
{
    let echo = echo();
    manner(move |number, mut stream| {
        let (act, echo) = (act.clone(), echo.clone());
        async move {
            if number > 0 {
                return echo(number, stream).await;
            }
            if let Some(request) = receive(&mut stream).await {
                act(request, stream).await;
            }
        }
    })
}

/// Covers: S-08, S-23
#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_answered_is_answered_with_the_reason_and_the_client_goes_on() {
    let hang = first(|_, stream| async move {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        drop(stream);
    });
    let close = first(|_, stream| async move { drop(stream) });
    let cut = first(|_, mut stream| async move {
        stream.write_all(b"\0\0\0\x05cut").await.unwrap();
    });
    let cut_header = first(|_, mut stream| async move {
        stream.write_all(b"\0\0").await.unwrap();
    });
    let garbage = first(|_, mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
    });
    let cases = [
        ("hangs", hang),
        ("closes", close),
        ("cuts the answer", cut),
        ("cuts the header", cut_header),
        ("answers garbage", garbage),
    ];
    for (what, manner) in cases {
        let router = Backends::one(manner).router(ServerOptions::default()).await;
        let mut client = connect(&router);

        let told = ask(&mut client, b"the first").await;
        let next = ask(&mut client, b"the next").await;

        assert_eq!(told.as_deref(), Some("ERR backend read"), "a backend that {what}");
        assert_eq!(next.as_deref(), Some("the next"), "after a backend that {what}");
        let totals = router.totals();
        assert_eq!((totals.answered, totals.errors.backend_read), (1, 1), "{what}");
    }
}

/// Covers: S-08, S-21
#[tokio::test(start_paused = true)]
async fn a_request_without_a_backend_is_told_so_short_or_long_and_the_client_goes_on() {
    let nobody = Backends::default();
    let mut config = nobody.config(ServerOptions::default());
    config.backends = vec![backend(9)];
    let router = pgsteer_router::server::Router::start_over(config, std::sync::Arc::new(nobody));
    let router = router.await.unwrap();
    let mut client = connect(&router);

    for length in [0, 10, 100_000] {
        let told = ask(&mut client, &payload(length)).await;
        assert_eq!(told.as_deref(), Some("ERR backend unavailable"), "{length} bytes");
    }

    assert_eq!(router.totals().errors.backend_unavailable, 3);
}

/// Covers: S-08, S-22
#[tokio::test(start_paused = true)]
async fn a_backend_that_ends_within_a_long_request_is_told_of_after_the_request_and_the_client_goes_on() {
    let echo = echo();
    let manner = manner(move |number, mut stream| {
        let echo = echo.clone();
        async move {
            match number {
                0 => {
                    stream.read_exact(&mut [0; 1000]).await.unwrap();
                }
                _ => echo(number, stream).await,
            }
        }
    });
    let router = Backends::one(manner).router(ServerOptions::default()).await;
    let mut client = connect(&router);

    let told = ask(&mut client, &payload(3_000_000)).await;
    let next = ask(&mut client, b"the next").await;

    assert_eq!(told.as_deref(), Some("ERR backend write"));
    assert_eq!(next.as_deref(), Some("the next"));
}

/// Covers: S-22
#[tokio::test(start_paused = true)]
async fn a_backend_that_does_not_take_a_long_request_in_time_is_told_of_and_the_client_goes_on() {
    let echo = echo();
    let manner = manner(move |number, stream| {
        let echo = echo.clone();
        async move {
            match number {
                0 => {
                    tokio::time::sleep(Duration::from_secs(3600)).await;
                    drop(stream);
                }
                _ => echo(number, stream).await,
            }
        }
    });
    let router = Backends::one(manner).router(ServerOptions::default()).await;
    let mut client = connect(&router);

    let told = ask(&mut client, &payload(1_000_000)).await;
    let next = ask(&mut client, b"the next").await;

    assert_eq!(told.as_deref(), Some("ERR backend write"));
    assert_eq!(next.as_deref(), Some("the next"));
}

/// Covers: S-25
#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_off_after_a_part_has_gone_on_ends_the_client_and_makes_nothing_up() {
    let half = first(|_, mut stream| async move {
        let answer = frame(&payload(200_000));
        stream.write_all(&answer[..100_000]).await.unwrap();
    });
    let router = Backends::one(half).router(ServerOptions::default()).await;
    let mut client = connect_over(&router, 1024);

    send(&mut client, b"a long answer").await.unwrap();
    let got = rest(&mut client).await;

    let whole = frame(&payload(200_000));
    assert!(!got.is_empty() && got.len() <= 100_000, "{} bytes", got.len());
    assert!(
        got == whole[..got.len()],
        "the client got something that was no part of the answer"
    );
    until(|| router.totals().errors.answer_cut == 1).await;
}

#[tokio::test(start_paused = true)]
async fn an_early_answer_to_a_request_that_is_not_heard_out_reaches_the_client() {
    let refuse = manner(|_, mut stream| async move {
        stream.read_exact(&mut [0; 4]).await.unwrap();
        stream.write_all(&frame(b"too long for me")).await.unwrap();
    });
    let router = Backends::one(refuse).router(ServerOptions::default()).await;
    let mut client = connect(&router);

    let told = ask(&mut client, &payload(1_000_000)).await;
    let again = ask(&mut client, &payload(1_000_000)).await;

    assert_eq!(told.as_deref(), Some("too long for me"));
    assert_eq!(again.as_deref(), Some("too long for me"));
}

/// Covers: S-04, S-09, S-20
#[tokio::test(start_paused = true)]
async fn how_a_client_breaks_its_request_off_is_told_apart_and_none_reaches_a_backend() {
    type Case = (&'static str, &'static [u8], fn(&Errors) -> u64);
    let cases: [Case; 3] = [
        ("ends inside a header", b"\0\0", |errors| errors.client_cut),
        ("ends inside a payload", b"\0\0\0\x05cut", |errors| {
            errors.client_cut
        }),
        ("announces too much", b"\x01\0\0\x01", |errors| {
            errors.client_too_long
        }),
    ];
    for (what, bytes, count) in cases {
        let backends = Backends::one(echo());
        let router = backends.router(ServerOptions::default()).await;
        let mut client = connect(&router);

        client.write_all(bytes).await.unwrap();
        client.shutdown().await.unwrap();

        assert_eq!(rest(&mut client).await, b"", "a client that {what}");
        let totals = router.totals();
        assert_eq!(
            (count(&totals.errors), totals.ended()),
            (1, 1),
            "a client that {what}"
        );
        assert_eq!(backends.dials(), 0, "a client that {what}");
    }
}

/// Covers: S-09
#[tokio::test(start_paused = true)]
async fn a_client_that_ends_between_requests_is_no_error() {
    let router = Backends::one(echo()).router(ServerOptions::default()).await;
    let mut client = connect(&router);
    ask(&mut client, b"one").await.unwrap();

    client.shutdown().await.unwrap();

    assert_eq!(rest(&mut client).await, b"");
    assert_eq!(router.totals().errors, Errors::default());
}

/// Covers: S-03
#[tokio::test(start_paused = true)]
async fn a_payload_as_long_as_is_allowed_passes_and_one_byte_more_does_not() {
    let options = ServerOptions {
        max_frame: 1000,
        ..ServerOptions::default()
    };
    let router = Backends::one(echo()).router(options).await;
    let mut client = connect(&router);

    assert!(ask(&mut client, &[b'x'; 1000]).await.is_some());
    assert_eq!(ask(&mut client, &[b'x'; 1001]).await, None);
}

/// Covers: S-12, S-24
#[tokio::test(start_paused = true)]
async fn a_client_that_goes_while_its_request_is_at_work_leaves_the_backends_connection_good_for_others() {
    let backends = Backends::one(echo());
    let router = backends.router(ServerOptions::default()).await;
    let mut client = connect(&router);
    send(&mut client, b"nobody waits for this").await.unwrap();
    drop(client);
    until(|| router.totals().connected == 0).await;

    let mut other = connect(&router);

    assert_eq!(ask(&mut other, b"next").await.as_deref(), Some("next"));
    until(|| router.totals().connected == 1).await;
    assert_eq!(router.totals().ended(), 2);
    assert_eq!(
        backends.dials(),
        1,
        "the backend has answered, so its connection is good"
    );
}
