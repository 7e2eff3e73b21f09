//! What the planner knows of each slot, with the numbers that follow from it kept beside it.
//!
//! A slot is in exactly one state. Whether a live connection is idle or leased is not kept here: the slots themselves
//! know that, and are asked through the view.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::{CloseReason, PoolView, SlotInfo, SlotState};
use crate::host::HostKey;

/// A connection, from the moment it is open until its socket is closed.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) host: HostKey,
    /// Which of the host's addresses it goes to, if it goes to an address.
    pub(super) address: Option<IpAddr>,
    pub(super) opened_at: Instant,
    /// The end of its life, drawn once. `None`: it lives for ever.
    pub(super) expires_at: Option<Instant>,
    /// The use count as last looked at, and since when it has not been seen to change.
    pub(super) uses: u64,
    pub(super) unused_since: Instant,
    /// Why it goes when it comes back.
    pub(super) draining: Option<CloseReason>,
}

impl Connection {
    /// A connection opened at `now`. The jitter falls anywhere in zero to its bound, both included.
    pub(super) fn new(
        (host, address): (HostKey, Option<IpAddr>),
        lifetime: Option<Duration>,
        jitter: Duration,
        draw: u64,
        uses: u64,
        now: Instant,
    ) -> Self {
        let bound = u64::try_from(jitter.as_nanos()).unwrap_or(u64::MAX);
        let extra = Duration::from_nanos(if bound == u64::MAX {
            draw
        } else {
            draw % (bound + 1)
        });
        let expires_at = lifetime
            .and_then(|life| now.checked_add(life))
            .and_then(|end| end.checked_add(extra));
        Connection {
            host,
            address: address.map(|address| address.to_canonical()),
            opened_at: now,
            expires_at,
            uses,
            unused_since: now,
            draining: None,
        }
    }

    pub(super) fn is_expired(&self, now: Instant) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

/// What one slot is doing.
#[derive(Clone, Debug)]
pub(super) enum Slot {
    /// The keeper owns it, and there is no connection.
    Empty,
    /// The keeper owns it while a connection is being opened.
    Opening {
        /// The hosts this open was told to avoid.
        avoid: Vec<HostKey>,
        /// Everything was told to go meanwhile, so this one goes as soon as it is open.
        ordered: bool,
    },
    /// Somebody or nobody has it, but not the keeper.
    Live {
        connection: Connection,
        /// When it was given back busy, unless it is known to be released since.
        parked_at: Option<Instant>,
    },
    /// The keeper owns it until it is clean again.
    Settling {
        connection: Connection,
        /// When the socket is cut.
        cut_at: Instant,
        /// The keeper had to unpark it, which it may report to have failed.
        claim: bool,
    },
    /// The keeper owns it until the socket is closed.
    Closing {
        connection: Connection,
        why: CloseReason,
        /// When the socket is cut, unless it was already.
        cut_at: Option<Instant>,
        /// The keeper had to claim it, which it may report to have failed.
        claim: bool,
    },
}

impl Slot {
    pub(super) fn state(&self) -> SlotState {
        match self {
            Slot::Empty => SlotState::Empty,
            Slot::Opening { .. } => SlotState::Opening,
            Slot::Live { .. } => SlotState::Live,
            Slot::Settling { .. } => SlotState::Settling,
            Slot::Closing { .. } => SlotState::Closing,
        }
    }

    /// The connection in the slot, of whatever state.
    pub(super) fn connection(&self) -> Option<&Connection> {
        match self {
            Slot::Empty | Slot::Opening { .. } => None,
            Slot::Live { connection, .. }
            | Slot::Settling { connection, .. }
            | Slot::Closing { connection, .. } => Some(connection),
        }
    }

    /// The connection, if it may still be used: it is live or settling.
    pub(super) fn serving(&self) -> Option<&Connection> {
        match self {
            Slot::Live { connection, .. } | Slot::Settling { connection, .. } => Some(connection),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub(super) fn serving_mut(&mut self) -> Option<&mut Connection> {
        match self {
            Slot::Live { connection, .. } | Slot::Settling { connection, .. } => Some(connection),
            _ => None,
        }
    }

    pub(super) fn info(&self) -> SlotInfo {
        let connection = self.connection();
        SlotInfo {
            state: self.state(),
            host: connection.map(|it| it.host.clone()),
            opened_at: connection.map(|it| it.opened_at),
            expires_at: connection.and_then(|it| it.expires_at),
            draining: self.serving().and_then(|it| it.draining),
        }
    }
}

/// All slots of a pool. The only way to change a slot's state is [`Table::set`], so the numbers cannot be forgotten.
#[derive(Debug)]
pub(super) struct Table {
    slots: Vec<Slot>,
    live: usize,
    opening: usize,
    settling: usize,
    closing: usize,
}

impl Table {
    pub(super) fn new(size: u32) -> Self {
        Table {
            slots: vec![Slot::Empty; size as usize],
            live: 0,
            opening: 0,
            settling: 0,
            closing: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn live(&self) -> usize {
        self.live
    }

    pub(super) fn opening(&self) -> usize {
        self.opening
    }

    pub(super) fn settling(&self) -> usize {
        self.settling
    }

    pub(super) fn closing(&self) -> usize {
        self.closing
    }

    /// Connections that serve, will serve, or may serve again.
    pub(super) fn present(&self) -> usize {
        self.live + self.opening + self.settling
    }

    pub(super) fn get(&self, slot: u32) -> Option<&Slot> {
        self.slots.get(slot as usize)
    }

    /// The slot, for changes within its state.
    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Slot> {
        self.slots.get_mut(slot as usize)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Slot)> {
        (0u32..).zip(&self.slots)
    }

    /// The number of slots as slot numbers have it.
    pub(super) fn numbers(&self) -> std::ops::Range<u32> {
        0..u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    /// Puts the slot into another state and answers with the one it was in. A slot that does not exist stays so.
    pub(super) fn set(&mut self, slot: u32, new: Slot) -> Slot {
        let Some(place) = self.slots.get_mut(slot as usize) else {
            return Slot::Empty;
        };
        let old = std::mem::replace(place, new);
        let new = place.state();
        if let Some(count) = self.count_mut(old.state()) {
            *count -= 1;
        }
        if let Some(count) = self.count_mut(new) {
            *count += 1;
        }
        old
    }

    fn count_mut(&mut self, state: SlotState) -> Option<&mut usize> {
        match state {
            SlotState::Live => Some(&mut self.live),
            SlotState::Opening => Some(&mut self.opening),
            SlotState::Settling => Some(&mut self.settling),
            SlotState::Closing => Some(&mut self.closing),
            SlotState::Empty | SlotState::Unknown => None,
        }
    }

    /// The lowest slot without a connection: low slots are handed out first, so that few stay hot.
    pub(super) fn lowest_empty(&self) -> Option<u32> {
        self.numbers()
            .find(|&slot| matches!(self.get(slot), Some(Slot::Empty)))
    }

    /// Whether the slot is live and nobody has it.
    pub(super) fn is_idle(&self, slot: u32, view: &dyn PoolView) -> bool {
        matches!(self.get(slot), Some(Slot::Live { .. })) && view.is_idle(slot)
    }

    /// Live connections that will be idle when they have been asked whether they work.
    pub(super) fn checked(&self, view: &dyn PoolView) -> usize {
        let is_live = |slot: &u32| matches!(self.get(*slot), Some(Slot::Live { .. }));
        self.numbers()
            .filter(|slot| is_live(slot) && view.is_being_checked(*slot))
            .count()
    }

    /// Live connections that are idle, or parked and so will be in a moment.
    pub(super) fn ready(&self, view: &dyn PoolView) -> usize {
        let is_live = |slot: &u32| matches!(self.get(*slot), Some(Slot::Live { .. }));
        self.numbers()
            .filter(is_live)
            .filter(|&slot| view.is_idle(slot) || view.is_parked(slot))
            .count()
    }
}
