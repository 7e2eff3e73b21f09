//! What the servers are known to be, and what that makes of them for a target.
//!
//! What is known only orders hosts. For the order it does not matter how old it is, with one exception: a host that is
//! known freshly to be of no better use than what there is already is not asked again. Were fresh knowledge preferred
//! to older knowledge, the host that happened to be asked last would draw every connection, and each end of a time to
//! live would move connections about.

use std::time::{Duration, Instant};

use super::{Action, ClusterState, Fit, LogEvent, Role, TargetSessionAttrs};
use crate::host::HostKey;

/// What a host last answered of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleSeen {
    /// What it is.
    pub role: Role,
    /// When it said so.
    pub at: Instant,
    /// The timeline it writes on, where it was asked and has one.
    pub timeline: Option<u32>,
}

/// What is kept of a host's answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) seen: RoleSeen,
    /// Nothing has happened since that would make it doubtful.
    pub(super) believed: bool,
    /// The timeline has been asked for since the role was last looked at by a refresh.
    pub(super) timeline_asked: bool,
}

impl Known {
    /// Whether it need not be asked again yet.
    pub(super) fn is_fresh(&self, ttl: Duration, now: Instant) -> bool {
        self.believed && now.saturating_duration_since(self.seen.at) < ttl
    }
}

/// How good a host is for a target, by what is known of its role. The better comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    Wanted,
    Unknown,
    Accepted,
    Unfit,
}

impl ClusterState {
    /// Whether the roles of the configured hosts matter to anybody, that is, whether some target asks for them. While
    /// they do, refreshes ask the hosts whose role is not fresh, by probes. Off in a new cluster.
    pub fn watch_roles(&mut self, on: bool) {
        self.watches_roles = on;
    }

    /// How well the host suits the target if it has just answered with this role. Not the role alone decides: of two
    /// primaries of a split brain the outranked one is no place to write to.
    pub fn fit(&self, key: &HostKey, role: Role, target: TargetSessionAttrs) -> Fit {
        let timeline = self
            .table
            .place(key)
            .and_then(|place| self.table.host(place).role)
            .filter(|known| known.seen.role == role)
            .and_then(|known| known.seen.timeline);
        self.fit_of(role, timeline, target)
    }

    /// A host said what it is on a connection that nobody searched for.
    pub fn role_seen(&mut self, key: &HostKey, role: Role, now: Instant) {
        let Some(place) = self.table.place(key) else {
            return;
        };
        match self.table.host(place).is_mixed {
            true => self.answered_and_has_no_role(place),
            false => self.learn(place, role, None, false, now),
        }
    }

    /// The server ended a connection to the host: what it was may not be what it is. It is not left out for that.
    pub fn suspect(&mut self, key: &HostKey) {
        if let Some(place) = self.table.place(key) {
            self.doubt(place);
        }
    }

    /// A host that was taken for a primary would not write. Its role is unknown now and it is asked, at most once a
    /// second; a refresh follows unless the last one is younger than that.
    pub fn role_doubted(&mut self, key: &HostKey, now: Instant) {
        let Some(place) = self.table.place(key) else {
            return;
        };
        self.forget_role(place);
        self.ask_soon(place, now);
        self.refresh_early(now);
    }

    /// A host has said what it is. `is_news`: people are told even if nothing was known before.
    pub(super) fn learn(
        &mut self,
        place: usize,
        role: Role,
        timeline: Option<u32>,
        is_news: bool,
        now: Instant,
    ) {
        let host = self.table.host_mut(place);
        let before = host.role.filter(|known| known.seen.role == role);
        let from = host.role.map(|known| known.seen.role);
        let seen = RoleSeen {
            role,
            at: now,
            timeline: timeline.or(before.and_then(|known| known.seen.timeline)),
        };
        host.role = Some(Known {
            seen,
            believed: true,
            timeline_asked: before.is_some_and(|known| known.timeline_asked),
        });
        if host.ask_at.take().is_some() {
            self.find_probe_timer();
        }
        let is_same = before.is_some_and(|known| known.seen.timeline == seen.timeline);
        if is_same {
            return;
        }
        self.standings_changed();
        if from == Some(role) {
            return;
        }
        let line = LogEvent::RoleChanged {
            host: self.table.host(place).key.clone(),
            from,
            to: role,
        };
        if from.is_some() || is_news {
            self.log([line]);
        }
        if from.is_some() && self.watches_roles {
            self.refresh_early(now);
        }
        if role.is_primary() {
            self.meet_strangers_soon(now);
            self.ask_rival_primaries(now);
        }
    }

    /// A host has said what it is, which holds for one of its addresses only.
    pub(super) fn answered_and_has_no_role(&mut self, place: usize) {
        self.forget_role(place);
        if self.table.host_mut(place).ask_at.take().is_some() {
            self.find_probe_timer();
        }
    }

    /// The host gave a session without being asked what it is.
    pub(super) fn takes_sessions(&mut self, place: usize) {
        let known = self.table.host(place).role;
        if known.is_some_and(|known| known.seen.role == Role::ColdStandby) {
            self.forget_role(place);
        }
    }

    /// What is known of the host's role is no longer fresh.
    pub(super) fn doubt(&mut self, place: usize) {
        if let Some(known) = &mut self.table.host_mut(place).role {
            known.believed = false;
        }
    }

    pub(super) fn forget_role(&mut self, place: usize) {
        if self.table.host_mut(place).role.take().is_some() {
            self.standings_changed();
        }
    }

    /// How good the host is for the target.
    pub(super) fn standing(&self, place: usize, target: TargetSessionAttrs) -> Standing {
        let Some(known) = &self.table.host(place).role else {
            // who asks for nothing has nothing to find out
            return match target.asks() {
                true => Standing::Unknown,
                false => Standing::Wanted,
            };
        };
        match self.fit_of(known.seen.role, known.seen.timeline, target) {
            Fit::Wanted => Standing::Wanted,
            Fit::Accepted => Standing::Accepted,
            Fit::Unfit => Standing::Unfit,
        }
    }

    pub(super) fn is_fresh(&self, place: usize, now: Instant) -> bool {
        let known = self.table.host(place).role;
        known.is_some_and(|known| known.is_fresh(self.options.role_ttl, now))
    }

    fn fit_of(&self, role: Role, timeline: Option<u32>, target: TargetSessionAttrs) -> Fit {
        let fit = target.fit(role);
        if !role.is_primary() || !self.is_outranked(timeline) {
            return fit;
        }
        match target {
            TargetSessionAttrs::ReadWrite | TargetSessionAttrs::Primary => Fit::Unfit,
            TargetSessionAttrs::PreferPrimary => Fit::Accepted,
            _ => fit,
        }
    }

    /// Something that pools look at is different now.
    pub(super) fn changed(&mut self) {
        if !self.actions.contains(&Action::Changed) {
            self.actions.push(Action::Changed);
        }
    }

    /// What the hosts are, and so what they are good for, is different now.
    fn standings_changed(&mut self) {
        self.find_highest_timeline();
        self.outdate_candidates();
        self.changed();
    }
}
