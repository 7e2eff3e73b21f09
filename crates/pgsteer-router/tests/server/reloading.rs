//! Another configuration while the router runs: all of it or nothing, and nobody is cut off.

use std::sync::Arc;
use std::time::Duration;

use pgsteer_router::backend::BackendOptions;
use pgsteer_router::server::{Router, RouterConfig, ServerOptions};
use tokio::net::TcpStream;

use crate::rig::*;

/// Sends back its name.
fn named(name: &'static str) -> Manner {
    manner(move |_, mut stream| async move {
        while receive(&mut stream).await.is_some() {
            if send(&mut stream, name.as_bytes()).await.is_err() {
                return;
            }
        }
    })
}

/// A router in front of one of two backends, and its configuration.
async fn in_front_of_the_first() -> (Router, RouterConfig) {
    let backends = Backends::default()
        .with(1, named("first"))
        .with(2, named("second"));
    let mut config = backends.config(ServerOptions::default());
    config.backends = vec![backend(1)];
    let router = Router::start_over(config.clone(), Arc::new(backends));
    (router.await.unwrap(), config)
}

/// Covers: S-66
#[tokio::test(start_paused = true)]
async fn requests_go_to_the_new_backends_on_the_connections_that_clients_have() {
    let (router, config) = in_front_of_the_first().await;
    let mut client = connect(&router);
    let before = ask(&mut client, b"who?").await;

    let changed = RouterConfig {
        backends: vec![backend(2)],
        ..config
    };
    router.reload(changed).await.unwrap();

    assert_eq!(before.as_deref(), Some("first"));
    assert_eq!(ask(&mut client, b"who?").await.as_deref(), Some("second"));
}

#[tokio::test(start_paused = true)]
async fn the_next_request_goes_by_the_new_limits() {
    let (router, mut config) = in_front_of_the_first().await;
    let mut client = connect(&router);
    ask(&mut client, &[0; 2_000]).await.unwrap();

    config.server.max_frame = 1_000;
    router.reload(config).await.unwrap();

    assert!(ask(&mut client, &[0; 1_000]).await.is_some());
    assert_eq!(ask(&mut client, &[0; 2_000]).await, None);
}

/// Covers: S-66
#[tokio::test(start_paused = true)]
async fn what_cannot_be_used_or_cannot_change_is_refused_with_the_reason_and_nothing_has_changed() {
    type Change = fn(&mut RouterConfig);
    let cases: [(Change, &str); 7] = [
        (
            |config| config.listen = "127.0.0.1:1".to_owned(),
            "--listen cannot change from",
        ),
        (
            |config| config.metrics = Some("127.0.0.1:1".to_owned()),
            "--metrics cannot change from nothing to",
        ),
        (
            |config| config.server.backlog = 1,
            "--backlog cannot change from 4096 to 1",
        ),
        (
            |config| config.backends.clear(),
            "there must be at least one backend",
        ),
        (
            |config| config.backends.push(backend(2)),
            "backend memory:2 is given twice",
        ),
        (
            |config| config.server.pipeline = 0,
            "option pipeline cannot be `0`",
        ),
        (
            |config| {
                config.backend = BackendOptions {
                    max_size: 0,
                    ..BackendOptions::default()
                };
            },
            "option max_size cannot be `0`",
        ),
    ];
    for (change, told) in cases {
        let (router, mut config) = in_front_of_the_first().await;
        config.backends = vec![backend(2)];
        change(&mut config);

        let refused = router.reload(config).await.unwrap_err().to_string();

        assert!(refused.contains(told), "{refused}");
        let mut client = connect(&router);
        assert_eq!(
            ask(&mut client, b"who?").await.as_deref(),
            Some("first"),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn more_clients_are_accepted_at_once_when_there_may_be_more() {
    let backends = Backends::one(echo());
    let mut config = backends.config(ServerOptions {
        max_connections: 1,
        ..ServerOptions::default()
    });
    let router = Router::start_over(config.clone(), Arc::new(backends))
        .await
        .unwrap();
    let mut first = TcpStream::connect(router.local_addr()).await.unwrap();
    ask(&mut first, b"1").await.unwrap();
    let mut second = TcpStream::connect(router.local_addr()).await.unwrap();
    send(&mut second, b"2").await.unwrap();

    config.server.max_connections = 2;
    router.reload(config).await.unwrap();

    let answer = tokio::time::timeout(Duration::from_secs(60), receive(&mut second));
    assert_eq!(answer.await.unwrap().as_deref(), Some(&b"2"[..]));
}
