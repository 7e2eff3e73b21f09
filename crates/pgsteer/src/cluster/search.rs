//! One search for a connection: pick a host, dial it, move on, until one works or none is left. Refused logins are
//! judged when the pass is over, since only then it is known whether the host or the credentials are to blame.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use pgsteer_core::host::HostKey;
use pgsteer_core::hosts::{FailureKind, Fit, NoHost, Refused, Role, Search, TargetSessionAttrs};
use pgsteer_core::verdict::{Evidence, HostEffect, Stage, connect_failure};

use super::Shared;
use super::reservation::{Counted, Reservation};
use crate::dial::{Ask, DialError, Dialled, Purpose};
use crate::error::{ConnectFailed, Error, HostTried, failure_in_words, shortened};

/// A connection that has just been opened, and its place in the cluster's counts.
pub(crate) struct Opened {
    pub(crate) key: HostKey,
    pub(crate) dialled: Dialled,
    pub(crate) counted: Counted,
}

/// Why a search ended without a connection.
#[derive(Debug)]
pub(crate) enum SearchError {
    /// Hosts were tried, each failed for itself.
    Hosts(ConnectFailed),
    /// Every host that took the question refused the login: the credentials are wrong, not a host.
    Login(ConnectFailed),
    /// The load-balance mode allows no host that works.
    Refused(Refused),
    /// There was no host to try.
    NoServer,
    /// The cluster has been stopped.
    Stopped,
}

impl From<SearchError> for Error {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Hosts(failed) => Error::Connect(Arc::new(failed)),
            SearchError::Login(failed) => Error::Login(Arc::new(failed)),
            SearchError::Refused(refused) => Error::NoNode(refused),
            SearchError::NoServer => Error::NoServer,
            SearchError::Stopped => Error::Closed,
        }
    }
}

impl Shared {
    /// Opens one connection, trying each suitable host once. `avoid` names hosts to leave out while others are on
    /// offer. Dropping the future closes the attempt and marks nothing.
    pub(crate) async fn open(
        self: &Arc<Self>,
        target: TargetSessionAttrs,
        avoid: &[HostKey],
        purpose: Purpose,
    ) -> Result<Opened, SearchError> {
        self.wait_ready().await?;
        let mut pass = Pass::default();
        let ask = Ask {
            role: target.asks(),
            timeline: false,
        };
        loop {
            let draw = self.draw();
            let search = Search {
                target,
                tried: &pass.dialled,
                avoid,
                ..Search::default()
            };
            let picked = self.with_state(|state, now| state.pick(&search, draw, now));
            let key = match picked {
                Ok(key) => key,
                Err(no_host) => return Err(pass.failed(no_host)),
            };
            let reservation = Reservation::new(self.clone(), key.clone());
            let dialled = tokio::select! {
                biased;
                () = self.wait_stopped() => return Err(SearchError::Stopped),
                // A resolver or dialler given by the application may panic: that is this host's failure, not the search's.
                dialled = AssertUnwindSafe(self.dialler.dial(&key, purpose, ask)).catch_unwind() => dialled,
            };
            match dialled {
                Ok(Ok(dialled)) => {
                    if let Some(role) = dialled.role.filter(|role| target.fit(*role) == Fit::Unfit) {
                        dialled.close_in_background();
                        pass.unfit(reservation, role);
                        continue;
                    }
                    let counted = reservation.opened(dialled.role);
                    pass.accepted();
                    return Ok(Opened {
                        key,
                        dialled,
                        counted,
                    });
                }
                Ok(Err(error)) => pass.went_wrong(reservation, &error),
                Err(_) => pass.panicked(reservation),
            }
        }
    }
}

/// What one search has seen so far.
#[derive(Default)]
struct Pass {
    dialled: Vec<HostKey>,
    tried: Vec<HostTried>,
    /// Hosts that refused the login, not yet judged. Their reservations stay out meanwhile.
    refused_login: Vec<(Reservation, String)>,
}

impl Pass {
    fn went_wrong(&mut self, reservation: Reservation, error: &DialError) {
        let effect = error.host_effect();
        self.dialled.push(reservation.key().clone());
        self.tried.push(HostTried {
            host: reservation.key().clone(),
            state: state_text(effect),
            reason: shortened(&error.to_string()).into_owned(),
            code: error.sqlstate().map(str::to_owned),
            age: error.took(),
        });
        match effect {
            HostEffect::Failed(kind) => reservation.failed(kind, &shortened(&error.to_string())),
            HostEffect::JudgeAtEndOfPass => self
                .refused_login
                .push((reservation, shortened(&error.to_string()).into_owned())),
            HostEffect::Role(role) => reservation.answered(role),
            HostEffect::Suspect | HostEffect::RoleUnknown | HostEffect::Nothing => drop(reservation),
        }
    }

    /// The host works and is not what is wanted.
    fn unfit(&mut self, reservation: Reservation, role: Role) {
        let reason = format!("the server is a {role}");
        self.dialled.push(reservation.key().clone());
        self.tried.push(HostTried {
            host: reservation.key().clone(),
            state: "does not fit",
            reason,
            code: None,
            age: Duration::ZERO,
        });
        reservation.answered(role);
    }

    /// The dial panicked. What it panicked with is not shown: it may hold anything.
    fn panicked(&mut self, reservation: Reservation) {
        let reason = "the resolver or dialler panicked";
        let effect = connect_failure(Stage::Connect, &Evidence::Panicked);
        self.dialled.push(reservation.key().clone());
        self.tried.push(HostTried {
            host: reservation.key().clone(),
            state: state_text(effect),
            reason: reason.to_owned(),
            code: None,
            age: Duration::ZERO,
        });
        match effect {
            HostEffect::Failed(kind) => reservation.failed(kind, reason),
            _ => drop(reservation),
        }
    }

    /// Another host took the same login, so those that refused it are themselves at fault.
    fn accepted(&mut self) {
        for (reservation, reason) in self.refused_login.drain(..) {
            reservation.failed(FailureKind::Rejected, &reason);
        }
    }

    /// Nothing is left to try. Reservations of refused logins lapse here, which marks no host.
    fn failed(self, no_host: NoHost) -> SearchError {
        if !self.refused_login.is_empty() {
            return SearchError::Login(ConnectFailed { tried: self.tried });
        }
        match no_host {
            NoHost::NoNode(refused) | NoHost::NotReady(refused) => SearchError::Refused(refused),
            NoHost::NoServer if self.tried.is_empty() => SearchError::NoServer,
            NoHost::NoServer => SearchError::Hosts(ConnectFailed { tried: self.tried }),
        }
    }
}

fn state_text(effect: HostEffect) -> &'static str {
    match effect {
        HostEffect::Failed(kind) => failure_in_words(kind),
        HostEffect::Role(_) => "does not fit",
        HostEffect::JudgeAtEndOfPass => "refused the login",
        HostEffect::Suspect | HostEffect::RoleUnknown | HostEffect::Nothing => "failed",
    }
}
