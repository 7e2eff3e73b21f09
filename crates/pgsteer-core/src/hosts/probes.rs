//! Probes: connects that only find out how a host is. Of failed hosts, to see whether they are back, and of working ones
//! whose role is to be known.
//!
//! Most start with a refresh. A host that is starting up or full has a schedule of its own besides, since it is there and
//! will soon take connections.

use std::time::{Duration, Instant};

use super::failures::{after, has_own_schedule};
use super::roles::Standing;
use super::{Action, ClusterState, FailureKind, Role, TargetSessionAttrs};
use crate::host::HostKey;
use crate::verdict::HostEffect;

/// The least time between two questions to a host whose role was doubted.
const DOUBT_GAP: Duration = Duration::from_secs(1);

/// How long a search that goes on may take to meet the other hosts, before they are asked beside it.
const STRANGER_REST: Duration = Duration::from_secs(1);

/// A probe that is running.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub(super) id: u64,
    /// It began before the host's delay was over, so that its failure is not one more in the row.
    pub(super) early: bool,
    /// It is to bring the timeline, which no ordinary connection does.
    pub(super) asks_timeline: bool,
    /// It was made because something had thrown doubt on the host.
    pub(super) answers_doubt: bool,
}

/// What a probed host said. `None` where it was not asked, or has nothing to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// What it is.
    pub role: Option<Role>,
    /// The timeline it writes on.
    pub timeline: Option<u32>,
}

impl ClusterState {
    /// A probe has ended, run out of time or died: with the host's answer, or with what it says of the host and why.
    /// Ignored if it had been stopped.
    pub fn probe_finished(
        &mut self,
        key: &HostKey,
        id: u64,
        result: Result<Answer, (HostEffect, String)>,
        now: Instant,
    ) {
        let running = self.table.place(key).and_then(|place| {
            let probe = self.table.host(place).probe.filter(|probe| probe.id == id)?;
            Some((place, probe))
        });
        let Some((place, probe)) = running else {
            return;
        };
        self.table.host_mut(place).probe = None;
        self.looked_at(place, result, probe.early, now);
    }

    /// A dial that went on after its search was over, because its host had kept silent while a later one answered, has ended
    /// after all. It is as good as a probe; nobody has a reservation for it.
    pub fn straggler_ended(
        &mut self,
        key: &HostKey,
        result: Result<Answer, (HostEffect, String)>,
        now: Instant,
    ) {
        if let Some(place) = self.table.place(key) {
            self.looked_at(place, result, false, now);
        }
    }

    /// `again`: a failure is no further one in the row.
    fn looked_at(
        &mut self,
        place: usize,
        result: Result<Answer, (HostEffect, String)>,
        again: bool,
        now: Instant,
    ) {
        match result {
            Ok(answer) => self.works(place, answer.role, answer.timeline, false, now),
            Err((HostEffect::Role(role), _)) => self.works(place, Some(role), None, true, now),
            Err((effect, reason)) => {
                // a login that is refused, or could not be made, says nothing against a host that works
                let kind = match effect {
                    HostEffect::Failed(kind) => Some(kind),
                    _ if self.table.host(place).works() => None,
                    _ => Some(FailureKind::Rejected),
                };
                if let Some(kind) = kind {
                    self.mark_failed(place, kind, &reason, again, now);
                }
            }
        }
        self.ask_rival_primaries(now);
        self.tell_of_split_brain();
        self.find_probe_timer();
    }

    /// A search ended because no host that answered suits, or none is ready: failed hosts are probed now, whether their
    /// delay is over or not, since one of them may be what is looked for. None is probed twice at once.
    pub fn nothing_fits(&mut self, now: Instant) {
        self.probe_where(now, |cluster, place| !cluster.table.host(place).works());
    }

    /// Probes what a refresh probes: failed hosts whose delay is over, and hosts whose role is to be known.
    pub(super) fn probe_due_hosts(&mut self, now: Instant) {
        self.probe_where(now, |cluster, place| match &cluster.table.host(place).failure {
            Some(failure) => failure.next_probe <= now,
            None => cluster.role_is_due(place, now),
        });
        let rivals = self.rival_primaries();
        for place in &rivals {
            if let Some(known) = &mut self.table.host_mut(*place).role {
                known.timeline_asked = false;
            }
        }
        self.ask_rival_primaries(now);
    }

    /// Probes the hosts that are due by their own schedule.
    pub(super) fn on_probe_timer(&mut self, now: Instant) {
        if self.probe_timer.is_some_and(|due| due <= now) {
            self.probe_where(now, |cluster, place| {
                cluster.own_schedule(place).is_some_and(|due| due <= now)
            });
        }
    }

    /// The host is to be asked for its role, now unless that was less than a second ago.
    pub(super) fn ask_soon(&mut self, place: usize, now: Instant) {
        let host = self.table.host_mut(place);
        let earliest = host.asked_at.map(|asked| after(asked, DOUBT_GAP));
        let due = earliest.map_or(now, |earliest| earliest.max(now));
        host.ask_at = Some(due);
        if due <= now && host.probe.is_none() && host.is_listed() {
            self.start_probe(place, now);
        }
        self.find_probe_timer();
    }

    pub(super) fn stop_probe(&mut self, place: usize) {
        let host = self.table.host_mut(place);
        if let Some(probe) = host.probe.take() {
            self.actions.push(Action::StopProbe {
                key: host.key.clone(),
                id: probe.id,
            });
        }
    }

    /// When the next host is due by its own schedule.
    pub(super) fn find_probe_timer(&mut self) {
        let due = (0..self.table.len()).filter_map(|place| self.own_schedule(place));
        self.probe_timer = due.min();
    }

    fn own_schedule(&self, place: usize) -> Option<Instant> {
        let host = self.table.host(place);
        if host.probe.is_some() || !host.is_listed() {
            return None;
        }
        let recovers = host
            .failure
            .as_ref()
            .filter(|failure| has_own_schedule(failure.kind));
        let recovers = recovers.map(|failure| failure.next_probe);
        recovers.into_iter().chain(host.ask_at).min()
    }

    /// Whether a refresh is to ask a working host what it is. In a discovered cluster, which may be large, only those are
    /// asked that were found to be no use to somebody: the others say so when they are connected to. One that was doubted
    /// has its own time.
    fn role_is_due(&self, place: usize, now: Instant) -> bool {
        let host = self.table.host(place);
        let concerns = || !self.discovered || self.is_passed_over(place);
        // one that takes no sessions is of use to nobody, whatever they want
        let is_cold = host
            .role
            .is_some_and(|known| known.seen.role == Role::ColdStandby);
        let matters = is_cold || (self.watches_roles && concerns());
        matters && host.ask_at.is_none() && !self.is_fresh(place, now)
    }

    /// Whether some target that was searched for passes the host over.
    fn is_passed_over(&self, place: usize) -> bool {
        TargetSessionAttrs::ALL.iter().any(|target| {
            let standing = self.standing(place, *target);
            self.searched_for[*target as usize] && matches!(standing, Standing::Accepted | Standing::Unfit)
        })
    }

    /// A primary has been found. Hosts that nobody has met yet are asked what they are in a moment, since one of them may be
    /// the primary that outranks it: searches, which have what they want, would not go there before the next refresh.
    pub(super) fn meet_strangers_soon(&mut self, now: Instant) {
        let is_there_any = (0..self.table.len()).any(|place| self.is_stranger(place));
        if is_there_any && self.strangers_at.is_none() {
            self.strangers_at = Some(after(now, STRANGER_REST));
        }
    }

    /// Asks those that are strangers still, if it is time.
    pub(super) fn meet_strangers(&mut self, now: Instant) {
        if self.strangers_at.is_some_and(|due| due <= now) {
            self.strangers_at = None;
            self.probe_where(now, Self::is_stranger);
        }
    }

    /// Whether nobody knows of a configured host what it is, though that matters.
    fn is_stranger(&self, place: usize) -> bool {
        let host = self.table.host(place);
        let matters = self.watches_roles && !self.discovered;
        matters && host.is_seed && host.works() && host.role.is_none() && !host.is_mixed
    }

    /// Asks the primaries for their timelines, each once until the next refresh, if there are several.
    pub(super) fn ask_rival_primaries(&mut self, now: Instant) {
        for place in self.rival_primaries() {
            let host = self.table.host(place);
            let asked = host.role.is_none_or(|known| known.timeline_asked);
            match host.probe {
                Some(probe) if !probe.asks_timeline && !asked => self.stop_probe(place),
                _ => {}
            }
            if !asked && self.table.host(place).probe.is_none() {
                self.start_probe(place, now);
            }
        }
        self.find_probe_timer();
    }

    fn probe_where(&mut self, now: Instant, due: impl Fn(&Self, usize) -> bool) {
        for place in 0..self.table.len() {
            let host = self.table.host(place);
            if host.probe.is_none() && host.is_listed() && due(self, place) {
                self.start_probe(place, now);
            }
        }
        self.find_probe_timer();
    }

    fn start_probe(&mut self, place: usize, now: Instant) {
        let is_rival = self.rival_primaries().contains(&place);
        self.last_probe_id += 1;
        let host = self.table.host_mut(place);
        let doubted = host.ask_at.take().is_some();
        let probe = Probe {
            id: self.last_probe_id,
            early: host
                .failure
                .as_ref()
                .is_some_and(|failure| failure.next_probe > now),
            asks_timeline: is_rival,
            answers_doubt: doubted,
        };
        host.probe = Some(probe);
        if doubted {
            host.asked_at = Some(now);
        }
        if let Some(known) = host.role.as_mut().filter(|_| is_rival) {
            known.timeline_asked = true;
        }
        self.actions.push(Action::StartProbe {
            key: host.key.clone(),
            id: probe.id,
            limit: self.options.connect_timeout.saturating_mul(2),
            ask_role: self.watches_roles || doubted,
            ask_timeline: is_rival,
        });
    }
}
