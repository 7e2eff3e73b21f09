//! Nothing stays behind, however a test ends.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pgsteer_testkit::Universe;

/// Set in the process that is to be killed with a universe in its hands.
const VICTIM: &str = "PGSTEER_TESTKIT_VICTIM";

/// Whether nothing is left of the universe that has this data folder and this address.
fn is_gone(folder: &Path, address: &str) -> bool {
    let whole = folder.ancestors().nth(2).unwrap();
    !whole.exists() && TcpStream::connect(address).is_err()
}

#[test]
fn two_universes_live_side_by_side() {
    let first = Universe::builder().servers(2).start();
    let second = Universe::builder().servers(2).different_ports().start();
    let ports = [
        first.server(0).port(),
        second.server(0).port(),
        second.server(1).port(),
    ];
    assert!(
        ports[0] != ports[1] && ports[1] != ports[2] && ports[0] != ports[2],
        "{ports:?}"
    );
    first.server(0).kill();
    assert_eq!(
        second.server(0).sql("SELECT count(*) FROM yb_servers()"),
        [[Some("2".to_owned())]]
    );
    drop(first);
    assert_eq!(
        second.server(1).sql("SELECT count(*) FROM yb_servers()"),
        [[Some("2".to_owned())]]
    );
}

#[test]
fn dropping_a_universe_ends_its_servers_and_removes_their_files() {
    let universe = Universe::builder().servers(3).start();
    universe.server(1).freeze();
    universe.server(2).kill();
    let (folder, address) = (universe.server(0).data_folder(), universe.server(0).address());
    assert!(!is_gone(&folder, &address));

    drop(universe);

    assert!(is_gone(&folder, &address));
}

#[test]
fn a_panicking_test_leaves_nothing_behind() {
    let mut seen = None;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let universe = Universe::builder().servers(2).start();
        universe.server(0).freeze();
        seen = Some((universe.server(0).data_folder(), universe.server(0).address()));
        panic!("on purpose");
    }));

    assert!(panicked.is_err());
    let (folder, address) = seen.unwrap();
    assert!(is_gone(&folder, &address));
}

/// The test runs itself as a second process, which starts a universe, says where it is, and is then killed.
#[test]
fn a_killed_test_process_leaves_nothing_behind() {
    if std::env::var_os(VICTIM).is_some() {
        let universe = Universe::builder().servers(2).start();
        universe.server(1).freeze();
        println!(
            "\n{} {}",
            universe.server(0).data_folder().display(),
            universe.server(0).address()
        );
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "cleaning_up::a_killed_test_process_leaves_nothing_behind",
            "--nocapture",
        ])
        .env(VICTIM, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let line = lines
        .find(|line| line.starts_with('/'))
        .expect("the second process says where its servers are");
    let (folder, address) = line.split_once(' ').unwrap();
    let folder = PathBuf::from(folder);
    assert!(folder.exists() && TcpStream::connect(address).is_ok());

    victim.kill().unwrap();
    victim.wait().unwrap();

    let end = Instant::now() + Duration::from_secs(20);
    while !is_gone(&folder, address) {
        assert!(Instant::now() < end, "servers outlive their test process");
        std::thread::yield_now();
    }
}
