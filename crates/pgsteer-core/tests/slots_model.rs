//! Random histories of one pool, compared after every event with a reference model that knows nothing of bits, words,
//! slabs or locks: a state per slot, and a queue of waiters in order of arrival.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod slots_common;

use pgsteer_core::pool::{Lease, Rejected, Session, Take, Wait};
use slots_common::{Pool, Shelf, Wakes, leased_pool, seed};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

const HISTORIES: u64 = 10_000;
const EVENTS: usize = 200;

/// What the model says of a wait.
#[derive(Clone, Debug, PartialEq)]
enum Said {
    Waiting,
    Granted(u32),
    Rejected(Rejected<&'static str>),
}

struct Waiter {
    number: u64,
    wait: Wait,
    wakes: Arc<Wakes>,
    waker: Waker,
    said: Said,
    deadline: Option<Instant>,
    /// How often it has been settled, and so must have been woken.
    settled: usize,
}

/// The real pool and the model beside it.
struct History {
    random: fastrand::Rng,
    pool: Pool,
    shelf: Shelf,
    sessions: Vec<Arc<Session>>,
    held: Vec<Lease>,
    now: Instant,
    // The model.
    idle: BTreeSet<u32>,
    parked: BTreeSet<u32>,
    kept: BTreeSet<u32>,
    queue: VecDeque<u64>,
    waiters: Vec<Waiter>,
    arrivals: u64,
    closed: bool,
    uses: Vec<u32>,
    told: usize,
    timer: Option<Instant>,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let size = if random.u8(..) < 4 {
            random.u32(60..=130)
        } else {
            random.u32(1..=6)
        };
        let (pool, held, sessions, shelf) = leased_pool(size);
        Self {
            random,
            pool,
            shelf,
            sessions,
            held,
            now: Instant::now(),
            idle: BTreeSet::new(),
            parked: BTreeSet::new(),
            kept: BTreeSet::new(),
            queue: VecDeque::new(),
            waiters: Vec::new(),
            arrivals: 0,
            closed: false,
            uses: vec![0; size as usize],
            told: 0,
            timer: None,
        }
    }

    fn fit(&self, index: u32) -> bool {
        !self.sessions[index as usize].is_retired()
    }

    fn waiter(&mut self, number: u64) -> &mut Waiter {
        self.waiters
            .iter_mut()
            .find(|waiter| waiter.number == number)
            .unwrap()
    }

    fn settle(&mut self, number: u64, said: Said) {
        self.queue.retain(|&other| other != number);
        let waiter = self.waiter(number);
        waiter.said = said;
        waiter.settled += 1;
    }

    // What the model says of each event.

    /// A slot was released.
    fn model_release(&mut self, index: u32) {
        if self.closed || (!self.queue.is_empty() && !self.fit(index)) {
            self.kept.insert(index);
        } else if let Some(&oldest) = self.queue.front() {
            self.settle(oldest, Said::Granted(index));
        } else {
            self.idle.insert(index);
        }
    }

    /// The first to wait looks at every idle slot: the first fit one is taken, unfit ones before it go to the keeper.
    fn model_first_look(&mut self) -> Option<u32> {
        while let Some(index) = self.idle.pop_first() {
            if self.fit(index) {
                return Some(index);
            }
            self.kept.insert(index);
        }
        None
    }

    // Events.

    fn checkout(&mut self) {
        match self.pool.try_take() {
            Take::Empty => assert!(self.closed || !self.queue.is_empty() || self.idle.is_empty()),
            Take::Leased(lease) => {
                assert!(self.fit(lease.index()));
                self.uses[lease.index() as usize] += 1;
                self.newcomer_took(lease);
            }
            Take::Unfit(lease) => {
                assert!(!self.fit(lease.index()));
                self.newcomer_took(lease);
            }
        }
    }

    fn newcomer_took(&mut self, lease: Lease) {
        let index = lease.index();
        assert!(!self.closed && self.queue.is_empty(), "a newcomer overtook");
        assert!(self.idle.remove(&index), "slot {index} was not idle");
        let word = index / 63 * 63;
        assert_eq!(
            self.idle.range(word..index).next(),
            None,
            "not the lowest of its word"
        );
        self.held.push(lease);
    }

    fn join(&mut self) {
        let deadline = self
            .random
            .bool()
            .then(|| self.now + Duration::from_millis(self.random.u64(1..40)));
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let number = self.arrivals;
        self.arrivals += 1;
        let mut wait = Wait::default();
        let polled = self
            .pool
            .poll_take(&mut wait, &mut Context::from_waker(&waker), deadline);
        let taken = if self.closed || !self.queue.is_empty() {
            None
        } else {
            self.model_first_look()
        };
        match polled {
            Poll::Ready(Ok(lease)) => {
                assert_eq!(Some(lease.index()), taken);
                self.uses[lease.index() as usize] += 1;
                self.held.push(lease);
            }
            Poll::Ready(Err(rejected)) => assert!(self.closed && rejected == Rejected::Closed),
            Poll::Pending => {
                assert!(!self.closed && taken.is_none());
                self.queue.push_back(number);
                let said = Said::Waiting;
                self.waiters.push(Waiter {
                    number,
                    wait,
                    wakes,
                    waker,
                    said,
                    deadline,
                    settled: 0,
                });
            }
        }
    }

    fn poll(&mut self) {
        let Some(place) = self.some_waiter() else { return };
        let mut waiter = self.waiters.swap_remove(place);
        let number = waiter.number;
        let polled = self.pool.poll_take(
            &mut waiter.wait,
            &mut Context::from_waker(&waiter.waker),
            waiter.deadline,
        );
        match (waiter.said.clone(), polled) {
            (Said::Waiting, Poll::Pending) => self.waiters.push(waiter),
            (Said::Rejected(said), Poll::Ready(Err(rejected))) => assert_eq!(said, rejected),
            (Said::Granted(index), Poll::Ready(Err(rejected))) => {
                assert!(self.closed && rejected == Rejected::Closed);
                self.kept.insert(index);
            }
            (Said::Granted(index), Poll::Ready(Ok(lease))) if self.fit(index) => {
                assert_eq!(lease.index(), index);
                self.uses[index as usize] += 1;
                self.held.push(lease);
            }
            (Said::Granted(index), polled) => {
                // Unfit meanwhile: back to its old place, or served at once from what is idle.
                self.kept.insert(index);
                let taken = if self.queue.is_empty() {
                    self.model_first_look()
                } else {
                    None
                };
                match polled {
                    Poll::Ready(Ok(lease)) => {
                        assert_eq!(Some(lease.index()), taken);
                        self.uses[lease.index() as usize] += 1;
                        self.held.push(lease);
                    }
                    Poll::Ready(Err(rejected)) => panic!("{rejected:?}"),
                    Poll::Pending => {
                        assert_eq!(taken, None);
                        let place = self.queue.iter().take_while(|&&other| other < number).count();
                        self.queue.insert(place, number);
                        waiter.said = Said::Waiting;
                        self.waiters.push(waiter);
                    }
                }
            }
            (said, polled) => panic!("the model says {said:?}, the pool {polled:?}"),
        }
    }

    fn give_up(&mut self) {
        let Some(place) = self.some_waiter() else { return };
        let mut waiter = self.waiters.swap_remove(place);
        self.pool.cancel(&mut waiter.wait);
        self.queue.retain(|&other| other != waiter.number);
        if let Said::Granted(index) = waiter.said {
            if self.fit(index) {
                self.model_release(index);
            } else {
                self.kept.insert(index);
            }
        }
    }

    fn some_waiter(&mut self) -> Option<usize> {
        let waiters = self.waiters.len();
        (waiters > 0).then(|| self.random.usize(..waiters))
    }

    fn some_held(&mut self) -> Option<Lease> {
        let held = self.held.len();
        (held > 0).then(|| self.held.swap_remove(self.random.usize(..held)))
    }

    fn some_slot(&mut self) -> u32 {
        self.random.u32(..self.pool.len() as u32)
    }

    fn release(&mut self) {
        let Some(lease) = self.some_held() else { return };
        let index = lease.index();
        self.pool.release(lease);
        self.model_release(index);
    }

    fn claim(&mut self) {
        let index = self.some_slot();
        let claimed = self.pool.claim(index);
        assert_eq!(claimed.is_some(), self.idle.remove(&index));
        self.held.extend(claimed);
    }

    fn park(&mut self) {
        let Some(lease) = self.some_held() else { return };
        self.parked.insert(lease.index());
        self.pool.park(lease);
    }

    fn unpark(&mut self) {
        let index = self.some_slot();
        let unparked = self.pool.unpark(index);
        assert_eq!(unparked.is_some(), self.parked.remove(&index));
        self.held.extend(unparked);
    }

    fn repair(&mut self) {
        let Some(lease) = self.shelf.take() else { return };
        let index = lease.index();
        assert!(self.kept.remove(&index));
        self.sessions[index as usize].unretire();
        self.held.push(lease);
    }

    fn expire(&mut self) {
        self.now += Duration::from_millis(self.random.u64(0..15));
        let over = |waiter: &&Waiter| waiter.deadline.is_some_and(|deadline| deadline <= self.now);
        let waiting = |waiter: &&Waiter| waiter.said == Said::Waiting;
        let late: Vec<_> = self
            .waiters
            .iter()
            .filter(waiting)
            .filter(over)
            .map(|waiter| waiter.number)
            .collect();
        self.timer = self.pool.expire(self.now);
        late.into_iter()
            .for_each(|number| self.settle(number, Said::Rejected(Rejected::TimedOut)));
        assert_eq!(self.timer, self.next_deadline());
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.waiters
            .iter()
            .filter(|waiter| waiter.said == Said::Waiting)
            .filter_map(|waiter| waiter.deadline)
            .min()
    }

    fn fail_waiters(&mut self) {
        self.pool.fail_waiters(&"no server");
        for number in self.queue.clone() {
            self.settle(number, Said::Rejected(Rejected::Failed("no server")));
        }
    }

    fn close(&mut self) {
        self.pool.close();
        self.closed = true;
        for number in self.queue.clone() {
            self.settle(number, Said::Rejected(Rejected::Closed));
        }
    }

    fn step(&mut self) {
        match self.random.u32(..1000) {
            0..200 => self.checkout(),
            200..350 => self.join(),
            350..500 => self.poll(),
            500..580 => self.give_up(),
            580..780 => self.release(),
            780..810 => self.claim(),
            810..840 => self.park(),
            840..880 => self.unpark(),
            880..920 => {
                let index = self.some_slot();
                self.sessions[index as usize].retire();
            }
            920..960 => self.repair(),
            960..990 => self.expire(),
            990..998 => self.fail_waiters(),
            _ => {
                if self.random.u8(..) < 16 {
                    self.close();
                }
            }
        }
    }

    fn check(&mut self) {
        assert!(self.pool.idle_slots().eq(self.idle.iter().copied()), "idle slots");
        assert_eq!(self.pool.idle(), self.idle.len());
        assert_eq!(self.pool.waiting(), self.queue.len());
        assert_eq!(
            self.shelf.indices().into_iter().collect::<BTreeSet<_>>(),
            self.kept
        );
        for waiter in &self.waiters {
            assert_eq!(
                waiter.wakes.count(),
                waiter.settled,
                "wakes of waiter {}",
                waiter.number
            );
        }

        // Every slot has exactly one place.
        let granted = self.waiters.iter().filter_map(|waiter| match waiter.said {
            Said::Granted(index) => Some(index),
            _ => None,
        });
        let mut places: Vec<u32> = self.held.iter().map(Lease::index).chain(granted).collect();
        places.extend(self.idle.iter().chain(&self.parked).chain(&self.kept));
        places.sort_unstable();
        assert!(
            places.iter().copied().eq(0..self.pool.len() as u32),
            "slots lost or doubled: {places:?}"
        );

        // Nobody waits beside a fit idle slot, and the keeper's timer is never late.
        assert!(self.queue.is_empty() || self.idle.is_empty());
        let due = self.shelf.due.lock().unwrap();
        for &at in &due[self.told..] {
            assert!(self.timer.is_none_or(|timer| at < timer), "told what was known");
            self.timer = Some(at);
        }
        self.told = due.len();
        if let Some(next) = self.next_deadline() {
            assert!(
                self.timer.is_some_and(|timer| timer <= next),
                "a deadline nobody was told of"
            );
        }
    }
}

#[test]
fn random_histories_agree_with_the_reference_model_after_every_event() {
    let seed = seed();
    for number in 0..HISTORIES {
        // Counted up from the seed, so that any history can be replayed as the first one of its own seed.
        let seed = seed.wrapping_add(number);
        let history = std::panic::catch_unwind(|| {
            let mut history = History::new(seed);
            for _ in 0..EVENTS {
                history.step();
                history.check();
            }
            history
        });
        let history = history.unwrap_or_else(|panic| {
            println!("history {number} failed; replay with PGSTEER_SEED={seed}");
            std::panic::resume_unwind(panic)
        });
        for index in 0..history.pool.len() as u32 {
            assert_eq!(history.pool.uses(index), history.uses[index as usize]);
        }
        for lease in &history.held {
            assert_eq!(history.pool.get(lease).home, lease.index());
        }
    }
}
