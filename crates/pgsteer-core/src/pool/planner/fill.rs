//! Filling: how many connections there should be, when another is opened, and what a failed open leads to.
//!
//! At most `max_dials` are opened at once, and after a failure none until the refill timer has run out, save for the
//! replacement after a hook failure. A failed open has tried every host there is, so until one succeeds a single opener
//! goes on trying: servers that come back are not met by a crowd. The very first opener is alone too, for a while at
//! least, so that a wrong password locks no account out.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::backoff::is_passing;
use super::slots::{Connection, Slot};
use super::{Action, CloseReason, Experience, Oddity, OpenFailure, Planner, PoolView, Stage};
use crate::host::HostKey;

/// How long the first opener is alone. If it has neither succeeded nor failed by then, a host or discovery is slow, and
/// the start must not take as long as that.
const START_ALONE: Duration = Duration::from_millis(500);

impl Planner {
    /// Event: the pool begins. Fills it, a single connection first. The first look at where the connections are comes one interval later.
    pub fn start(&mut self, view: &dyn PoolView, now: Instant) {
        if self.stage == Stage::New {
            self.stage = Stage::Running;
            self.last_tick = Some(now);
            self.rebalance_at = now.checked_add(self.options.rebalance_interval);
            self.fill(view, now);
        }
    }

    /// Event: a caller began to wait. The pool may grow.
    pub fn demand(&mut self, view: &dyn PoolView, now: Instant) {
        self.fill(view, now);
    }

    /// Event: the connection for the slot is open; its session check and its hook have passed. The keeper has put it
    /// into the slot and still owns the slot; `Release` (or `Close`) follows. `address` is where it goes, unless that is
    /// a Unix socket. `jitter` is any random number, used for this connection's lifetime only.
    ///
    /// # Errors
    ///
    /// [`Oddity`] if the slot was not opening.
    pub fn opened(
        &mut self,
        slot: u32,
        host: HostKey,
        address: Option<IpAddr>,
        jitter: u64,
        view: &dyn PoolView,
        now: Instant,
    ) -> Result<(), Oddity> {
        let Some(&Slot::Opening { ordered, .. }) = self.table.get(slot) else {
            return self.odd(slot, "opened");
        };
        self.end_back_off(now);
        self.learn(Experience::Works);
        self.kept_off.remove(&host);
        let connection = Connection::new(
            (host, address),
            self.options.max_lifetime,
            self.options.lifetime_jitter,
            jitter,
            view.uses(slot),
            now,
        );
        if self.stage == Stage::Down {
            self.close_owned(slot, connection, CloseReason::Shutdown, now);
        } else if ordered {
            self.close_owned(slot, connection, CloseReason::Ordered, now);
        } else {
            self.expect_end_of_life(&connection);
            self.release(slot, connection);
        }
        self.fill(view, now);
        Ok(())
    }

    /// Event: the open for the slot failed. Waiters fail if nothing else can come, and at once if the login was
    /// refused; while a host may fit or be ready in a moment they wait.
    ///
    /// # Errors
    ///
    /// [`Oddity`] if the slot was not opening.
    pub fn open_failed(
        &mut self,
        slot: u32,
        why: OpenFailure,
        view: &dyn PoolView,
        now: Instant,
    ) -> Result<(), Oddity> {
        let Some(Slot::Opening { .. }) = self.table.get(slot) else {
            return self.odd(slot, "open_failed");
        };
        self.table.set(slot, Slot::Empty);
        if self.stage == Stage::Down {
            return Ok(());
        }
        self.learn(Experience::Fails);
        self.back_off(why, now);
        let hopeless = why == OpenFailure::Login || (!is_passing(why) && !self.can_serve());
        if hopeless && view.waiting() > 0 {
            self.actions.push_back(Action::FailWaiters);
        }
        self.arm_refill(now);
        Ok(())
    }

    /// Event: the connection for the slot opened on `host`, but the `after_connect` hook failed there and the
    /// connection is closed. Another is opened at once if that host was not one to avoid; else it is a failed open.
    ///
    /// # Errors
    ///
    /// [`Oddity`] if the slot was not opening.
    pub fn hook_failed(
        &mut self,
        slot: u32,
        host: HostKey,
        view: &dyn PoolView,
        now: Instant,
    ) -> Result<(), Oddity> {
        let Some(Slot::Opening { avoid, .. }) = self.table.get(slot) else {
            return self.odd(slot, "hook_failed");
        };
        let avoided = avoid.contains(&host);
        self.end_back_off(now);
        self.kept_off.insert(host, now);
        if avoided || self.stage == Stage::Down {
            return self.open_failed(slot, OpenFailure::Hosts, view, now);
        }
        // Leaves the state and enters it again, so that opening it anew takes no more dials than there were.
        self.table.set(slot, Slot::Empty);
        self.open(slot, now);
        Ok(())
    }

    /// Event: the task that opened the slot's connection ended without a report. The slot is free; waiters go on
    /// waiting.
    ///
    /// # Errors
    ///
    /// [`Oddity`] if the slot was not opening.
    pub fn open_vanished(&mut self, slot: u32, view: &dyn PoolView, now: Instant) -> Result<(), Oddity> {
        let Some(Slot::Opening { .. }) = self.table.get(slot) else {
            return self.odd(slot, "open_vanished");
        };
        self.table.set(slot, Slot::Empty);
        self.arm_refill(now);
        self.fill(view, now);
        Ok(())
    }

    /// Opens what is missing, as far as dials and the refill timer allow.
    pub(super) fn fill(&mut self, view: &dyn PoolView, now: Instant) {
        if self.stage != Stage::Running || self.refill_at.is_some() {
            return;
        }
        let opening = self.table.opening();
        let alone = match self.experience {
            Experience::None => opening == 0 || self.alone_until.is_some_and(|until| now < until),
            Experience::Works => false,
            Experience::Fails => true,
        };
        let dials = if alone { 1 } else { self.options.max_dials as usize };
        let room = dials.saturating_sub(opening);
        for _ in 0..self.missing(view).min(room) {
            let Some(slot) = self.table.lowest_empty() else {
                break;
            };
            if self.experience == Experience::None && opening == 0 {
                self.alone_until = now.checked_add(START_ALONE);
            }
            self.open(slot, now);
        }
    }

    /// An open has ended: the first opener need not be waited for any longer.
    fn learn(&mut self, experience: Experience) {
        self.experience = experience;
        self.alone_until = None;
    }

    /// How many connections there are too few. What is settling is expected back, so nothing is opened in its stead.
    fn missing(&self, view: &dyn PoolView) -> usize {
        let size = self.table.len();
        let present = self.table.present();
        let floor = self.options.min_idle as usize;
        if floor >= size {
            return size - present;
        }
        let wanted = floor.max(view.waiting());
        // Those the keeper is about to claim still look idle to the view.
        if view.idle() >= wanted + self.table.closing() {
            return 0;
        }
        // Those about to be released do not look idle yet.
        let released = self
            .actions
            .iter()
            .filter(|action| matches!(action, Action::Release { .. }))
            .count();
        let ready = self.table.ready(view) + released + self.table.settling() + self.table.opening();
        // Those being checked come back, but nobody who waits shall wait for that.
        let below_floor = floor.saturating_sub(ready + self.table.checked(view));
        let for_waiters = view.waiting().saturating_sub(ready);
        below_floor.max(for_waiters).min(size - present)
    }

    pub(super) fn open(&mut self, slot: u32, now: Instant) {
        let avoid = self.kept_off(now);
        self.table.set(
            slot,
            Slot::Opening {
                avoid: avoid.clone(),
                ordered: false,
            },
        );
        self.actions.push_back(Action::Open { slot, avoid });
    }

    /// The hosts whose hook failed so lately that others are preferred. Forgets the rest.
    pub(super) fn kept_off(&mut self, now: Instant) -> Vec<HostKey> {
        let time = self.options.hook_keep_off;
        self.kept_off
            .retain(|_, failed_at| now.saturating_duration_since(*failed_at) < time);
        self.kept_off.keys().cloned().collect()
    }

    /// Arms the refill timer, unless it is armed already.
    pub(super) fn arm_refill(&mut self, now: Instant) {
        if self.stage == Stage::Running && self.refill_at.is_none() {
            let own = self.backoff.map(|backoff| backoff.rest);
            let delay = own.unwrap_or(self.options.refill_delay);
            self.refill_at = now.checked_add(delay.max(Duration::from_millis(1)));
        }
    }

    /// A connection ended by itself. One that ends as soon as it is opened is replaced at once like any other, but
    /// when more of them did so within a refill delay than the pool has slots, filling rests: a server that lets
    /// everybody in only to throw them out must not be dialled in a circle. What the application refuses counts the same.
    pub(super) fn count_death(&mut self, opened_at: Instant, now: Instant) {
        let young = self.options.refill_delay;
        if now.saturating_duration_since(opened_at) >= young {
            return;
        }
        let (since, count) = match self.young_deaths {
            Some((since, count)) if now.saturating_duration_since(since) < young => (since, count + 1),
            _ => (now, 1),
        };
        self.young_deaths = Some((since, count));
        if count > self.table.len() {
            self.arm_refill(now);
        }
    }
}
