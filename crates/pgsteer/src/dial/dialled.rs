//! A connection that has just been opened, not yet driven by a task of its own.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use pgsteer_core::hosts::Role;
use pgsteer_core::pool::Session;
use tokio_postgres::Client;

use super::cancel::Canceller;
use super::control::Handle;
use super::driver::Driver;
use super::ending::EndReason;
use super::session_setup::{Answered, ask_role};
use super::tap::Wire;
use crate::world::Endpoint;

/// An open connection and everything that belongs to it. Dropping it cuts the socket.
#[derive(Debug)]
pub(crate) struct Dialled {
    /// The client. It works while `driver` is polled.
    pub(crate) client: Client,
    /// The future that drives the connection, to be spawned.
    pub(crate) driver: Driver,
    /// What is known of its wire, in one word.
    pub(crate) session: Arc<Session>,
    /// What the tap has seen: last tag, last error, status.
    pub(crate) wire: Arc<Wire>,
    /// Orders to the driver; the way to name an owner.
    pub(crate) handle: Handle,
    /// The address it is connected to.
    pub(crate) peer: Endpoint,
    /// Cancels what it is doing.
    pub(crate) canceller: Canceller,
    /// `server_version`, as the server reports it at the login.
    pub(crate) version: Option<Box<str>>,
    /// What the server is, if it was asked.
    pub(crate) role: Option<Role>,
    /// The timeline it writes on, if it was asked and has one to tell.
    pub(crate) timeline: Option<u32>,
}

impl Dialled {
    pub(super) fn new(
        client: Client,
        driver: Driver,
        wire: Arc<Wire>,
        peer: Endpoint,
        canceller: Canceller,
    ) -> Self {
        let session = Arc::clone(driver.session());
        let handle = driver.handle();
        Dialled {
            client,
            driver,
            session,
            wire,
            handle,
            peer,
            canceller,
            version: None,
            role: None,
            timeline: None,
        }
    }

    pub(super) fn with_version(self, version: Option<Box<str>>) -> Self {
        Dialled { version, ..self }
    }

    /// The same, with what the server answered about itself.
    pub(super) fn with_answers(self, answered: Answered) -> Self {
        Dialled {
            role: answered.role,
            timeline: answered.timeline,
            ..self
        }
    }

    /// Drives the connection on a task of its own and gives out the client. `guard` is dropped when the socket is
    /// closed, however that comes about.
    /// `on_end` hears before that why it ended.
    pub(crate) fn run_detached<G: Send + 'static>(
        self,
        guard: G,
        on_end: impl FnOnce(&EndReason) + Send + 'static,
    ) -> Client {
        let detached = Detached {
            driver: self.driver,
            _guard: guard,
        };
        tokio::spawn(async move {
            // Moved whole, so that the order of its fields holds even if the task is dropped before it has run.
            let mut detached = detached;
            let reason = (&mut detached.driver).await;
            on_end(&reason);
        });
        self.client
    }

    /// Asks the server once more what it is. `None` if it does not say; the connection is of no use then.
    ///
    /// Not cancel safe: after the future was dropped the connection is only fit to be closed.
    pub(crate) async fn ask_role_again(&mut self) -> Option<Role> {
        let asking = ask_role(&self.client, &self.wire);
        let role = self.driver.drive_while(asking).await.ok()?;
        self.role = Some(role);
        Some(role)
    }

    /// Closes the connection and returns when its socket is gone, which is cut after `limit`. What still runs on it is
    /// cancelled on the server.
    ///
    /// Cancel safe: dropping the future cuts the socket.
    pub(crate) async fn close(self, limit: Duration) {
        let Dialled {
            client,
            driver,
            session,
            handle,
            canceller,
            ..
        } = self;
        let busy = !session.is_quiet();
        handle.close_within(limit);
        drop(client);
        tokio::select! {
            _ = driver => {}
            () = async {
                if busy {
                    // The socket is cut in time whether the request was heard or not.
                    let _ = canceller.cancel(limit).await;
                }
                pending().await
            } => {}
        }
    }

    /// Closes the connection in the background: Terminate, then up to two seconds for the server to let go.
    pub(crate) fn close_in_background(self) {
        drop(self.run_detached((), |_| ()));
    }
}

/// Dropped in this order: the guard outlives the socket.
struct Detached<G> {
    driver: Driver,
    _guard: G,
}
