//! The tap against scripted bytes: what each message does to the view, and that neither how the bytes are split nor
//! what they are can harm it.

use std::task::Waker;

use proptest::prelude::*;

use super::*;

/// A typed message.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend((body.len() as i32 + 4).to_be_bytes());
    bytes.extend(body);
    bytes
}

/// A message without a type byte: the startup message or a request for encryption.
fn untyped(code: u32, rest: &[u8]) -> Vec<u8> {
    let mut bytes = (rest.len() as i32 + 8).to_be_bytes().to_vec();
    bytes.extend(code.to_be_bytes());
    bytes.extend(rest);
    bytes
}

fn ready(status: u8) -> Vec<u8> {
    message(b'Z', &[status])
}

fn report_of(kind: u8, severity: &str, sqlstate: &str) -> Vec<u8> {
    message(
        kind,
        format!("S{severity}\0V{severity}\0C{sqlstate}\0Mtext\0\0").as_bytes(),
    )
}

#[derive(Clone, Debug)]
enum Step {
    Sent(Vec<u8>),
    Received(Vec<u8>),
}

use Step::{Received, Sent};

/// A view after the login and these steps.
fn after(steps: &[Step]) -> Seen {
    let mut seen = logged_in();
    play(&mut seen, steps);
    seen
}

/// A drained wire after the login and these steps.
fn wire_after(steps: &[Step]) -> Wire {
    let wire = Wire::of(after(steps));
    wire.mark(DRAINED, DRAINED);
    wire
}

fn logged_in() -> Seen {
    let mut seen = Seen::default();
    play(
        &mut seen,
        &[
            Sent(untyped(196_608, b"user\0me\0\0")),
            Received(message(b'R', &[0; 4])),
            Received(ready(b'I')),
        ],
    );
    seen
}

fn play(seen: &mut Seen, steps: &[Step]) {
    for step in steps {
        match step {
            Sent(bytes) => seen.sent(bytes),
            Received(bytes) => seen.received(bytes),
        }
    }
}

fn status(seen: &Seen) -> TransactionStatus {
    seen.backend.said().status
}

#[test]
fn a_login_is_one_request_and_its_ready_message_the_answer() {
    let mut seen = Seen::default();
    seen.sent(&untyped(196_608, b"user\0me\0\0"));
    assert_eq!(seen.ledger.unanswered(), 1);
    seen.sent(&message(b'p', b"md5password\0"));
    assert_eq!(seen.ledger.unanswered(), 1);
    seen.received(&message(b'R', &[0; 4]));
    assert_eq!(seen.ledger.unanswered(), 1);
    seen.received(&ready(b'I'));
    assert!(seen.ledger.is_settled());
    assert_eq!(status(&seen), TransactionStatus::Idle);
}

#[test]
fn a_refused_request_for_encryption_leaves_the_wire_readable() {
    let mut seen = Seen::default();
    play(
        &mut seen,
        &[Sent(untyped(80_877_103, b"")), Received(b"N".to_vec())],
    );
    play(&mut seen, &[Sent(untyped(196_608, b"\0")), Received(ready(b'I'))]);
    assert!(!seen.blind && seen.ledger.is_settled());
}

#[test]
fn a_granted_request_for_encryption_makes_the_tap_silent() {
    let mut seen = Seen::default();
    play(
        &mut seen,
        &[Sent(untyped(80_877_103, b"")), Received(b"S".to_vec())],
    );
    play(&mut seen, &[Sent(vec![22; 300]), Received(vec![23; 300])]);
    assert!(seen.blind && !seen.nonsense);
}

#[test]
fn a_cancel_request_is_owed_no_answer() {
    let mut seen = Seen::default();
    seen.sent(&untyped(80_877_102, &[0; 8]));
    assert_eq!(seen.ledger.unanswered(), 0);
}

/// Covers: E-327
#[test]
fn the_ready_message_gives_the_transaction_status() {
    for (byte, expected) in [
        (b'I', TransactionStatus::Idle),
        (b'T', TransactionStatus::InTransaction),
        (b'E', TransactionStatus::Failed),
        (b'?', TransactionStatus::Unknown),
    ] {
        let seen = after(&[Sent(message(b'Q', b"x\0")), Received(ready(byte))]);
        assert_eq!(status(&seen), expected, "{}", char::from(byte));
    }
}

/// Covers: E-328
#[test]
fn the_status_is_unknown_before_the_first_answer_while_one_is_owed_and_within_a_copy() {
    let wire = wire_after;
    assert_eq!(Wire::default().status(), TransactionStatus::Unknown);
    assert_eq!(wire(&[]).status(), TransactionStatus::Idle);
    assert_eq!(
        wire(&[Sent(message(b'Q', b"x\0"))]).status(),
        TransactionStatus::Unknown
    );
    assert_eq!(
        wire(&[Sent(message(b'P', b"\0x\0\0\0"))]).status(),
        TransactionStatus::Unknown
    );
    let copy = [Sent(message(b'Q', b"x\0")), Received(message(b'G', &[0; 3]))];
    assert_eq!(wire(&copy).status(), TransactionStatus::Unknown);
}

#[test]
fn every_kind_of_request_is_answered_once() {
    for request in [b'Q', b'S', b'F'] {
        let seen = after(&[Sent(message(request, b"x\0"))]);
        assert_eq!(seen.ledger.unanswered(), 1, "{}", char::from(request));
        let seen = after(&[Sent(message(request, b"x\0")), Received(ready(b'I'))]);
        assert!(seen.ledger.is_settled(), "{}", char::from(request));
    }
}

#[test]
fn an_error_does_not_settle_a_request_but_its_ready_message_does() {
    let mut seen = after(&[
        Sent(message(b'Q', b"x\0")),
        Received(report_of(b'E', "ERROR", "42601")),
    ]);
    assert_eq!(seen.ledger.unanswered(), 1);
    seen.received(&ready(b'I'));
    assert!(seen.ledger.is_settled());
}

#[test]
fn an_extended_request_without_its_sync_is_unsettled() {
    let mut seen = after(&[Sent(message(b'P', b"\0x\0\0\0")), Sent(message(b'B', b""))]);
    assert!(!seen.ledger.is_settled());
    seen.sent(&message(b'S', b""));
    assert_eq!(seen.ledger.unanswered(), 1);
}

#[test]
fn an_unasked_ready_message_is_noticed() {
    assert!(after(&[Received(ready(b'I'))]).backend.said().answered_unasked);
}

/// An extended COPY as a driver sends it: Bind, Execute and Sync, then data, then the end and a second Sync.
fn copy_start() -> Step {
    Sent([message(b'B', b""), message(b'E', b""), message(b'S', b"")].concat())
}

fn copy_finish(end: u8) -> Step {
    Sent([message(end, b""), message(b'S', b"")].concat())
}

#[test]
fn an_extended_copy_is_owed_one_answer_for_its_two_syncs() {
    let mut seen = after(&[copy_start(), Received(message(b'G', &[0; 3]))]);
    assert_eq!(
        (seen.ledger.unanswered(), seen.backend.said().copy),
        (1, CopyState::In)
    );
    play(&mut seen, &[Sent(message(b'd', b"1\n")), copy_finish(b'c')]);
    assert_eq!(seen.ledger.unanswered(), 1);
    play(
        &mut seen,
        &[Received(message(b'C', b"COPY 1\0")), Received(ready(b'I'))],
    );
    assert!(seen.ledger.is_settled());
    assert_eq!(seen.backend.said().copy, CopyState::None);
}

#[test]
fn a_copy_given_up_before_the_server_answered_is_owed_one_answer_if_the_server_took_it() {
    let mut seen = after(&[copy_start(), copy_finish(b'f')]);
    seen.received(&message(b'G', &[0; 3]));
    assert_eq!(seen.ledger.unanswered(), 1);
    play(
        &mut seen,
        &[Received(report_of(b'E', "ERROR", "57014")), Received(ready(b'I'))],
    );
    assert!(seen.ledger.is_settled());
}

#[test]
fn a_copy_given_up_before_the_server_answered_is_owed_two_answers_if_the_server_refused_it() {
    let mut seen = after(&[copy_start(), copy_finish(b'f')]);
    play(
        &mut seen,
        &[Received(report_of(b'E', "ERROR", "42P01")), Received(ready(b'I'))],
    );
    assert_eq!(seen.ledger.unanswered(), 1);
    seen.received(&ready(b'I'));
    assert!(seen.ledger.is_settled());
}

#[test]
fn a_copy_that_fails_in_the_middle_waits_for_its_second_sync() {
    let mut seen = after(&[copy_start(), Received(message(b'G', &[0; 3]))]);
    seen.received(&report_of(b'E', "ERROR", "22P02"));
    assert_eq!(seen.ledger.unanswered(), 1);
    play(&mut seen, &[copy_finish(b'f'), Received(ready(b'I'))]);
    assert!(seen.ledger.is_settled());
}

#[test]
fn requests_behind_a_copy_are_owed_their_own_answers() {
    let mut seen = after(&[
        copy_start(),
        Received(message(b'G', &[0; 3])),
        copy_finish(b'c'),
        Sent(message(b'Q', b"x\0")),
    ]);
    assert_eq!(seen.ledger.unanswered(), 2);
    seen.received(&ready(b'I'));
    assert_eq!(seen.ledger.unanswered(), 1);
    seen.received(&ready(b'I'));
    assert!(seen.ledger.is_settled());
}

#[test]
fn a_simple_copy_is_answered_like_any_simple_query() {
    let mut seen = after(&[Sent(message(b'Q', b"x\0")), Received(message(b'G', &[0; 3]))]);
    play(
        &mut seen,
        &[Sent(message(b'd', b"1\n")), Sent(message(b'c', b""))],
    );
    assert_eq!(seen.ledger.unanswered(), 1);
    seen.received(&ready(b'I'));
    assert!(seen.ledger.is_settled());
    seen.sent(&message(b'S', b""));
    assert_eq!(seen.ledger.unanswered(), 1);
}

#[test]
fn copy_out_and_replication_are_seen() {
    let seen = after(&[Sent(message(b'Q', b"x\0")), Received(message(b'H', &[0; 3]))]);
    assert_eq!(seen.backend.said().copy, CopyState::Out);
    let seen = after(&[Sent(message(b'Q', b"x\0")), Received(message(b'W', &[0; 3]))]);
    assert_eq!(seen.backend.said().copy, CopyState::Both);
}

#[test]
fn the_last_command_tag_is_kept_and_a_long_one_is_cut() {
    let seen = after(&[
        Received(message(b'C', b"INSERT 0 1\0")),
        Received(message(b'C', b"COMMIT\0")),
    ]);
    assert_eq!(seen.backend.said().tag.unwrap().as_str(), "COMMIT");
    let seen = after(&[Received(message(b'C', &[b'x'; 500]))]);
    assert_eq!(seen.backend.said().tag.unwrap().as_str(), "x".repeat(63));
    let seen = after(&[Received(message(b'C', &[0xff, 0xfe, 0]))]);
    assert_eq!(seen.backend.said().tag.unwrap().as_str(), "");
}

#[test]
fn an_error_is_read_by_the_field_that_is_not_translated() {
    let translated = message(b'E', "SSCHWERWIEGEND\0VFATAL\0C57P01\0Mx\0\0".as_bytes());
    let old = message(b'E', b"SPANIC\0CXX000\0Mx\0\0");
    let cases = [
        (translated, Severity::Fatal, "57P01"),
        (old, Severity::Panic, "XX000"),
    ];
    for (bytes, severity, sqlstate) in cases {
        let report = after(&[Received(bytes)]).backend.said().error.unwrap();
        assert_eq!((report.severity, report.sqlstate.as_str()), (severity, sqlstate));
    }
}

#[test]
fn errors_and_notices_are_kept_apart() {
    let seen = after(&[
        Received(report_of(b'N', "WARNING", "57P02")),
        Received(report_of(b'E', "ERROR", "25006")),
    ]);
    let said = seen.backend.said();
    assert_eq!(said.notice.unwrap().sqlstate.as_str(), "57P02");
    assert_eq!(said.error.unwrap().sqlstate.as_str(), "25006");
}

#[test]
fn an_error_without_a_usable_code_leaves_the_one_before() {
    let odd: [&[u8]; 5] = [
        b"",
        b"\0",
        b"SERROR\0C4\0\0",
        b"SERROR\0C25\xff06\0\0",
        b"Cunended",
    ];
    for body in odd {
        let seen = after(&[
            Received(report_of(b'E', "ERROR", "25006")),
            Received(message(b'E', body)),
        ]);
        assert_eq!(
            seen.backend.said().error.unwrap().sqlstate.as_str(),
            "25006",
            "{body:?}"
        );
    }
}

#[test]
fn recovery_and_read_only_parameters_are_followed() {
    let mut seen = after(&[Received(message(b'S', b"in_hot_standby\0on\0"))]);
    assert_eq!(seen.backend.said().in_hot_standby, Some(true));
    play(
        &mut seen,
        &[
            Received(message(b'S', b"in_hot_standby\0off\0")),
            Received(message(b'S', b"default_transaction_read_only\0on\0")),
            Received(message(b'S', b"TimeZone\0UTC\0")),
            Received(message(b'S', b"in_hot_standb")),
        ],
    );
    assert_eq!(seen.backend.said().in_hot_standby, Some(false));
    assert_eq!(seen.backend.said().default_transaction_read_only, Some(true));
}

#[test]
fn terminate_is_seen() {
    assert!(after(&[Sent(message(b'X', b""))]).frontend.has_terminated());
}

#[test]
fn a_length_that_cannot_be_ends_the_reading_for_good() {
    for length in [0, 3, -1, i32::MIN] {
        let mut bad = vec![b'Z'];
        bad.extend(length.to_be_bytes());
        let seen = after(&[Received(bad.clone()), Received(ready(b'I'))]);
        assert!(seen.blind && seen.nonsense, "server: {length}");
        let wire = wire_after(&[Sent(bad)]);
        assert!(
            wire.after_pass().busy && wire.after_pass().dirty,
            "client: {length}"
        );
    }
}

#[test]
fn a_huge_length_is_counted_down_and_never_reserved() {
    let mut huge = vec![b'D'];
    huge.extend(i32::MAX.to_be_bytes());
    let mut seen = after(&[Received(huge)]);
    for _ in 0..100 {
        seen.received(&[b'Z'; 4096]);
    }
    assert!(seen.backend.is_within_message() && !seen.blind);
}

#[test]
fn a_half_read_message_keeps_the_wire_busy() {
    let wire = wire_after(&[Received(vec![b'N', 0])]);
    assert!(wire.after_pass().busy);
    assert!(!wire_after(&[]).after_pass().busy);
}

/// A stream that answers each poll as scripted.
#[derive(Default)]
struct Scripted {
    reads: Vec<Poll<io::Result<Vec<u8>>>>,
    writes: Vec<Poll<io::Result<usize>>>,
    flushes: Vec<Poll<io::Result<()>>>,
}

impl AsyncRead for Scripted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.reads.remove(0).map_ok(|bytes| buffer.put_slice(&bytes))
    }
}

impl AsyncWrite for Scripted {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        self.writes.remove(0)
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.flushes.remove(0)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A tap over a logged-in, drained wire.
fn tap(scripted: Scripted) -> Tap<Scripted> {
    let mut tap = Tap::new(scripted);
    tap.wire = Arc::new(wire_after(&[]));
    tap
}

fn read(tap: &mut Tap<Scripted>) -> Poll<io::Result<()>> {
    let mut space = [0; 64];
    Pin::new(tap).poll_read(
        &mut Context::from_waker(Waker::noop()),
        &mut ReadBuf::new(&mut space),
    )
}

#[test]
fn the_wire_is_busy_until_the_socket_has_nothing_more_to_read() {
    let notice = report_of(b'N', "NOTICE", "00000");
    let mut tap = tap(Scripted {
        reads: vec![Poll::Ready(Ok(notice)), Poll::Pending],
        ..Scripted::default()
    });
    tap.wire.begin_poll();
    assert!(read(&mut tap).is_ready());
    assert!(tap.wire.after_pass().busy);
    assert!(read(&mut tap).is_pending());
    assert!(!tap.wire.after_pass().busy);
}

#[test]
fn the_wire_is_busy_from_a_refused_write_until_a_flush_succeeds() {
    let mut tap = tap(Scripted {
        writes: vec![Poll::Pending],
        flushes: vec![Poll::Pending, Poll::Ready(Ok(()))],
        ..Scripted::default()
    });
    let mut cx = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut tap).poll_write(&mut cx, b"x").is_pending());
    assert!(tap.wire.after_pass().busy);
    assert!(Pin::new(&mut tap).poll_flush(&mut cx).is_pending());
    assert!(tap.wire.after_pass().busy);
    assert!(Pin::new(&mut tap).poll_flush(&mut cx).is_ready());
    assert!(!tap.wire.after_pass().busy);
}

#[test]
fn only_the_bytes_that_were_written_count_as_sent() {
    let query = message(b'Q', b"x\0");
    let mut tap = tap(Scripted {
        writes: vec![Poll::Ready(Ok(3)), Poll::Ready(Ok(query.len() - 3))],
        ..Scripted::default()
    });
    let mut cx = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut tap).poll_write(&mut cx, &query).is_ready());
    assert_eq!(tap.wire.unanswered(), 0);
    assert!(Pin::new(&mut tap).poll_write(&mut cx, &query[3..]).is_ready());
    assert_eq!(tap.wire.unanswered(), 1);
}

#[test]
fn how_the_stream_ended_is_kept() {
    let reset = io::Error::from(io::ErrorKind::ConnectionReset);
    let mut failed = tap(Scripted {
        reads: vec![Poll::Ready(Err(reset))],
        ..Scripted::default()
    });
    assert!(read(&mut failed).is_ready());
    assert_eq!(
        failed.wire.end(),
        Some(StreamEnd::Io(io::ErrorKind::ConnectionReset))
    );
    let mut closed = tap(Scripted {
        reads: vec![Poll::Ready(Ok(Vec::new()))],
        ..Scripted::default()
    });
    assert!(read(&mut closed).is_ready());
    assert_eq!(closed.wire.end(), Some(StreamEnd::Eof));
}

fn any_message() -> impl Strategy<Value = Vec<u8>> {
    let kinds = prop::sample::select(b"ZCENSRGHWTDdcfQSPBEXF1t".to_vec());
    prop_oneof![
        4 => (kinds, prop::collection::vec(any::<u8>(), 0..80)).prop_map(|(kind, body)| message(kind, &body)),
        2 => prop::sample::select(b"ITE".to_vec()).prop_map(ready),
        1 => Just(report_of(b'E', "FATAL", "57P01")),
        1 => Just(message(b'G', &[0; 3])),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    (any::<bool>(), any_message()).prop_map(|(sent, bytes)| if sent { Sent(bytes) } else { Received(bytes) })
}

proptest! {
    /// Whatever both sides say, well formed or not, the view does not depend on how the bytes are cut.
    #[test]
    fn the_view_does_not_depend_on_how_the_bytes_are_split(
        steps in prop::collection::vec(any_step(), 0..40),
        cuts in prop::collection::vec(1_usize..9, 1..20),
        logged in any::<bool>(),
    ) {
        let fresh = || if logged { logged_in() } else { Seen::default() };
        let (mut whole, mut cut) = (fresh(), fresh());
        let mut cuts = cuts.iter().cycle();
        for step in &steps {
            play(&mut whole, std::slice::from_ref(step));
            let (Sent(bytes) | Received(bytes)) = step;
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                match step {
                    Sent(_) => cut.sent(piece),
                    Received(_) => cut.received(piece),
                }
                rest = behind;
            }
            prop_assert_eq!(format!("{:?}", summary(&whole)), format!("{:?}", summary(&cut)));
        }
    }

    /// The books never grow beyond what was sent, whatever the server says.
    #[test]
    fn no_server_can_make_the_tap_hold_more_than_the_client_sent(
        bytes in prop::collection::vec(any::<u8>(), 0..4000),
    ) {
        let mut seen = logged_in();
        seen.received(&bytes);
        prop_assert_eq!(seen.ledger.unanswered(), 0);
    }
}

fn summary(seen: &Seen) -> impl std::fmt::Debug + use<> {
    (
        seen.backend.said().clone(),
        format!("{:?}", seen.ledger),
        (seen.blind, seen.nonsense, seen.frontend.has_terminated()),
        (
            seen.blind || seen.frontend.is_within_message(),
            seen.blind || seen.backend.is_within_message(),
        ),
    )
}

/// What a transaction failed with stands until the next one begins, whatever is refused after it.
#[test]
fn a_transactions_failure_is_the_error_that_failed_it_and_goes_when_the_next_one_begins() {
    let query = || Sent(message(b'Q', b"x\0"));
    let error = |sqlstate: &str| Received(report_of(b'E', "ERROR", sqlstate));
    let mut seen = logged_in();
    let mut step = |steps: &[Step]| {
        play(&mut seen, steps);
        let said = seen.backend.said();
        let failure = said.failure.map(|failure| failure.sqlstate.as_str().to_owned());
        (failure, said.ended)
    };
    let failed = |sqlstate: &str| Some(sqlstate.to_owned());
    assert_eq!(step(&[query(), error("42601"), Received(ready(b'I'))]), (None, 0));
    assert_eq!(step(&[query(), Received(ready(b'T'))]), (None, 0));
    assert_eq!(
        step(&[query(), error("40001"), Received(ready(b'E'))]),
        (failed("40001"), 0)
    );
    assert_eq!(
        step(&[query(), error("25P02"), Received(ready(b'E'))]),
        (failed("40001"), 0)
    );
    // back to a savepoint, and failed anew
    assert_eq!(step(&[query(), Received(ready(b'T'))]), (failed("40001"), 0));
    assert_eq!(
        step(&[query(), error("22012"), Received(ready(b'E'))]),
        (failed("22012"), 0)
    );
    assert_eq!(step(&[query(), Received(ready(b'I'))]), (failed("22012"), 1));
    assert_eq!(step(&[query(), Received(ready(b'T'))]), (None, 1));
}

/// Half a message is not sent: the server cannot act on it.
#[test]
fn a_simple_query_counts_as_sent_from_its_last_byte_on() {
    let commit = message(b'Q', b"COMMIT\0");
    let (last, before) = commit.split_last().unwrap();
    let wire = wire_after(&[Sent(before.to_vec())]);
    assert_eq!(wire.queries_sent(), 0);
    let wire = wire_after(&[Sent(before.to_vec()), Sent(vec![*last])]);
    assert_eq!(wire.queries_sent(), 1);
}

/// Statements are closed whenever their last row is dropped, which tells nothing of the transaction.
#[test]
fn the_closing_of_statements_leaves_the_transaction_known() {
    use TransactionStatus::{Idle, InTransaction, Unknown};
    let sent = |kinds: &[u8]| Sent(kinds.iter().flat_map(|kind| message(*kind, &[0; 4])).collect());
    let table: [(&[Step], TransactionStatus); 9] = [
        (&[], Idle),
        (&[sent(b"C")], Idle),
        (&[sent(b"CS"), sent(b"CS")], Idle),
        (&[sent(b"PDS")], Unknown),
        (&[sent(b"CPS")], Unknown),
        (&[sent(b"CS"), sent(b"Q")], Unknown),
        (&[sent(b"CS"), sent(b"Q"), Received(ready(b'I'))], Unknown),
        (&[sent(b"Q"), sent(b"CS"), Received(ready(b'T'))], InTransaction),
        (
            &[
                sent(b"BES"),
                sent(b"CS"),
                sent(b"CS"),
                Received(ready(b'I')),
                Received(ready(b'I')),
            ],
            Idle,
        ),
    ];
    for (number, (steps, expected)) in table.iter().enumerate() {
        assert_eq!(wire_after(steps).transaction(), *expected, "row {number}");
    }
}

#[test]
fn the_status_at_a_simple_query_is_the_one_it_was_sent_in_if_all_before_it_was_answered() {
    use TransactionStatus::{Failed, Idle, InTransaction, Unknown};
    let sent = |kinds: &[u8]| Sent(kinds.iter().flat_map(|kind| message(*kind, &[0; 4])).collect());
    let is = |status| Received(ready(status));
    let table: [(&[Step], TransactionStatus); 9] = [
        (&[sent(b"Q")], Idle),
        // to close a statement changes nothing, and its answer tells nothing new
        (&[sent(b"CSQ")], Idle),
        (&[sent(b"CSQ"), is(b'I'), is(b'E')], Idle),
        (&[sent(b"BES"), is(b'E'), sent(b"Q")], Failed),
        (&[sent(b"BESQ")], Unknown),
        (&[sent(b"BESQ"), is(b'T'), is(b'T')], Unknown),
        (&[sent(b"QQ"), is(b'T')], Unknown),
        (&[sent(b"Q"), is(b'T'), sent(b"Q"), is(b'E')], InTransaction),
        // what comes after it does not matter
        (&[sent(b"Q"), sent(b"BES"), is(b'T'), is(b'E')], Idle),
    ];
    for (number, (steps, expected)) in table.iter().enumerate() {
        assert_eq!(wire_after(steps).status_at_query(), *expected, "row {number}");
    }
}

#[test]
fn commands_that_end_a_transaction_or_make_it_another_are_counted() {
    // the tags within one transaction, how many end it, how many may make it another
    let table: [(&[&str], u64, u64); 10] = [
        (&["COMMIT"], 1, 0),
        (&["PREPARE TRANSACTION", "BEGIN"], 1, 1),
        (&["ROLLBACK", "START TRANSACTION"], 1, 1),
        // back to a savepoint, or not: that cannot be told any more
        (&["SAVEPOINT", "ROLLBACK"], 0, 0),
        (&["SAVEPOINT", "ROLLBACK", "ROLLBACK"], 0, 0),
        (&["SET"], 0, 1),
        (&["RESET"], 0, 1),
        (&["BEGIN"], 0, 1),
        (&["SELECT 1"], 0, 0),
        (&["COMMIT PREPARED"], 0, 0),
    ];
    for (tags, ended, remade) in table {
        let complete = |tag: &&str| Received(message(b'C', &[tag.as_bytes(), b"\0"].concat()));
        let mut steps = vec![Sent(message(b'Q', b"\0")), Received(ready(b'T'))];
        steps.extend(tags.iter().map(complete));
        let said = wire_after(&steps).said();
        assert_eq!((said.ended, said.remade), (ended, remade), "{tags:?}");
    }
}

/// Savepoints of an earlier transaction hide nothing.
#[test]
fn a_rollback_counts_again_once_the_transaction_with_the_savepoint_is_over() {
    let complete = |tag: &str| Received(message(b'C', &[tag.as_bytes(), b"\0"].concat()));
    let query = || Sent(message(b'Q', b"\0"));
    let mut steps = vec![query(), complete("SAVEPOINT"), Received(ready(b'T'))];
    steps.extend([query(), complete("ROLLBACK"), Received(ready(b'I'))]);
    let before = wire_after(&steps).said().ended;
    steps.extend([query(), complete("BEGIN"), Received(ready(b'T'))]);
    steps.extend([
        query(),
        complete("ROLLBACK"),
        complete("BEGIN"),
        Received(ready(b'T')),
    ]);
    assert_eq!(wire_after(&steps).said().ended, before + 1);
}
