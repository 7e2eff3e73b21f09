//! Hosts that do not react: frozen, or cut off without a word. Their connections look open and are dead, and whoever is
//! given one waits in vain.
//!
//! Idle connections are given up only on double evidence: something on an open connection got no reaction, and then a new
//! connection got none either, within all of its time and while nothing came on any other. A host whose connects alone
//! run out of time may be one that has too many of them to answer, and goes on serving those it has.

use std::time::Instant;

use super::ClusterState;
use crate::host::HostKey;

impl ClusterState {
    /// A host did not react to something that every working host reacts to at once. It is not left out for that, but asked
    /// now, at most once a second, so that others are tried first if it does not answer.
    pub fn unresponsive(&mut self, key: &HostKey, now: Instant) {
        if let Some(place) = self.table.place(key) {
            self.table.host_mut(place).is_unresponsive = true;
            self.doubt(place);
            self.ask_soon(place, now);
        }
    }

    /// The probe of this id, which is about to be reported as failed, ran out of its time, and nothing has come from the
    /// host on any connection since it was last said to be unresponsive. If the probe was made because of that, the host
    /// is frozen. Ignored if the probe had been stopped.
    pub fn silent(&mut self, key: &HostKey, id: u64, now: Instant) {
        let Some(place) = self.table.place(key) else {
            return;
        };
        let host = self.table.host_mut(place);
        let asked_for_it = host
            .probe
            .is_some_and(|probe| probe.id == id && probe.answers_doubt);
        if asked_for_it && host.is_unresponsive {
            host.frozen_at = Some(now);
            self.changed();
        }
    }

    /// It has given a connection.
    pub(super) fn reacts(&mut self, place: usize) {
        let host = self.table.host_mut(place);
        host.is_unresponsive = false;
        host.frozen_at = None;
    }
}
