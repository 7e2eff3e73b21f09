//! What a black hole swallows, and that it is gone afterwards.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pgsteer_testkit::{Blackhole, Fake, FakePg, HaSet};
use tokio::time::timeout;

use crate::{log_in, value};

/// Set in the process that is to be killed with a black hole in its hands.
const VICTIM: &str = "PGSTEER_TESTKIT_VICTIM";

/// What becomes of a connection attempt within a moment.
fn connect(address: &str) -> Result<TcpStream, ErrorKind> {
    let address: SocketAddr = address.parse().unwrap();
    TcpStream::connect_timeout(&address, Duration::from_millis(200)).map_err(|error| error.kind())
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_a_swallowed_node_wait_in_vain_until_the_hole_is_closed() {
    let set = HaSet::builder().standbys(1).start();
    let (node, neighbour) = (set.node(0).address(), set.node(1).address());
    let client = log_in(set.node(0), "patient").await.unwrap();

    let hole = Blackhole::over(&[&node]);

    assert_eq!(connect(&node).err(), Some(ErrorKind::TimedOut));
    connect(&neighbour).unwrap();
    let mut query = Box::pin(client.query_one("SELECT 1", &[]));
    assert!(
        timeout(Duration::from_millis(200), &mut query).await.is_err(),
        "an answer came through"
    );
    assert!(!client.is_closed());
    // Neither the testkit's own way in nor replication is a network.
    set.node(0).sql("CREATE TABLE t AS SELECT 7 AS n");
    set.wait_caught_up(1, 0);
    assert_eq!(value(set.node(1), "SELECT n FROM t").as_deref(), Some("7"));

    drop(hole);

    connect(&node).unwrap();
    timeout(Duration::from_secs(10), query).await.unwrap().unwrap();
}

#[test]
fn several_holes_are_independent_of_each_other() {
    let fakes = [FakePg::start(Fake::Silent), FakePg::start(Fake::Silent)];
    let [first, second] = [0, 1].map(|index| fakes[index].address());
    let outer = Blackhole::over(&[&first, &second]);
    let inner = Blackhole::over(&[&second]);
    drop(outer);
    connect(&first).unwrap();
    assert_eq!(connect(&second).err(), Some(ErrorKind::TimedOut));
    drop(inner);
    connect(&second).unwrap();
}

/// The test runs itself as a second process, which opens a hole, says where, and is then killed.
#[test]
fn a_killed_test_process_leaves_no_hole() {
    if std::env::var_os(VICTIM).is_some() {
        let address = std::env::var(VICTIM).unwrap();
        let _hole = Blackhole::over(&[&address]);
        println!("\nopen");
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }
    let fake = FakePg::start(Fake::Silent);
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "blackhole::a_killed_test_process_leaves_no_hole",
            "--nocapture",
        ])
        .env(VICTIM, fake.address())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    assert!(lines.any(|line| line == "open"));
    assert_eq!(connect(&fake.address()).err(), Some(ErrorKind::TimedOut));

    victim.kill().unwrap();
    victim.wait().unwrap();

    let end = Instant::now() + Duration::from_secs(20);
    while connect(&fake.address()).is_err() {
        assert!(Instant::now() < end, "the hole outlives its test process");
    }
}

#[test]
#[should_panic(expected = "\"127.0.0.1\" is no address with a port")]
fn an_address_without_a_port_fails_the_test() {
    drop(Blackhole::over(&["127.0.0.1"]));
}
