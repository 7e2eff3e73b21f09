//! The same servers over real loopback TCP. Real time passes here, but nothing waits for it.

use std::net::SocketAddr;
use std::time::Duration;

use crate::common::{config, sqlstate};
use pgsteer_sim::{Accept, Death, Shutdown, Sim};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_postgres::{Client, Error, NoTls};

/// Long enough for a busy machine, and only waited out by a test that fails.
const LIMIT: Duration = Duration::from_secs(30);

async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(LIMIT, future).await.expect("in time")
}

async fn log_in(address: SocketAddr) -> Result<Client, Error> {
    let stream = within(TcpStream::connect(address))
        .await
        .expect("the connect itself works");
    let (client, connection) = within(config().connect_raw(stream, NoTls)).await?;
    tokio::spawn(connection);
    Ok(client)
}

#[tokio::test]
async fn every_server_is_there_and_lists_the_real_addresses() {
    let sim = Sim::new(1);
    let addresses = sim.listen().await.unwrap();
    for (address, name) in addresses.iter().zip(["a", "b", "c"]) {
        let client = log_in(*address).await.unwrap();
        let row = client.query_one("SELECT rig_whoami()", &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), name);
        let rows = client
            .query("SELECT host, port FROM yb_servers()", &[])
            .await
            .unwrap();
        let listed = rows
            .iter()
            .map(|row| (row.get::<_, String>(0), row.get::<_, i64>(1)));
        let real = addresses
            .iter()
            .map(|address| (address.ip().to_string(), i64::from(address.port())));
        assert!(listed.eq(real));
    }
    assert_eq!(
        sim.listen().await.unwrap(),
        addresses,
        "listening twice changes nothing"
    );
    assert_eq!(sim.server("b").listening(), Some(addresses[1]));
}

#[tokio::test]
async fn refusing_and_serving_again_is_seen_on_the_port() {
    let sim = Sim::new(1);
    let server = sim.server("a");
    let address = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    log_in(address).await.unwrap();
    server.set_accept(Accept::Refuse);
    within(async {
        while let Ok(stream) = TcpStream::connect(address).await {
            drop(stream);
            tokio::task::yield_now().await;
        }
    })
    .await;
    server.set_accept(Accept::Serve);
    within(async {
        while TcpStream::connect(address).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    log_in(address).await.unwrap();
}

#[tokio::test]
async fn deaths_look_as_they_should_on_a_real_socket() {
    for death in [Death::Fin, Death::Rst] {
        let sim = Sim::new(1);
        let server = sim.server("a");
        let address = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(b"\0\0\0\x12\0\x03\0\0user\0app\0\0")
            .await
            .unwrap();
        let mut greeting = [0; 9];
        within(stream.read_exact(&mut greeting)).await.unwrap();
        assert_eq!(greeting[0], b'R');
        server.kill(death);
        let mut rest = Vec::new();
        let outcome = within(stream.read_to_end(&mut rest))
            .await
            .map_err(|error| error.kind());
        match death {
            Death::Rst => assert_eq!(outcome, Err(std::io::ErrorKind::ConnectionReset)),
            _ => assert!(outcome.is_ok()),
        }
    }
}

#[tokio::test]
async fn a_silent_peer_is_reset_once_its_host_is_back() {
    let sim = Sim::new(1);
    let server = sim.server("a");
    let address = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let client = log_in(address).await.unwrap();
    server.kill(Death::Silence);
    within(async {
        while sim.live() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let query = tokio::spawn(async move { client.simple_query("SELECT 1").await });
    tokio::task::yield_now().await;
    assert!(!query.is_finished());
    server.start();
    assert!(within(query).await.unwrap().is_err());
    log_in(address).await.unwrap();
}

#[tokio::test]
async fn a_shutdown_says_goodbye_on_a_real_socket_and_a_start_serves_again() {
    let sim = Sim::new(1);
    let server = sim.server("a");
    let address = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let (_client, connection) = config().connect_raw(stream, NoTls).await.unwrap();
    server.shut_down(Shutdown::Fast);
    let error = within(connection).await.unwrap_err();
    assert_eq!(sqlstate(&error), "57P01");
    server.start();
    within(async {
        while TcpStream::connect(address).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    log_in(address).await.unwrap();
    server.stop_listening();
    within(async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
