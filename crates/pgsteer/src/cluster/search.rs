//! One search for a connection: pick a host, dial it, move on, until one suits or none is left. What is made of each
//! host's answer is in `pass.rs`; how hosts are dialled side by side in `race.rs`.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use pgsteer_core::breaker::Permit;
use pgsteer_core::host::HostKey;
use pgsteer_core::hosts::{HostOrder, LoadBalance, NoHost, Refused, Search, TargetSessionAttrs};
use tokio::time::Instant;

use super::Shared;
use super::breaker::{self, LastError};
use super::pass::Pass;
use super::race::{Attempt, Race};
use super::reservation::{Counted, Reservation};
use crate::dial::{Ask, DialError, Dialled, Purpose};
use crate::error::{ConnectFailed, Error};
use crate::world::Endpoint;

/// A connection that has just been opened, and its place in the cluster's counts.
pub(crate) struct Opened {
    pub(crate) key: HostKey,
    pub(crate) dialled: Dialled,
    pub(crate) counted: Counted,
}

impl Opened {
    pub(super) fn new(reservation: Reservation, dialled: Dialled) -> Self {
        Opened {
            key: reservation.key().clone(),
            counted: reservation.opened(dialled.role),
            dialled,
        }
    }

    /// Closes it in the background. It counts until its socket is gone.
    pub(super) fn close(self) {
        drop(self.dialled.run_detached(self.counted, |_| ()));
    }
}

/// What a connection is wanted for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// Which servers will do.
    pub(crate) target: TargetSessionAttrs,
    /// Hosts to leave out while others are on offer.
    pub(crate) avoid: &'a [HostKey],
    pub(crate) purpose: Purpose,
}

/// Why a search ended without a connection.
#[derive(Clone, Debug)]
pub(crate) enum SearchError {
    /// Hosts were tried, each failed for itself.
    Hosts(Arc<ConnectFailed>),
    /// Every host that took the question refused the login: the credentials are wrong, not a host.
    Login(Arc<ConnectFailed>),
    /// Some host answered, and none is what is wanted.
    NoFit(Arc<ConnectFailed>),
    /// Some host is there and takes no connections yet, or no more, and no other will do.
    NotReady(Arc<ConnectFailed>),
    /// The load-balance mode allows no host that works.
    Refused(Refused),
    /// There was no host to try.
    NoServer,
    /// The cluster's breaker is open: nothing was dialled.
    CircuitOpen {
        retry_after: Duration,
        last_error: LastError,
    },
    /// The cluster has been stopped.
    Stopped,
}

impl From<SearchError> for Error {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Hosts(failed) | SearchError::NotReady(failed) => Error::Connect(failed),
            SearchError::Login(failed) => Error::Login(failed),
            SearchError::NoFit(failed) => Error::NoFit(failed),
            SearchError::Refused(refused) => Error::NoNode(refused),
            SearchError::NoServer => Error::NoServer,
            SearchError::CircuitOpen {
                retry_after,
                last_error,
            } => Error::CircuitOpen {
                retry_after,
                last_error,
            },
            SearchError::Stopped => Error::Closed,
        }
    }
}

impl Shared {
    /// Opens one connection, trying each suitable host once, if the breaker lets anybody dial. Dropping the future closes
    /// what it has under way and marks nothing.
    pub(crate) async fn open(self: &Arc<Self>, wanted: Wanted<'_>) -> Result<Opened, SearchError> {
        self.wait_ready().await?;
        // Held over the whole pass, so that one that is given up, or panics, gives it back.
        let permit = self.admit()?;
        let mut pass = Pass::new(self.clone(), wanted);
        let result = self.go_over_hosts(wanted, &mut pass, permit.as_ref()).await;
        if let Some(permit) = permit {
            breaker::settle(permit, pass.met(), &result);
        }
        result
    }

    async fn go_over_hosts(
        self: &Arc<Self>,
        wanted: Wanted<'_>,
        pass: &mut Pass,
        permit: Option<&Permit<'_, LastError>>,
    ) -> Result<Opened, SearchError> {
        let mut race = Race::new(self.race_delay());
        loop {
            if race.has_room() {
                let search = Search {
                    target: wanted.target,
                    tried: pass.begun(),
                    avoid: wanted.avoid,
                    answered: pass.has_answer(),
                    spare: pass.has_spare(),
                };
                let draw = self.draw();
                match self.with_state(|state, now| state.pick(&search, draw, now)) {
                    Ok(key) if pass.has_answer() && self.leaves_to_probes(&key, wanted) => {
                        drop(Reservation::new(self.clone(), key));
                        if race.is_empty() {
                            return pass.finish(NoHost::NoServer);
                        }
                        race.is_full();
                    }
                    Ok(key) => {
                        pass.begins(key.clone());
                        // Its lease is as long as one host may take; how many there are may not be known beforehand.
                        permit.inspect(|permit| permit.renew());
                        race.add(self.attempt(key, wanted));
                    }
                    Err(no_host) if race.is_empty() => return pass.finish(no_host),
                    Err(_) => race.is_full(),
                }
            }
            let next = tokio::select! {
                biased;
                () = self.wait_stopped() => return Err(SearchError::Stopped),
                next = race.next() => next,
            };
            if let Some((reservation, outcome)) = next {
                if let Some(opened) = pass.judge(reservation, outcome) {
                    for (key, dial) in race.close() {
                        self.see_out(key, dial);
                    }
                    return Ok(opened);
                }
            }
        }
    }

    /// Whether the host, which comes last because it has failed, is not worth a wait: a pool searches again in a moment,
    /// and failed hosts are probed beside that, so that one that swallows packets holds up no round.
    fn leaves_to_probes(&self, key: &HostKey, wanted: Wanted<'_>) -> bool {
        wanted.purpose == Purpose::Pool && self.snapshot(wanted.target).failures.contains_key(key)
    }

    fn attempt(self: &Arc<Self>, key: HostKey, wanted: Wanted<'_>) -> Attempt {
        let shared = self.clone();
        let reservation = Reservation::new(self.clone(), key.clone());
        let purpose = wanted.purpose;
        let ask = Ask {
            role: wanted.target.asks(),
            timeline: false,
            target: wanted.target,
        };
        let dial = async move { shared.dialler.dial(&key, purpose, ask).await };
        // A resolver or dialler given by the application may panic: that is this host's failure, not the search's.
        Attempt::new(reservation, Box::pin(AssertUnwindSafe(dial).catch_unwind()))
    }

    /// Opens a connection at one address of a host, for a question and not for work: it counts for nothing, marks nothing,
    /// and no breaker keeps it from being tried. Dropping the future closes it.
    pub(crate) async fn dial_at(
        &self,
        host: &HostKey,
        endpoint: &Endpoint,
        deadline: Instant,
    ) -> Result<Dialled, DialError> {
        let dial = AssertUnwindSafe(self.dialler.dial_at(host, endpoint, deadline));
        match dial.catch_unwind().await {
            Ok(dialled) => dialled,
            Err(_) => Err(DialError::panicked()),
        }
    }

    /// Hosts are dialled side by side only where their order says which of two that work is wanted.
    fn race_delay(&self) -> Option<Duration> {
        let settings = &self.settings;
        let ordered =
            settings.load_balance == LoadBalance::Off && settings.load_balance_hosts == HostOrder::Listed;
        settings.connect_race_delay.filter(|_| ordered)
    }
}
