//! `socket_timeout` against real servers: what a call that takes too long costs, and what it does not.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use pgsteer::{Conn, EndCause, Error, HostKey};
use pgsteer_testkit::{Server, Universe};

use crate::rig::{becomes, full_pool, key, rig};

/// Covers: E-355
#[tokio::test(flavor = "multi_thread")]
async fn a_sleep_beyond_the_bound_costs_its_connection_and_marks_no_host() {
    let universe = rig(Universe::builder().servers(1)).await;
    let pool = full_pool(&universe, "pool_size=1&socket_timeout=500ms&load_balance=false").await;
    let pid = backend(&pool.get().await.unwrap()).await;

    let started = Instant::now();
    let error = pool.query("SELECT pg_sleep(5)", &[]).await.unwrap_err();
    let took = started.elapsed();
    assert!(is_timed_out(&error), "{error}");
    assert!(
        (Duration::from_millis(500)..Duration::from_millis(1500)).contains(&took),
        "{took:?}"
    );

    assert_ne!(backend(&pool.get().await.unwrap()).await, pid);
    assert_eq!(pool.cluster().snapshot().failed(), Vec::<HostKey>::new());
}

/// A frozen server answers nothing, and its kernel goes on acknowledging what is sent: no keepalive finds that out.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_to_a_frozen_server_ends_at_its_bound_and_leaves_nothing_running() {
    let universe = rig(Universe::builder().servers(1)).await;
    let server = universe.server(0);
    let options = "pool_size=2&socket_timeout=500ms&load_balance=false";
    let pool = full_pool(&universe, options).await;
    let conn = pool.get().await.unwrap();
    // The keeper, the cluster's timer, with metrics who samples them, and a driver for each of two connections.
    let keepers = if cfg!(feature = "metrics") { 3 } else { 2 };
    let calm = (keepers + 2, 2);
    becomes(calm, || (tasks(), sockets_to(server))).await;
    server.freeze();

    let started = Instant::now();
    let error = conn.batch_execute("SELECT 1").await.unwrap_err();
    assert!(is_timed_out(&error), "{error}");
    assert!(started.elapsed() < Duration::from_millis(1500));
    assert!(conn.is_closed(), "dead before the holder's next step");
    assert_eq!(Conn::transaction_status(&conn), None);
    assert_eq!(sockets_to(server), 1);
    assert_eq!(pool.cluster().snapshot().failed(), Vec::<HostKey>::new());
    drop(conn);

    server.thaw();
    becomes(2, || pool.status().idle).await;
    assert_eq!(pool.cluster().snapshot().failed(), Vec::<HostKey>::new());
    becomes(calm, || (tasks(), sockets_to(server))).await;
    pool.query("SELECT 1", &[]).await.unwrap();
}

/// Tasks of this test's runtime.
fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// This process' and anybody else's open sockets to the server, as the kernel lists them.
fn sockets_to(server: &Server) -> usize {
    const ESTABLISHED: &str = "01";
    let address: Ipv4Addr = server.host().parse().unwrap();
    let there = format!("{:08X}:{:04X}", address.to_bits().swap_bytes(), server.port());
    let listed = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let is_there = |line: &&str| {
        let mut fields = line.split_ascii_whitespace().skip(2);
        fields.next() == Some(&*there) && fields.next() == Some(ESTABLISHED)
    };
    listed.lines().filter(is_there).count()
}

/// The driver's own calls are ended too, and the host is found out: nobody else is sent there.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_stalled_on_a_frozen_server_is_ended_and_its_host_is_marked() {
    let universe = rig(Universe::builder().servers(2)).await;
    let options = "pool_size=2&stall_timeout=500ms&connect_timeout=1s";
    let pool = full_pool(&universe, options).await;
    let frozen = key(universe.server(1));
    let (first, second) = (pool.get().await.unwrap(), pool.get().await.unwrap());
    let (there, _other) = if *Conn::host(&first) == frozen {
        (first, second)
    } else {
        (second, first)
    };
    universe.server(1).freeze();

    let started = Instant::now();
    let error = (*there).batch_execute("SELECT 1").await.unwrap_err();
    assert!(error.is_closed(), "{error}");
    assert!((Duration::from_millis(500)..Duration::from_millis(1500)).contains(&started.elapsed()));
    assert_eq!(
        Conn::end(&there).map(|end| end.cause),
        Some(EndCause::StallTimeout)
    );
    becomes(vec![frozen], || pool.cluster().snapshot().failed()).await;
    universe.server(1).thaw();
}

/// A change of the schema under a kept statement, as the server itself tells it.
#[tokio::test(flavor = "multi_thread")]
async fn a_kept_statement_survives_a_change_of_its_table() {
    let universe = rig(Universe::builder().servers(1)).await;
    let pool = full_pool(&universe, "pool_size=1&load_balance=false").await;
    let conn = pool.get().await.unwrap();
    conn.batch_execute("CREATE TABLE kept (a int); INSERT INTO kept VALUES (1)")
        .await
        .unwrap();
    let columns = async || {
        conn.query_one_cached("SELECT * FROM kept", &[])
            .await
            .unwrap()
            .len()
    };
    assert_eq!(columns().await, 1);
    conn.batch_execute("ALTER TABLE kept ADD b int").await.unwrap();
    assert_eq!(columns().await, 2);
    conn.batch_execute("DEALLOCATE ALL").await.unwrap();
    assert_eq!(columns().await, 2);
}

/// The types of a kept statement's parameters are those it was prepared with. When they do not suit any more, one call on each
/// connection fails, and not all of them for as long as the connection lives.
#[tokio::test(flavor = "multi_thread")]
async fn a_kept_statement_whose_parameters_have_other_types_by_now_is_prepared_anew() {
    let universe = rig(Universe::builder().servers(1)).await;
    let pool = full_pool(&universe, "pool_size=1&load_balance=false").await;
    let conn = pool.get().await.unwrap();
    let sql = "SELECT a FROM typed WHERE a = $1";
    for fails_in in ["the driver", "the server"] {
        conn.batch_execute("CREATE TABLE typed (a int); INSERT INTO typed VALUES (1)")
            .await
            .unwrap();
        conn.query_one_cached(sql, &[&1]).await.unwrap();
        conn.batch_execute("DROP TABLE typed; CREATE TABLE typed (a text); INSERT INTO typed VALUES ('1')")
            .await
            .unwrap();
        let failed = match fails_in {
            "the driver" => conn.query_one_cached(sql, &[&"1"]).await.unwrap_err(),
            _ => conn.query_one_cached(sql, &[&1]).await.unwrap_err(),
        };
        assert_eq!(failed.code().is_none(), fails_in == "the driver", "{failed}");
        let row = conn.query_one_cached(sql, &[&"1"]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), "1", "{fails_in}");
        conn.batch_execute("DROP TABLE typed").await.unwrap();
        pool.clear_statement_caches();
    }
}

async fn backend(conn: &Conn) -> i32 {
    conn.query_one_scalar("SELECT pg_backend_pid()", &[])
        .await
        .expect("the connection works")
}

fn is_timed_out(error: &Error) -> bool {
    matches!(error, Error::ConnectionLost(lost) if lost.end.cause == EndCause::SocketTimeout)
}
