//! The table from evidence to effect, row by row.

use std::io::ErrorKind;

use pgsteer_core::hosts::{FailureKind, Role};
use pgsteer_core::verdict::{
    BreakerEffect, Class, ConnectionEffect, Evidence, HostEffect, Stage, Verdict, classify, connect_failure,
    doubts_role, is_undefined_function, leaves_commit_in_doubt, outdates_statement, verdict,
};

const DOWN: HostEffect = HostEffect::Failed(FailureKind::Down);
const REJECTED: HostEffect = HostEffect::Failed(FailureKind::Rejected);
const CONNECTING: [Stage; 5] = [
    Stage::Resolve,
    Stage::Connect,
    Stage::Tls,
    Stage::Startup,
    Stage::SessionSetup,
];

fn error(sqlstate: &str) -> Evidence<'_> {
    Evidence::Server {
        fatal: false,
        sqlstate,
    }
}

fn fatal(sqlstate: &str) -> Evidence<'_> {
    Evidence::Server {
        fatal: true,
        sqlstate,
    }
}

const SOCKET_ERRORS: [ErrorKind; 11] = [
    ErrorKind::ConnectionRefused,
    ErrorKind::TimedOut,
    ErrorKind::HostUnreachable,
    ErrorKind::NetworkUnreachable,
    ErrorKind::NetworkDown,
    ErrorKind::ConnectionReset,
    ErrorKind::ConnectionAborted,
    ErrorKind::BrokenPipe,
    ErrorKind::NotConnected,
    ErrorKind::AddrNotAvailable,
    ErrorKind::UnexpectedEof,
];

/// Covers: E-148, E-149, E-150, E-151
#[test]
fn an_error_of_a_query_is_a_conflict_a_loss_or_neither() {
    let table = [
        (error("40001"), Class::Retryable),
        (error("40P01"), Class::Retryable),
        (fatal("40001"), Class::Retryable),
        (fatal("57P01"), Class::ConnectionLost),
        (error("57P01"), Class::ConnectionLost),
        (error("57P02"), Class::ConnectionLost),
        (error("57P03"), Class::ConnectionLost),
        (error("08000"), Class::ConnectionLost),
        (error("08006"), Class::ConnectionLost),
        (error("08P01"), Class::ConnectionLost),
        (fatal("57P05"), Class::ConnectionLost),
        (fatal("25P03"), Class::ConnectionLost),
        (fatal("XX000"), Class::ConnectionLost),
        (Evidence::Closed, Class::ConnectionLost),
        (Evidence::TaskDied, Class::ConnectionLost),
        (Evidence::Deadline, Class::ConnectionLost),
        (Evidence::BadServer, Class::ConnectionLost),
        (error("23505"), Class::Other),
        (error("57014"), Class::Other),
        (error("42883"), Class::Other),
        (error("53300"), Class::Other),
        (fatal("53300"), Class::Other),
        (fatal("28P01"), Class::Other),
        (fatal("3D000"), Class::Other),
        (error("40002"), Class::Other),
        (error("XX000"), Class::Other),
        (error(""), Class::Other),
        (error("0"), Class::Other),
        (Evidence::Tls, Class::Other),
        (Evidence::UnsupportedAuth, Class::Other),
        (Evidence::NoSuchName, Class::Other),
        (Evidence::Panicked, Class::Other),
    ];
    for (evidence, class) in table {
        assert_eq!(classify(&evidence), class, "{evidence:?}");
    }
    for kind in SOCKET_ERRORS {
        assert_eq!(classify(&Evidence::Io(kind)), Class::ConnectionLost, "{kind:?}");
    }
}

/// Covers: E-152
#[test]
fn one_code_says_that_a_function_does_not_exist() {
    assert!(is_undefined_function("42883"));
    for code in ["42P01", "42703", "4288", "428833", ""] {
        assert!(!is_undefined_function(code), "{code:?}");
    }
}

#[test]
fn one_code_says_that_an_id_was_never_given_and_some_that_a_question_is_not_answered_there() {
    use pgsteer_core::verdict::{is_never_given, refuses_question};
    assert!(is_never_given("22023"));
    for code in ["22003", "2202", "57014", ""] {
        assert!(!is_never_given(code), "{code:?}");
    }
    // no such function, no right to it, a syntax or a feature that is not known
    for code in ["42883", "42501", "42601", "0A000"] {
        assert!(refuses_question(code), "{code:?}");
    }
    for code in ["57014", "40001", "25P02", "08006", ""] {
        assert!(!refuses_question(code), "{code:?}");
    }
}

/// Covers: E-153
#[test]
fn a_host_that_could_not_be_reached_is_down() {
    for stage in [
        Stage::Resolve,
        Stage::Connect,
        Stage::Startup,
        Stage::SessionSetup,
    ] {
        for kind in SOCKET_ERRORS {
            assert_eq!(
                connect_failure(stage, &Evidence::Io(kind)),
                DOWN,
                "{stage:?} {kind:?}"
            );
        }
        assert_eq!(connect_failure(stage, &Evidence::Closed), DOWN, "{stage:?}");
    }
    for stage in CONNECTING {
        for evidence in [
            Evidence::Deadline,
            Evidence::NoSuchName,
            Evidence::TaskDied,
            fatal("08001"),
        ] {
            assert_eq!(connect_failure(stage, &evidence), DOWN, "{stage:?} {evidence:?}");
        }
    }
    // a socket directory that is missing or closed to us, and whatever else a connect can end with
    for kind in [ErrorKind::NotFound, ErrorKind::PermissionDenied, ErrorKind::Other] {
        assert_eq!(
            connect_failure(Stage::Connect, &Evidence::Io(kind)),
            DOWN,
            "{kind:?}"
        );
    }
}

/// Covers: E-154, E-157
#[test]
fn a_host_that_answered_and_gave_no_connection_is_rejected() {
    for stage in [Stage::Startup, Stage::SessionSetup] {
        for code in ["57P01", "57P04", "08004", "08006", "08P01", "XX000", "25006", ""] {
            assert_eq!(connect_failure(stage, &fatal(code)), REJECTED, "{stage:?} {code}");
            assert_eq!(connect_failure(stage, &error(code)), REJECTED, "{stage:?} {code}");
        }
        for kind in [ErrorKind::InvalidData, ErrorKind::Other] {
            assert_eq!(
                connect_failure(stage, &Evidence::Io(kind)),
                REJECTED,
                "{stage:?} {kind:?}"
            );
        }
        for evidence in [
            Evidence::UnsupportedAuth,
            Evidence::BadServer,
            Evidence::Panicked,
            Evidence::Tls,
        ] {
            assert_eq!(
                connect_failure(stage, &evidence),
                REJECTED,
                "{stage:?} {evidence:?}"
            );
        }
    }
    for evidence in [
        Evidence::Tls,
        Evidence::Closed,
        Evidence::Io(ErrorKind::ConnectionReset),
    ] {
        assert_eq!(connect_failure(Stage::Tls, &evidence), REJECTED, "{evidence:?}");
    }
}

/// Covers: E-154, V-05
#[test]
fn a_refused_login_is_judged_at_the_end_of_the_pass() {
    for code in ["28P01", "28000", "3D000", "42501"] {
        assert_eq!(
            connect_failure(Stage::Startup, &fatal(code)),
            HostEffect::JudgeAtEndOfPass,
            "{code}"
        );
        // past the login it is an ordinary error of the session's setup
        assert_eq!(
            connect_failure(Stage::SessionSetup, &error(code)),
            REJECTED,
            "{code}"
        );
    }
}

/// One line of the table: what was seen, and what becomes of connection, host, breaker and the search.
type Row<'a> = (
    &'a [Stage],
    Evidence<'a>,
    (ConnectionEffect, HostEffect, BreakerEffect, bool),
);

/// Covers: E-154, V-01, V-02, V-03, V-04, V-05, V-06, V-07, V-08, V-09, V-10, F-01, F-06, F-07, F-08, F-09, F-10, F-11
#[test]
fn every_row_of_the_table_says_what_becomes_of_connection_host_breaker_and_search() {
    use BreakerEffect::{Failure, Neutral, Success};
    use ConnectionEffect::{Dead, Good, Retire};
    use ErrorKind::{
        BrokenPipe, ConnectionRefused, ConnectionReset, HostUnreachable, TimedOut, UnexpectedEof,
    };
    use HostEffect::{JudgeAtEndOfPass, Nothing, RoleUnknown, Suspect};
    const NOT_READY: HostEffect = HostEffect::Failed(FailureKind::NotReady);
    const FULL: HostEffect = HostEffect::Failed(FailureKind::Full);
    const COLD: HostEffect = HostEffect::Role(Role::ColdStandby);
    const LOGIN: &[Stage] = &[Stage::Startup];
    const TALKING: &[Stage] = &[Stage::Startup, Stage::SessionSetup];
    const QUERY: &[Stage] = &[Stage::Query];
    const ALL: &[Stage] = &[
        Stage::Resolve,
        Stage::Connect,
        Stage::Tls,
        Stage::Startup,
        Stage::SessionSetup,
        Stage::Query,
    ];

    let down = (Dead, DOWN, Failure, true);
    let rejected = (Dead, REJECTED, Failure, true);
    let lost = (Dead, Suspect, Failure, true);
    let ended = (Dead, Suspect, Neutral, true);
    let fine = (Good, Nothing, Success, false);
    let table: &[Row<'_>] = &[
        // nobody there, or nobody answers
        (&CONNECTING, Evidence::Deadline, down),
        (&CONNECTING, Evidence::TaskDied, down),
        (&[Stage::Resolve], Evidence::NoSuchName, down),
        (&[Stage::Connect], Evidence::Io(ConnectionRefused), down),
        (&[Stage::Connect], Evidence::Io(HostUnreachable), down),
        (&[Stage::Connect], Evidence::Io(TimedOut), down),
        (TALKING, Evidence::Io(ConnectionReset), down),
        (TALKING, Evidence::Io(BrokenPipe), down),
        (TALKING, Evidence::Io(UnexpectedEof), down),
        (TALKING, Evidence::Closed, down),
        // the same on an open connection: its host is not marked by it
        (QUERY, Evidence::Deadline, lost),
        (QUERY, Evidence::Closed, lost),
        (QUERY, Evidence::Io(ConnectionReset), lost),
        (QUERY, Evidence::Io(TimedOut), lost),
        (QUERY, Evidence::BadServer, lost),
        (QUERY, Evidence::TaskDied, lost),
        // starting up, in recovery, shutting down
        (TALKING, fatal("57P03"), (Dead, NOT_READY, Failure, true)),
        (QUERY, fatal("57P03"), lost),
        // a standby that takes no sessions
        (ALL, fatal("57M02"), (Dead, COLD, Neutral, true)),
        // full
        (TALKING, fatal("53300"), (Dead, FULL, Neutral, true)),
        (TALKING, fatal("53400"), (Dead, FULL, Neutral, true)),
        // the login
        (LOGIN, fatal("28P01"), (Dead, JudgeAtEndOfPass, Neutral, true)),
        (LOGIN, fatal("28000"), (Dead, JudgeAtEndOfPass, Neutral, true)),
        (LOGIN, fatal("3D000"), (Dead, JudgeAtEndOfPass, Neutral, true)),
        (LOGIN, fatal("42501"), (Dead, JudgeAtEndOfPass, Neutral, true)),
        // TLS
        (&[Stage::Tls], Evidence::Tls, rejected),
        (&[Stage::Tls], Evidence::Closed, rejected),
        (&[Stage::Tls], Evidence::Io(ConnectionReset), rejected),
        // the end of a session, told in an error or in a notice before it
        (QUERY, fatal("57P01"), ended),
        (QUERY, error("57P01"), ended),
        (QUERY, error("57P02"), ended),
        (QUERY, fatal("57P05"), ended),
        (QUERY, fatal("08006"), ended),
        (QUERY, fatal("08P01"), ended),
        (QUERY, error("08003"), ended),
        (LOGIN, fatal("57P01"), rejected),
        (LOGIN, fatal("08P01"), rejected),
        (LOGIN, fatal("08006"), rejected),
        (LOGIN, fatal("08001"), down),
        // the database was dropped
        (QUERY, fatal("57P04"), (Dead, Nothing, Neutral, false)),
        // a write where none is taken
        (QUERY, error("25006"), (Retire, RoleUnknown, Neutral, false)),
        // any other end
        (QUERY, fatal("XX000"), ended),
        (QUERY, fatal("25P03"), ended),
        (LOGIN, fatal("XX000"), rejected),
        // an ordinary error of a statement
        (QUERY, error("57014"), fine),
        (QUERY, error("40001"), fine),
        (QUERY, error("40P01"), fine),
        (QUERY, error("42601"), fine),
        (QUERY, error("23505"), fine),
        (QUERY, error("58M01"), fine),
        (QUERY, error("XX000"), fine),
        // an error while the session is set up gives no connection
        (&[Stage::SessionSetup], error("42883"), rejected),
        (TALKING, Evidence::BadServer, rejected),
        (TALKING, Evidence::UnsupportedAuth, rejected),
        (&CONNECTING, Evidence::Panicked, rejected),
    ];
    for (stages, evidence, (connection, host, breaker, next_host)) in table {
        let expected = Verdict {
            connection: *connection,
            host: *host,
            breaker: *breaker,
            next_host: *next_host,
        };
        for stage in *stages {
            assert_eq!(verdict(*stage, evidence), expected, "{stage:?} {evidence:?}");
            assert_eq!(connect_failure(*stage, evidence), *host, "{stage:?} {evidence:?}");
        }
    }
}

/// Covers: V-06, V-07, V-09
#[test]
fn nothing_on_an_open_connection_marks_its_host_as_failed() {
    let codes = ["57P01", "57P03", "08006", "28P01", "53300", "XX000", "25006", ""];
    let errors = codes.iter().flat_map(|code| [fatal(code), error(code)]);
    let others = [
        Evidence::Closed,
        Evidence::Deadline,
        Evidence::TaskDied,
        Evidence::Tls,
    ];
    for evidence in errors.chain(others) {
        let host = verdict(Stage::Query, &evidence).host;
        assert!(!matches!(host, HostEffect::Failed(_)), "{evidence:?}: {host:?}");
    }
}

/// Covers: V-08
#[test]
fn one_code_says_that_a_server_took_no_write() {
    assert!(doubts_role("25006"));
    for code in ["25001", "0A000", "2500", "250066", ""] {
        assert!(!doubts_role(code), "{code:?}");
    }
}

/// A COMMIT that the server refused is not done. Where it did not come to an answer, or to one that does not say so, it may be.
#[test]
fn a_commit_is_in_doubt_unless_the_server_said_that_it_refused_it() {
    let in_doubt = [
        Evidence::Closed,
        Evidence::Deadline,
        Evidence::BadServer,
        Evidence::TaskDied,
        error("57P01"),
        error("08006"),
        error("40003"),
        error("XX000"),
        error("58030"),
        // Even with codes that else end a login.
        fatal("57P01"),
        fatal("53300"),
        fatal("28000"),
        fatal("40001"),
    ];
    for evidence in in_doubt {
        assert!(leaves_commit_in_doubt(&evidence), "{evidence:?}");
    }
    for kind in SOCKET_ERRORS {
        assert!(leaves_commit_in_doubt(&Evidence::Io(kind)), "{kind:?}");
    }
    for refused in [
        "40001", "40P01", "40002", "23503", "23505", "57014", "25006", "P0001", "53100",
    ] {
        assert!(!leaves_commit_in_doubt(&error(refused)), "{refused}");
    }
}

#[test]
fn a_statement_is_outdated_if_the_server_has_lost_it_or_its_result_has_changed() {
    let changed = "cached plan must not change result type";
    let rows = [
        (("26000", None, "no such statement"), true),
        (("0A000", None, changed), true),
        (("0A000", Some("RevalidateCachedQuery"), "in any language"), true),
        (("0A000", Some("transformX"), "not supported"), false),
        (("0A000", None, "not supported"), false),
        (("22012", Some("RevalidateCachedQuery"), changed), false),
    ];
    for ((sqlstate, routine, message), expected) in rows {
        assert_eq!(
            outdates_statement(sqlstate, routine, message),
            expected,
            "{sqlstate} {routine:?} {message}"
        );
    }
}
