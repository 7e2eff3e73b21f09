//! What must never happen, whatever else does.

use std::time::{Duration, Instant};

use pgsteer_core::pool::planner::{Action, CloseReason, SlotState};

use super::{MS, Owner, SECOND, World};

impl World {
    /// What must hold whenever the keeper has nothing left to do.
    pub fn check(&mut self) {
        let size = self.options.size as usize;
        let open = self
            .view
            .places
            .iter()
            .filter(|place| place.tenant.is_some())
            .count();
        assert!(open + self.openers.len() <= size, "more connections than slots");
        assert!(
            self.openers.len() <= self.options.max_dials as usize,
            "more dials than allowed"
        );
        for slot in 0..self.options.size {
            let info = self.planner.slot_info(slot).unwrap();
            let owned_by_keeper = self.place(slot).owner == Owner::Keeper;
            assert_eq!(
                owned_by_keeper,
                info.state != SlotState::Live,
                "slot {slot} is {}",
                info.state
            );
            let empty = matches!(info.state, SlotState::Empty | SlotState::Opening);
            assert_eq!(
                empty,
                self.place(slot).tenant.is_none(),
                "slot {slot} is {}",
                info.state
            );
            if info.state == SlotState::Settling {
                assert!(
                    self.cleaning.contains_key(&slot),
                    "slot {slot} settles by nobody's doing"
                );
            }
            if let Some(tenant) = &self.place(slot).tenant {
                assert_eq!(info.expires_at, tenant.expires_at, "a lifetime was drawn twice");
                assert_eq!(info.host.as_ref(), Some(&tenant.host));
            }
        }
        assert!(
            self.view.waiting == 0 || self.slots_of(Owner::Idle).is_empty(),
            "somebody waits beside an idle one"
        );
    }

    /// What must hold of an action when it is given.
    pub(super) fn check_action(&mut self, action: &Action) {
        match action {
            Action::Open { .. } => {
                if self.planner.login_back_off().is_some() {
                    assert!(
                        self.openers.is_empty(),
                        "a second opener while logins are refused"
                    );
                }
                if self.openers.is_empty() {
                    // A hook that failed leaves its opener at work.
                    let since = self.alone_since.filter(|_| self.replaces_at_once);
                    self.alone_since = since.or(Some(self.now));
                } else {
                    let joins = self.alone_since.is_some_and(|since| self.now >= since + 500 * MS);
                    assert!(
                        self.experienced || joins,
                        "a second opener before the first came to anything"
                    );
                }
                // Where nothing fits a change ends the rest, which its own tests look at.
                let passing = self.last_passing.is_some_and(|at| self.now < at + 6 * SECOND);
                let excused = passing || self.last_young_death.is_some_and(|at| self.now < at + 2 * SECOND);
                if !std::mem::take(&mut self.replaces_at_once) {
                    let rests = self.resting_until.take().is_some_and(|until| self.now < until);
                    assert!(excused || !rests, "dialled again too soon after a failure");
                }
            }
            Action::Close {
                slot,
                why: CloseReason::Stray,
                ..
            } => {
                let key = self.tenant(*slot).host.clone();
                let snapshot = self.last_snapshot.as_ref().unwrap();
                assert!(
                    !snapshot.allowed.contains(&key),
                    "{key} may stay, yet it is moved away"
                );
            }
            Action::Close {
                slot,
                why: CloseReason::Spread,
                ..
            } => {
                let key = self.tenant(*slot).host.clone();
                let snapshot = self.last_snapshot.as_ref().unwrap();
                let load = |key| snapshot.counts.get(key).copied().unwrap_or(0);
                let working = snapshot
                    .placement
                    .iter()
                    .filter(|key| !snapshot.failures.contains_key(key));
                let quieter = working.filter(|other| load(other) + 2 <= load(&key)).count();
                assert!(snapshot.placement.contains(&key) && !snapshot.failures.contains_key(&key));
                assert!(quieter > 0, "{key} is spread to nowhere");
            }
            Action::Close {
                slot,
                why: CloseReason::Expired,
                ..
            } => {
                let life = self.options.max_lifetime.unwrap();
                let tenant = self.tenant(*slot).clone();
                assert!(
                    tenant.expires_at.unwrap() <= self.now + life / 10,
                    "closed long before its time"
                );
            }
            Action::Close {
                slot,
                why: CloseReason::Unfit,
                ..
            } => {
                let key = self.tenant(*slot).host.clone();
                assert!(self.was_unfit.contains(&key), "{key} was never unfit");
            }
            Action::Close {
                slot,
                why: CloseReason::Frozen,
                ..
            } => {
                let key = self.tenant(*slot).host.clone();
                let frozen = self.snapshot().frozen;
                assert!(frozen.contains_key(&key), "{key} is not frozen");
            }
            Action::FailWaiters => {
                assert!(
                    !self.passing_just_reported,
                    "waiters fail although a host may soon fit"
                );
                let stats = self.planner.stats(&self.view);
                let hope = stats.idle + stats.leased + stats.settling + stats.opening;
                assert!(
                    self.refusal_just_reported || hope == 0,
                    "waiters fail although something may come"
                );
            }
            _ => {}
        }
    }

    /// At most a batch is moved by one look. What was marked before costs nothing.
    pub(super) fn check_batch(&self, actions: &[Action], marked: &[u32]) {
        let closed = actions.iter().filter(|action| {
            matches!(action, Action::Close { slot, why: CloseReason::Stray | CloseReason::Spread, .. }
                if !marked.contains(slot))
        });
        let newly_marked = self
            .moving_marks()
            .into_iter()
            .filter(|slot| !marked.contains(slot));
        let moved = closed.count() + newly_marked.count();
        assert!(
            moved <= self.options.rebalance_batch as usize,
            "{moved} moved at once"
        );
    }

    pub(super) fn moving_marks(&self) -> Vec<u32> {
        let is_marked = |slot: &u32| {
            self.planner
                .slot_info(*slot)
                .is_some_and(|info| matches!(info.draining, Some(CloseReason::Stray | CloseReason::Spread)))
        };
        (0..self.options.size).filter(is_marked).collect()
    }

    /// A connection is never handed out more than one tick past its life.
    pub(super) fn check_handed_out(&mut self, slot: u32) {
        let now = self.now;
        let expires_at = self.tenant(slot).expires_at;
        assert!(
            expires_at.is_none_or(|end| now <= end + SECOND),
            "handed out too long after its end"
        );
    }

    pub(super) fn check_lifetime(&self, expires_at: Option<Instant>) {
        assert_eq!(expires_at.is_some(), self.options.max_lifetime.is_some());
        if let (Some(end), Some(life)) = (expires_at, self.options.max_lifetime) {
            let extra = end.duration_since(self.now + life);
            assert!(end >= self.now + life && extra <= self.options.lifetime_jitter);
        }
    }

    /// The keeper is not woken for nothing: what may wake it is its looks at the hosts, one tick a second, and a few
    /// deadlines.
    pub(super) fn check_ticks(&self, ticks: usize, in_time: Duration) {
        let looks = in_time.as_nanos() / self.options.rebalance_interval.as_nanos();
        let pause = self
            .options
            .idle_timeout
            .map_or(SECOND, |timeout| timeout.clamp(MS, SECOND));
        let pauses = 2 * (in_time.as_nanos() / pause.as_nanos());
        let bound = 8 + 4 * self.options.size as usize + usize::try_from(looks + pauses).unwrap();
        assert!(
            ticks <= bound,
            "woken {ticks} times in {in_time:?}, when {bound} would do"
        );
    }
}
