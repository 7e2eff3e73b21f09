//! What is told over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pgsteer_router::server::{Router, ServerOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::rig::*;

async fn watched(backends: Backends, server: ServerOptions) -> Router {
    let mut config = backends.config(server);
    config.metrics = Some("127.0.0.1:0".to_owned());
    let router = Router::start_over(config, Arc::new(backends));
    router.await.expect("the router starts")
}

/// Status and body.
async fn request(address: SocketAddr, line: &str) -> (u16, String) {
    request_on(TcpStream::connect(address).await.unwrap(), line).await
}

async fn request_on(mut stream: TcpStream, line: &str) -> (u16, String) {
    let head = format!("{line} HTTP/1.1\r\nHost: router\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

/// Covers: S-47
#[tokio::test]
async fn the_router_and_each_backend_tell_what_they_have_done() {
    let backends = Backends::default().with(1, echo()).with(2, echo());
    let router = watched(backends, ServerOptions::default()).await;
    let mut client = connect(&router);
    for _ in 0..10 {
        ask(&mut client, b"counted").await.unwrap();
    }

    let (status, text) = request(router.metrics_addr().unwrap(), "GET /metrics").await;

    assert_eq!(status, 200);
    for line in [
        "pgsteer_router_accepted_total 1",
        "pgsteer_router_connected 1",
        "pgsteer_router_ready 1",
        "pgsteer_router_requests_total 10",
        "pgsteer_router_answered_total 10",
        "pgsteer_router_retried_total 0",
        "pgsteer_router_dropped_total 0",
        "pgsteer_router_errors_total{kind=\"backend_read\"} 0",
        "pgsteer_router_backend_in_flight{backend=\"memory:1\"} 0",
        "pgsteer_router_backend_idle{backend=\"memory:1\"} 1",
        "pgsteer_router_backend_open{backend=\"memory:2\"} 1",
        "pgsteer_router_backend_handled_total{backend=\"memory:1\"} 5",
        "pgsteer_router_backend_handled_total{backend=\"memory:2\"} 5",
        "pgsteer_router_backend_failed_total{backend=\"memory:2\"} 0",
        "pgsteer_router_backend_breaker_state{backend=\"memory:2\"} 0",
        "pgsteer_router_backend_borrow_wait_seconds_count{backend=\"memory:1\"} 5",
        "pgsteer_router_backend_request_duration_seconds_count{backend=\"memory:2\"} 5",
        "# TYPE pgsteer_router_backend_request_duration_seconds histogram",
        "# EOF",
    ] {
        assert!(text.lines().any(|told| told == line), "{line} is not in\n{text}");
    }
}

/// Covers: S-47
#[tokio::test]
async fn errors_are_told_by_kind() {
    let closes = manner(|_, mut stream| async move {
        receive(&mut stream).await;
    });
    let router = watched(Backends::one(closes), ServerOptions::default()).await;
    let mut client = connect(&router);
    ask(&mut client, b"not answered").await.unwrap();

    let (_, text) = request(router.metrics_addr().unwrap(), "GET /metrics").await;

    for line in [
        "pgsteer_router_errors_total{kind=\"backend_read\"} 1",
        "pgsteer_router_answered_total 0",
        "pgsteer_router_backend_failed_total{backend=\"memory:1\"} 1",
    ] {
        assert!(text.lines().any(|told| told == line), "{line} is not in\n{text}");
    }
}

/// Covers: S-48
#[tokio::test]
async fn readiness_is_gone_as_soon_as_the_drain_begins_and_health_is_not() {
    let router = watched(
        Backends::one(echo()),
        ServerOptions {
            drain_delay: Duration::from_secs(3_600),
            ..ServerOptions::default()
        },
    );
    let router = Arc::new(router.await);
    let address = router.metrics_addr().unwrap();
    let before = request(address, "GET /readyz").await;

    let ending = Arc::clone(&router);
    let drained = tokio::spawn(async move { ending.shutdown(Duration::from_secs(3_600)).await });
    until(|| !router.is_ready()).await;

    assert_eq!(before, (200, "ready\n".to_owned()));
    assert_eq!(
        request(address, "GET /readyz").await,
        (503, "draining\n".to_owned())
    );
    assert_eq!(
        request(address, "GET /healthz").await,
        (200, "alive\n".to_owned())
    );
    drained.abort();
}

#[tokio::test]
async fn other_paths_and_methods_are_refused() {
    let router = watched(Backends::one(echo()), ServerOptions::default()).await;
    let address = router.metrics_addr().unwrap();

    assert_eq!(request(address, "GET /").await.0, 404);
    assert_eq!(request(address, "POST /metrics").await.0, 405);
    assert_eq!(request(address, "HEAD /healthz").await, (200, String::new()));
}

/// Far less than a silent connection may stay.
const AT_ONCE: Duration = Duration::from_secs(3);

/// Covers: S-48
#[tokio::test]
async fn connections_that_say_nothing_or_half_of_it_hold_up_no_health_check_and_the_oldest_of_them_go() {
    let router = watched(Backends::one(echo()), ServerOptions::default()).await;
    let address = router.metrics_addr().unwrap();
    let mut silent = Vec::new();
    for number in 0..200 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        if number % 2 == 0 {
            stream.write_all(b"GET /healthz HT").await.unwrap();
        }
        silent.push(stream);
    }

    let answers = async {
        for _ in 0..10 {
            assert_eq!(
                request(address, "GET /healthz").await,
                (200, "alive\n".to_owned())
            );
        }
        // 64 have room; this one is among the last that came before the health checks.
        let newest = silent.pop().unwrap();
        assert_eq!(
            request_on(newest, "GET /readyz").await,
            (200, "ready\n".to_owned())
        );
        let mut rest = Vec::new();
        // How it ends depends on whether all that it had sent was read.
        let _ = silent[0].read_to_end(&mut rest).await;
        assert_eq!(rest, b"");
    };

    tokio::time::timeout(AT_ONCE, answers).await.expect("at once");
}
