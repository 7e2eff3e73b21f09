//! The slots in the keeper's hands.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pgsteer_core::pool::Lease;
use tokio::task::AbortHandle;

use super::Keeper;
use crate::backend::connection::{Connection, Watch};

/// What the keeper has of one slot.
pub(super) struct Kept {
    /// Present while the keeper owns the slot.
    pub(super) lease: Option<Lease>,
    /// Counts the slot's connections, so that late news of an earlier one is known as such.
    pub(super) epoch: u64,
    /// The watch over the slot's connection, while it has one.
    pub(super) watch: Option<Arc<Watch>>,
    pub(super) opener: Option<AbortHandle>,
    /// The task that pings the slot's connection, or says goodbye on it.
    pub(super) task: Option<AbortHandle>,
}

impl Kept {
    pub(super) fn new(lease: Lease) -> Self {
        Kept {
            lease: Some(lease),
            epoch: 0,
            watch: None,
            opener: None,
            task: None,
        }
    }
}

impl Keeper {
    pub(super) fn kept(&mut self, slot: u32) -> &mut Kept {
        &mut self.slots[slot as usize]
    }

    pub(super) fn own(&mut self, lease: Lease) {
        let slot = lease.index();
        self.kept(slot).lease = Some(lease);
    }

    pub(super) fn disown(&mut self, slot: u32) -> Option<Lease> {
        self.kept(slot).lease.take()
    }

    pub(super) fn take_connection(&mut self, slot: u32) -> Option<Connection> {
        let lease = self.slots[slot as usize].lease.as_mut()?;
        self.pool.slots.take(lease)
    }

    pub(super) fn put_connection(&mut self, slot: u32, connection: Connection) {
        if let Some(lease) = &mut self.slots[slot as usize].lease {
            self.pool.slots.put(lease, connection);
        }
    }

    pub(super) fn is_current(&self, slot: u32, epoch: u64) -> bool {
        self.slots[slot as usize].epoch == epoch
    }

    /// The slot's connection is gone, socket and all.
    pub(super) fn emptied(&mut self, slot: u32) {
        drop(self.take_connection(slot));
        self.pool.full.store(false, Ordering::Relaxed);
        let kept = self.kept(slot);
        kept.epoch += 1;
        kept.watch = None;
        kept.task = None;
        self.live = self.live.saturating_sub(1);
        if let Some(checks) = &mut self.checks {
            checks.gone(slot);
        }
        self.weigh_up();
    }
}
