//! What one search has seen, and what it makes of it. Refused logins are judged when the search is over, since only then
//! it is known whether the host or the credentials are to blame. A connection that will do but is not the best there may
//! be is kept meanwhile, so that nobody is dialled twice.

use std::sync::Arc;

use pgsteer_core::breaker::HostsMet;
use pgsteer_core::host::HostKey;
use pgsteer_core::hosts::{FailureKind, Fit, NoHost, Role, TargetSessionAttrs};
use pgsteer_core::verdict::{Evidence, HostEffect, Stage, connect_failure};

use super::Shared;
use super::race::Outcome;
use super::reservation::Reservation;
use super::search::{Opened, SearchError, Wanted};
use crate::dial::{DialError, Dialled, Purpose};
use crate::error::{ConnectFailed, HostTried, failure_in_words, role_in_words, shortened};

/// One search, as far as it has come.
pub(super) struct Pass {
    shared: Arc<Shared>,
    target: TargetSessionAttrs,
    /// Hosts that were dialled or are being dialled.
    begun: Vec<HostKey>,
    tried: Vec<HostTried>,
    /// Hosts that refused the login, not yet judged. Their reservations stay out meanwhile.
    refused_login: Vec<(Reservation, String)>,
    /// Whether somebody waits for a connection and searches again if this comes to nothing.
    goes_on: bool,
    /// What it comes to for the breaker.
    met: HostsMet,
    /// Some host said what it is, and that is not what is wanted.
    unfit: bool,
    /// Connections to such hosts, to look out from if nothing fits.
    lookouts: Vec<(HostKey, Dialled)>,
    /// Some host is there and takes no connections yet, or no more.
    not_ready: bool,
    /// The first connection that will do.
    spare: Option<Opened>,
}

impl Pass {
    pub(super) fn new(shared: Arc<Shared>, wanted: Wanted<'_>) -> Self {
        Pass {
            shared,
            target: wanted.target,
            goes_on: wanted.purpose == Purpose::Pool,
            lookouts: Vec::new(),
            begun: Vec::new(),
            tried: Vec::new(),
            refused_login: Vec::new(),
            met: HostsMet::default(),
            unfit: false,
            not_ready: false,
            spare: None,
        }
    }

    pub(super) fn met(&self) -> HostsMet {
        self.met
    }

    pub(super) fn begun(&self) -> &[HostKey] {
        &self.begun
    }

    pub(super) fn begins(&mut self, host: HostKey) {
        self.begun.push(host);
    }

    /// Whether a host has answered, though not with a connection that will do.
    pub(super) fn has_answer(&self) -> bool {
        self.unfit || self.not_ready
    }

    pub(super) fn has_spare(&self) -> bool {
        self.spare.is_some()
    }

    /// A dial has ended. The connection, if it is as good as any can be.
    pub(super) fn judge(&mut self, reservation: Reservation, outcome: Outcome) -> Option<Opened> {
        match outcome {
            Ok(Ok(dialled)) => self.logged_in(reservation, dialled),
            Ok(Err(error)) => {
                self.failed(reservation, &error);
                None
            }
            Err(_) => {
                self.panicked(reservation);
                None
            }
        }
    }

    fn logged_in(&mut self, reservation: Reservation, dialled: Dialled) -> Option<Opened> {
        // The login is good, so the hosts that refused it are themselves at fault.
        for (reservation, reason) in self.refused_login.drain(..) {
            reservation.failed(FailureKind::Rejected, &reason);
        }
        self.shared.heard(reservation.key(), &dialled);
        let role = dialled.role;
        match self.fit(reservation.key(), role) {
            Fit::Unfit => {
                match self.goes_on {
                    true => self.lookouts.push((reservation.key().clone(), dialled)),
                    false => dialled.close_in_background(),
                }
                if let Some(role) = role {
                    self.is_unfit(reservation, role);
                }
                None
            }
            Fit::Accepted if self.spare.is_some() => {
                dialled.close_in_background();
                if let Some(role) = role {
                    reservation.answered(role);
                }
                None
            }
            Fit::Accepted => {
                self.spare = Some(Opened::new(reservation, dialled));
                None
            }
            Fit::Wanted => {
                if let Some(spare) = self.spare.take() {
                    spare.close();
                }
                self.close_lookouts();
                Some(Opened::new(reservation, dialled))
            }
        }
    }

    /// What was not asked for suits everybody.
    fn fit(&self, key: &HostKey, role: Option<Role>) -> Fit {
        role.map_or(Fit::Wanted, |role| {
            self.shared
                .with_state(|state, _| state.fit(key, role, self.target))
        })
    }

    /// The host works and is not what is wanted.
    fn is_unfit(&mut self, reservation: Reservation, role: Role) {
        self.unfit = true;
        self.met.answered();
        self.tried.push(HostTried {
            host: reservation.key().clone(),
            state: role_in_words(role, self.target),
            reason: String::new(),
            code: None,
            role: Some(role),
            age: reservation.age(),
        });
        reservation.answered(role);
    }

    fn failed(&mut self, reservation: Reservation, error: &DialError) {
        let effect = error.host_effect();
        self.met.failed(effect);
        let reason = shortened(&error.to_string()).into_owned();
        self.tried.push(HostTried {
            host: reservation.key().clone(),
            state: self.state_in_words(effect),
            reason: reason.clone(),
            code: error.sqlstate().map(str::to_owned),
            role: role_of(effect),
            age: error.took(),
        });
        match effect {
            HostEffect::Failed(kind) => {
                self.not_ready |= matches!(kind, FailureKind::NotReady | FailureKind::Full);
                reservation.failed(kind, &reason);
            }
            HostEffect::Role(role) => {
                self.unfit = true;
                reservation.answered(role);
            }
            HostEffect::JudgeAtEndOfPass => self.refused_login.push((reservation, reason)),
            HostEffect::Suspect | HostEffect::RoleUnknown | HostEffect::Nothing => drop(reservation),
        }
    }

    /// The dial panicked. What it panicked with is not shown: it may hold anything.
    fn panicked(&mut self, reservation: Reservation) {
        let reason = "the resolver or dialler panicked";
        let effect = connect_failure(Stage::Connect, &Evidence::Panicked);
        self.met.failed(effect);
        self.tried.push(HostTried {
            host: reservation.key().clone(),
            state: self.state_in_words(effect),
            reason: reason.to_owned(),
            code: None,
            role: None,
            age: reservation.age(),
        });
        match effect {
            HostEffect::Failed(kind) => reservation.failed(kind, reason),
            _ => drop(reservation),
        }
    }

    /// Nothing is left to try. Reservations of refused logins lapse with the pass, which marks no host.
    pub(super) fn finish(&mut self, no_host: NoHost) -> Result<Opened, SearchError> {
        if let Some(spare) = self.spare.take() {
            self.close_lookouts();
            return Ok(spare);
        }
        for (key, dialled) in self.lookouts.drain(..) {
            self.shared.look_out(key, dialled);
        }
        if !self.refused_login.is_empty() {
            return Err(SearchError::Login(self.connect_failed()));
        }
        if self.unfit {
            self.nothing_fits();
            return Err(SearchError::NoFit(self.connect_failed()));
        }
        if self.not_ready || matches!(no_host, NoHost::NotReady(_)) {
            self.nothing_fits();
            return Err(SearchError::NotReady(self.connect_failed()));
        }
        Err(match no_host {
            NoHost::NoNode(refused) | NoHost::NotReady(refused) => SearchError::Refused(refused),
            NoHost::NoServer if self.tried.is_empty() => SearchError::NoServer,
            NoHost::NoServer => SearchError::Hosts(self.connect_failed()),
        })
    }

    /// Something fits, so nobody has to look out for what may.
    fn close_lookouts(&mut self) {
        for (_, dialled) in self.lookouts.drain(..) {
            dialled.close_in_background();
        }
    }

    /// Has the failed hosts looked at, one of which may be what is wanted, and tells of those that were left out.
    fn nothing_fits(&mut self) {
        let snapshot = self.shared.with_state(|state, now| {
            state.nothing_fits(now);
            state.snapshot(self.target, now)
        });
        let now = super::now();
        let left_out = snapshot
            .failures
            .iter()
            .filter(|(host, _)| !self.begun.contains(host))
            .map(|(host, failure)| HostTried::remembered(host, failure, now));
        self.tried.extend(left_out);
    }

    fn connect_failed(&mut self) -> Arc<ConnectFailed> {
        Arc::new(ConnectFailed {
            tried: std::mem::take(&mut self.tried),
            target: self.target,
        })
    }

    fn state_in_words(&self, effect: HostEffect) -> &'static str {
        match effect {
            HostEffect::Failed(kind) => failure_in_words(kind),
            HostEffect::Role(role) => role_in_words(role, self.target),
            HostEffect::JudgeAtEndOfPass => "refused the login",
            HostEffect::Suspect | HostEffect::RoleUnknown | HostEffect::Nothing => "failed",
        }
    }
}

fn role_of(effect: HostEffect) -> Option<Role> {
    match effect {
        HostEffect::Role(role) => Some(role),
        _ => None,
    }
}
