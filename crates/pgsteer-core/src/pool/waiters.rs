//! Those who wait for a slot, oldest first, in a slab that allocates only when it grows past its peak.
//! A waiter's place is its ticket: one whose granted slot turned out unfit comes back to where it stood. What is
//! granted is a [`Lease`], ownership itself, so a grant that nobody collects can be passed on but never be made up.
//! Everything here happens under the pool's one lock; nothing here wakes, drops a waker or calls out.

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

/// Where a waiter stands. The waker shares its room with the result: at most one of them is there.
#[derive(Debug)]
enum State<E> {
    /// In no list: the node is unused, or about to be linked.
    Nowhere,
    /// In the queue.
    Waiting(Waker),
    /// Over, and not yet collected.
    Over(Result<Lease, Rejected<E>>),
}

#[derive(Debug)]
struct Node<E> {
    state: State<E>,
    deadline: Option<Instant>,
    ticket: u64,
    older: u32,
    /// The next younger waiter; for an unused node, the next unused one.
    younger: u32,
}

/// Whether the first deadline is not after the second; none at all is after every other.
fn in_order(first: Option<Instant>, second: Option<Instant>) -> bool {
    match (first, second) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(first), Some(second)) => first <= second,
    }
}

/// The queue. See the module.
#[derive(Debug)]
pub(super) struct Queue<E> {
    /// Whose queue it is, so that no wait is taken for one of another pool.
    pool: NonZeroU64,
    slab: Vec<Node<E>>,
    unused: u32,
    oldest: u32,
    youngest: u32,
    waiting: u32,
    next_ticket: u64,
    /// The instant at which the pool's keeper has been asked to call `expire`, if any. Nobody's deadline is earlier;
    /// who leaves does not change it, since a call for nothing costs less than keeping it exact.
    armed: Option<Instant>,
    /// It has become earlier, and the keeper has not been told yet.
    newly_armed: bool,
    /// Whether the deadlines come in the order of the queue, as they do while everybody waits with the same limit.
    sorted: bool,
    /// Whether every word's flag is up.
    pub(super) raised: bool,
    /// For ever, once set; the flags stay up.
    pub(super) closed: bool,
}

impl<E> Queue<E> {
    pub(super) fn new(pool: NonZeroU64) -> Self {
        Self {
            pool,
            slab: Vec::new(),
            unused: NIL,
            oldest: NIL,
            youngest: NIL,
            waiting: 0,
            next_ticket: 0,
            armed: None,
            newly_armed: false,
            sorted: true,
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
            state: State::Nowhere,
            deadline,
            ticket,
            older: NIL,
            younger: NIL,
        };
        let key = match self.slab.get_mut(self.unused as usize) {
            Some(reused) => {
                let key = self.unused;
                self.unused = reused.younger;
                *reused = node;
                key
            }
            None => {
                self.slab.push(node);
                (self.slab.len() - 1) as u32
            }
        };
        self.link(key, waker);
        Wait {
            place: Some(Place { pool: self.pool, key }),
        }
    }

    /// Puts a node where its ticket says, which is at the end for a newcomer and near the front for one that was
    /// granted a slot already.
    fn link(&mut self, key: u32, waker: Waker) {
        let ticket = self.slab[key as usize].ticket;
        let newest = self
            .slab
            .get(self.youngest as usize)
            .is_none_or(|last| last.ticket < ticket);
        let (mut older, mut younger) = (NIL, self.oldest);
        if newest {
            (older, younger) = (self.youngest, NIL);
        } else {
            while let Some(node) = self
                .slab
                .get(younger as usize)
                .filter(|node| node.ticket < ticket)
            {
                (older, younger) = (younger, node.younger);
            }
        }
        let deadline = self.slab[key as usize].deadline;
        match self.slab.get_mut(older as usize) {
            Some(node) => {
                node.younger = key;
                self.sorted &= in_order(node.deadline, deadline);
            }
            None => self.oldest = key,
        }
        match self.slab.get_mut(younger as usize) {
            Some(node) => {
                node.older = key;
                self.sorted &= in_order(deadline, node.deadline);
            }
            None => self.youngest = key,
        }
        let node = &mut self.slab[key as usize];
        (node.older, node.younger) = (older, younger);
        node.state = State::Waiting(waker);
        self.waiting += 1;
        if deadline.is_some() && !in_order(self.armed, deadline) {
            self.armed = deadline;
            self.newly_armed = true;
        }
    }

    fn unlink(&mut self, key: u32) {
        let node = &self.slab[key as usize];
        let (older, younger) = (node.older, node.younger);
        match self.slab.get_mut(older as usize) {
            Some(node) => node.younger = younger,
            None => self.oldest = younger,
        }
        match self.slab.get_mut(younger as usize) {
            Some(node) => node.older = older,
            None => self.youngest = older,
        }
        self.waiting -= 1;
        self.sorted |= self.waiting == 0;
    }

    /// Ends a wait; returns whom to wake.
    #[must_use]
    fn settle(&mut self, key: u32, result: Result<Lease, Rejected<E>>) -> Option<Waker> {
        self.unlink(key);
        let state = &mut self.slab[key as usize].state;
        match std::mem::replace(state, State::Over(result)) {
            State::Waiting(waker) => Some(waker),
            State::Nowhere | State::Over(_) => None,
        }
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
        Some((key, &mut self.slab[key as usize]))
    }

    /// What a wait has come to. If it is over, its place is gone and the wait may be used anew.
    /// Of one that is pending, the waker is replaced if `waker` would wake another task; the old one comes back, to
    /// be dropped outside the lock.
    pub(super) fn collect(&mut self, wait: &mut Wait, waker: &Waker) -> (Outcome<E>, Option<Waker>) {
        let Some((key, node)) = self.node(wait) else {
            return (Outcome::None, None);
        };
        if let State::Waiting(old) = &mut node.state {
            let replaced = (!old.will_wake(waker)).then(|| std::mem::replace(old, waker.clone()));
            return (Outcome::Pending, replaced);
        }
        let state = std::mem::replace(&mut node.state, State::Nowhere);
        *wait = Wait::default();
        self.recycle(key);
        match state {
            State::Over(result) => (Outcome::Over(result), None),
            State::Waiting(_) | State::Nowhere => (Outcome::None, None),
        }
    }

    /// The slot granted to a wait, if there is one to look at before it is collected.
    pub(super) fn granted(&mut self, wait: &Wait) -> Option<&Lease> {
        match &self.node(wait)?.1.state {
            State::Over(Ok(lease)) => Some(lease),
            _ => None,
        }
    }

    /// Takes the granted slot away again and puts the waiter back to its old place.
    pub(super) fn rejoin(&mut self, wait: &Wait, waker: Waker) -> Option<Lease> {
        let (key, node) = self.node(wait)?;
        let State::Over(Ok(lease)) = std::mem::replace(&mut node.state, State::Nowhere) else {
            return None;
        };
        self.link(key, waker);
        Some(lease)
    }

    /// Ends a wait whose task gives up. A slot granted meanwhile comes back, to be passed on.
    pub(super) fn leave(&mut self, wait: &mut Wait) -> (Outcome<E>, Option<Waker>) {
        let Some((key, node)) = self.node(wait) else {
            return (Outcome::None, None);
        };
        let (outcome, waker) = match std::mem::replace(&mut node.state, State::Nowhere) {
            State::Waiting(waker) => {
                self.unlink(key);
                (Outcome::Pending, Some(waker))
            }
            State::Over(result) => (Outcome::Over(result), None),
            State::Nowhere => (Outcome::None, None),
        };
        *wait = Wait::default();
        self.recycle(key);
        (outcome, waker)
    }

    fn recycle(&mut self, key: u32) {
        self.slab[key as usize].younger = self.unused;
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
    ///
    /// While everybody waits with the same limit it looks at those who are due and one more; else at everybody.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Waker> {
        let mut due = Vec::new();
        let mut next = None;
        let mut key = self.oldest;
        while let Some(node) = self.slab.get(key as usize) {
            match node.deadline {
                Some(deadline) if deadline <= now => due.push((deadline, key)),
                later if !in_order(next, later) => next = later,
                _ if self.sorted => break,
                _ => {}
            }
            key = node.younger;
        }
        (self.armed, self.newly_armed) = (next, false);
        due.sort_by_key(|&(deadline, _)| deadline);
        due.into_iter()
            .filter_map(|(_, key)| self.settle(key, Err(Rejected::TimedOut)))
            .collect()
    }

    /// The instant at which `expire` is to be called; right after it, the earliest deadline of all.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.armed
    }

    /// The next deadline, if it is earlier than the keeper has been told so far.
    pub(super) fn newly_due(&mut self) -> Option<Instant> {
        std::mem::take(&mut self.newly_armed).then_some(self.armed)?
    }
}
