//! `pgsteer echo`, spoken to directly.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use crate::process::{PATIENCE, Process};
use crate::tools::Echo;

fn connect(echo: &Echo) -> TcpStream {
    let stream = TcpStream::connect(&echo.address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a valid time");
    stream
}

/// What comes back for these bytes until the server closes.
fn answer_to(echo: &Echo, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(echo);
    stream.write_all(bytes).expect("it reads");
    stream.shutdown(Shutdown::Write).expect("it is open");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it ends the connection");
    answer
}

#[test]
fn frames_of_any_length_come_back_as_they_are() {
    let echo = Echo::start(&[]);
    for length in [0_u32, 1, 64, 70_000, 3 << 20] {
        let payload = vec![7; length as usize];
        let frame = [length.to_be_bytes().as_slice(), &payload].concat();

        assert!(answer_to(&echo, &frame) == frame, "{length} bytes");
    }
}

#[test]
fn a_frame_comes_back_while_it_still_arrives() {
    let echo = Echo::start(&[]);
    let mut stream = connect(&echo);

    stream.write_all(b"\xff\xff\xff\xffbeg").expect("it reads");
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).expect("it answers");

    assert_eq!(&answer, b"\xff\xff\xff\xffbeg");
}

#[test]
fn each_fault_is_what_its_name_says() {
    let request = b"\0\0\0\x04abcd";
    let cases: [(&str, &[u8]); 6] = [
        ("close", b""),
        ("cut=2", b"\0\0"),
        ("cut=6", b"\0\0\0\x04ab"),
        (
            "garbage",
            b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
        ),
        ("trickle=1", request),
        ("twice", b"\0\0\0\x04abcd\0\0\0\x04abcd"),
    ];

    for (fault, answer) in cases {
        let echo = Echo::start(&["--fault", fault]);

        assert_eq!(answer_to(&echo, request), answer, "{fault}");
    }
}

#[test]
fn an_oversize_answer_announces_the_longest_length_there_is() {
    let echo = Echo::start(&["--fault", "oversize"]);

    let answer = answer_to(&echo, b"\0\0\0\x01a");

    assert_eq!(answer.first_chunk(), Some(&[0xff; 4]));
}

#[test]
fn a_corrupt_answer_differs_in_one_byte_of_the_payload() {
    let echo = Echo::start(&["--fault", "corrupt"]);

    let answer = answer_to(&echo, b"\0\0\0\x04abcd");

    let (header, payload) = answer.split_at(4);
    let differing = payload.iter().zip(b"abcd").filter(|(is, was)| is != was).count();
    assert_eq!(
        (header, payload.len(), differing),
        (b"\0\0\0\x04".as_slice(), 4, 1)
    );
}

#[test]
fn pings_are_spared_if_asked() {
    let echo = Echo::start(&["--fault", "cut=4", "--spare-pings"]);
    let mut stream = connect(&echo);

    stream
        .write_all(b"\0\0\0\0\0\0\0\0\0\0\0\x01a\0\0\0\0")
        .expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it ends the connection");

    assert_eq!(answer, b"\0\0\0\0\0\0\0\0\0\0\0\x01");
}

#[test]
fn a_seed_decides_which_requests_a_fault_befalls() {
    let frames = b"\0\0\0\x01a".repeat(64);
    let answers = |seed: &str| {
        let mut echo = Echo::start(&["--fault", "corrupt@0.5", "--seed", seed]);
        assert_eq!(echo.process.line(), format!("seed {seed}"));
        answer_to(&echo, &frames)
    };

    let (first, same, other) = (answers("7"), answers("7"), answers("8"));

    assert_eq!(first, same);
    assert_ne!(first, other);
    assert_ne!(first, frames);
}

#[test]
fn refusing_it_keeps_its_address_and_no_connect_succeeds() {
    let echo = Echo::start(&["--fault", "refuse"]);

    let refused = TcpStream::connect(&echo.address).expect_err("nobody listens");

    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let second = Process::start(&["echo", "--listen", &echo.address]).end();
    assert_eq!(second.code, Some(1), "{second:?}");
    assert!(
        second
            .stderr
            .contains(&format!("cannot listen on {}", echo.address)),
        "{second:?}"
    );
}

#[test]
fn sigterm_ends_it_in_good_order_with_what_it_did() {
    let echo = Echo::start(&["--answers-per-connection", "2"]);
    for _ in 0..3 {
        assert_eq!(
            answer_to(&echo, &b"\0\0\0\x01a".repeat(3)),
            b"\0\0\0\x01a".repeat(2)
        );
    }

    let ended = echo.process.terminate();

    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.stdout, ["3 connections, 6 requests, 0 faults"]);
}

#[test]
fn what_it_does_not_understand_is_bad_usage_that_says_what_is_allowed() {
    let cases: [(&[&str], &str); 4] = [
        (&["--listen", "9090"], "--listen 9090: the port is missing"),
        (&["--listen", "user:word@host"], "--listen (not shown): "),
        (&["--fault", "hnag"], "did you mean `hang`?"),
        (&["--delay-ms", "many"], "it takes milliseconds"),
    ];

    for (options, told) in cases {
        let ended = Process::start(&[&["echo"], options].concat()).end();

        assert_eq!(ended.code, Some(2), "{options:?}: {ended:?}");
        assert!(ended.stderr.contains(told), "{options:?}: {ended:?}");
    }
}
