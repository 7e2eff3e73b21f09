//! Those who wait for a slot, oldest first, in a slab that allocates only when it grows past its peak.
//! A waiter's place is its ticket: one whose granted slot turned out unfit comes back to where it stood. What is
//! granted is a [`Lease`], ownership itself, so a grant that nobody collects can be passed on but never be made up.
//! Everything here happens under the pool's one lock; nothing here wakes, drops a waker or calls out.

use super::deadlines::{Deadlines, NOWHERE, Places};
use super::slots::Lease;
use std::num::NonZeroU64;
use std::task::Waker;
use std::time::Instant;

/// The end of a list.
const NIL: u32 = u32::MAX;

/// Why a wait ended without a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejected<E> {
    /// The deadline given with the wait is over.
    TimedOut,
    /// The pool is closed.
    Closed,
    /// Everybody who waited was failed with this error.
    Failed(E),
}

/// One task's place in the queue. Belongs to the pool it was first polled with; must be cancelled when abandoned.
#[derive(Debug, Default)]
pub struct Wait {
    place: Option<Place>,
}

impl Wait {
    pub(super) fn is_waiting(&self) -> bool {
        self.place.is_some()
    }
}

#[derive(Clone, Copy, Debug)]
struct Place {
    pool: NonZeroU64,
    key: u32,
}

/// What a wait has come to.
#[derive(Debug)]
pub(super) enum Outcome<E> {
    /// Not waiting.
    None,
    /// Still waiting.
    Pending,
    /// Over, and not yet collected.
    Over(Result<Lease, Rejected<E>>),
}

#[derive(Debug)]
struct Node<E> {
    outcome: Outcome<E>,
    waker: Option<Waker>,
    deadline: Option<Instant>,
    ticket: u64,
    older: u32,
    /// The next younger waiter; for an unused node, the next unused one.
    younger: u32,
    heap_place: u32,
}

#[derive(Debug)]
struct Slab<E>(Vec<Node<E>>);

impl<E> Places for Slab<E> {
    fn deadline(&self, key: u32) -> Option<Instant> {
        self.0[key as usize].deadline
    }
    fn place(&self, key: u32) -> u32 {
        self.0[key as usize].heap_place
    }
    fn set_place(&mut self, key: u32, place: u32) {
        self.0[key as usize].heap_place = place;
    }
}

/// The queue. See the module.
#[derive(Debug)]
pub(super) struct Queue<E> {
    /// Whose queue it is, so that no wait is taken for one of another pool.
    pool: NonZeroU64,
    slab: Slab<E>,
    deadlines: Deadlines,
    unused: u32,
    oldest: u32,
    youngest: u32,
    waiting: u32,
    next_ticket: u64,
    /// The instant at which the pool's keeper has been asked to call `expire`, if any.
    armed: Option<Instant>,
    /// Whether every word's flag is up.
    pub(super) raised: bool,
    /// For ever, once set; the flags stay up.
    pub(super) closed: bool,
}

impl<E> Queue<E> {
    pub(super) fn new(pool: NonZeroU64) -> Self {
        Self {
            pool,
            slab: Slab(Vec::new()),
            deadlines: Deadlines::default(),
            unused: NIL,
            oldest: NIL,
            youngest: NIL,
            waiting: 0,
            next_ticket: 0,
            armed: None,
            raised: false,
            closed: false,
        }
    }

    /// How many wait: neither granted nor rejected.
    pub(super) fn len(&self) -> usize {
        self.waiting as usize
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// A newcomer joins at the end.
    pub(super) fn join(&mut self, waker: Waker, deadline: Option<Instant>) -> Wait {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let node = Node {
            outcome: Outcome::None,
            waker: Some(waker),
            deadline,
            ticket,
            older: NIL,
            younger: NIL,
            heap_place: NOWHERE,
        };
        let key = match self.slab.0.get_mut(self.unused as usize) {
            Some(reused) => {
                let key = self.unused;
                self.unused = reused.younger;
                *reused = node;
                key
            }
            None => {
                self.slab.0.push(node);
                (self.slab.0.len() - 1) as u32
            }
        };
        self.link(key);
        Wait {
            place: Some(Place { pool: self.pool, key }),
        }
    }

    /// Puts a node where its ticket says, which is at the end for a newcomer and near the front for one that was
    /// granted a slot already.
    fn link(&mut self, key: u32) {
        let ticket = self.slab.0[key as usize].ticket;
        let newest = self
            .slab
            .0
            .get(self.youngest as usize)
            .is_none_or(|last| last.ticket < ticket);
        let (mut older, mut younger) = (NIL, self.oldest);
        if newest {
            (older, younger) = (self.youngest, NIL);
        } else {
            while let Some(node) = self
                .slab
                .0
                .get(younger as usize)
                .filter(|node| node.ticket < ticket)
            {
                (older, younger) = (younger, node.younger);
            }
        }
        match self.slab.0.get_mut(older as usize) {
            Some(node) => node.younger = key,
            None => self.oldest = key,
        }
        match self.slab.0.get_mut(younger as usize) {
            Some(node) => node.older = key,
            None => self.youngest = key,
        }
        let node = &mut self.slab.0[key as usize];
        (node.older, node.younger) = (older, younger);
        node.outcome = Outcome::Pending;
        if node.deadline.is_some() {
            self.deadlines.push(key, &mut self.slab);
        }
        self.waiting += 1;
    }

    fn unlink(&mut self, key: u32) {
        self.deadlines.remove(key, &mut self.slab);
        let node = &mut self.slab.0[key as usize];
        let (older, younger) = (node.older, node.younger);
        node.outcome = Outcome::None;
        match self.slab.0.get_mut(older as usize) {
            Some(node) => node.younger = younger,
            None => self.oldest = younger,
        }
        match self.slab.0.get_mut(younger as usize) {
            Some(node) => node.older = older,
            None => self.youngest = older,
        }
        self.waiting -= 1;
    }

    /// Ends a wait; returns whom to wake.
    #[must_use]
    fn settle(&mut self, key: u32, result: Result<Lease, Rejected<E>>) -> Option<Waker> {
        self.unlink(key);
        let node = &mut self.slab.0[key as usize];
        node.outcome = Outcome::Over(result);
        node.waker.take()
    }

    /// Gives the slot to the oldest waiter, or back if nobody waits.
    pub(super) fn grant(&mut self, lease: Lease) -> Result<Option<Waker>, Lease> {
        match self.oldest {
            NIL => Err(lease),
            oldest => Ok(self.settle(oldest, Ok(lease))),
        }
    }

    /// The node of a wait that is under way. Panics if the wait belongs to another pool.
    fn node(&mut self, wait: &Wait) -> Option<(u32, &mut Node<E>)> {
        let Place { pool, key } = wait.place?;
        assert!(
            pool == self.pool,
            "a wait was used with a pool that it does not belong to"
        );
        Some((key, &mut self.slab.0[key as usize]))
    }

    /// What a wait has come to. If it is over, its place is gone and the wait may be used anew.
    /// Of one that is pending, the waker is replaced if `waker` would wake another task; the old one comes back, to
    /// be dropped outside the lock.
    pub(super) fn collect(&mut self, wait: &mut Wait, waker: &Waker) -> (Outcome<E>, Option<Waker>) {
        let Some((key, node)) = self.node(wait) else {
            return (Outcome::None, None);
        };
        match std::mem::replace(&mut node.outcome, Outcome::None) {
            Outcome::Over(result) => {
                *wait = Wait::default();
                self.recycle(key);
                (Outcome::Over(result), None)
            }
            Outcome::Pending | Outcome::None => {
                node.outcome = Outcome::Pending;
                let same = node.waker.as_ref().is_some_and(|old| old.will_wake(waker));
                (
                    Outcome::Pending,
                    if same {
                        None
                    } else {
                        node.waker.replace(waker.clone())
                    },
                )
            }
        }
    }

    /// The slot granted to a wait, if there is one to look at before it is collected.
    pub(super) fn granted(&mut self, wait: &Wait) -> Option<&Lease> {
        match &self.node(wait)?.1.outcome {
            Outcome::Over(Ok(lease)) => Some(lease),
            _ => None,
        }
    }

    /// Takes the granted slot away again and puts the waiter back to its old place.
    pub(super) fn rejoin(&mut self, wait: &Wait, waker: Waker) -> Option<Lease> {
        let (key, node) = self.node(wait)?;
        let Outcome::Over(Ok(lease)) = std::mem::replace(&mut node.outcome, Outcome::None) else {
            return None;
        };
        node.waker = Some(waker);
        self.link(key);
        Some(lease)
    }

    /// Ends a wait whose task gives up. A slot granted meanwhile comes back, to be passed on.
    pub(super) fn leave(&mut self, wait: &mut Wait) -> (Outcome<E>, Option<Waker>) {
        let Some((key, node)) = self.node(wait) else {
            return (Outcome::None, None);
        };
        let pending = matches!(node.outcome, Outcome::Pending);
        let waker = node.waker.take();
        let outcome = std::mem::replace(&mut node.outcome, Outcome::None);
        if pending {
            self.unlink(key);
        }
        *wait = Wait::default();
        self.recycle(key);
        (outcome, waker)
    }

    fn recycle(&mut self, key: u32) {
        self.slab.0[key as usize].younger = self.unused;
        self.unused = key;
    }

    /// Ends every wait with what `rejected` says; returns whom to wake, oldest first.
    pub(super) fn reject_all(&mut self, mut rejected: impl FnMut() -> Rejected<E>) -> Vec<Waker> {
        let mut wakers = Vec::with_capacity(self.len());
        while self.oldest != NIL {
            wakers.extend(self.settle(self.oldest, Err(rejected())));
        }
        wakers
    }

    /// Times out every waiter whose deadline is `now` or earlier; returns whom to wake, earliest deadline first.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while let Some(key) = self.deadlines.earliest() {
            if self.slab.deadline(key).is_some_and(|deadline| deadline > now) {
                break;
            }
            wakers.extend(self.settle(key, Err(Rejected::TimedOut)));
        }
        self.armed = self.next_deadline();
        wakers
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.slab.deadline(self.deadlines.earliest()?)
    }

    /// The next deadline, if it is earlier than the keeper has been told so far.
    pub(super) fn newly_due(&mut self) -> Option<Instant> {
        let next = self.next_deadline()?;
        let news = self.armed.is_none_or(|armed| next < armed);
        news.then(|| {
            self.armed = Some(next);
            next
        })
    }
}
