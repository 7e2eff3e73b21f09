//! A planner on the bench: slots whose states the test sets as it likes, and a snapshot it writes itself.

use std::time::{Duration, Instant};

use pgsteer_core::host::HostKey;
use pgsteer_core::hosts::{FailureKind, HostFailure, Snapshot};
use pgsteer_core::pool::planner::{Action, Oddity, Planner, PlannerOptions, ReturnReason};

use super::{MS, Owner, Place, Places, host};

pub struct Rig {
    pub planner: Planner,
    pub view: Places,
    pub now: Instant,
}

impl Rig {
    /// A planner that has begun, with its first actions still to be taken.
    pub fn started(options: PlannerOptions) -> Self {
        let place = |_| Place {
            owner: Owner::Keeper,
            tenant: None,
            uses: 0,
        };
        let view = Places {
            places: (0..options.size).map(place).collect(),
            waiting: 0,
        };
        let mut rig = Rig {
            planner: Planner::new(options),
            view,
            now: Instant::now(),
        };
        rig.planner.start(&rig.view, rig.now);
        rig
    }

    /// A planner that has begun and whose first opener takes so long that the others are at work beside it, with all
    /// these actions still to be taken.
    pub fn opening(options: PlannerOptions) -> Self {
        let mut rig = Rig::started(options);
        rig.let_others_join();
        rig
    }

    /// Waits until the first opener is no longer alone.
    pub fn let_others_join(&mut self) {
        self.now += 500 * MS;
        self.planner.tick(None, &self.view, self.now);
    }

    /// A planner with an idle connection in every slot, to the hosts in order.
    pub fn full(options: PlannerOptions, hosts: &[&str]) -> Self {
        let mut rig = Rig::started(options);
        let mut slots = hosts.iter();
        loop {
            let opening: Vec<u32> = rig.opened_for();
            if opening.is_empty() {
                return rig;
            }
            for slot in opening {
                rig.open(slot, slots.next().expect("a host for every slot"), 0);
            }
        }
    }

    /// The slots that the actions now due open connections for.
    pub fn opened_for(&mut self) -> Vec<u32> {
        let opens = self.actions().into_iter().filter_map(|action| match action {
            Action::Open { slot, .. } => Some(slot),
            _ => None,
        });
        opens.collect()
    }

    pub fn open(&mut self, slot: u32, name: &str, jitter: u64) {
        self.planner
            .opened(slot, host(name), None, jitter, &self.view, self.now)
            .unwrap();
        self.set(slot, Owner::Idle);
    }

    pub fn set(&mut self, slot: u32, owner: Owner) {
        self.view.places[slot as usize].owner = owner;
    }

    pub fn returned(&mut self, slot: u32, why: ReturnReason) -> Result<(), Oddity> {
        self.set(slot, Owner::Keeper);
        self.planner.returned(slot, why, &self.view, self.now)
    }

    pub fn park(&mut self, slot: u32) {
        self.set(slot, Owner::Parked);
        self.planner.parked(slot, &self.view, self.now);
    }

    pub fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.planner.next_action()).collect()
    }

    pub fn tick(&mut self) -> Vec<Action> {
        self.planner.tick(None, &self.view, self.now);
        self.actions()
    }

    pub fn tick_after(&mut self, time: Duration) -> Vec<Action> {
        self.now += time;
        self.tick()
    }

    pub fn rebalance(&mut self, snapshot: &Snapshot) -> Vec<Action> {
        self.planner.rebalance(snapshot, &self.view, self.now);
        self.actions()
    }

    /// How long until the planner wants to be woken.
    pub fn sleeps_for(&self) -> Option<Duration> {
        self.planner.next_wake().map(|at| at - self.now)
    }
}

/// A snapshot in which these hosts are allowed and new connections go to those, with these open counts.
pub fn snapshot(allowed: &[&str], placement: &[&str], counts: &[(&str, u32)]) -> Snapshot {
    let keys = |names: &[&str]| -> Vec<HostKey> { names.iter().map(|name| host(name)).collect() };
    Snapshot {
        allowed: keys(allowed),
        placement: keys(placement),
        counts: counts.iter().map(|(name, count)| (host(name), *count)).collect(),
        ..Snapshot::default()
    }
}

pub fn failed(mut snapshot: Snapshot, name: &str, kind: FailureKind) -> Snapshot {
    let now = Instant::now();
    let failure = HostFailure {
        kind,
        consecutive: 1,
        of_kind: 1,
        at: now,
        next_probe: now,
        reason: "as the test said".to_owned(),
    };
    snapshot.failures.insert(host(name), failure);
    snapshot
}
