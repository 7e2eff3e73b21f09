//! The ledger's own judgement: a lie of any kind is found.

use std::collections::BTreeMap;

use crate::run::book::{Book, Told};

#[test]
fn what_was_told_is_true_of_so_many_rows_and_of_no_other_number() {
    let why = || "a reason".to_owned();
    // what was told, how often the id is there, whether that is true
    let rows = [
        (Told::Done, [false, true, false]),
        (Told::NotDone(why()), [true, false, false]),
        (Told::Unknown(why()), [true, true, false]),
        (Told::Dropped, [true, true, false]),
    ];
    for (told, truths) in rows {
        for (times, truth) in truths.into_iter().enumerate() {
            assert_eq!(told.is_true_of(times), truth, "{told:?}, {times} times");
            let mut book = Book::default();
            book.note(7, told.clone(), String::new());
            let there = BTreeMap::from([(7, times)]);
            let judgement = book.judge(&there);
            assert_eq!(judgement.wrong.is_empty(), truth, "{told:?}, {times} times");
        }
    }
}

#[test]
fn a_transfer_that_nobody_began_is_found() {
    let judgement = Book::default().judge(&BTreeMap::from([(7, 1)]));
    assert_eq!(
        judgement.wrong[0].to_string(),
        "7 was begun by nobody and is there 1 times"
    );
}

#[test]
fn unknown_ones_are_counted_by_what_became_of_them() {
    let mut book = Book::default();
    for id in 1..=3 {
        book.note(id, Told::Unknown("lost".to_owned()), String::new());
    }
    book.note(4, Told::Dropped, String::new());
    let judgement = book.judge(&BTreeMap::from([(2, 1)]));
    let unknown = judgement.unknown["lost"];
    assert_eq!((unknown.there, unknown.not_there), (1, 2));
    assert_eq!((judgement.dropped.there, judgement.dropped.not_there), (0, 1));
}
