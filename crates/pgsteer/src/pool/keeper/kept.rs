//! The slots in the keeper's hands.

use std::sync::atomic::Ordering;

use pgsteer_core::pool::Lease;
use pgsteer_core::pool::planner::SlotState;
use tokio::task::AbortHandle;

use super::Keeper;
use crate::dial::Handle;
use crate::pool::closes::Gone;
use crate::pool::tenant::Tenant;

/// What the keeper has of one slot.
#[derive(Default)]
pub(super) struct Kept {
    /// Present while the keeper owns the slot.
    pub(super) lease: Option<Lease>,
    /// Counts the slot's connections, so that late news of an earlier one is known as such.
    pub(super) epoch: u64,
    pub(super) opener: Option<AbortHandle>,
    /// The last task that made the slot's connection clean, or tries to.
    pub(super) settler: Option<AbortHandle>,
    /// Present while the slot's connection has a socket.
    pub(super) driver: Option<Handle>,
    /// Why the slot's connection goes, once that is settled.
    pub(super) going: Option<Gone>,
}

impl Keeper {
    pub(super) fn own(&mut self, lease: Lease) {
        let slot = lease.index();
        self.pool.sheet(slot).keeper_has.store(true, Ordering::Release);
        self.kept(slot).lease = Some(lease);
    }

    pub(super) fn disown(&mut self, slot: u32) -> Option<Lease> {
        self.pool.sheet(slot).keeper_has.store(false, Ordering::Release);
        self.kept(slot).lease.take()
    }

    pub(super) fn take_tenant(&mut self, slot: u32) -> Option<Tenant> {
        let lease = self.slots[slot as usize].lease.as_mut()?;
        self.pool.slots.take(lease)
    }

    pub(super) fn put_tenant(&mut self, slot: u32, tenant: Tenant) {
        if let Some(lease) = &mut self.slots[slot as usize].lease {
            self.pool.slots.put(lease, tenant);
        }
    }

    pub(super) fn kept(&mut self, slot: u32) -> &mut Kept {
        &mut self.slots[slot as usize]
    }

    pub(super) fn state(&self, slot: u32) -> SlotState {
        self.pool
            .planner()
            .slot_info(slot)
            .map_or(SlotState::Unknown, |info| info.state)
    }

    pub(super) fn is_current(&self, slot: u32, epoch: u64) -> bool {
        self.slots[slot as usize].epoch == epoch
    }
}
