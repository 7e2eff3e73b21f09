//! How many clients there may be.

use std::time::Duration;

use pgsteer_router::server::ServerOptions;
use tokio::net::TcpStream;

use crate::draining::tcp_router;
use crate::rig::*;

/// Covers: S-16
#[tokio::test]
async fn a_client_beyond_max_connections_waits_until_another_has_gone_and_is_then_served() {
    let router = tcp_router(ServerOptions {
        max_connections: 2,
        ..ServerOptions::default()
    });
    let router = router.await;
    let mut first = TcpStream::connect(router.local_addr()).await.unwrap();
    let mut second = TcpStream::connect(router.local_addr()).await.unwrap();
    ask(&mut first, b"1").await.unwrap();
    ask(&mut second, b"2").await.unwrap();

    let mut third = TcpStream::connect(router.local_addr()).await.unwrap();
    send(&mut third, b"3").await.unwrap();
    // The two are served meanwhile, so the router had every opportunity.
    for _ in 0..20 {
        ask(&mut first, b"1").await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(router.totals().accepted, 2);
    drop(second);

    assert_eq!(receive(&mut third).await.as_deref(), Some(&b"3"[..]));
    assert_eq!(router.totals().accepted, 3);
}
