//! Servers that list each other and share nothing: each has accounts and transfers of its own, and a transfer belongs on
//! one of them.

use std::thread::sleep;

use pgsteer_testkit::{Blackhole, DATABASE, PASSWORD, Server, USER, Universe};

use super::faults::{Fault, Step};
use super::site::{APPLICATION, Frozen, Site, crash_a_backend};
use super::transfer::TABLES;

/// Three servers.
pub(crate) struct Many {
    universe: Universe,
    frozen: Frozen,
}

impl Many {
    pub(crate) fn start() -> Self {
        let universe = Universe::builder()
            .servers(3)
            .configure_all(|spec| {
                // Pages may be torn by kill -9, and deadlocks are to be found soon.
                spec.setting("full_page_writes", "on")
                    .setting("deadlock_timeout", "50ms")
                    .setting("max_wal_size", "64MB")
            })
            .start();
        for server in universe.servers() {
            server.sql(TABLES);
        }
        Many {
            universe,
            frozen: Frozen::default(),
        }
    }
}

impl Site for Many {
    fn name(&self) -> &'static str {
        "universe"
    }

    fn url(&self) -> String {
        format!(
            "postgresql://{USER}:{PASSWORD}@{}/{DATABASE}?application_name={APPLICATION}&load_balance=any\
             &failed_host_reconnect_delay_secs=1&yb_servers_refresh_interval=1&rebalance_interval=100ms\
             &connect_timeout=2",
            self.universe.addresses()
        )
    }

    fn faults(&self) -> &'static [Fault] {
        Fault::TO_ANY
    }

    fn suffer(&self, step: &Step) {
        let servers = self.universe.servers();
        let server = &servers[step.choose(servers.len())];
        match step.fault {
            Fault::CrashBackend => crash_a_backend(server, step),
            Fault::Kill => {
                server.kill();
                sleep(step.lasts);
                server.start();
            }
            Fault::FastStop => {
                server.stop_fast();
                sleep(step.lasts);
                server.start();
            }
            Fault::ImmediateStop => {
                server.stop_immediate();
                sleep(step.lasts);
                server.start();
            }
            Fault::Freeze => {
                self.frozen.freeze(server);
                sleep(step.lasts);
                self.frozen.thaw(server);
            }
            Fault::Blackhole => {
                let hole = Blackhole::over(&[&server.address()]);
                sleep(step.lasts);
                drop(hole);
            }
            Fault::Outage => {
                servers.iter().for_each(Server::kill);
                sleep(step.lasts);
                servers.iter().for_each(Server::start);
            }
            _ => unreachable!("{:?} needs standbys", step.fault),
        }
    }

    fn within_reach(&self) -> Vec<&Server> {
        let servers = self.universe.servers().iter();
        servers.filter(|server| !self.frozen.holds(server)).collect()
    }

    fn ledgers(&self) -> Vec<&Server> {
        self.universe.servers().iter().collect()
    }
}
