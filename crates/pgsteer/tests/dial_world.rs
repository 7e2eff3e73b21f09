//! The real world's seams: what its resolver and its sockets are like.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing step fails the test")]

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use pgsteer::config::Keepalives;
use pgsteer::world::{Endpoint, Socket, SocketOptions, World};
use tokio::net::TcpListener;

async fn dial(options: &SocketOptions) -> tokio::net::TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Endpoint::Tcp(listener.local_addr().unwrap());
    match World::real().dialler().dial(&target, options).await.unwrap() {
        Socket::Tcp(stream) => stream,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_tcp_socket_has_the_options_asked_for() {
    let stream = dial(&SocketOptions {
        keepalives: Some(Keepalives {
            idle: Duration::from_secs(30),
            interval: Duration::from_secs(10),
            count: 3,
        }),
        tcp_user_timeout: Some(Duration::from_millis(4500)),
    })
    .await;
    let socket = socket2::SockRef::from(&stream);
    assert!(stream.nodelay().unwrap());
    assert!(socket.keepalive().unwrap());
    assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(30));
    assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(10));
    assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
    assert_eq!(
        socket.tcp_user_timeout().unwrap(),
        Some(Duration::from_millis(4500))
    );
}

#[tokio::test]
async fn a_tcp_socket_without_options_has_only_no_delay() {
    let stream = dial(&SocketOptions::default()).await;
    assert!(stream.nodelay().unwrap());
    assert!(!socket2::SockRef::from(&stream).keepalive().unwrap());
}

#[tokio::test]
async fn localhost_and_literals_resolve_to_loopback_addresses_each_once() {
    let world = World::real();
    for name in ["localhost", "127.0.0.1", "::1"] {
        let addresses = world.resolver().resolve(name).await.unwrap();
        assert!(
            !addresses.is_empty() && addresses.iter().all(IpAddr::is_loopback),
            "{name}: {addresses:?}"
        );
        let mut once = addresses.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), addresses.len(), "{name}");
    }
}

#[tokio::test]
async fn a_refused_connect_and_a_missing_socket_are_errors_of_their_kind() {
    let world = World::real();
    let closed = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let refused = world
        .dialler()
        .dial(&Endpoint::Tcp(closed), &SocketOptions::default())
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    let missing = Endpoint::Unix("/nonexistent/.s.PGSQL.5432".into());
    let missing = world
        .dialler()
        .dial(&missing, &SocketOptions::default())
        .await
        .unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[test]
fn endpoints_are_written_as_people_write_them() {
    let six: SocketAddr = "[::1]:5432".parse().unwrap();
    assert_eq!(Endpoint::Tcp(six).to_string(), "[::1]:5432");
    assert_eq!(
        Endpoint::Unix("/run/.s.PGSQL.5432".into()).to_string(),
        "/run/.s.PGSQL.5432"
    );
}

#[test]
fn draws_differ() {
    let world = World::real();
    let draws: std::collections::HashSet<u64> = (0..100).map(|_| world.draw()).collect();
    assert!(draws.len() > 95);
}
