//! The session's table of states: what a pass, a return, the end of a connection and the keeper make of each other.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use pgsteer_core::pool::{GiveBack, PassEnd, Session};

/// A session that was left parked while the server owed an answer.
fn parked() -> Session {
    let session = Session::new();
    session.wake();
    assert_eq!(session.give_back(), GiveBack::Parked);
    session
}

#[test]
fn a_new_session_is_quiet_clean_and_fit() {
    let session = Session::new();
    assert!(session.is_quiet() && session.is_fit());
    assert!(!session.is_dirty() && !session.is_parked() && !session.is_closed() && !session.is_retired());
    assert_eq!(session.give_back(), GiveBack::Clean);
}

#[test]
fn a_wake_during_a_pass_asks_for_another_and_keeps_the_session_from_being_quiet() {
    let session = Session::new();
    session.begin_pass();
    session.wake();
    assert_eq!(session.end_pass(false, false), PassEnd::Again);
    assert!(!session.is_quiet(), "until the other pass has been made");
    assert_eq!(session.outlook(), GiveBack::Parked);
    session.begin_pass();
    assert_eq!(session.end_pass(false, false), PassEnd::Rest);
    assert!(session.is_quiet());
}

#[test]
fn a_wake_before_a_pass_is_answered_by_it() {
    let session = Session::new();
    session.wake();
    assert!(!session.is_quiet());
    session.begin_pass();
    assert!(!session.is_quiet(), "what the pass finds is not published yet");
    assert_eq!(session.end_pass(false, false), PassEnd::Rest);
    assert!(session.is_quiet());
}

#[test]
fn a_parked_session_stays_parked_while_it_is_busy_or_woken() {
    let session = parked();
    session.begin_pass();
    assert_eq!(session.end_pass(true, true), PassEnd::Rest);
    assert!(session.is_parked());
    session.begin_pass();
    session.wake();
    assert_eq!(session.end_pass(false, false), PassEnd::Again);
    assert!(session.is_parked());
    session.begin_pass();
    assert_eq!(session.end_pass(false, false), PassEnd::Release);
    assert!(!session.is_parked() && session.is_quiet());
}

#[test]
fn the_driver_releases_a_clean_parked_slot_and_hands_over_any_other() {
    for (dirty, retired, expected) in [
        (false, false, PassEnd::Release),
        (true, false, PassEnd::HandOver),
        (false, true, PassEnd::HandOver),
        (true, true, PassEnd::HandOver),
    ] {
        let session = parked();
        if retired {
            session.retire();
        }
        session.begin_pass();
        assert_eq!(
            session.end_pass(false, dirty),
            expected,
            "dirty {dirty}, retired {retired}"
        );
        assert!(!session.is_parked());
        assert!(!session.unpark(), "it has an owner");
    }
}

#[test]
fn a_parked_slot_is_won_once() {
    let session = parked();
    assert!(session.unpark());
    assert!(!session.unpark());
    session.begin_pass();
    assert_eq!(session.end_pass(false, false), PassEnd::Rest);
    assert!(!session.close());

    let session = parked();
    assert!(session.close(), "whoever closes owns it");
    assert!(!session.close() && !session.unpark());
}

#[test]
fn a_closed_session_is_unfit_for_good_whatever_still_wakes_it() {
    let session = Session::new();
    session.begin_pass();
    assert!(!session.close());
    session.wake();
    assert!(session.is_closed() && !session.is_fit());
    assert_eq!(
        session.give_back(),
        GiveBack::Keeper,
        "never parked: no pass would come"
    );
    session.unretire();
    assert!(!session.is_fit());
}

#[test]
fn a_retired_session_is_unfit_until_it_is_unretired() {
    let session = Session::new();
    session.retire();
    assert!(session.is_retired() && !session.is_fit());
    assert_eq!(session.outlook(), GiveBack::Keeper);
    session.unretire();
    assert!(session.is_fit());
    assert_eq!(session.outlook(), GiveBack::Clean);
}

#[test]
fn a_transaction_left_open_is_dirty_until_a_pass_finds_it_closed() {
    let session = Session::new();
    session.begin_pass();
    assert_eq!(session.end_pass(false, true), PassEnd::Rest);
    assert!(session.is_dirty() && session.is_quiet());
    assert_eq!(session.give_back(), GiveBack::Keeper);
    session.begin_pass();
    assert_eq!(session.end_pass(false, false), PassEnd::Rest);
    assert_eq!(session.give_back(), GiveBack::Clean);
}

#[test]
fn its_debug_form_names_what_is_set() {
    let session = parked();
    session.retire();
    assert_eq!(format!("{session:?}"), r#"Session{"woken", "parked", "retired"}"#);
}
