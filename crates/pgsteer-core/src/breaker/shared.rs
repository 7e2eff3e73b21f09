//! The breaker as threads share it: a word that answers while all is well, the machine behind a lock for everything
//! else, and the telling of its changes, one after the other and with the lock released.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::events::{ClosedBy, Event};
use super::machine::{Machine, Rejected, STREAK, State, Status, is_closed};
use super::options::{BadOption, BreakerOptions};
use super::permit::{Holder, Permit};
use super::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

/// What a breaker has of the world outside. Nothing of it is called with a lock held, so all of it may call the breaker.
/// Only [`tell`](Self::tell) may panic without harm: a clock that does fails whoever asks.
pub trait Surroundings<E>: Send + Sync {
    /// The time. It should not go back; if it does, windows and leases last longer, and nothing else happens.
    fn now(&self) -> Instant;

    /// A random number, uniform over all of `u64`, for the jitter of windows.
    fn draw(&self) -> u64;

    /// The state has changed. Changes are told one at a time and in their order, by whichever thread made one; a change
    /// that comes while another is being told is told after it, by the thread that is telling. A panic ends here and
    /// changes nothing else, so that it cannot reach whoever's work happened to cause the change.
    fn tell(&self, event: &Event<E>);
}

struct Inside<E> {
    machine: Machine<E>,
    /// Whether a thread is telling changes. It goes on until none is left.
    telling: bool,
}

/// A circuit breaker that threads share. `E` is what is kept of the last failure: it should be cheap to clone, and
/// neither cloning nor dropping it may call the breaker.
pub struct Breaker<E: Clone> {
    /// What [`Machine::word`] says, written under the lock.
    word: AtomicU64,
    inside: Mutex<Inside<E>>,
    surroundings: Box<dyn Surroundings<E>>,
    is_off: bool,
}

impl<E: Clone> Breaker<E> {
    /// A closed breaker.
    ///
    /// # Errors
    ///
    /// An option out of its range.
    pub fn new(options: BreakerOptions, surroundings: Box<dyn Surroundings<E>>) -> Result<Self, BadOption> {
        options.check()?;
        Ok(Self::checked(options, surroundings))
    }

    /// A closed breaker with the default options, which are known to be good.
    pub fn with_defaults(surroundings: Box<dyn Surroundings<E>>) -> Self {
        Self::checked(BreakerOptions::default(), surroundings)
    }

    fn checked(options: BreakerOptions, surroundings: Box<dyn Surroundings<E>>) -> Self {
        let machine = Machine::new(options);
        Breaker {
            word: AtomicU64::new(machine.word()),
            inside: Mutex::new(Inside {
                machine,
                telling: false,
            }),
            surroundings,
            is_off: options.threshold == 0,
        }
    }

    /// Asks for leave to begin. While the breaker is closed this is one atomic load: no lock, no clock, no allocation.
    ///
    /// # Errors
    ///
    /// The breaker is open and its window not over, or a probe is on its way and its lease not over. At the very end
    /// of either the asker is admitted, and is the probe.
    #[inline]
    pub fn admit(&self) -> Result<Permit<'_, E>, Rejected<E>> {
        let ticket = self.ticket()?;
        Ok(Permit::new(Holder::Borrowed(self), ticket))
    }

    /// As [`admit`](Self::admit), with a permit that can be given to a task.
    ///
    /// # Errors
    ///
    /// As [`admit`](Self::admit).
    #[inline]
    pub fn admit_owned(self: &Arc<Self>) -> Result<Permit<'static, E>, Rejected<E>> {
        let ticket = self.ticket()?;
        Ok(Permit::new(Holder::Owned(Arc::clone(self)), ticket))
    }

    /// Something that the breaker does not gate has met a database that works: failures so far no longer count, and an
    /// outage is over at once. A probe that is on its way no longer counts.
    pub fn sign_of_life(&self) {
        if self.has_nothing_to_clear() {
            return;
        }
        let now = self.surroundings.now();
        self.change(|machine| machine.works(ClosedBy::SignOfLife, now));
    }

    /// Closes the breaker by hand. Whatever is under way no longer counts.
    pub fn reset(&self) {
        let now = self.surroundings.now();
        self.change(|machine| machine.reset(now));
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        State::of(self.word.load(Ordering::Acquire))
    }

    /// As in [`Rejected::retry_after`]; `None` while closed, zero if whoever asks now is admitted as the probe.
    pub fn retry_after(&self) -> Option<Duration> {
        if is_closed(self.word.load(Ordering::Acquire)) {
            return None;
        }
        self.status().retry_after
    }

    /// Everything there is to know of it at this moment.
    pub fn status(&self) -> Status<E> {
        let now = self.surroundings.now();
        self.lock().machine.status(now)
    }

    #[inline]
    fn ticket(&self) -> Result<u64, Rejected<E>> {
        let word = self.word.load(Ordering::Acquire);
        if is_closed(word) {
            return Ok(word & !STREAK);
        }
        self.ask()
    }

    #[cold]
    #[inline(never)]
    fn ask(&self) -> Result<u64, Rejected<E>> {
        let now = self.surroundings.now();
        self.change(|machine| machine.ask(now))
    }

    #[inline]
    pub(super) fn succeeded(&self, ticket: u64) {
        // The ticket has no streak in it: if the word is the same, nothing has failed since, and nothing is to be done.
        // A failure that is reported at this instant counts as reported later.
        if is_closed(ticket) && self.word.load(Ordering::Acquire) == ticket {
            return;
        }
        self.clear(ticket);
    }

    #[cold]
    #[inline(never)]
    fn clear(&self, ticket: u64) {
        let now = self.surroundings.now();
        self.change(|machine| machine.succeeded(ticket, now));
    }

    #[cold]
    pub(super) fn failed(&self, ticket: u64, error: E) {
        if self.is_off {
            return;
        }
        let (now, draw) = (self.surroundings.now(), self.surroundings.draw());
        self.change(|machine| machine.failed(ticket, error, now, draw));
    }

    #[cold]
    pub(super) fn renewed(&self, ticket: u64) {
        let now = self.surroundings.now();
        self.change(|machine| machine.renewed(ticket, now));
    }

    #[cold]
    pub(super) fn abandoned(&self, ticket: u64) {
        let now = self.surroundings.now();
        self.change(|machine| machine.abandoned(ticket, now));
    }

    fn has_nothing_to_clear(&self) -> bool {
        let word = self.word.load(Ordering::Acquire);
        is_closed(word) && word & STREAK == 0
    }

    fn change<R>(&self, change: impl FnOnce(&mut Machine<E>) -> R) -> R {
        let mut inside = self.lock();
        let result = change(&mut inside.machine);
        self.word.store(inside.machine.word(), Ordering::Release);
        if !inside.telling && !inside.machine.events.is_empty() {
            inside.telling = true;
            self.tell(inside);
        }
        result
    }

    /// Tells what there is to tell, until there is nothing more.
    fn tell<'a>(&'a self, mut inside: MutexGuard<'a, Inside<E>>) {
        while let Some(event) = inside.machine.events.pop_front() {
            drop(inside);
            // Whoever panicked has been reported by the panic hook already. Going on upwards it would take the place of
            // somebody's result, and abort the process if it was a panic that gave up the permit. What it panicked with is
            // left alone, because dropping that may panic as well.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.surroundings.tell(&event))) {
                std::mem::forget(payload);
            }
            inside = self.lock();
        }
        inside.telling = false;
    }

    /// Nothing that can panic is done under the lock, save what `E` does when it is cloned; and the machine's states
    /// are whole before and after that.
    fn lock(&self) -> MutexGuard<'_, Inside<E>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Clone + fmt::Debug> fmt::Debug for Breaker<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Breaker").field(&self.status()).finish()
    }
}
