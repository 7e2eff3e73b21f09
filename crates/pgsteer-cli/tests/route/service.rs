//! `pgsteer route` as a service: its exit codes, its files, its signals, and what it does without descriptors.

use std::cell::RefCell;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::process::{PATIENCE, Process, until};
use crate::tools::{Echo, listening};

/// Runs the program to its end.
fn ended(arguments: &[&str]) -> (Option<i32>, String) {
    let ended = Process::start(arguments).end();
    (ended.code, ended.stderr)
}

/// Covers: S-15, S-17, S-62
#[test]
fn a_bad_option_is_bad_usage_and_told_with_what_is_allowed_and_a_place_in_use_is_not() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("it is bound").to_string();
    let cases: [(&[&str], i32, &str); 16] = [
        (
            &["--pool-size", "0"],
            2,
            "--pool-size cannot be `0`: it takes a number from 1 to 65535",
        ),
        (
            &["--backend", "::1:9090"],
            2,
            "--backend cannot be `::1:9090`: it takes HOST:PORT",
        ),
        (
            &["--backend", "a:1", "--backend", "a:1:2"],
            2,
            "it takes each backend once",
        ),
        (
            &["--pool-size", "-1"],
            2,
            "--pool-size cannot be `-1`: it takes a number from 1 to 65535",
        ),
        (
            &["--shutdown-grace", "-0.5"],
            2,
            "--shutdown-grace cannot be `-0.5`: it takes a duration",
        ),
        (&["--pool-siz", "1"], 2, "--pool-size"),
        (&["--reject-on-full"], 2, "unexpected argument '--reject-on-full'"),
        // A switch takes its value with or without an equals sign.
        (
            &["--enable-health-check", "maybe"],
            2,
            "--enable-health-check cannot be `maybe`: it takes on or off",
        ),
        (
            &["--backend-tls", "--backend-tls=off"],
            2,
            "cannot be used multiple times",
        ),
        (
            &["--pool-size", "4", "--min-idle", "5"],
            2,
            "--min-idle cannot be `5`: it takes at most pool-size, which is 4",
        ),
        (
            &["--listen", "127.0.0.1:9090"],
            2,
            "--listen cannot be `127.0.0.1:9090`: it takes another place than backend",
        ),
        (&["--tls-cert", "cert.pem"], 2, "tls-cert needs tls-key"),
        (
            &["--config", "/no/such/file.toml"],
            2,
            "--config /no/such/file.toml: it cannot be read",
        ),
        (&["--listen", &taken], 1, "cannot listen there"),
        (&["--listen", "127.0.0.1:0", "--metrics", &taken], 1, "--metrics"),
        (
            &[
                "--listen",
                "127.0.0.1:0",
                "--tls-cert",
                "/no/cert",
                "--tls-key",
                "/no/key",
            ],
            1,
            "--tls-cert /no/cert: ",
        ),
    ];
    for (options, code, told) in cases {
        let (exit, stderr) = ended(&[&["route"], options].concat());

        assert_eq!(exit, Some(code), "{options:?}: {stderr}");
        assert!(stderr.contains(told), "{options:?}: {stderr}");
    }
}

/// Covers: S-61
#[test]
fn the_help_lists_every_option_and_its_default() {
    let help = Process::start(&["route", "--help"]).end().stdout.join(" ");
    // However long the lines are.
    let help: Vec<&str> = help.split_whitespace().collect();
    let help = help.join(" ");

    for rule in pgsteer_router::config::RULES {
        assert!(
            help.contains(&format!("--{} ", rule.name)) || help.contains(&format!("--{}[", rule.name)),
            "{help}"
        );
        let default = format!("[default: {}]", rule.default);
        assert!(
            rule.default.is_empty() || help.contains(&default),
            "{}: {help}",
            rule.name
        );
    }
}

/// A router that takes its options from this file.
fn from_file(file: &Path) -> (Process, String) {
    let file = file.to_str().expect("the path is text");
    let mut process = Process::start(&["route", "--listen", "127.0.0.1:0", "--config", file]);
    let address = listening(&mut process);
    (process, address)
}

/// Sends a request, and gives the answer.
fn ask(stream: &mut TcpStream, request: &[u8]) -> Option<Vec<u8>> {
    let mut frame = u32::try_from(request.len())
        .expect("a length")
        .to_be_bytes()
        .to_vec();
    frame.extend_from_slice(request);
    stream.write_all(&frame).ok()?;
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer).ok()?;
    Some(answer)
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("somebody listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("it can be set");
    stream
}

/// Covers: S-66
#[test]
fn sighup_takes_the_changed_file_over_and_a_bad_one_changes_nothing_and_is_told_of() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("router.toml");
    let backend = Echo::start(&[]);
    let longest = |bytes: u32| format!("backend = '{}'\nmax-frame = {bytes}\n", backend.address);
    fs::write(&file, longest(100)).expect("it is written");
    let (process, address) = from_file(&file);
    assert_eq!(ask(&mut connect(&address), &[1; 200]), None);

    fs::write(&file, longest(300)).expect("it is written");
    process.signal(Signal::HUP);
    until("longer payloads are taken", || {
        ask(&mut connect(&address), &[1; 200]).is_some()
    });
    fs::write(&file, "max_frame = 50\n").expect("it is written");
    process.signal(Signal::HUP);
    let told = format!(
        "{}: max_frame is no option; did you mean max-frame?",
        file.display()
    );
    until("the bad file is refused", || process.said().contains(&told));

    assert!(ask(&mut connect(&address), &[1; 200]).is_some());
    let ended = process.terminate();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

/// As a file is on a disk that has gone: a pipe that nobody writes to.
#[test]
fn a_file_that_is_never_read_to_its_end_at_a_reload_holds_up_neither_requests_nor_the_end() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("router.toml");
    let backend = Echo::start(&[]);
    fs::write(&file, format!("backend = '{}'\nthreads = 1\n", backend.address)).expect("it is written");
    let (process, address) = from_file(&file);
    fs::remove_file(&file).expect("it is there");
    mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");

    process.signal(Signal::HUP);

    // Writing finds somebody who reads as soon as the reload has begun.
    // Held to the end of the test: closed, it would be the end of the file.
    let writer = RefCell::new(None);
    until("the reload has begun", || {
        let pipe = open(&file, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty());
        *writer.borrow_mut() = pipe.ok();
        writer.borrow().is_some()
    });
    assert!(ask(&mut connect(&address), &[1; 10]).is_some());
    let ended = process.terminate();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

/// Covers: S-64
#[test]
fn an_option_that_changes_nothing_is_told_at_the_start_and_at_a_reload() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("router.toml");
    let backend = Echo::start(&[]);
    let with = |option: &str| format!("backend = '{}'\n{option}\n", backend.address);
    fs::write(&file, with("max-dials = 20")).expect("it is written");
    let (process, _) = from_file(&file);
    until("it is told", || {
        process.said().contains("max-dials has no effect: ")
    });

    fs::write(&file, with("tls-handshake-timeout = 1")).expect("it is written");
    process.signal(Signal::HUP);

    until("it is told", || {
        process.said().contains("tls-handshake-timeout has no effect: ")
    });
}

/// Covers: S-66
#[test]
fn what_is_taken_at_the_start_is_refused_at_a_reload() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("router.toml");
    let backend = Echo::start(&[]);
    let with = |option: &str| format!("backend = '{}'\n{option}\n", backend.address);
    fs::write(&file, with("")).expect("it is written");
    let (process, _) = from_file(&file);

    for option in [
        "threads = 3",
        "log-level = 'debug'",
        "backlog = 7",
        "metrics = '127.0.0.1:1'",
    ] {
        let name = option.split(' ').next().expect("a name");
        fs::write(&file, with(option)).expect("it is written");
        process.signal(Signal::HUP);
        until(option, || {
            let said = process.said();
            said.contains(&format!("{name} cannot change"))
        });
    }
}

/// Covers: S-18
#[test]
fn without_descriptors_clients_wait_or_are_turned_away_which_is_told_once_and_passes() {
    let backend = Echo::start(&[]);
    let mut shell = Command::new("sh");
    shell.args([
        "-c",
        "ulimit -n 40 && exec \"$0\" \"$@\"",
        env!("CARGO_BIN_EXE_pgsteer"),
    ]);
    shell.args(["route", "--listen", "127.0.0.1:0", "--backend", &backend.address]);
    let mut process = Process::spawn(&mut shell);
    let address = listening(&mut process);

    // More than there are descriptors. Each is connected, by the kernel if not by the router.
    let mut clients: Vec<TcpStream> = (0..100).map(|_| connect(&address)).collect();
    let served = clients
        .iter_mut()
        .take(10)
        .filter_map(|client| ask(client, b"served"))
        .count();
    // The last is not served: it waits, until it is turned away.
    let last = clients.pop().and_then(|mut last| ask(&mut last, b"turned away"));
    assert_eq!((served, last), (10, None));

    drop(clients);
    // Until the router has seen that they are gone it turns away whoever comes.
    until("clients are served again", || {
        ask(&mut connect(&address), b"again").as_deref() == Some(&b"again"[..])
    });
    let ended = process.terminate();
    let told = |text: &str| ended.stderr.lines().filter(|line| line.contains(text)).count();
    // Once each time, and it may pass and come again while the clients go.
    let begun = told("no client can be accepted");
    assert!((1..=5).contains(&begun), "{ended:?}");
    assert_eq!(told("clients are accepted again"), begun, "{ended:?}");
    assert_eq!(ended.code, Some(0), "{ended:?}");
}
