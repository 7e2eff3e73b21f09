//! The slots of a pool: where a connection lives from the day it is opened, and who owns the right to touch it.
//! Ownership is a value, [`Lease`]; it is made with the pool, when a slot's idle bit is cleared, its parked mark is taken or
//! a waiter collects its grant, and it ends when the bit or the mark is set or the slot granted, so no two of one slot can
//! exist. This file holds the crate's only unsafe code, which rests on that one sentence; it never waits, and locks only for
//! those who do (`handover.rs`).
#![allow(unsafe_code)]

use super::cells::Cells;
use super::session::Session;
use super::sync::{AtomicBool, Mutex, Ordering, Padded, UnsafeCell};
use super::waiters::{Granted, Queue};
use super::words::{Lane, Words};
use std::convert::Infallible;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

/// What lives in a slot.
pub trait Tenant: Send {
    /// Whether it may be handed out. Asked at every checkout, also under the pool's lock: it must be a load or two,
    /// must not panic and must not call the pool.
    fn is_fit(&self) -> bool;
}

/// A tenant whose wire is watched by a [`Session`].
pub trait HasSession: Tenant {
    /// Its session, always the same one.
    fn session(&self) -> &Arc<Session>;
}

/// What a pool's slots tell the one who keeps them. Called on whatever thread is there, never under a lock; must not
/// block.
pub trait Keeper: Send + Sync {
    /// Takes over a slot that may not be handed out: its tenant is unfit or missing, or the pool is closed.
    /// A lease that is dropped instead of kept is a slot lost.
    fn receive(&self, lease: Lease);

    /// A waiter's deadline is earlier than any told before: [`Slots::expire`] is to be called then, not later.
    fn due(&self, at: Instant);
}

/// Ownership of one slot. There is never a second one for the same slot.
///
/// It has no destructor: one that is dropped loses its slot for good, so whoever has it must pass it on. Using it with
/// another pool than its own panics.
#[must_use = "a lease that is dropped loses its slot for good"]
pub struct Lease {
    pool: NonZeroU64,
    index: u32,
}

impl Lease {
    /// Which slot, counted from zero.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({})", self.index)
    }
}

/// What a newcomer gets without waiting.
#[derive(Debug)]
#[must_use]
pub enum Take {
    /// A slot with a fit tenant.
    Leased(Lease),
    /// A slot whose tenant is unfit or missing: pass it to the keeper and try again.
    Unfit(Lease),
    /// Nothing is idle, somebody waits already, or the pool is closed. Now and then also while somebody else looks whether
    /// they have to wait, or gives a slot back behind the place that was looked at: for certainty, wait.
    Empty,
}

struct Slot<T> {
    tenant: UnsafeCell<Option<T>>,
    /// Given up by its holder and not yet taken by whoever is to see to it.
    parked: AtomicBool,
    /// Only the owner writes it, so a plain load and store are enough.
    uses: std::sync::atomic::AtomicU32,
}

/// The slots of one pool. `E` is the error that waiters can be failed with.
pub struct Slots<T, E = Infallible> {
    words: Words,
    slots: Box<[Padded<Slot<T>>]>,
    id: NonZeroU64,
    /// For ever, once set; then the flags in the words stay up. Set under the queue's lock, and read there and, by
    /// those who were granted a slot, without it.
    pub(super) closed: AtomicBool,
    pub(super) queue: Padded<Mutex<Queue<E>>>,
    /// Where those in the queue find what became of them.
    pub(super) cells: Arc<Cells>,
    pub(super) keeper: Box<dyn Keeper>,
}

// SAFETY: a slot's cell is reached only through a borrow of its one lease (see `Lease`), so a `&mut T` excludes every
// other access. Owners on different threads follow each other with release and acquire on the idle bit, the parked
// mark, the waiter's cell or whatever carried the lease value; that moves a `T` between threads, hence `T: Send`.
// A `&Lease` shared between threads gives each of them a `&T`, hence `T: Sync`. Everything else in here is atomic,
// behind the mutex (which needs `E: Send`) or `Sync` itself.
unsafe impl<T: Send + Sync, E: Send> Sync for Slots<T, E> {}

impl<T: Tenant, E> Slots<T, E> {
    /// This many slots, all without a tenant and all owned by the caller.
    ///
    /// # Panics
    ///
    /// If `size` is zero.
    pub fn new(size: u32, keeper: Box<dyn Keeper>) -> (Self, Vec<Lease>) {
        assert!(size > 0, "a pool has at least one slot");
        // Never reused, not even after a pool is dropped: an old lease must not open a new pool.
        static POOLS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let id = NonZeroU64::MIN.saturating_add(POOLS.fetch_add(1, Ordering::Relaxed));
        let slot = |_| {
            Padded(Slot {
                tenant: UnsafeCell::new(None),
                parked: AtomicBool::new(false),
                uses: std::sync::atomic::AtomicU32::new(0),
            })
        };
        let cells = Arc::new(Cells::new());
        let slots = Self {
            words: Words::new(size),
            slots: (0..size).map(slot).collect(),
            id,
            closed: AtomicBool::new(false),
            queue: Padded(Mutex::new(Queue::new(id, size, Arc::clone(&cells)))),
            cells,
            keeper,
        };
        (slots, (0..size).map(|index| Lease { pool: id, index }).collect())
    }

    /// How many slots there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Never: a pool has at least one slot.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    // Ownership: the only places where a lease is made or ends.

    /// Takes an idle slot if there is one and nobody waits. The everyday checkout: one locked instruction, where no other
    /// thread changes the word at that instant.
    #[inline]
    pub fn try_take(&self) -> Take {
        self.taken(self.words.take())
    }

    /// As [`try_take`](Self::try_take), but a slot of this lane if one of them is idle: for whoever has some nearer at hand
    /// than others.
    #[inline]
    pub fn try_take_near(&self, lane: Lane) -> Take {
        self.taken(self.words.take_near(lane))
    }

    #[inline]
    fn taken(&self, index: Option<u32>) -> Take {
        let Some(index) = index else {
            return Take::Empty;
        };
        let lease = Lease { pool: self.id, index };
        if self.fits(&lease) {
            self.count_use(&lease);
            Take::Leased(lease)
        } else {
            Take::Unfit(lease)
        }
    }

    /// Makes a slot idle, or hands it to whoever has waited longest. The everyday return: one locked instruction.
    /// If the pool is closed, the keeper receives it instead.
    ///
    /// The tenant should be fit, as [`give_back`](Self::give_back) makes sure; one that is not stays until the next
    /// checkout finds it or the keeper claims it.
    #[inline]
    pub fn release(&self, lease: Lease) {
        let lease = self.own(lease);
        if self.words.is_raised(lease.index) {
            self.pass_on(lease);
        } else {
            self.make_idle(lease);
        }
    }

    #[inline]
    pub(super) fn make_idle(&self, lease: Lease) {
        let Lease { index, .. } = lease;
        // The lease has ended in the line above, so the bit is clear, as `set` demands.
        if self.words.set(index) {
            self.hand_over(index);
        }
    }

    /// Takes one particular slot if it is idle, even if others wait.
    pub fn claim(&self, index: u32) -> Option<Lease> {
        let exists = (index as usize) < self.slots.len();
        (exists && self.words.clear(index)).then_some(Lease { pool: self.id, index })
    }

    /// Leaves a slot to whoever calls [`unpark`](Self::unpark) for it first.
    pub fn park(&self, lease: Lease) {
        let Lease { index, .. } = self.own(lease);
        // Release: what the holder did to the slot is visible to whoever unparks it.
        self.slots[index as usize].0.parked.store(true, Ordering::Release);
    }

    /// Takes a parked slot. `None` if it is not parked: it has an owner, or is idle.
    ///
    /// Only whoever has won the slot from its session (`end_pass`, `close`, `unpark`) may call it, or it takes the
    /// slot from under the winner.
    pub fn unpark(&self, index: u32) -> Option<Lease> {
        let slot = &self.slots.get(index as usize)?.0;
        let won = slot
            .parked
            .compare_exchange(true, false, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        won.then_some(Lease { pool: self.id, index })
    }

    /// Grants a slot to the oldest waiter and returns whom to wake, or gives it back if nobody waits.
    pub(super) fn grant(&self, queue: &mut Queue<E>, lease: Lease) -> Result<Waker, Lease> {
        let Lease { index, .. } = self.own(lease);
        queue.grant(index).ok_or(Lease { pool: self.id, index })
    }

    /// The slot that was granted to a wait of this pool. There is one `Granted` for each grant.
    #[inline]
    pub(super) fn collect(&self, granted: Granted) -> Lease {
        let index = granted.slot;
        Lease { pool: self.id, index }
    }

    /// Panics if this is another pool's.
    #[inline]
    pub(super) fn check_wait(&self, pool: NonZeroU64) {
        assert!(
            pool == self.id,
            "a wait was used with a pool that it does not belong to"
        );
    }

    /// The lease, if it is one of ours.
    #[inline]
    fn own(&self, lease: Lease) -> Lease {
        self.check(&lease);
        lease
    }

    #[inline]
    fn check(&self, lease: &Lease) {
        assert!(
            lease.pool == self.id,
            "a lease was used with a pool that it does not belong to"
        );
    }

    // What is in a slot.

    /// The tenant of an owned slot.
    ///
    /// # Panics
    ///
    /// If the slot has none, which cannot be if the lease came from a checkout, or if the lease is another pool's.
    #[inline]
    #[must_use]
    #[expect(
        clippy::expect_used,
        reason = "a checkout gives no slot without a tenant; documented"
    )]
    pub fn get<'a>(&'a self, lease: &'a Lease) -> &'a T {
        self.tenant(lease)
            .as_ref()
            .expect("a slot from a checkout has a tenant")
    }

    /// The tenant of an owned slot, to change.
    ///
    /// # Panics
    ///
    /// As [`get`](Self::get).
    #[inline]
    #[must_use]
    #[expect(
        clippy::expect_used,
        reason = "a checkout gives no slot without a tenant; documented"
    )]
    pub fn get_mut<'a>(&'a self, lease: &'a mut Lease) -> &'a mut T {
        self.tenant_mut(lease)
            .as_mut()
            .expect("a slot from a checkout has a tenant")
    }

    /// Moves a tenant into an owned slot. Returns the one that was there.
    pub fn put(&self, lease: &mut Lease, tenant: T) -> Option<T> {
        self.tenant_mut(lease).replace(tenant)
    }

    /// Moves the tenant out of an owned slot.
    pub fn take(&self, lease: &mut Lease) -> Option<T> {
        self.tenant_mut(lease).take()
    }

    /// Whether an owned slot may be handed out: it has a tenant, and the tenant is fit.
    #[inline]
    #[must_use]
    pub fn fits(&self, lease: &Lease) -> bool {
        self.tenant(lease).is_some_and(T::is_fit)
    }

    /// What is in an owned slot.
    #[inline]
    #[must_use]
    pub fn tenant<'a>(&'a self, lease: &'a Lease) -> Option<&'a T> {
        self.check(lease);
        // SAFETY: the lease is this pool's and there is no other for this slot. It is borrowed for as long as the
        // result, so it can neither be given up nor be borrowed exclusively by `tenant_mut` meanwhile.
        self.slots[lease.index as usize]
            .0
            .tenant
            .with(|tenant| unsafe { (*tenant).as_ref() })
    }

    #[inline]
    fn tenant_mut<'a>(&'a self, lease: &'a mut Lease) -> &'a mut Option<T> {
        self.check(lease);
        // SAFETY: the lease is this pool's and there is no other for this slot. It is borrowed exclusively for as
        // long as the result, so nobody else can reach the cell meanwhile.
        self.slots[lease.index as usize]
            .0
            .tenant
            .with_mut(|tenant| unsafe { &mut *tenant })
    }

    // What the keeper reads and the queue does.

    /// Counts a checkout of an owned slot.
    #[inline]
    pub(super) fn count_use(&self, lease: &Lease) {
        let uses = &self.slots[lease.index as usize].0.uses;
        uses.store(uses.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// How often a slot has been checked out, modulo 2^32. One that has not changed between two looks, with the slot
    /// idle at both, means that the slot was idle all the while. Zero if there is no such slot.
    #[must_use]
    pub fn uses(&self, index: u32) -> u32 {
        self.slots
            .get(index as usize)
            .map_or(0, |slot| slot.0.uses.load(Ordering::Relaxed))
    }

    /// Whether a slot is idle at this instant.
    #[must_use]
    pub fn is_idle(&self, index: u32) -> bool {
        (index as usize) < self.slots.len() && self.words.is_set(index)
    }

    /// How many slots are idle. While others take and return, a figure near the truth.
    #[must_use]
    pub fn idle(&self) -> usize {
        self.words.count()
    }

    /// The slots that are idle, lowest first; each may have been taken by the time it is looked at.
    pub fn idle_slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter()
    }

    /// Says everywhere that somebody waits, and takes the first fit slot that was idle at that instant. Others that
    /// are idle but unfit are put into `unfit`. For whoever has the queue's lock.
    pub(super) fn raise_or_take(&self, unfit: &mut Vec<Lease>) -> Option<Lease> {
        let mut taken = None;
        self.words.raise(|index| {
            match self.claim(index) {
                Some(lease) if self.fits(&lease) => taken = Some(lease),
                Some(lease) => unfit.push(lease),
                None => {}
            }
            taken.is_some()
        });
        taken
    }

    /// Says everywhere that somebody waits, which for a closed pool means that every return comes to the lock.
    pub(super) fn raise(&self) {
        self.words.raise(|_| false);
    }

    /// Says everywhere that nobody waits. For whoever has the queue's lock.
    pub(super) fn lower(&self) {
        self.words.lower();
    }
}

impl<T, E> fmt::Debug for Slots<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots")
            .field("len", &self.slots.len())
            .field("idle", &self.words.count())
            .finish_non_exhaustive()
    }
}
