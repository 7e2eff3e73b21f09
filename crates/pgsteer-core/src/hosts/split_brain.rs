//! Two primaries at once: after a failover that did not end the old primary, both take writes, and those to the old one
//! are lost. The one that was promoted writes on a higher timeline.
//!
//! Only looked at where hosts are configured: of discovered servers many are primaries.

use super::{ClusterState, LogEvent};
use crate::host::HostKey;

impl ClusterState {
    /// Whether a primary on this timeline is not the newest there is.
    pub(super) fn is_outranked(&self, timeline: Option<u32>) -> bool {
        matches!((timeline, self.highest_timeline), (Some(own), Some(highest)) if own < highest)
    }

    /// The highest timeline that any configured host is known to write on.
    pub fn highest_timeline(&self) -> Option<u32> {
        self.highest_timeline
    }

    /// The primaries that can be connected to, if there is more than one where there should be.
    pub(super) fn rival_primaries(&self) -> Vec<usize> {
        if self.discovered || !self.watches_roles {
            return Vec::new();
        }
        let is_primary = |place: &usize| {
            let host = self.table.host(*place);
            host.works() && host.role.is_some_and(|known| known.seen.role.is_primary())
        };
        let primaries: Vec<usize> = self.seeds.iter().copied().filter(is_primary).collect();
        if primaries.len() < 2 {
            return Vec::new();
        }
        primaries
    }

    /// The highest timeline that any host writes on. A primary that has failed still counts: what it wrote last is
    /// newer than what the other has, whether it can be reached or not.
    pub(super) fn find_highest_timeline(&mut self) {
        let known = self
            .table
            .iter()
            .filter(|host| host.is_listed() && !self.discovered);
        self.highest_timeline = known
            .filter_map(|host| host.role)
            .filter(|known| known.seen.role.is_primary())
            .filter_map(|known| known.seen.timeline)
            .max();
    }

    /// Tells people once that some primary is outranked, until none is.
    pub(super) fn tell_of_split_brain(&mut self) {
        let primaries: Vec<(HostKey, u32)> = self
            .rival_primaries()
            .into_iter()
            .filter_map(|place| {
                let host = self.table.host(place);
                Some((host.key.clone(), host.role?.seen.timeline?))
            })
            .collect();
        let is_split = primaries
            .iter()
            .any(|(_, timeline)| self.is_outranked(Some(*timeline)));
        if is_split && !self.told_of_split_brain {
            self.log([LogEvent::SplitBrain { primaries }]);
        }
        self.told_of_split_brain = is_split;
    }
}
