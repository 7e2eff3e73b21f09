//! Opening connections: one host, one deadline over its name, its sockets, the login and the session's setup.
//!
//! It relies on the seams of [`World`](crate::world::World) for resolving and for sockets, and on tokio-postgres for
//! the protocol. It never decides what a failure means for a host, never tries a second host, and starts no task that
//! outlives what it is told to close.

mod cancel;
mod control;
mod dialled;
mod discovery;
mod driver;
mod ending;
mod endpoint;
mod error;
mod limit;
mod pulse;
mod session_setup;
mod stall;
mod tap;
#[cfg(test)]
mod tests;
mod tls;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use pgsteer_core::host::HostKey;
use pgsteer_core::hosts::Fit;
use pgsteer_core::verdict::{HostEffect, Stage};
use tokio::time::{Instant, timeout_at};

pub(crate) use cancel::Canceller;
pub(crate) use control::{Handle, Owner};
pub(crate) use dialled::Dialled;
pub(crate) use discovery::Discovered;
pub(crate) use driver::Driver;
pub(crate) use ending::EndReason;
pub(crate) use error::DialError;
pub(crate) use pulse::Pulse;
pub(crate) use session_setup::Ask;
pub(crate) use tap::{Severity, TransactionStatus, Wire};

use crate::config::{ConfigError, Settings};
use crate::world::{Endpoint, SocketOptions, World};
use cancel::Route;
use error::{Failure, Observed};
use limit::Limit;
use session_setup::set_up;
use tap::Tap;
use tls::{Demand, Established, Tls};

/// What a connection is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To live in a pool.
    Pool,
    /// To be handed out by a cluster, without a pool.
    Cluster,
    /// To ask for the cluster's servers. Any server will do, whatever its role.
    Discovery,
    /// To see whether a failed host works again.
    Probe,
}

/// Dials hosts as the settings say.
#[derive(Clone)]
pub(crate) struct Dialler {
    settings: Arc<Settings>,
    world: World,
    socket: SocketOptions,
    tls: Arc<Tls>,
}

impl Dialler {
    /// A dialler for these settings in this world. Reads the files of TLS that the settings name.
    ///
    /// # Errors
    ///
    /// A certificate or key that cannot be used.
    pub(crate) fn new(settings: Arc<Settings>, world: World) -> Result<Self, ConfigError> {
        let socket = SocketOptions {
            keepalives: settings.keepalives,
            tcp_user_timeout: settings.tcp_user_timeout,
        };
        let tls = Arc::new(Tls::new(&settings.tls)?);
        Ok(Dialler {
            settings,
            world,
            socket,
            tls,
        })
    }

    /// Opens a connection to the host. `connect_timeout` bounds everything: asking for the password, resolving,
    /// connecting, TLS, the login, and the session's setup and check.
    ///
    /// All addresses of a name are tried in order until one works; each but the last gets its even share of the time
    /// that is left. A refused login ends the attempt, since asking again would only bring a lock-out nearer.
    ///
    /// Behind one name there may be several servers. One that is not what is wanted is passed over for the next address;
    /// if none suits, the connection is to the best there is, and whoever asked sees from its role that it will not do.
    ///
    /// Cancel safe: dropping the future closes everything at once.
    ///
    /// # Errors
    ///
    /// What the address that came furthest failed with.
    pub(crate) async fn dial(
        &self,
        host: &HostKey,
        purpose: Purpose,
        ask: Ask,
    ) -> Result<Dialled, DialError> {
        let started = Instant::now();
        tracing::trace!(target: "pgsteer::dial", %host, ?purpose, "dialling");
        self.attempt(host, ask, started + self.settings.connect_timeout)
            .await
            .map_err(|failure| DialError::new(failure, started.elapsed()))
    }

    /// As [`dial`](Self::dial), at this one address of the host and without asking what the server is. No name is
    /// resolved, and it ends at `deadline` at the latest.
    pub(crate) async fn dial_at(
        &self,
        host: &HostKey,
        endpoint: &Endpoint,
        deadline: Instant,
    ) -> Result<Dialled, DialError> {
        let started = Instant::now();
        let deadline = deadline.min(started + self.settings.connect_timeout);
        let login = async {
            let password = self.password_by(deadline).await?;
            let limit = Limit::until(deadline, endpoint);
            self.login(host, password.as_deref(), Ask::default(), &limit)
                .await
        };
        login
            .await
            .map_err(|failure| DialError::new(failure, started.elapsed()))
    }

    async fn attempt(&self, host: &HostKey, ask: Ask, deadline: Instant) -> Result<Dialled, Failure> {
        let password = self.password_by(deadline).await?;
        let endpoints = match timeout_at(deadline, endpoint::endpoints(&self.world, host)).await {
            Ok(endpoints) => endpoints?,
            Err(_) => {
                let text = format!("the name did not resolve {}", self.in_time());
                return Err(Failure::new(Stage::Resolve, Observed::Deadline, text));
            }
        };
        let mut best: Option<(Fit, Dialled)> = None;
        let mut furthest: Option<Failure> = None;
        let mut left = u32::try_from(endpoints.len()).unwrap_or(u32::MAX);
        for endpoint in endpoints {
            let now = Instant::now();
            let share = now + deadline.saturating_duration_since(now) / left.max(1);
            left = left.saturating_sub(1);
            let limit = Limit::until(share, &endpoint);
            let failure = match self.login(host, password.as_deref(), ask, &limit).await {
                Ok(dialled) => {
                    let fit = dialled.role.map_or(Fit::Wanted, |role| ask.target.fit(role));
                    best = Some(better(best, (fit, dialled)));
                    match best.take_if(|(fit, _)| *fit == Fit::Wanted) {
                        Some((_, wanted)) => return Ok(wanted),
                        None => continue,
                    }
                }
                Err(failure) => failure,
            };
            if failure.host_effect() == HostEffect::JudgeAtEndOfPass {
                furthest = Some(failure);
                break;
            }
            if furthest
                .as_ref()
                .is_none_or(|before| reach(before.stage) <= reach(failure.stage))
            {
                furthest = Some(failure);
            }
        }
        if let Some((_, dialled)) = best {
            return Ok(dialled);
        }
        Err(furthest
            .unwrap_or_else(|| Failure::new(Stage::Resolve, Observed::NoSuchName, "the name has no address")))
    }

    /// Connects to one address and logs in there, with TLS or without as the settings and the server want.
    async fn login(
        &self,
        host: &HostKey,
        password: Option<&[u8]>,
        ask: Ask,
        limit: &Limit<'_>,
    ) -> Result<Dialled, Failure> {
        let demand = self.tls.first_demand(limit.endpoint);
        let refused = match self.log_in(host, password, ask, demand, limit).await {
            Ok(dialled) => return Ok(dialled),
            Err(refused) => refused,
        };
        match self.tls.second_demand(limit.endpoint, &refused) {
            None => Err(refused),
            Some(demand) => match self.log_in(host, password, ask, demand, limit).await {
                // No TLS there either: the first refusal is the one that tells something.
                Err(Failure {
                    observed: Observed::TlsNotOffered,
                    ..
                }) => Err(refused),
                second => second,
            },
        }
    }

    async fn log_in(
        &self,
        host: &HostKey,
        password: Option<&[u8]>,
        ask: Ask,
        demand: Demand,
        limit: &Limit<'_>,
    ) -> Result<Dialled, Failure> {
        let endpoint = limit.endpoint;
        let dialling = self.world.dialler().dial(endpoint, &self.socket);
        let socket = limit
            .hold(Stage::Connect, "did not accept the connection", dialling)
            .await?
            .map_err(|error| {
                let text = format!("connecting to {endpoint}: {error}");
                Failure::new(Stage::Connect, Observed::Io(error.kind()), text)
            })?;
        let link = self.tls.open(socket, host, demand, limit).await?;
        // TLS is under the tap: what is tapped must be clear text.
        let tapped = Tap::new(link.socket);
        let wire = Arc::clone(tapped.wire());
        let config = self.login_config(password, link.encrypted);
        let login = config.connect_raw(tapped, link.established);
        let lacked = "accepted the connection but did not finish the login";
        let (client, connection) = limit
            .hold(Stage::Startup, lacked, login)
            .await?
            .map_err(|error| Failure::driver(Stage::Startup, error, &wire))?;
        let version = connection.parameter("server_version").map(Box::from);
        let mut driver = Driver::new(connection, Arc::clone(&wire));
        let setup = driver.drive_while(set_up(&client, self.settings.statement_timeout, ask, &wire));
        let answered = limit
            .hold(Stage::SessionSetup, "did not answer the session's setup", setup)
            .await??;
        let route = Route {
            host: host.clone(),
            endpoint: endpoint.clone(),
            encrypted: link.encrypted,
            tls: Arc::clone(&self.tls),
            socket: self.socket.clone(),
            world: self.world.clone(),
        };
        let canceller = Canceller::new(&client, route);
        let dialled = Dialled::new(client, driver, wire, endpoint.clone(), canceller);
        Ok(dialled.with_version(version).with_answers(answered))
    }

    async fn password_by(&self, deadline: Instant) -> Result<Option<Arc<[u8]>>, Failure> {
        match timeout_at(deadline, self.password()).await {
            Ok(password) => password,
            Err(_) => {
                let text = format!("the password source gave no password {}", self.in_time());
                Err(Failure::ours(Observed::Deadline, text))
            }
        }
    }

    /// Asks for the password. What a source panics with is not shown: it could hold the secret.
    async fn password(&self) -> Result<Option<Arc<[u8]>>, Failure> {
        match AssertUnwindSafe(self.settings.password.ask())
            .catch_unwind()
            .await
        {
            Ok(Ok(password)) => Ok(password),
            Ok(Err(error)) => Err(Failure::ours(
                Observed::NoPassword,
                format!("the password source failed: {error}"),
            )),
            Err(_) => Err(Failure::ours(Observed::Panicked, "the password source panicked")),
        }
    }

    fn login_config(&self, password: Option<&[u8]>, encrypted: bool) -> tokio_postgres::Config {
        let mut config = tokio_postgres::Config::new();
        config
            .user(&self.settings.user)
            .dbname(&self.settings.database)
            .application_name(&self.settings.application_name)
            // Without a password an empty one is sent, so that it is the server who refuses the login and says why.
            .password(password.unwrap_or_default())
            .channel_binding(self.tls.channel_binding());
        Established::configure(&mut config, encrypted);
        if let Some(options) = &self.settings.options {
            config.options(options);
        }
        config
    }

    fn in_time(&self) -> String {
        format!("within {:?}", self.settings.connect_timeout)
    }
}

/// The one of two connections that suits better, the earlier if both suit as well. The other is closed.
fn better(earlier: Option<(Fit, Dialled)>, later: (Fit, Dialled)) -> (Fit, Dialled) {
    let (kept, other) = match earlier {
        None => return later,
        Some(earlier) if later.0 < earlier.0 => (later, earlier),
        Some(earlier) => (earlier, later),
    };
    other.1.close_in_background();
    kept
}

/// How far an attempt came, for choosing which of several addresses' failures tells most.
fn reach(stage: Stage) -> u8 {
    match stage {
        Stage::Resolve => 0,
        Stage::Connect => 1,
        Stage::Tls => 2,
        Stage::Startup => 3,
        Stage::SessionSetup => 4,
        Stage::Query => 5,
    }
}
