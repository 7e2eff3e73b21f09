//! What is behind the names of hosts: which address said what, and, at a refresh, which addresses the configured names
//! have, so that connections to those they no longer have can be moved away.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use pgsteer_core::host::HostKey;

use super::Shared;
use crate::dial::Dialled;

impl Shared {
    /// Notes which of a host's addresses said what.
    pub(super) fn heard(&self, key: &HostKey, dialled: &Dialled) {
        if let (Some(role), Some(address)) = (dialled.role, dialled.peer.address()) {
            self.with_state(|state, _| state.heard_at(key, address, role));
        }
    }
}

/// Looks all of them up, at once and within the limit, and reports each. A look-up that fails reports no address, which
/// changes nothing.
pub(super) async fn resolve(shared: Arc<Shared>, keys: Vec<HostKey>, limit: Duration) {
    let look_ups = keys.into_iter().map(|key| {
        let shared = &shared;
        async move {
            let look_up = AssertUnwindSafe(shared.world.resolver().resolve(key.name())).catch_unwind();
            let addresses: Vec<IpAddr> = match tokio::time::timeout(limit, look_up).await {
                Ok(Ok(Ok(addresses))) => addresses,
                _ => Vec::new(),
            };
            shared.with_state(|state, _| state.names_resolved(&key, addresses));
        }
    });
    join_all(look_ups).await;
}
