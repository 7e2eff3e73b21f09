//! The rule as tables: what was known before COMMIT, what the server says now, and what follows.

use super::*;

const BEFORE: &[&str] = &[
    "PostgreSQL 15.4 on x86_64-pc-linux-gnu, compiled by gcc",
    "150004",
    "",
    "f",
    "7313985403926617397",
    "000000030000000000000012",
    "0/12000500",
    "0/11FFFF00",
    "0/11FFFE00",
    "1796052190",
    "replica",
    "1796052000.5",
    "1796051999.25",
    "on",
    "-",
    "731",
];

/// Columns of an answer, by their place.
const VERSION: usize = 0;
const NUMBER: usize = 1;
const PRODUCT: usize = 2;
const RECOVERY: usize = 3;
const SYSTEM: usize = 4;
const FILE: usize = 5;
const POSITION: usize = 6;
const CHECKPOINT: usize = 7;
const REDO: usize = 8;
const TIME: usize = 9;
const WAL_LEVEL: usize = 10;
const START: usize = 11;
const STATISTICS: usize = 12;
const LEVEL: usize = 13;
const STANDBYS: usize = 14;

type Changes = [(usize, &'static str)];

/// The answer before COMMIT with these columns changed; empty text is NULL, and a dash is empty.
fn read(changes: &[&Changes]) -> Result<History, Obstacle> {
    let mut row = BEFORE.to_vec();
    for (at, value) in changes.iter().copied().flatten() {
        row[*at] = value;
    }
    History::read(|at| match row.get(at).copied() {
        Some("-") => Some(""),
        text => text.filter(|text| !text.is_empty()),
    })
}

fn judged(before: &Changes, now: &Changes, fate: Fate) -> Finding {
    let mark = Mark {
        id: 731,
        history: read(&[before]).unwrap(),
    };
    let now = read(&[before, now]);
    judge(&mark, now.as_ref(), fate, false)
}

/// Later, a checkpoint amid work in between.
const CHECKPOINTED: &Changes = &[
    (POSITION, "0/12000A00"),
    (CHECKPOINT, "0/12000900"),
    (REDO, "0/12000800"),
    (TIME, "1796052191"),
];
/// An orderly stop and a start.
const RESTARTED: &Changes = &[
    (POSITION, "0/12000A00"),
    (CHECKPOINT, "0/12000900"),
    (REDO, "0/12000900"),
    (TIME, "1796052195"),
    (START, "1796052195.5"),
];
/// A crash after which the log ends behind the place where it was.
const CRASHED: &Changes = &[
    (POSITION, "0/12000A00"),
    (CHECKPOINT, "0/12000900"),
    (REDO, "0/12000900"),
    (TIME, "1796052195"),
    (STATISTICS, "1796052194.75"),
];
/// A crash after which it ends in front of it.
const LOST: &Changes = &[
    (POSITION, "0/12000A00"),
    (CHECKPOINT, "0/120004F8"),
    (REDO, "0/120004F8"),
    (TIME, "1796052195"),
    (STATISTICS, "1796052194.75"),
];
/// The same place, but a checkpoint that began in front of its record: somebody worked meanwhile.
const CRASHED_AND_CHECKPOINTED: &Changes = &[
    (POSITION, "0/12000A00"),
    (CHECKPOINT, "0/120004F8"),
    (REDO, "0/120004C0"),
    (STATISTICS, "1796052194.75"),
];
const RESET_BY_HAND: &Changes = &[(POSITION, "0/12000A00"), (STATISTICS, "1796052192.125")];
const SET_BACK: &Changes = &[(POSITION, "0/120004FF")];
const CHECKPOINT_SET_BACK: &Changes = &[(CHECKPOINT, "0/11FFF000")];
const LATER: &Changes = &[(POSITION, "0/12000A00")];

fn unclear(what: &str) -> Finding {
    Finding::Unknown(Doubt::Nonsense(what.to_owned()))
}

#[test]
fn what_became_of_it_follows_from_where_the_server_stands_and_what_it_says() {
    use Fate::{Aborted, Committed, Forgotten, InProgress, NeverGiven, Unclear};
    let another = || Finding::Unknown(Doubt::MayBeAnother);
    let again = || Finding::AskAgain(Doubt::InProgress);
    let forgotten = || Finding::Unknown(Doubt::Forgotten);
    let never = || unclear("it has not given an id that it gave a moment ago");
    let silent = || unclear("it does not say what became of a transaction");
    let standby = || Finding::AskAgain(Doubt::InRecovery);
    let system = || Finding::Unknown(Doubt::OtherSystem);
    let timeline = |now| Finding::Unknown(Doubt::OtherTimeline { before: 3, now });
    let done = || Finding::Committed;
    let not = || Finding::Aborted;
    #[rustfmt::skip]
    let rows: &[(&str, &Changes, [Finding; 6])] = &[
        // what happened in between;          committed, aborted, in progress, never given, forgotten, unclear
        ("nothing",                 LATER,        [done(), not(), again(), never(), forgotten(), silent()]),
        ("a checkpoint",            CHECKPOINTED, [done(), not(), again(), never(), forgotten(), silent()]),
        ("an orderly restart",      RESTARTED,    [done(), not(), again(), never(), forgotten(), silent()]),
        ("a crash behind it",       CRASHED,      [another(), not(), again(), not(), forgotten(), silent()]),
        ("a crash in front of it",  LOST,         [not(), not(), not(), not(), forgotten(), silent()]),
        ("a crash and checkpoints", CRASHED_AND_CHECKPOINTED,
                                                  [another(), not(), again(), not(), forgotten(), silent()]),
        ("statistics were reset",   RESET_BY_HAND, [another(), not(), again(), not(), forgotten(), silent()]),
        ("its log went back",       SET_BACK,     [another(), not(), again(), not(), forgotten(), silent()]),
        ("its checkpoint went back", CHECKPOINT_SET_BACK,
                                                  [another(), not(), again(), not(), forgotten(), silent()]),
        ("it is in recovery",       &[(RECOVERY, "t"), (FILE, ""), (POSITION, "")],
                                                  [standby(), standby(), standby(), standby(), standby(), standby()]),
        ("another cluster",         &[(SYSTEM, "1")],
                                                  [system(), system(), system(), system(), system(), system()]),
        ("it was promoted",         &[(FILE, "000000040000000000000012")],
                                                  [timeline(4), timeline(4), timeline(4), timeline(4), timeline(4), timeline(4)]),
        ("it went back a timeline", &[(FILE, "000000020000000000000012")],
                                                  [timeline(2), timeline(2), timeline(2), timeline(2), timeline(2), timeline(2)]),
    ];
    let fates = [Committed, Aborted, InProgress, NeverGiven, Forgotten, Unclear];
    for (what, now, findings) in rows {
        for (fate, finding) in fates.iter().zip(findings) {
            assert_eq!(judged(&[], now, *fate), *finding, "{what}, {fate:?}");
        }
    }
}

/// Where a checkpoint amid work leaves no trace, one that begins where its record is may be such a one.
#[test]
fn with_wal_level_minimal_no_checkpoint_says_that_anything_was_lost() {
    let minimal: &Changes = &[(WAL_LEVEL, "minimal")];
    assert_eq!(judged(&[], LOST, Fate::Committed), Finding::Aborted);
    assert_eq!(
        judged(minimal, LOST, Fate::Committed),
        Finding::Unknown(Doubt::MayBeAnother)
    );
    assert_eq!(judged(minimal, LOST, Fate::NeverGiven), Finding::Aborted);
    assert_eq!(judged(minimal, LATER, Fate::Committed), Finding::Committed);
}

/// Before 15, statistics are another process's, so that only a checkpoint that is still the last one says that there was no
/// recovery.
#[test]
fn before_postgres_15_committed_is_believed_until_the_next_checkpoint() {
    for number in ["100023", "110022", "120022", "130018", "140015"] {
        let old: &Changes = &[(NUMBER, number), (STATISTICS, "")];
        let rows: &[(&Changes, bool)] = &[
            (LATER, true),
            (CHECKPOINTED, false),
            (RESTARTED, false),
            (CRASHED, false),
            (&[(TIME, "1796052191")], false),
            (&[(START, "1796052195.5")], false),
        ];
        for (now, believed) in rows {
            // The table's crash says so by its statistics too, which such a server is not asked for.
            let now: Vec<_> = now.iter().copied().filter(|(at, _)| *at != STATISTICS).collect();
            let finding = judged(old, &now, Fate::Committed);
            assert_eq!(
                finding == Finding::Committed,
                *believed,
                "{number} {now:?}: {finding:?}"
            );
            assert_ne!(finding, Finding::Aborted, "{number} {now:?}");
        }
        let lost: Vec<_> = LOST.iter().copied().filter(|(at, _)| *at != STATISTICS).collect();
        assert_eq!(judged(old, &lost, Fate::Committed), Finding::Aborted);
    }
}

#[test]
fn an_answer_that_is_no_clear_one_of_a_known_postgres_is_of_no_use() {
    let product = |name: &str| Obstacle::OtherProduct(name.to_owned());
    let long = "PostgreSQL 15.12-YB-2025.1.0.0-b168 on x86_64-pc-linux-gnu, c";
    let rows: &[(&[(usize, &'static str)], Obstacle)] = &[
        (&[(VERSION, "")], Obstacle::Unclear("version")),
        (
            &[(VERSION, "CockroachDB CCL v23.1")],
            product("CockroachDB CCL v23.1"),
        ),
        (
            &[(
                VERSION,
                "PostgreSQL 15.12-YB-2025.1.0.0-b168 on x86_64-pc-linux-gnu, compiled by clang",
            )],
            product(&long[..60]),
        ),
        (
            &[(VERSION, "PostgreSQL 12.12 (Greenplum Database 7.1)")],
            product("PostgreSQL 12.12 (Greenplum Database 7.1)"),
        ),
        (
            &[(VERSION, "PostgreSQL 15\u{1b}[31m -YB-")],
            product("PostgreSQL 15[31m -YB-"),
        ),
        (&[(PRODUCT, "aurora_version")], product("aurora_version")),
        (&[(NUMBER, "90624")], Obstacle::OtherVersion(90_624)),
        (&[(NUMBER, "190000")], Obstacle::OtherVersion(190_000)),
        (&[(NUMBER, "fifteen")], Obstacle::Unclear("version number")),
        (&[(NUMBER, "-1")], Obstacle::Unclear("version number")),
        (&[(RECOVERY, "t")], Obstacle::InRecovery),
        (&[(RECOVERY, "")], Obstacle::Unclear("in recovery")),
        (&[(RECOVERY, "true")], Obstacle::Unclear("in recovery")),
        (&[(SYSTEM, "")], Obstacle::Unclear("system identifier")),
        (&[(FILE, "")], Obstacle::Unclear("log file")),
        (
            &[(FILE, "000000000000000000000012")],
            Obstacle::Unclear("log file"),
        ),
        (
            &[(FILE, "00000001000000000000001")],
            Obstacle::Unclear("log file"),
        ),
        (
            &[(FILE, "+0000001000000000000001F")],
            Obstacle::Unclear("log file"),
        ),
        (
            &[(FILE, "é0000001000000000000001")],
            Obstacle::Unclear("log file"),
        ),
        (&[(POSITION, "")], Obstacle::Unclear("position")),
        (&[(POSITION, "12000500")], Obstacle::Unclear("position")),
        (&[(POSITION, "0/+2000500")], Obstacle::Unclear("position")),
        (&[(POSITION, "0/112000500")], Obstacle::Unclear("position")),
        (&[(CHECKPOINT, "0/")], Obstacle::Unclear("checkpoint")),
        (&[(REDO, "/0")], Obstacle::Unclear("checkpoint's redo")),
        (&[(TIME, "")], Obstacle::Unclear("checkpoint's time")),
        (&[(WAL_LEVEL, "")], Obstacle::Unclear("wal_level")),
        (&[(START, "")], Obstacle::Unclear("start")),
        (&[(STATISTICS, "")], Obstacle::Unclear("statistics reset")),
        (&[(LEVEL, "")], Obstacle::Unclear("synchronous_commit")),
        (&[(LEVEL, "maybe")], Obstacle::Unclear("synchronous_commit")),
        (&[(STANDBYS, "")], Obstacle::Unclear("synchronous_standby_names")),
    ];
    for (changes, obstacle) in rows {
        assert_eq!(read(&[changes]), Err(obstacle.clone()), "{changes:?}");
    }
}

#[test]
fn positions_are_read_as_the_server_writes_them() {
    let history = read(&[&[(POSITION, "1A/B3C0FFEE")]]).unwrap();
    assert_eq!(history.position, Position(0x1A_B3C0_FFEE));
    assert_eq!(history.timeline, 3);
}

/// A server that answers something else now is not believed, whatever it says of the transaction.
#[test]
fn an_answer_that_is_of_no_use_after_the_loss_decides_nothing() {
    for now in [
        &[(VERSION, "CockroachDB CCL v23.1")] as &Changes,
        &[(NUMBER, "190001")],
        &[(POSITION, "")],
        &[(STATISTICS, "")],
    ] {
        for fate in [Fate::Committed, Fate::Aborted, Fate::NeverGiven, Fate::InProgress] {
            let finding = judged(&[], now, fate);
            assert!(
                matches!(finding, Finding::Unknown(Doubt::Nonsense(_))),
                "{now:?} {fate:?}: {finding:?}"
            );
        }
    }
}

#[test]
fn the_words_of_the_server_are_what_became_of_it_and_null_is_that_it_has_forgotten() {
    let rows = [
        (Some("committed"), Fate::Committed),
        (Some("aborted"), Fate::Aborted),
        (Some("in progress"), Fate::InProgress),
        (Some("Committed"), Fate::Unclear),
        (Some(""), Fate::Unclear),
        (None, Fate::Forgotten),
    ];
    for (word, fate) in rows {
        assert_eq!(Fate::from_word(word), fate, "{word:?}");
    }
}

#[test]
fn whom_the_question_could_harm_is_not_asked() {
    let rows = [
        (Some("15.4 (Debian 15.4-2)"), true),
        (Some("10.23"), true),
        (Some("18devel"), true),
        (Some("9.6.24"), false),
        (Some("19.1"), false),
        (Some("8.0.2"), false),
        (Some("15.12-YB-2025.1.0.0-b168"), false),
        (Some("99999999999999"), false),
        (Some("fifteen"), false),
        (Some(""), false),
        (None, false),
    ];
    for (version, asked) in rows {
        assert_eq!(may_be_asked(version).is_ok(), asked, "{version:?}");
    }
}

/// Whoever was to wait for a standby is not told to be committed before another commit has waited for it.
#[test]
fn where_commits_wait_for_standbys_committed_has_to_be_confirmed() {
    const NAMED: (usize, &str) = (STANDBYS, "ANY 1 (a, b)");
    let rows: &[(&'static str, bool, Option<Wait>)] = &[
        ("on", true, Some(Wait::RemoteFlush)),
        ("remote_write", true, Some(Wait::RemoteWrite)),
        ("remote_apply", true, Some(Wait::RemoteApply)),
        ("local", true, None),
        ("off", true, None),
        ("on", false, None),
    ];
    for (level, named, wait) in rows {
        // Asked on another session, which has another setting.
        let now: &Changes = if *named {
            &[NAMED, (LEVEL, "off")]
        } else {
            &[(LEVEL, "off")]
        };
        let before: &Changes = &[(LEVEL, level)];
        let finding = judged(before, now, Fate::Committed);
        assert_eq!(
            finding,
            wait.map_or(Finding::Committed, Finding::Confirm),
            "{level} {named}"
        );
        assert_eq!(judged(before, now, Fate::Aborted), Finding::Aborted);
        let mark = Mark {
            id: 731,
            history: read(&[before]).unwrap(),
        };
        let now = read(&[now]).unwrap();
        assert_eq!(judge(&mark, Ok(&now), Fate::Committed, true), Finding::Committed);
        let crashed = read(&[CRASHED, &[NAMED]]).unwrap();
        assert_eq!(
            judge(&mark, Ok(&crashed), Fate::Committed, true),
            Finding::Unknown(Doubt::MayBeAnother)
        );
    }
    for wait in [Wait::RemoteFlush, Wait::RemoteWrite, Wait::RemoteApply] {
        let before = read(&[&[(LEVEL, wait.as_setting())]]).unwrap();
        assert_eq!(before.wait, Some(wait), "what it asks for is what it waits for");
    }
}
