//! The simulation as a [`World`] for pgsteer: names, connects and random draws all come from it. Only adapters are
//! here.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use pgsteer::world::{BoxFuture, Dial, Draw, Endpoint, Resolve, Socket, SocketOptions, World};

use crate::cluster::lock;
use crate::net::network;
use crate::sim::Sim;

impl Sim {
    /// A world in which names resolve to simulated addresses, connects go to simulated servers in memory, and random
    /// draws come from the seed. Each world draws the same numbers from its start.
    #[must_use]
    pub fn world(&self) -> World {
        let draw = SeededDraw(Mutex::new(fastrand::Rng::with_seed(self.seed())));
        World::new(Arc::new(self.clone()), Arc::new(self.clone()), Arc::new(draw))
    }
}

impl Resolve for Sim {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(network::resolve(&self.cluster, host))
    }
}

impl Dial for Sim {
    fn dial<'a>(
        &'a self,
        target: &'a Endpoint,
        _socket: &'a SocketOptions,
    ) -> BoxFuture<'a, io::Result<Socket>> {
        Box::pin(async move {
            let stream = match target {
                Endpoint::Tcp(address) => network::dial(&self.cluster, *address).await?,
                Endpoint::Unix(path) => network::dial_socket(&self.cluster, path).await?,
            };
            Ok(Socket::other(stream))
        })
    }
}

/// Random numbers from a seed.
struct SeededDraw(Mutex<fastrand::Rng>);

impl Draw for SeededDraw {
    fn draw(&self) -> u64 {
        lock(&self.0).u64(..)
    }
}
