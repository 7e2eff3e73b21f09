//! Which backend gets the next request, and how requests spread in the long run.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use pgsteer_core::balance::{Candidate, Load, Picked, Turns, pick};
use proptest::prelude::*;

const ROOM: u64 = u64::MAX;
const REQUESTS: u64 = 100_000;
const WEIGHTS: [u32; 3] = [1, 2, 5];

fn load(in_flight: u64, weight: u32, capacity: u64) -> Load {
    Load {
        in_flight,
        weight: NonZeroU32::new(weight).unwrap(),
        capacity,
    }
}

fn serving(in_flight: u64, weight: u32) -> Candidate<u64> {
    Candidate::Serving(load(in_flight, weight, ROOM))
}

fn full(in_flight: u64, weight: u32) -> Candidate<u64> {
    Candidate::Serving(load(in_flight, weight, in_flight))
}

fn out(failed_at: u64) -> Candidate<u64> {
    Candidate::LeftOut { failed_at }
}

fn picked(candidates: &[Option<Candidate<u64>>], turns: &Turns) -> Option<Picked> {
    pick(candidates.len(), |place| candidates[place], turns)
}

type Row<'a> = (&'a str, &'a [Option<Candidate<u64>>], Option<(usize, bool)>);

/// What there is to choose from and what is chosen, whatever the turn: a place, and whether it is only tried anyway.
/// Covers: S-41
#[test]
fn who_is_chosen() {
    let huge = u64::MAX;
    let table: [Row; 16] = [
        ("nothing of nothing", &[], None),
        ("nothing of what is not to be tried", &[None, None], None),
        ("the only one", &[Some(serving(7, 1))], Some((0, false))),
        (
            "least in flight",
            &[Some(serving(2, 1)), Some(serving(1, 1))],
            Some((1, false)),
        ),
        (
            "for the weight",
            &[Some(serving(2, 1)), Some(serving(5, 3))],
            Some((1, false)),
        ),
        (
            "for the weight, the other way",
            &[Some(serving(2, 1)), Some(serving(7, 3))],
            Some((0, false)),
        ),
        (
            "where a division would see a tie",
            &[Some(serving(1, 3)), Some(serving(333_333_333, 1_000_000_000))],
            Some((1, false)),
        ),
        (
            "where a product would overflow 64 bits",
            &[Some(serving(huge, u32::MAX)), Some(serving(huge - 1, u32::MAX))],
            Some((1, false)),
        ),
        (
            "the greatest weight against the least",
            &[Some(serving(huge, u32::MAX)), Some(serving(huge, 1))],
            Some((0, false)),
        ),
        (
            "one with room before a full one",
            &[Some(full(1, 5)), Some(serving(9, 1))],
            Some((1, false)),
        ),
        (
            "the least loaded of full ones",
            &[Some(full(16, 1)), Some(full(16, 2))],
            Some((1, false)),
        ),
        (
            "one that serves before one left out",
            &[Some(out(0)), Some(serving(99, 1))],
            Some((1, false)),
        ),
        (
            "a full one before one left out",
            &[Some(out(0)), Some(full(16, 1))],
            Some((1, false)),
        ),
        (
            "of those left out the oldest failure",
            &[Some(out(5)), Some(out(3)), Some(out(4))],
            Some((1, true)),
        ),
        (
            "the first of equally old ones",
            &[Some(out(3)), Some(out(3))],
            Some((0, true)),
        ),
        (
            "not what has been tried",
            &[None, Some(out(9)), None],
            Some((1, true)),
        ),
    ];
    let turns = Turns::new();
    for (name, candidates, expected) in table {
        for turn in 0..20 {
            let found = picked(candidates, &turns).map(|picked| (picked.place, picked.is_anyway()));
            assert_eq!(found, expected, "{name}, turn {turn}");
        }
    }
}

/// In flight, capacity, and whether it has failed lately: what it is to whoever chooses.
#[test]
fn a_backend_that_cannot_be_dialled_serves_only_while_it_has_room_on_its_connections() {
    let table = [
        (0, 16, None, true),
        (16, 16, None, true),
        (0, 3, Some(7), true),
        (2, 3, Some(7), true),
        (3, 3, Some(7), false),
        (0, 0, Some(7), false),
    ];
    for (in_flight, capacity, failed_at, serves) in table {
        let load = load(in_flight, 1, capacity);
        let expected = if serves { Candidate::Serving(load) } else { out(7) };
        assert_eq!(
            Candidate::new(load, failed_at),
            expected,
            "{in_flight} of {capacity}"
        );
    }
}

/// Light traffic, in which nothing is ever in flight when the next request comes: all tie, always.
/// Covers: S-45
#[test]
fn ties_are_shared_by_weight_and_none_comes_up_long_in_a_row() {
    let table: [(&[u32], usize); 4] = [(&[1, 1], 3), (&[1, 1, 1], 2), (&[3, 3, 3, 3], 2), (&[1, 2, 5], 4)];
    for (weights, longest) in table {
        let candidates: Vec<_> = weights.iter().map(|weight| Some(serving(0, *weight))).collect();
        let total: u32 = weights.iter().sum();
        let turns = Turns::new();
        let (mut chosen, mut last, mut run) = (vec![0_u32; weights.len()], usize::MAX, 0);
        let rounds = 1000;
        for turn in 0..u64::from(rounds * total) {
            let place = picked(&candidates, &turns).unwrap().place;
            chosen[place] += 1;
            run = if place == last { run + 1 } else { 1 };
            last = place;
            assert!(
                run <= longest,
                "{place} of {weights:?} {run} times in a row at turn {turn}"
            );
        }
        for (weight, chosen) in weights.iter().zip(chosen) {
            assert!(
                chosen.abs_diff(weight * rounds) <= 5,
                "{weight} of {weights:?}: {chosen}"
            );
        }
    }
}

/// One request after the other while another is always in flight: ties among all, then among those left, in step.
#[test]
fn ties_that_come_up_in_step_with_others_favour_nobody() {
    let turns = Turns::new();
    let next = |candidates: &[Option<Candidate<u64>>]| picked(candidates, &turns).unwrap().place;
    let mut seconds = [0_u32; 3];
    for _ in 0..30_000 {
        let first = next(&[Some(serving(0, 1)); 3]);
        let mut left = [Some(serving(0, 1)); 3];
        left[first] = Some(serving(1, 1));
        seconds[next(&left)] += 1;
    }
    for count in seconds {
        assert!(count.abs_diff(10_000) <= 100, "{seconds:?}");
    }
}

/// The backends as a set of them keeps their numbers.
struct Backends {
    in_flight: Vec<AtomicU64>,
    handled: Vec<AtomicU64>,
    turns: Turns,
}

impl Backends {
    fn new() -> Self {
        let zeros = || WEIGHTS.iter().map(|_| AtomicU64::new(0)).collect();
        Backends {
            in_flight: zeros(),
            handled: zeros(),
            turns: Turns::new(),
        }
    }

    fn begin(&self) -> usize {
        let look = |place: usize| {
            let in_flight = self.in_flight[place].load(Ordering::Relaxed);
            Some(serving(in_flight, WEIGHTS[place]))
        };
        let place = pick(WEIGHTS.len(), look, &self.turns).unwrap().place;
        self.in_flight[place].fetch_add(1, Ordering::Relaxed);
        self.handled[place].fetch_add(1, Ordering::Relaxed);
        place
    }

    fn end(&self, place: usize) {
        self.in_flight[place].fetch_sub(1, Ordering::Relaxed);
    }

    /// Each within one per cent of its share.
    fn assert_spread(&self) {
        let handled: Vec<u64> = self.handled.iter().map(|it| it.load(Ordering::Relaxed)).collect();
        let total: u64 = handled.iter().sum();
        assert_eq!(total, REQUESTS);
        for (weight, count) in WEIGHTS.iter().zip(&handled) {
            let share = REQUESTS * u64::from(*weight) / 8;
            assert!(count.abs_diff(share) * 100 <= share, "{handled:?}");
        }
    }
}

#[test]
fn requests_that_stay_in_flight_are_spread_by_weight() {
    let backends = Backends::new();
    for _ in 0..REQUESTS {
        backends.begin();
    }
    backends.assert_spread();
}

#[test]
fn requests_that_end_before_the_next_begins_are_spread_by_weight() {
    let backends = Backends::new();
    for _ in 0..REQUESTS {
        let place = backends.begin();
        backends.end(place);
    }
    backends.assert_spread();
}

/// Many clients, each with one request in flight, that all take equally long.
#[test]
fn requests_in_a_closed_loop_are_spread_by_weight() {
    let backends = Backends::new();
    let mut under_way = std::collections::VecDeque::new();
    for _ in 0..REQUESTS {
        if under_way.len() == 64 {
            backends.end(under_way.pop_front().unwrap());
        }
        under_way.push_back(backends.begin());
    }
    backends.assert_spread();
}

/// They stay in flight, so that the shares are the doing of the choices alone and not of how long threads had to rest.
#[test]
fn requests_that_many_threads_choose_for_at_once_are_spread_by_weight() {
    const THREADS: u64 = 8;
    let backends = Arc::new(Backends::new());
    let together = Arc::new(Barrier::new(THREADS as usize));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (backends, together) = (Arc::clone(&backends), Arc::clone(&together));
            thread::spawn(move || {
                together.wait();
                for _ in 0..REQUESTS / THREADS {
                    backends.begin();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    backends.assert_spread();
}

/// All look before any counts itself in, which is the worst that threads can do to each other.
/// Covers: S-43
#[test]
fn a_race_is_off_by_no_more_than_the_number_of_those_in_it() {
    for borrowers in [2_u64, 7, 50] {
        let in_flight = [10_u64, 10, 10];
        let look = |place: usize| Some(serving(in_flight[place], 1));
        let (mut after, turns) = (in_flight, Turns::new());
        let places: Vec<usize> = (0..borrowers)
            .map(|_| pick(3, look, &turns).unwrap().place)
            .collect();
        places.iter().for_each(|place| after[*place] += 1);
        let (least, most) = (after.iter().min().unwrap(), after.iter().max().unwrap());
        assert!(most - least <= borrowers, "{after:?}");
        let next = pick(3, |place| Some(serving(after[place], 1)), &turns)
            .unwrap()
            .place;
        assert_eq!(after[next], *least, "the next choice puts it right");
    }
}

fn candidates() -> impl Strategy<Value = Vec<Option<Candidate<u64>>>> {
    let any_load = (any::<u64>(), 1..=u32::MAX, any::<u64>());
    let close_load = (0..8_u64, 1..4_u32, 0..8_u64);
    let load = prop_oneof![any_load, close_load]
        .prop_map(|(in_flight, weight, capacity)| load(in_flight, weight, capacity));
    let candidate = prop_oneof![
        4 => load.prop_map(|load| Some(Candidate::Serving(load))),
        1 => (0..5_u64).prop_map(|at| Some(out(at))),
        1 => Just(None),
    ];
    prop::collection::vec(candidate, 0..12)
}

/// The rule as it is told: the load as an exact fraction.
fn is_no_worse(one: &Load, other: &Load) -> bool {
    let room = |load: &Load| load.in_flight < load.capacity;
    match (room(one), room(other)) {
        (true, false) => true,
        (false, true) => false,
        _ => {
            u128::from(one.in_flight) * u128::from(other.weight.get())
                <= u128::from(other.in_flight) * u128::from(one.weight.get())
        }
    }
}

proptest! {
    #[test]
    fn whatever_there_is_the_choice_is_the_best_of_it(candidates in candidates()) {
        let serving = || candidates.iter().flatten().filter_map(|it| match it {
            Candidate::Serving(load) => Some(load),
            Candidate::LeftOut { .. } => None,
        });
        match picked(&candidates, &Turns::new()) {
            None => prop_assert!(candidates.iter().all(Option::is_none)),
            Some(picked) => match candidates[picked.place] {
                Some(Candidate::Serving(chosen)) => {
                    prop_assert_eq!(picked.in_flight, Some(chosen.in_flight));
                    prop_assert!(serving().all(|other| is_no_worse(&chosen, other)));
                }
                Some(Candidate::LeftOut { failed_at: chosen }) => {
                    prop_assert!(picked.is_anyway());
                    prop_assert_eq!(serving().count(), 0);
                    let older = candidates.iter().flatten().any(|it| matches!(
                        it, Candidate::LeftOut { failed_at } if *failed_at < chosen
                    ));
                    prop_assert!(!older);
                }
                None => prop_assert!(false, "it was not to be chosen"),
            },
        }
    }

    /// Numbers change between two looks.
    #[test]
    fn however_numbers_change_meanwhile_what_is_chosen_was_offered(
        first in candidates(),
        later in candidates(),
    ) {
        let looks = std::cell::Cell::new(0);
        let look = |place: usize| {
            looks.set(looks.get() + 1);
            if looks.get() <= first.len() { first[place] } else { later.get(place).copied().flatten() }
        };
        if let Some(Picked { place, .. }) = pick(first.len(), look, &Turns::new()) {
            prop_assert!(first[place].is_some());
        }
    }
}
