//! A connection opened through a [`Cluster`](super::Cluster): the caller's own, but counted until its socket is gone.

use std::fmt;
use std::ops::{Deref, DerefMut};

use pgsteer_core::host::HostKey;
use pgsteer_core::verdict::HostEffect;
use tokio_postgres::Client;

use super::Opened;
use crate::dial::EndReason;

/// An ordinary [`tokio_postgres::Client`] that counts as its cluster's load on its host until its socket is gone.
pub struct ClusterConnection {
    client: Client,
    host: HostKey,
}

impl ClusterConnection {
    /// Starts the connection's driver in the background.
    pub(super) fn new(opened: Opened) -> Self {
        let Opened {
            key,
            mut dialled,
            counted,
        } = opened;
        let cluster = counted.cluster();
        let host = key.clone();
        dialled.driver.end_when_silent(cluster.settings.stall_timeout);
        dialled.driver.tell_of_life(cluster.pulse(&host));
        let client = dialled.run_detached(counted, move |reason| {
            if reason.host_effect() == HostEffect::Suspect {
                cluster.suspect(&host);
            }
            if *reason == EndReason::Stalled {
                cluster.unresponsive(&host);
            }
        });
        ClusterConnection { client, host: key }
    }

    /// The host it is on.
    pub fn host(connection: &Self) -> &HostKey {
        &connection.host
    }

    /// The client itself. The connection goes on being counted until its socket is gone.
    pub fn into_client(connection: Self) -> Client {
        connection.client
    }
}

impl Deref for ClusterConnection {
    type Target = Client;
    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for ClusterConnection {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

impl fmt::Debug for ClusterConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterConnection")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}
