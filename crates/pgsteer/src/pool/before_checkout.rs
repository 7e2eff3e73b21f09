//! What is done at a checkout beside handing the connection out, where the configuration asks for it: the place is
//! recorded, and the application may refuse the connection. Everybody else pays one flag for it.

use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::time::Duration;

use pgsteer_core::host::HostKey;
use pgsteer_core::pool::Lease;
use tokio_postgres::Client;

use super::inner::{Inner, Message};
use super::now;
use super::tenant::Tenant;

/// An idle connection that is about to be handed out.
pub struct Candidate<'a> {
    tenant: &'a Tenant,
    uses: u64,
}

impl Candidate<'_> {
    /// Its client.
    pub fn client(&self) -> &Client {
        &self.tenant.client
    }

    /// The host it is on.
    pub fn host(&self) -> &HostKey {
        &self.tenant.host
    }

    /// How long ago it was opened. Reads the clock.
    pub fn age(&self) -> Duration {
        now().saturating_duration_since(self.tenant.opened_at)
    }

    /// How often it has been handed out, this time included.
    pub fn uses(&self) -> u64 {
        self.uses
    }
}

impl fmt::Debug for Candidate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate")
            .field("host", self.host())
            .field("uses", &self.uses)
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// The connection again, unless it is refused; then it goes to the keeper.
    #[inline]
    pub(super) fn attend(&self, lease: Lease, at: &'static Location<'static>) -> Option<Lease> {
        if self.attends_checkouts {
            return self.hand_out(lease, at);
        }
        Some(lease)
    }

    #[cold]
    fn hand_out(&self, lease: Lease, at: &'static Location<'static>) -> Option<Lease> {
        if self.is_refused(&lease) {
            self.tell_keeper(Message::Refused { lease });
            return None;
        }
        self.holders.taken(lease.index(), at);
        Some(lease)
    }

    /// One that panics refuses: its connection must not be lost over it.
    fn is_refused(&self, lease: &Lease) -> bool {
        let Some(check) = &self.settings.before_checkout else {
            return false;
        };
        let candidate = Candidate {
            tenant: self.tenant(lease),
            uses: u64::from(self.slots.uses(lease.index())),
        };
        match catch_unwind(AssertUnwindSafe(|| check.allows(&candidate))) {
            Ok(allowed) => !allowed,
            Err(_) => {
                tracing::error!(target: "pgsteer::pool", host = %candidate.host(), "before_checkout panicked");
                true
            }
        }
    }
}
