//! Clients that stall, come in crowds or find everything full, in front of `pgsteer route`.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::process::{PATIENCE, until};
use crate::tools::{Echo, Load, Router, load};

const MIB: u64 = 1024;

/// A client that announces a long request and sends the beginning of it, as far as it is taken.
fn stalled(router: &Router, announced: u32, sent: usize) -> TcpStream {
    let mut stream = TcpStream::connect(&router.address).expect("it listens");
    stream.set_write_timeout(Some(PATIENCE)).expect("a valid time");
    stream.write_all(&announced.to_be_bytes()).expect("it reads");
    stream.write_all(&vec![7; sent]).expect("it reads");
    stream
}

/// Whether the router has ended this connection.
fn is_ended(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).expect("it can be asked");
    match stream.read(&mut [0; 4096]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

/// Covers: S-14, S-73
#[test]
fn clients_that_stall_in_the_middle_cost_bounded_memory_and_disturb_nobody() {
    let backend = Echo::start(&[]);
    // 16 MiB may take a second.
    let options = [
        "--client-timeout",
        "500ms",
        "--min-rate",
        "32MiB",
        "--pool-size",
        "64",
    ];
    let router = Router::start(&[&backend], &options);
    load(&router.address, &["--requests", "100"]).assert_all_answered();
    let before = router.process.resident_kib();

    let mut clients: Vec<TcpStream> = (0..48).map(|_| stalled(&router, 16 << 20, 200_000)).collect();
    let account = load(&router.address, &["--clients", "8", "--requests", "500"]);
    let grown = router.process.resident_kib().saturating_sub(before);

    account.assert_all_answered();
    // Held whole they would be 768 MiB.
    assert!(grown < 48 * MIB, "{grown} KiB");
    until("all of them are cut off", || clients.iter_mut().all(is_ended));
    load(&router.address, &["--clients", "8", "--requests", "500"]).assert_all_answered();
}

/// Covers: S-73
#[test]
fn clients_that_never_read_their_answers_cost_bounded_memory_and_disturb_nobody() {
    let backend = Echo::start(&[]);
    let options = [
        "--client-timeout",
        "500ms",
        "--min-rate",
        "32MiB",
        "--pool-size",
        "64",
    ];
    let router = Router::start(&[&backend], &options);
    load(&router.address, &["--requests", "100"]).assert_all_answered();
    let before = router.process.resident_kib();

    // Each sends as much as is taken before the answers that it does not read hold everything up.
    let clients: Vec<TcpStream> = (0..16)
        .map(|_| {
            let mut stream = TcpStream::connect(&router.address).expect("it listens");
            let frame = [&(8_u32 << 20).to_be_bytes(), vec![7; 8 << 20].as_slice()].concat();
            stream
                .set_write_timeout(Some(Duration::from_millis(200)))
                .expect("a valid time");
            // It is cut short where the router stops reading.
            let _ = stream.write_all(&frame);
            stream
        })
        .collect();
    let account = load(&router.address, &["--clients", "8", "--requests", "500"]);
    let grown = router.process.resident_kib().saturating_sub(before);

    account.assert_all_answered();
    assert!(grown < 48 * MIB, "{grown} KiB");
    // Not one of them reads, so the router alone can tell.
    until("all of them are cut off", || router.figure("connected") == 0);
    drop(clients);
}

/// Covers: S-16, S-74
#[test]
fn beyond_the_most_connections_clients_wait_and_are_answered() {
    let backend = Echo::start(&[]);
    let router = Router::start(&[&backend], &["--max-connections", "4"]);
    let options = ["--clients", "64", "--requests", "2000", "--dial-per-request"];

    let under_way = Load::start(&router.address, &options);
    let mut most = 0;
    until("it is nearly over", || {
        most = most.max(router.figure("connected"));
        router.figure("answered") >= 1500
    });
    let account = under_way.end();

    account.assert_all_answered();
    assert!((1..=4).contains(&most), "{most} were connected");
}

/// Covers: S-29, S-74
#[test]
fn with_every_connection_to_a_backend_in_use_requests_wait_their_turn() {
    let backend = Echo::start(&["--delay-ms", "1"]);
    let router = Router::start(&[&backend], &["--pool-size", "2"]);

    let account = load(&router.address, &["--clients", "64", "--requests", "1500"]);

    account.assert_all_answered();
    assert!(router.figure("backend_open") <= 2);
}

/// Covers: S-21, S-74
#[test]
fn requests_that_waited_too_long_for_a_connection_are_told_so() {
    let backend = Echo::start(&["--delay-ms", "400"]);
    let options = [
        "--pool-size",
        "1",
        "--borrow-timeout",
        "100ms",
        "--enable-health-check=off",
    ];
    let router = Router::start(&[&backend], &options);

    let account = load(&router.address, &["--clients", "8", "--requests", "24"]);

    account.assert_sound();
    account.assert_no_error_but("ERR backend unavailable");
    assert_eq!(
        account.count("answered") + account.count("errors"),
        24,
        "{account:?}"
    );
    assert!(
        account.count("answered") > 0 && account.count("errors") > 0,
        "{account:?}"
    );
}

/// What Nagle's algorithm and a delayed acknowledgement cost where they meet is four times this.
const NO_DELAY: Duration = Duration::from_millis(10);

/// Covers: S-11
#[test]
fn a_small_request_that_comes_in_two_writes_waits_for_no_acknowledgement_on_either_side() {
    // It answers header and payload in two writes as well.
    let backend = Echo::start(&["--fault", "corrupt", "--spare-pings"]);
    let router = Router::start(&[&backend], &[]);
    let mut stream = TcpStream::connect(&router.address).expect("it listens");
    stream.set_nodelay(true).expect("it can be set");
    stream.set_read_timeout(Some(PATIENCE)).expect("a valid time");
    let mut times: Vec<Duration> = (0..51)
        .map(|_| {
            let begun = Instant::now();
            stream.write_all(&64_u32.to_be_bytes()).expect("it reads");
            stream.write_all(&[7; 64]).expect("it reads");
            stream.read_exact(&mut [0; 68]).expect("it answers");
            begun.elapsed()
        })
        .collect();

    times.sort();

    assert!(times[25] < NO_DELAY, "{times:?}");
}

/// What a client that says nothing may cost the router. In a release build it is less than half of this.
const IDLE_BYTES: u64 = 8 * 1024;

/// Covers: S-79
#[test]
fn ten_thousand_idle_clients_cost_a_few_kibibytes_each_beside_a_thousand_active_ones() {
    let backend = Echo::start(&[]);
    // They all send in the same moment in the end, over 16 connections.
    let router = Router::start(&[&backend], &["--borrow-timeout", "60s"]);
    load(&router.address, &["--clients", "100", "--requests", "1000"]).assert_all_answered();
    let before = router.process.resident_kib();

    let mut idle = Load::start(
        &router.address,
        &[
            "--idle",
            "10000",
            "--clients",
            "1",
            "--rate",
            "1",
            "--seconds",
            "600",
            "--timeout",
            "60",
        ],
    );
    let opened = idle.next();
    assert_eq!(
        (&opened["type"], &opened["connections"]),
        (&"idle".into(), &10_000.into())
    );
    until("the router has accepted them", || {
        router.figure("connected") >= 10_000
    });
    let with_idle = router.process.resident_kib();
    let active = load(
        &router.address,
        &["--clients", "1000", "--requests", "5000", "--timeout", "60"],
    );
    idle.process().signal(Signal::INT);
    let idle = idle.end();

    active.assert_all_answered();
    idle.assert_all_answered();
    assert_eq!(idle.total["idle"]["answered"], 10_000, "{idle:?}");
    let each = with_idle.saturating_sub(before) * 1024 / 10_000;
    assert!(
        each < IDLE_BYTES,
        "{each} bytes each, {before} KiB before and {with_idle} after"
    );
}
