//! What happens to slots behind the keeper's back: checkouts, returns, drivers that finish, connections that end.

use pgsteer_core::pool::planner::{PoolView, ReturnReason};

use super::{Note, Owner, World};

/// How a holder gives a connection back.
#[derive(Clone, Copy, Debug)]
pub enum Condition {
    Clean,
    Busy,
    /// Busy, and inside a transaction once all is answered.
    BusyAndDirty,
    Dirty,
    Discarded,
    Detached,
}

impl World {
    /// A caller asks for a connection: gets one, or waits. Says which slot it got.
    pub fn take(&mut self) -> Option<u32> {
        while self.view.waiting == 0 {
            let Some(slot) = self.slots_of(Owner::Idle).first().copied() else {
                break;
            };
            if self.lease_or_post(slot) {
                return Some(slot);
            }
        }
        self.view.waiting += 1;
        self.post.push_back(Note::Demand);
        None
    }

    /// The slot to the oldest waiter, or to the idle ones.
    pub fn release(&mut self, slot: u32) {
        if self.view.waiting == 0 {
            self.place(slot).owner = Owner::Idle;
        } else if self.lease_or_post(slot) {
            self.view.waiting -= 1;
        }
    }

    /// Hands the slot out if its connection is fit, else sends it to the keeper.
    fn lease_or_post(&mut self, slot: u32) -> bool {
        let tenant = self.tenant(slot);
        if tenant.ended {
            self.send(slot, ReturnReason::Closed);
            return false;
        }
        if tenant.retired {
            self.send(slot, ReturnReason::Retired);
            return false;
        }
        self.check_handed_out(slot);
        self.place(slot).owner = Owner::Leased;
        self.place(slot).uses += 1;
        true
    }

    pub fn give_back(&mut self, slot: u32, condition: Condition) {
        assert_eq!(self.place(slot).owner, Owner::Leased);
        let tenant = self.tenant(slot);
        let unfit = match (tenant.ended, tenant.retired) {
            (true, _) => Some(ReturnReason::Closed),
            (_, true) => Some(ReturnReason::Retired),
            _ => None,
        };
        match (condition, unfit) {
            (Condition::Detached, _) => self.send(slot, ReturnReason::Detached),
            (Condition::Discarded, None) => self.send(slot, ReturnReason::Discarded),
            (Condition::Busy | Condition::BusyAndDirty, None) => {
                self.tenant(slot).dirty = matches!(condition, Condition::BusyAndDirty);
                self.place(slot).owner = Owner::Parked;
                self.post.push_back(Note::Parked(slot));
            }
            (_, Some(why)) => self.send(slot, why),
            (Condition::Dirty, None) => self.send(slot, ReturnReason::Dirty),
            (Condition::Clean, None) => self.release(slot),
        }
    }

    /// The last answer to a parked connection has come.
    pub fn answer(&mut self, slot: u32) {
        assert_eq!(self.place(slot).owner, Owner::Parked);
        let dirty = std::mem::take(&mut self.tenant(slot).dirty);
        if self.tenant(slot).retired {
            self.send(slot, ReturnReason::Retired);
        } else if dirty {
            self.send(slot, ReturnReason::Dirty);
        } else {
            self.release(slot);
        }
    }

    /// The server ends the connection.
    pub fn kill(&mut self, slot: u32) {
        let owner = self.place(slot).owner;
        let tenant = self.tenant(slot);
        tenant.ended = true;
        let id = tenant.id;
        if owner == Owner::Parked {
            self.place(slot).owner = Owner::Post;
            self.post.push_back(Note::DiedParked(slot));
        } else {
            self.post.push_back(Note::Ended(slot, id));
        }
    }

    pub fn slots_of(&self, owner: Owner) -> Vec<u32> {
        (0u32..)
            .zip(&self.view.places)
            .filter(|(_, place)| place.owner == owner)
            .map(|(slot, _)| slot)
            .collect()
    }

    /// A random one of those slots.
    pub fn any_of(&mut self, owner: Owner) -> Option<u32> {
        let slots = self.slots_of(owner);
        if slots.is_empty() {
            None
        } else {
            Some(slots[self.random.index(slots.len())])
        }
    }

    /// Something that does not pass by the keeper.
    pub fn something_outside(&mut self) {
        match self.random.below(8) {
            0..=2 => {
                if self.view.waiting() < 6 {
                    self.take();
                }
            }
            3..=5 => {
                let condition = match self.random.below(12) {
                    0 | 1 => Condition::Busy,
                    2 => Condition::BusyAndDirty,
                    3 => Condition::Dirty,
                    4 => Condition::Discarded,
                    5 => Condition::Detached,
                    _ => Condition::Clean,
                };
                if let Some(slot) = self.any_of(Owner::Leased) {
                    self.give_back(slot, condition);
                }
            }
            6 => {
                if let Some(slot) = self.any_of(Owner::Parked) {
                    self.answer(slot);
                }
            }
            _ => {
                let some = [Owner::Idle, Owner::Leased, Owner::Parked][self.random.index(3)];
                if let Some(slot) = self.any_of(some).filter(|_| self.random.one_in(3)) {
                    if !self.tenant(slot).ended {
                        self.kill(slot);
                    }
                }
            }
        }
    }

    fn send(&mut self, slot: u32, why: ReturnReason) {
        self.place(slot).owner = Owner::Post;
        self.post.push_back(Note::Returned(slot, why));
    }
}
