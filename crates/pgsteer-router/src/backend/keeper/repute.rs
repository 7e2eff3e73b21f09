//! How the backend stands: what is held against it, when it is tried again, and who is told.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use pgsteer_core::balance::Service;

use super::Keeper;
use crate::backend::counters::Counters;
use crate::backend::inner::now;

/// The least time between two dials of a failed backend, however many requests want it tried.
const LEAST_REST: Duration = Duration::from_millis(100);

impl Keeper {
    /// A connection has opened, and has answered a ping if the backend had failed. Requests that have failed meanwhile go on
    /// counting: a backend may let itself be dialled and answer nobody.
    pub(super) fn found_well(&mut self) {
        self.standing.found_well(now());
        self.probe_at = None;
        self.weigh_up();
    }

    /// A dial came to nothing. Returns how long nothing is dialled.
    pub(super) fn dial_failed(&mut self, reason: &str) -> Duration {
        let barred_for = self.pool.breaker.retry_after();
        self.standing.dial_failed(reason, barred_for, now());
        self.weigh_up();
        self.arm_probe()
    }

    /// Too many requests in a row have failed: the connections that there are prove nothing.
    pub(super) fn requests_failed(&mut self, why: &str) {
        if self.closing {
            return;
        }
        self.standing.requests_failed(why, now());
        self.weigh_up();
        let rest = self.arm_probe();
        self.plan(|planner, pool, now| {
            planner.retire_all(pool, now);
            planner.bar(rest, now);
        });
        self.let_waiters_move_on();
    }

    fn arm_probe(&mut self) -> Duration {
        self.probe_at = self.standing.next_probe();
        let rest = self.probe_at.map(|at| at.saturating_duration_since(now()));
        rest.unwrap_or_default()
    }

    /// The failed backend's rest is over: one dial looks whether it is back, whether a connection is wanted or not.
    pub(super) fn probe(&mut self, now: Instant) {
        self.probe_at = None;
        if self.closing || self.standing.next_probe().is_none() {
            return;
        }
        if self.pool.planner().try_one(now) {
            return self.carry_out();
        }
        // Every slot is taken for the moment, or a dial is under way that was begun before and may prove nothing.
        self.probe_after(self.pool.options.failed_backend_delay);
    }

    /// A probe came to nothing, in a way that says nothing of the backend: it is tried again after this rest.
    pub(super) fn probe_after(&mut self, rest: Duration) {
        if self.standing.next_probe().is_some() {
            self.probe_at = now().checked_add(rest);
        }
    }

    /// A request has come here although the backend has failed, because there is no other: it is dialled now. Those that come
    /// right after a dial has failed are told of that one.
    pub(super) fn try_anyway(&mut self, now: Instant) {
        if self.closing || self.pool.is_well() || self.pool.planner().stats(&*self.pool).opening > 0 {
            return;
        }
        let rested = self
            .tried_at
            .is_none_or(|tried| now.saturating_duration_since(tried) >= LEAST_REST);
        if rested {
            self.manner.anyway = true;
            self.tried_at = Some(now);
            let begun = self.pool.planner().try_one(now);
            self.carry_out();
            self.manner.anyway = false;
            if begun {
                return;
            }
        }
        if !self.pool.planner().can_serve() {
            self.turn_waiters_away();
        }
    }

    /// Whoever waits here is better off elsewhere, if others serve.
    pub(super) fn let_waiters_move_on(&mut self) {
        if !self.pool.is_well() && self.pool.others_serve() {
            self.turn_waiters_away();
        }
    }

    /// Says where the backend stands, to whoever chooses and to people.
    pub(super) fn weigh_up(&mut self) {
        let now = now();
        self.standing.has_connections(self.live, now);
        let capacity = match self.standing.service() {
            Service::Full => self.pool.options.max_size,
            Service::Capped { connections } => connections,
            Service::LeftOut { .. } => 0,
        };
        self.pool.publish(self.standing.failed_at(), capacity);
        let since = self.standing.left_out_since();
        *self
            .pool
            .left_out_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = since;
        if std::mem::replace(&mut self.left_out, since.is_some()) == since.is_some() || self.closing {
            return;
        }
        let backend = &self.pool.address;
        if since.is_some() {
            Counters::add(&self.pool.counters.left_out);
            let why = self.standing.reason().unwrap_or_default();
            tracing::warn!(target: "pgsteer::router", %backend, "the backend is left out: {why}");
        } else {
            tracing::info!(target: "pgsteer::router", %backend, "the backend serves again");
        }
    }
}
