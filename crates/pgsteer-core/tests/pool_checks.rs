//! When idle connections are asked whether they work, and what that means for the planner.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod planner_world;

use std::time::{Duration, Instant};

use pgsteer_core::pool::HealthChecks;
use pgsteer_core::pool::planner::{Action, CloseReason, Planner, PlannerOptions, PoolView};
use planner_world::{SECOND, host, options};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Is {
    Idle,
    Leased,
    Checked,
}

/// What the slots look like: set by the test.
struct View {
    slots: Vec<(Is, u64)>,
    waiting: usize,
}

impl PoolView for View {
    fn is_idle(&self, slot: u32) -> bool {
        self.slots[slot as usize].0 == Is::Idle
    }
    fn is_parked(&self, _: u32) -> bool {
        false
    }
    fn uses(&self, slot: u32) -> u64 {
        self.slots[slot as usize].1
    }
    fn waiting(&self) -> usize {
        self.waiting
    }
    fn idle(&self) -> usize {
        self.slots.iter().filter(|(is, _)| *is == Is::Idle).count()
    }
    fn is_being_checked(&self, slot: u32) -> bool {
        self.slots[slot as usize].0 == Is::Checked
    }
}

impl View {
    fn idle(count: usize) -> Self {
        View {
            slots: vec![(Is::Idle, 0); count],
            waiting: 0,
        }
    }
}

/// Idle connections, all opened now, that are asked every ten seconds.
fn opened(count: u32) -> (HealthChecks, View, Instant) {
    let (view, now) = (View::idle(count as usize), Instant::now());
    let mut checks = HealthChecks::new(count, 10 * SECOND);
    (0..count).for_each(|slot| checks.opened(slot, &view, now));
    (checks, view, now)
}

#[test]
fn an_idle_connection_is_asked_when_it_has_not_been_used_for_an_interval_and_again_after_each() {
    let (mut checks, view, start) = opened(1);
    let (mut now, mut asked) = (start, Vec::new());
    while now < start + 35 * SECOND {
        now = checks.next_wake().expect("it looks");
        for slot in checks.due(&view, now) {
            asked.push((now - start).as_millis());
            checks.answered(slot, now);
        }
    }
    assert_eq!(asked, [10_000, 20_000, 30_000]);
}

#[test]
fn one_that_is_used_or_in_use_is_not_asked() {
    let (mut checks, mut view, start) = opened(2);
    view.slots[1].0 = Is::Leased;
    let mut now = start;
    while now < start + 60 * SECOND {
        view.slots[0].1 += 1;
        now = checks.next_wake().expect("it looks");
        assert_eq!(checks.due(&view, now), [] as [u32; 0], "{:?}", now - start);
    }
}

/// Idle connections, and how many of them are asked at once.
#[test]
fn only_a_few_are_asked_at_once_so_that_callers_find_the_others() {
    let table = [(1, 1), (2, 1), (4, 1), (8, 2), (16, 4), (63, 4), (100, 4)];
    for (count, at_once) in table {
        let (mut checks, mut view, start) = opened(count);
        let now = start + 10 * SECOND;
        let due = checks.due(&view, now);
        assert_eq!(due.len(), at_once, "{count}");
        due.iter()
            .for_each(|slot| view.slots[*slot as usize].0 = Is::Checked);
        assert_eq!(
            checks.due(&view, now),
            [] as [u32; 0],
            "not before those have answered"
        );
    }
}

#[test]
fn all_of_them_have_their_turn_the_longest_unasked_first() {
    let (mut checks, view, start) = opened(8);
    let (mut now, mut asked) = (start + 10 * SECOND, Vec::new());
    loop {
        let due = checks.due(&view, now);
        if due.is_empty() {
            break;
        }
        now += Duration::from_millis(1);
        due.iter().for_each(|slot| checks.answered(*slot, now));
        asked.extend(due);
    }
    asked.sort_unstable();
    assert_eq!(asked, (0..8).collect::<Vec<_>>());
}

#[test]
fn one_that_has_gone_or_could_not_be_claimed_holds_nobody_up() {
    let (mut checks, view, start) = opened(2);
    let now = start + 10 * SECOND;
    assert_eq!(checks.due(&view, now), [0]);
    checks.gone(0);
    assert_eq!(checks.due(&view, now), [1]);
    checks.claim_failed(1, now);
    checks.gone(1);
    assert_eq!((checks.due(&view, now), checks.next_wake()), (vec![], None));
}

#[test]
fn the_next_look_is_always_later_than_the_last() {
    let (mut checks, mut view, start) = opened(3);
    view.slots[2].0 = Is::Leased;
    let mut now = start;
    for round in 0..200 {
        let wake = checks.next_wake().expect("it looks");
        assert!(wake > now, "round {round}");
        now = wake;
        for slot in checks.due(&view, now) {
            if round % 3 == 0 {
                checks.answered(slot, now);
            } else {
                checks.claim_failed(slot, now);
            }
        }
    }
}

/// A planner with an idle connection in each of these slots of five, and what it does then.
fn elastic(min_idle: u32, view: &mut View) -> (Planner, Instant) {
    let now = Instant::now();
    let mut planner = Planner::new(PlannerOptions {
        min_idle,
        idle_timeout: Some(60 * SECOND),
        max_lifetime: None,
        rebalance_interval: Duration::MAX,
        ..options(5)
    });
    let open = view.slots.len();
    view.slots = vec![(Is::Leased, 0); 5];
    view.waiting = open;
    planner.start(view, now);
    for opened in 1..=open {
        planner.demand(view, now);
        while let Some(action) = planner.next_action() {
            if let Action::Open { slot, .. } = action {
                planner.opened(slot, host("a"), None, 0, view, now).unwrap();
                view.slots[slot as usize].0 = Is::Idle;
            }
        }
        assert!(view.idle() >= opened);
    }
    view.waiting = 0;
    assert_eq!(planner.stats(view).idle, open);
    (planner, now)
}

fn actions(planner: &mut Planner) -> Vec<Action> {
    std::iter::from_fn(|| planner.next_action()).collect()
}

#[test]
fn being_asked_is_no_use_so_the_idle_timeout_goes_on() {
    let mut view = View::idle(2);
    let (mut planner, start) = elastic(1, &mut view);
    let mut closed = Vec::new();
    for second in 1..=61 {
        // Every tenth look falls into a check.
        view.slots[1].0 = if second % 10 == 5 { Is::Checked } else { Is::Idle };
        planner.tick(None, &view, start + second * SECOND);
        closed.extend(actions(&mut planner).into_iter().map(|action| (second, action)));
    }
    let why = CloseReason::IdleTimeout;
    let expected = Action::Close {
        slot: 1,
        why,
        claim: true,
    };
    assert_eq!(closed.first(), Some(&(60, expected)), "{closed:?}");
}

#[test]
fn one_that_is_asked_counts_for_the_floor_and_as_idle() {
    let mut view = View::idle(2);
    let (mut planner, start) = elastic(2, &mut view);
    view.slots[0].0 = Is::Checked;
    planner.tick(None, &view, start + SECOND);
    assert_eq!(actions(&mut planner), []);
    assert_eq!(planner.stats(&view).idle, 2);
}

#[test]
fn a_waiting_caller_does_not_wait_for_one_that_is_asked() {
    let mut view = View::idle(1);
    let (mut planner, start) = elastic(1, &mut view);
    view.slots[0].0 = Is::Checked;
    view.waiting = 1;
    planner.demand(&view, start);
    assert!(matches!(
        actions(&mut planner)[..],
        [Action::Open { slot: 1, .. }]
    ));
}

#[test]
fn one_can_be_opened_at_any_time_to_see_whether_that_works_but_only_one() {
    let mut view = View::idle(2);
    let (mut planner, start) = elastic(2, &mut view);
    planner.bar(3600 * SECOND, start);
    assert!(planner.try_one(start));
    assert!(!planner.try_one(start), "one is on its way");
    assert!(matches!(
        actions(&mut planner)[..],
        [Action::Open { slot: 2, .. }]
    ));
    planner.shutdown(&view, start);
    assert!(!planner.try_one(start), "the pool ends");
}

#[test]
fn none_can_be_tried_where_every_slot_is_taken() {
    let mut view = View::idle(5);
    let (mut planner, start) = elastic(2, &mut view);
    assert!(!planner.try_one(start));
    assert_eq!(actions(&mut planner), []);
}
