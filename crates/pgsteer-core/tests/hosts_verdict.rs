//! The table from evidence to effect, row by row.

use std::io::ErrorKind;

use pgsteer_core::hosts::FailureKind;
use pgsteer_core::verdict::{
    Class, Evidence, HostEffect, Stage, classify, connect_failure, is_undefined_function,
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
        (Evidence::InRecovery, Class::Other),
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
        for code in [
            "53300", "57P03", "57P01", "08004", "08006", "08P01", "57M02", "XX000", "",
        ] {
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

/// Covers: E-154
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
    assert_eq!(HostEffect::JudgeAtEndOfPass.for_probe(), FailureKind::Rejected);
    assert_eq!(DOWN.for_probe(), FailureKind::Down);
}

#[test]
fn a_standby_where_writes_are_wanted_is_read_only() {
    let effect = connect_failure(Stage::SessionSetup, &Evidence::InRecovery);
    assert_eq!(effect, HostEffect::Failed(FailureKind::ReadOnly));
}

#[test]
fn nothing_on_an_open_connection_says_anything_of_its_host() {
    let evidence = [
        Evidence::Closed,
        Evidence::Deadline,
        Evidence::TaskDied,
        fatal("57P01"),
        fatal("08006"),
        fatal("28P01"),
    ];
    for evidence in evidence {
        assert_eq!(
            connect_failure(Stage::Query, &evidence),
            HostEffect::Nothing,
            "{evidence:?}"
        );
    }
}
