//! The simulated servers of the demo, listening on loopback TCP, and what is done to them.

use std::collections::BTreeMap;

use pgsteer::HostKey;
use pgsteer_sim::{Death, ServerSpec, Sim};

use super::board::Condition;
use super::plan::{CLOUD, REGION, SERVERS};
use crate::exit::Failure;

/// What the demo's pool calls itself to the servers.
pub(super) const APPLICATION: &str = "pgsteer demo";

/// All servers.
pub(super) struct Set {
    sim: Sim,
    servers: Vec<Placed>,
}

/// One server.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) name: &'static str,
    pub(super) zone: &'static str,
    pub(super) host: HostKey,
}

impl Set {
    /// Starts them.
    pub(super) async fn build(seed: u64) -> Result<Self, Failure> {
        // Nobody reads the simulation's own log here.
        let mut builder = Sim::builder(seed).log_limit(0);
        for (name, zone) in SERVERS {
            builder = builder.server(ServerSpec::new(name).placement(CLOUD, REGION, zone));
        }
        let sim = builder.build();
        let addresses = sim.listen().await;
        let addresses =
            addresses.map_err(|error| Failure::work(format!("cannot listen on loopback: {error}")))?;
        let servers = SERVERS
            .iter()
            .zip(addresses)
            .map(|((name, zone), address)| Placed {
                name,
                zone,
                host: HostKey::new(address.ip().to_string(), address.port()),
            });
        Ok(Set {
            servers: servers.collect(),
            sim,
        })
    }

    /// The servers, those of a zone together.
    pub(super) fn servers(&self) -> &[Placed] {
        &self.servers
    }

    /// Where the pool starts from: the first server of each zone.
    pub(super) fn seeds(&self) -> Vec<HostKey> {
        let first_of_zone = |at: &usize| *at == 0 || self.servers[*at].zone != self.servers[*at - 1].zone;
        (0..self.servers.len())
            .filter(first_of_zone)
            .map(|at| self.servers[at].host.clone())
            .collect()
    }

    /// The pool's sessions as the servers themselves count them, by server; those that ask for the list of servers are
    /// the cluster's and left out.
    pub(super) fn sessions(&self) -> BTreeMap<String, u32> {
        let mut sessions = BTreeMap::new();
        for session in self.sim.sessions() {
            if session.application_name == APPLICATION && !session.asked_for_servers {
                *sessions.entry(session.server.to_string()).or_default() += 1;
            }
        }
        sessions
    }

    /// Makes a server be in this condition.
    pub(super) fn act(&self, name: &str, condition: Condition) {
        let Some(server) = self.sim.find(name) else { return };
        match condition {
            Condition::Killed => server.kill(Death::Rst),
            Condition::Frozen => server.freeze(),
            Condition::Up => {
                server.thaw();
                server.start();
            }
        }
    }
}
