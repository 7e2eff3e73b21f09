//! What is known of one connection's wire, in one atomic word: whether the server owes an answer, whether a
//! transaction is open, and who looks after the slot when it comes back in such a state.
//! It is shared by the driver task, which alone polls the connection, by the holder of the slot and by the pool's
//! keeper; it relies on the driver's waker being wrapped so that it calls [`Session::wake`]. It never sends, waits or
//! locks.
//!
//! # Why a wake counts as work
//!
//! A request that a holder has queued is invisible to the driver until its next pass. Queueing it wakes the driver's
//! waker on the holder's own thread before the call returns (or, if the driver is inside a pass at that moment, from
//! that pass), so marking the session woken there closes the gap: a session is quiet only if nothing is queued.
//!
//! # Who owns the slot
//!
//! The slot belongs to its holder until [`Session::give_back`] answers.
//!
//! | outcome | the slot now belongs to |
//! |---|---|
//! | `give_back` = [`GiveBack::Clean`] | still the caller, who may make it idle |
//! | `give_back` = [`GiveBack::Keeper`] | still the caller, who passes it to the keeper |
//! | `give_back` = [`GiveBack::Parked`] | nobody; it waits for exactly one of the next four |
//! | `end_pass` = [`PassEnd::Release`] | the driver, who makes it idle |
//! | `end_pass` = [`PassEnd::HandOver`] | the driver, who passes it to the keeper |
//! | `close` = `true` | the caller of `close`, who passes it to the keeper |
//! | `unpark` = `true` | the keeper |
//! | anything else | unchanged |
//!
//! A parked session is never forgotten: parking succeeds only while a pass is running, is due (woken) or is owed by
//! the server (busy), and each of these ends in `end_pass` or in `close`. The keeper's deadline is for servers that
//! do not answer.

use super::sync::{AtomicU32, Ordering};
use std::fmt;

/// The driver is inside a pass: what it reads and writes is not published yet.
const POLLING: u32 = 1;
/// Something was queued or arrived since the last pass began.
const WOKEN: u32 = 1 << 1;
/// After the last pass something was unanswered, unwritten or unread.
const BUSY: u32 = 1 << 2;
/// After the last pass the server's transaction status was other than idle.
const DIRTY: u32 = 1 << 3;
/// The holder has let go; whoever clears this bit owns the slot.
const PARKED: u32 = 1 << 4;
/// The driver has ended; nothing will be sent or received any more.
const CLOSED: u32 = 1 << 5;
/// Not to be used again: too old, on the wrong host, or the pool is going.
const RETIRED: u32 = 1 << 6;

/// Any of these means that the wire may have, or may be about to have, something on it.
const ACTIVE: u32 = POLLING | WOKEN | BUSY;

/// The state of one connection's wire. See the module for who owns the slot after what.
///
/// On cache lines of its own: its driver writes it several times a query, and a neighbour's holder must not pay for that.
#[repr(align(128))]
pub struct Session {
    bits: AtomicU32,
}

/// What a driver does after a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum PassEnd {
    /// Something was queued or arrived during the pass. The session still counts as woken; begin another pass, at
    /// once or when the task is polled again (the wake has been forwarded to it).
    Again,
    /// Nothing to do.
    Rest,
    /// The slot was parked and its session is clean: the driver owns it now, and makes it idle.
    Release,
    /// The slot was parked and its session is dirty or retired: the driver owns it now, and passes it to the keeper.
    HandOver,
}

/// What a holder does with the slot it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum GiveBack {
    /// Quiet, clean, open and not retired. The caller still owns the slot, and makes it idle.
    Clean,
    /// The wire is busy. The slot is parked and no longer the caller's.
    Parked,
    /// Dirty, closed or retired. The caller still owns the slot, and passes it to the keeper.
    Keeper,
}

impl Session {
    /// A session fresh from its session check: open, quiet and clean.
    #[must_use]
    pub fn new() -> Self {
        Self {
            bits: AtomicU32::new(0),
        }
    }

    #[inline]
    fn bits(&self) -> u32 {
        // Acquire: whoever sees the end of a pass also sees what the pass recorded.
        self.bits.load(Ordering::Acquire)
    }

    /// Replaces the bits with what `change` makes of them; returns the bits it was given.
    fn update(&self, mut change: impl FnMut(u32) -> Option<u32>) -> Result<u32, u32> {
        let mut seen = self.bits();
        loop {
            let Some(next) = change(seen) else {
                return Err(seen);
            };
            match self
                .bits
                .compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Ok(seen),
                Err(now) => seen = now,
            }
        }
    }

    // The driver.

    /// Driver: a pass begins. Call it before the connection is polled.
    ///
    /// Whatever was queued before a wake that this call clears is seen by the pass.
    pub fn begin_pass(&self) {
        // Both in one step, so that no instant looks quiet.
        let _ = self.update(|seen| Some((seen | POLLING) & !WOKEN));
    }

    /// Something was queued or arrived. Called by the driver's waker, on whatever thread, before it wakes the task.
    pub fn wake(&self) {
        // Release: the pass that clears this bit sees what was queued before it was set.
        self.bits.fetch_or(WOKEN, Ordering::AcqRel);
    }

    /// Driver: the pass has ended.
    ///
    /// `busy`: a request is unanswered, the write side is blocked, or the pass did not read the socket and the
    /// request queue until both had nothing more. `dirty`: the last transaction status was other than idle.
    pub fn end_pass(&self, busy: bool, dirty: bool) -> PassEnd {
        let found = if busy { BUSY } else { 0 } | if dirty { DIRTY } else { 0 };
        let mut end = PassEnd::Rest;
        let _ = self.update(|seen| {
            let next = (seen & !(POLLING | BUSY | DIRTY)) | found;
            if seen & WOKEN != 0 {
                // Woken stays set: the session is not quiet until a later pass has cleared it.
                end = PassEnd::Again;
                return Some(next);
            }
            if seen & PARKED == 0 || busy {
                end = PassEnd::Rest;
                return Some(next);
            }
            end = if dirty || seen & (RETIRED | CLOSED) != 0 {
                PassEnd::HandOver
            } else {
                PassEnd::Release
            };
            Some(next & !PARKED)
        });
        end
    }

    /// Driver: the connection has ended, in whatever way. Must be called even if the driver's task dies.
    ///
    /// Returns whether the slot was parked; if so the caller owns it now, and passes it to the keeper.
    /// Later calls change nothing and return `false`.
    #[must_use = "if it was parked, the caller now owns the slot"]
    pub fn close(&self) -> bool {
        match self.update(|seen| Some((seen & !(ACTIVE | PARKED)) | CLOSED)) {
            Ok(seen) | Err(seen) => seen & PARKED != 0,
        }
    }

    // The holder.

    /// Holder: lets go of the slot, or learns that it may be made idle, or that the keeper must see to it.
    ///
    /// One plain load if the session is quiet. Before calling it on a session that is not, the holder puts its lease
    /// where the next owner will find it; [`Slots::give_back`](super::Slots::give_back) does both in the right order
    /// and is what a guard calls.
    #[inline]
    pub fn give_back(&self) -> GiveBack {
        match Self::judge(self.bits()) {
            GiveBack::Parked => self.park(),
            settled => settled,
        }
    }

    /// Holder: what [`give_back`](Self::give_back) would answer now, changing nothing. One plain load.
    #[inline]
    #[must_use = "nothing has been given back yet"]
    pub fn outlook(&self) -> GiveBack {
        Self::judge(self.bits())
    }

    #[inline]
    fn judge(bits: u32) -> GiveBack {
        if bits & (ACTIVE | DIRTY | CLOSED | RETIRED) == 0 {
            GiveBack::Clean
        } else if bits & (CLOSED | RETIRED) != 0 || bits & ACTIVE == 0 {
            GiveBack::Keeper
        } else {
            GiveBack::Parked
        }
    }

    #[cold]
    fn park(&self) -> GiveBack {
        let parked = self.update(|seen| match Self::judge(seen) {
            GiveBack::Parked => Some(seen | PARKED),
            GiveBack::Clean | GiveBack::Keeper => None,
        });
        match parked {
            Ok(_) => GiveBack::Parked,
            Err(settled) => Self::judge(settled),
        }
    }

    // The keeper.

    /// Keeper: takes a parked slot whose deadline is over. `true`: the keeper owns the slot now.
    #[must_use = "if it was parked, the caller now owns the slot"]
    pub fn unpark(&self) -> bool {
        self.bits.fetch_and(!PARKED, Ordering::AcqRel) & PARKED != 0
    }

    /// Keeper: not to be used again. From now on the slot is not handed out, and it comes to the keeper when it is
    /// given back or found idle. One that was given back just before is idle and stays so until it is claimed.
    pub fn retire(&self) {
        self.bits.fetch_or(RETIRED, Ordering::AcqRel);
    }

    /// Keeper: may be used again after all.
    pub fn unretire(&self) {
        self.bits.fetch_and(!RETIRED, Ordering::AcqRel);
    }

    // Anybody.

    /// Whether the slot may be handed out: neither closed nor retired. One plain load.
    #[inline]
    #[must_use]
    pub fn is_fit(&self) -> bool {
        self.bits() & (CLOSED | RETIRED) == 0
    }

    /// Whether the driver has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.bits() & CLOSED != 0
    }

    /// Whether the keeper has marked it as not to be used again.
    #[must_use]
    pub fn is_retired(&self) -> bool {
        self.bits() & RETIRED != 0
    }

    /// Whether nothing is queued, unwritten, unanswered or unread.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.bits() & ACTIVE == 0
    }

    /// Whether the slot waits for the driver, `close` or the keeper to take it.
    #[must_use]
    pub fn is_parked(&self) -> bool {
        self.bits() & PARKED != 0
    }

    /// Whether the transaction status was other than idle when the last pass ended.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.bits() & DIRTY != 0
    }
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 7] = ["polling", "woken", "busy", "dirty", "parked", "closed", "retired"];
        let bits = self.bits();
        let set = NAMES
            .iter()
            .enumerate()
            .filter(|(place, _)| bits & (1 << place) != 0);
        f.write_str("Session")?;
        f.debug_set().entries(set.map(|(_, name)| name)).finish()
    }
}
