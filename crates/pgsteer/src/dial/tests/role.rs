//! What a new connection is told and asked before anybody may use it, and what is made of the answers.

use pgsteer_core::hosts::{FailureKind, Role};

use super::*;

const REJECTED: HostEffect = HostEffect::Failed(FailureKind::Rejected);

const ROLE_QUERY: &str = "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')";
const TIMELINE_QUERY: &str = "SELECT pg_walfile_name(pg_current_wal_lsn())";

/// A server that accepts the login and answers the one question it is asked with this.
fn answers_question(question: &'static str, answer: Vec<u8>) -> Host {
    serves(move |mut peer| {
        let answer = answer.clone();
        async move {
            peer.accept().await;
            assert_eq!(peer.query().await.as_deref(), Some(question));
            peer.send(&answer).await;
            peer.end().await;
        }
    })
}

fn rows(rows: &[&[Option<&str>]]) -> Vec<u8> {
    let width = rows.first().map_or(1, |values| values.len());
    let mut bytes = columns(&vec!["x"; width]);
    for values in rows {
        bytes.extend(row(values));
    }
    [bytes, completed("SELECT 1"), ready(b'I')].concat()
}

///
#[tokio::test(start_paused = true)]
async fn the_role_is_what_the_server_answers() {
    let table = [
        (["f", "off"], Role::Primary),
        (["f", "on"], Role::ReadOnlyPrimary),
        (["t", "on"], Role::Standby),
        (["t", "off"], Role::Standby),
    ];
    for (answer, role) in table {
        let host = answers_question(ROLE_QUERY, rows(&[&answer.map(Some)]));
        let dialled = dial_asking(host, config(), ROLE).await.unwrap();
        assert_eq!(dialled.role, Some(role), "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_clear_is_no_role_but_a_failure() {
    let table: Vec<(&str, Vec<u8>)> = vec![
        ("NULL", rows(&[&[None, Some("off")]])),
        ("NULL beside it", rows(&[&[Some("f"), None]])),
        ("a word", rows(&[&[Some("maybe"), Some("off")]])),
        ("another word", rows(&[&[Some("f"), Some("t")]])),
        ("no row", rows(&[])),
        (
            "two rows",
            rows(&[&[Some("f"), Some("off")], &[Some("f"), Some("off")]]),
        ),
        ("one column", rows(&[&[Some("f")]])),
        ("three columns", rows(&[&[Some("f"), Some("off"), Some("off")]])),
        ("no columns", rows(&[&[]])),
        ("no query at all", [message(b'I', &[]), ready(b'I')].concat()),
    ];
    for (name, said) in table {
        let error = dial_asking(answers_question(ROLE_QUERY, said), config(), ROLE)
            .await
            .expect_err(name);
        assert_eq!(
            (error.stage(), error.evidence(), error.host_effect()),
            (Stage::SessionSetup, Evidence::BadServer, REJECTED),
            "{name}: {error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_know_the_question_is_rejected() {
    let said = [report(b'E', "ERROR", "42883", "no"), ready(b'I')].concat();
    let error = dial_asking(answers_question(ROLE_QUERY, said), config(), ROLE)
        .await
        .unwrap_err();
    assert_eq!(
        (error.sqlstate(), error.stage(), error.host_effect()),
        (Some("42883"), Stage::SessionSetup, REJECTED)
    );
}

#[tokio::test(start_paused = true)]
async fn the_timeline_is_read_off_a_file_name_and_nothing_else() {
    const TIMELINE: Ask = Ask {
        role: false,
        timeline: true,
        target: pgsteer_core::hosts::TargetSessionAttrs::Any,
    };
    let error = |code| [report(b'E', "ERROR", code, "no"), ready(b'I')].concat();
    let table: Vec<(&str, Vec<u8>, Option<u32>)> = vec![
        ("first", rows(&[&[Some("000000010000000000000003")]]), Some(1)),
        ("later", rows(&[&[Some("0000001A00000000000000FF")]]), Some(26)),
        (
            "largest",
            rows(&[&[Some("FFFFFFFF00000000000000FF")]]),
            Some(u32::MAX),
        ),
        ("none", rows(&[&[Some("000000000000000000000003")]]), None),
        ("too short", rows(&[&[Some("00000001")]]), None),
        ("no digits", rows(&[&[Some("0000000g0000000000000003")]]), None),
        ("a sign", rows(&[&[Some("+00000010000000000000003")]]), None),
        ("not ASCII", rows(&[&[Some("0000000ä000000000000003")]]), None),
        ("NULL", rows(&[&[None]]), None),
        ("no row", rows(&[]), None),
        ("in recovery", error("55000"), None),
        ("no such function", error("42883"), None),
    ];
    for (name, said, timeline) in table {
        let host = answers_question(TIMELINE_QUERY, said);
        let dialled = dial_asking(host, config(), TIMELINE).await.expect(name);
        assert_eq!(dialled.timeline, timeline, "{name}");
        assert!(
            dialled.session.is_quiet() && !dialled.session.is_dirty(),
            "{name}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_lost_over_the_timeline_is_no_connection() {
    let host = serves(|mut peer| async move {
        peer.accept().await;
        peer.query().await;
        peer.send(&fatal("57P01")).await;
    });
    let ask = Ask {
        role: false,
        timeline: true,
        target: pgsteer_core::hosts::TargetSessionAttrs::Any,
    };
    let error = dial_asking(host, config(), ask).await.unwrap_err();
    assert_eq!(error.stage(), Stage::SessionSetup);
}

#[tokio::test(start_paused = true)]
async fn only_what_is_wanted_is_said_and_in_one_round_trip() {
    let set = "SET statement_timeout = 1500";
    let table = [
        (Ask::default(), vec![set]),
        (ROLE, vec![set, ROLE_QUERY]),
        (
            Ask {
                role: true,
                timeline: true,
                target: pgsteer_core::hosts::TargetSessionAttrs::Any,
            },
            vec![set, ROLE_QUERY, TIMELINE_QUERY],
        ),
    ];
    for (ask, expected) in table {
        let count = expected.len();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let host = serves({
            let asked = asked.clone();
            move |mut peer| {
                let asked = asked.clone();
                async move {
                    peer.accept().await;
                    // Everything is asked before anything is answered.
                    for _ in 0..count {
                        let question = peer.query().await.unwrap();
                        asked.lock().unwrap().push(question);
                    }
                    let questions = asked.lock().unwrap().clone();
                    for question in questions {
                        let answer = match question.as_str() {
                            ROLE_QUERY => rows(&[&[Some("f"), Some("off")]]),
                            TIMELINE_QUERY => rows(&[&[Some("000000010000000000000003")]]),
                            _ => [completed("SET"), ready(b'I')].concat(),
                        };
                        peer.send(&answer).await;
                    }
                    peer.end().await;
                }
            }
        });
        let config = config().statement_timeout(Duration::from_millis(1500));
        let dialled = dial_asking(host, config, ask).await.unwrap();
        assert_eq!(*asked.lock().unwrap(), expected, "{ask:?}");
        assert_eq!(dialled.role.is_some(), ask.role);
        assert_eq!(dialled.timeline.is_some(), ask.timeline);
        assert!(dialled.session.is_quiet() && !dialled.session.is_dirty());
    }
}
