//! What one pass over the hosts of a cluster means for a breaker.

use crate::hosts::FailureKind;
use crate::verdict::{BreakerEffect, HostEffect};

/// The hosts that one pass has met, as far as a breaker is concerned.
///
/// A host that answers, with whatever it answers, shows that the database is not gone as a whole. So a pass that ends
/// without a connection has failed only if some host failed and none answered: one dead host of several, a wrong password
/// or servers that are full, starting up or of another role can never open a breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostsMet {
    failed: bool,
    answered: bool,
}

impl HostsMet {
    /// A dial ended without a connection.
    pub fn failed(&mut self, effect: HostEffect) {
        match effect {
            HostEffect::Failed(FailureKind::Down | FailureKind::Rejected) => self.failed = true,
            HostEffect::Failed(FailureKind::NotReady | FailureKind::Full)
            | HostEffect::Role(_)
            | HostEffect::JudgeAtEndOfPass => self.answered = true,
            // Ours was the fault.
            HostEffect::Suspect | HostEffect::RoleUnknown | HostEffect::Nothing => {}
        }
    }

    /// A dial ended with a connection that is of no use.
    pub fn answered(&mut self) {
        self.answered = true;
    }

    /// What the pass means if it ends without a connection; `None` if nothing was learnt.
    pub fn effect(self) -> Option<BreakerEffect> {
        match self {
            HostsMet { answered: true, .. } => Some(BreakerEffect::Neutral),
            HostsMet { failed: true, .. } => Some(BreakerEffect::Failure),
            _ => None,
        }
    }
}
