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
mod session_setup;
mod tap;
#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use pgsteer_core::host::HostKey;
use pgsteer_core::verdict::{HostEffect, Stage};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::NoTls;

pub(crate) use cancel::Canceller;
pub(crate) use control::{Handle, Owner};
pub(crate) use dialled::Dialled;
pub(crate) use discovery::Discovered;
pub(crate) use driver::Driver;
pub(crate) use ending::EndReason;
pub(crate) use error::DialError;
pub(crate) use session_setup::Ask;
pub(crate) use tap::{TransactionStatus, Wire};

use crate::config::Settings;
use crate::world::{Endpoint, SocketOptions, World};
use error::{Failure, Observed};
use session_setup::set_up;
use tap::Tap;

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
}

impl Dialler {
    /// A dialler for these settings in this world.
    pub(crate) fn new(settings: Arc<Settings>, world: World) -> Self {
        let socket = SocketOptions {
            keepalives: settings.keepalives,
            tcp_user_timeout: settings.tcp_user_timeout,
        };
        Dialler {
            settings,
            world,
            socket,
        }
    }

    /// Opens a connection to the host. `connect_timeout` bounds everything: asking for the password, resolving,
    /// connecting, the login, and the session's setup and check.
    ///
    /// All addresses of a name are tried in order until one works; each but the last gets its even share of the time
    /// that is left. A refused login ends the attempt, since asking again would only bring a lock-out nearer.
    ///
    /// What the server is asked about itself is in the result; whether that suits anybody is not judged here.
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

    async fn attempt(&self, host: &HostKey, ask: Ask, deadline: Instant) -> Result<Dialled, Failure> {
        let password = match timeout_at(deadline, self.password()).await {
            Ok(password) => password?,
            Err(_) => {
                let text = format!("the password source gave no password {}", self.in_time());
                return Err(Failure::ours(Observed::Deadline, text));
            }
        };
        let endpoints = match timeout_at(deadline, endpoint::endpoints(&self.world, host)).await {
            Ok(endpoints) => endpoints?,
            Err(_) => {
                let text = format!("the name did not resolve {}", self.in_time());
                return Err(Failure::new(Stage::Resolve, Observed::Deadline, text));
            }
        };
        let mut furthest: Option<Failure> = None;
        let mut left = u32::try_from(endpoints.len()).unwrap_or(u32::MAX);
        for endpoint in endpoints {
            let now = Instant::now();
            let share = now + deadline.saturating_duration_since(now) / left.max(1);
            left = left.saturating_sub(1);
            let failure = match self.login(&endpoint, password.as_deref(), ask, share).await {
                Ok(dialled) => return Ok(dialled),
                Err(failure) => failure,
            };
            if failure.host_effect() == HostEffect::JudgeAtEndOfPass {
                return Err(failure);
            }
            if furthest
                .as_ref()
                .is_none_or(|before| reach(before.stage) <= reach(failure.stage))
            {
                furthest = Some(failure);
            }
        }
        Err(furthest
            .unwrap_or_else(|| Failure::new(Stage::Resolve, Observed::NoSuchName, "the name has no address")))
    }

    /// Connects to one address and logs in there.
    async fn login(
        &self,
        endpoint: &Endpoint,
        password: Option<&[u8]>,
        ask: Ask,
        deadline: Instant,
    ) -> Result<Dialled, Failure> {
        let began = Instant::now();
        let late = |stage, what: &str| {
            let text = format!(
                "{endpoint} {what} within {:?}",
                deadline.saturating_duration_since(began)
            );
            Failure::new(stage, Observed::Deadline, text)
        };
        let socket = match timeout_at(deadline, self.world.dialler().dial(endpoint, &self.socket)).await {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => {
                let text = format!("connecting to {endpoint}: {error}");
                return Err(Failure::new(Stage::Connect, Observed::Io(error.kind()), text));
            }
            Err(_) => return Err(late(Stage::Connect, "did not accept the connection")),
        };
        // TLS belongs here, under the tap: what is tapped must be clear text.
        let tapped = Tap::new(socket);
        let wire = Arc::clone(tapped.wire());
        let config = self.login_config(password);
        let (client, connection) = match timeout_at(deadline, config.connect_raw(tapped, NoTls)).await {
            Ok(Ok(pair)) => pair,
            Ok(Err(error)) => return Err(Failure::driver(Stage::Startup, error, &wire)),
            Err(_) => {
                return Err(late(
                    Stage::Startup,
                    "accepted the connection but did not finish the login",
                ));
            }
        };
        let mut driver = Driver::new(connection, Arc::clone(&wire));
        let setup = set_up(&client, self.settings.statement_timeout, ask, &wire);
        let answered = match timeout_at(deadline, driver.drive_while(setup)).await {
            Ok(done) => done?,
            Err(_) => return Err(late(Stage::SessionSetup, "did not answer the session's setup")),
        };
        let canceller = Canceller::new(&client, endpoint.clone(), self.socket.clone(), self.world.clone());
        Ok(Dialled::new(client, driver, wire, endpoint.clone(), canceller).with_answers(answered))
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

    fn login_config(&self, password: Option<&[u8]>) -> tokio_postgres::Config {
        let mut config = tokio_postgres::Config::new();
        config
            .user(&self.settings.user)
            .dbname(&self.settings.database)
            .application_name(&self.settings.application_name)
            // Without a password an empty one is sent, so that it is the server who refuses the login and says why.
            .password(password.unwrap_or_default())
            .ssl_mode(tokio_postgres::config::SslMode::Disable);
        if let Some(options) = &self.settings.options {
            config.options(options);
        }
        config
    }

    fn in_time(&self) -> String {
        format!("within {:?}", self.settings.connect_timeout)
    }
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
