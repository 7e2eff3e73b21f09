//! Dials that go on though another host has won their race. A host that keeps silent for ever would never be known as
//! failed if each dial to it ended with its race, and every search would wait for it anew.

use std::sync::Arc;

use pgsteer_core::host::HostKey;
use pgsteer_core::hosts::Answer;
use pgsteer_core::verdict::{Evidence, Stage, connect_failure};

use super::Shared;
use super::race::Dialling;
use crate::error::shortened;

impl Shared {
    /// Lets the dial come to its end, `connect_timeout` at the latest, and tells the cluster what it says of the host. One at
    /// a time for each host; the others are given up.
    pub(super) fn see_out(self: &Arc<Self>, host: HostKey, dial: Dialling) {
        if self.tasks().stragglers.insert(host.clone()) {
            let straggler = Straggler {
                shared: self.clone(),
                host,
            };
            self.runtime.spawn(straggler.run(dial));
        }
    }
}

/// A dial that goes on. While it is there, there is no other to its host.
struct Straggler {
    shared: Arc<Shared>,
    host: HostKey,
}

impl Straggler {
    async fn run(self, dial: Dialling) {
        let shared = &self.shared;
        let outcome = tokio::select! {
            biased;
            () = shared.wait_stopped() => return,
            outcome = dial => outcome,
        };
        let result = match outcome {
            Ok(Ok(dialled)) => {
                let answer = Answer {
                    role: dialled.role,
                    timeline: dialled.timeline,
                };
                shared.heard(&self.host, &dialled);
                dialled.close_in_background();
                Ok(answer)
            }
            Ok(Err(error)) => Err((error.host_effect(), shortened(&error.to_string()).into_owned())),
            Err(_) => {
                let effect = connect_failure(Stage::Connect, &Evidence::Panicked);
                Err((effect, "the resolver or dialler panicked".to_owned()))
            }
        };
        shared.with_state(|state, now| state.straggler_ended(&self.host, result, now));
    }
}

impl Drop for Straggler {
    fn drop(&mut self) {
        self.shared.tasks().stragglers.remove(&self.host);
    }
}
