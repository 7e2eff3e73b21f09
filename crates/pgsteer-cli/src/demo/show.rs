//! The demo set up and running: simulated servers, a pool over them, the load on it, and the board that tells what goes
//! on. It answers questions about all of them; what happens to them is the story's business.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use pgsteer::config::{Config, LoadBalance};
use pgsteer::{HostKey, Pool};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::board::{Board, Condition, Kind};
use super::load::{Ledger, Load};
use super::plan::{CLOUD, HOME, Plan, REGION};
use super::scene::{Scene, ServerScene};
use super::set::{APPLICATION, Placed, Set};
use super::spread::{Share, Spread};
use crate::exit::Failure;

/// How often the load is sampled.
const SAMPLE: Duration = Duration::from_millis(500);
/// How long the tasks, and then the pool, may take to end.
const ENDING: Duration = Duration::from_secs(5);

/// See the module.
pub(super) struct Show {
    pub(super) plan: Plan,
    pub(super) set: Set,
    pub(super) pool: Pool,
    pub(super) pool_started: Instant,
    pub(super) ledger: Arc<Ledger>,
    pub(super) board: Board,
}

impl Show {
    /// Starts the servers, then the pool; no load yet.
    pub(super) async fn open(plan: Plan) -> Result<Self, Failure> {
        let set = Set::build(plan.seed).await?;
        let pool_started = Instant::now();
        let pool = Pool::start(config(&plan, &set))?;
        let ledger = Arc::new(Ledger::new(
            set.servers().iter().map(|server| server.host.clone()),
        ));
        Ok(Show {
            plan,
            set,
            pool,
            pool_started,
            ledger,
            board: Board::new(),
        })
    }

    /// Starts the load.
    pub(super) fn load(&self) -> Load {
        Load::start(&self.plan, &self.pool, self.ledger.clone())
    }

    /// Samples the load, for ever. Cancel safe.
    pub(super) async fn sample(&self) -> Infallible {
        let mut ticks = interval(SAMPLE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        let mut last = Instant::now();
        loop {
            ticks.tick().await;
            let now = Instant::now();
            self.board.add_sample(&self.ledger.recorder.take(), now - last);
            last = now;
        }
    }

    /// Where the pool's connections are now, as the servers themselves count them.
    pub(super) fn spread(&self) -> Spread {
        let sessions = self.set.sessions();
        let share = |server: &Placed| Share {
            server: server.name.to_owned(),
            zone: server.zone.to_owned(),
            connections: sessions.get(server.name).copied().unwrap_or(0),
        };
        Spread(self.set.servers().iter().map(share).collect())
    }

    /// Everything there is to see now.
    pub(super) fn scene(&self) -> Scene {
        let (snapshot, status) = (self.pool.cluster().snapshot(), self.pool.status());
        let samples = self.board.samples();
        let now = tokio::time::Instant::now().into_std();
        let count =
            |counts: &std::collections::BTreeMap<HostKey, u32>, host| counts.get(host).copied().unwrap_or(0);
        let servers = self.set.servers().iter().map(|server| ServerScene {
            name: server.name.to_owned(),
            zone: server.zone.to_owned(),
            level: snapshot.levels.get(&server.host).copied().flatten(),
            condition: self.board.condition(&server.host),
            left_out_for: snapshot
                .failures
                .get(&server.host)
                .map(|failure| failure.next_probe.saturating_duration_since(now)),
            connections: count(&snapshot.counts, &server.host),
            opening: count(&snapshot.pending, &server.host),
            per_second: samples
                .last()
                .and_then(|sample| sample.by_host.get(&server.host))
                .copied()
                .unwrap_or(0.0),
        });
        Scene {
            elapsed: self.board.elapsed(),
            stage: self.board.stage(),
            servers: servers.collect(),
            pool_size: status.size,
            idle: status.idle,
            leased: status.leased,
            opening: status.opening,
            waiting: status.waiting,
            answered: self.ledger.answered(),
            failed: self.ledger.failed(),
            samples: samples
                .iter()
                .map(|sample| (sample.per_second, sample.p99))
                .collect(),
            events: self.board.events_from(0),
        }
    }

    /// Does something to a server, and tells.
    pub(super) fn act(&self, name: &str, condition: Condition) {
        let Some(server) = self.set.servers().iter().find(|server| server.name == name) else {
            return;
        };
        let before = self.board.condition(&server.host);
        let words = match (before, condition) {
            (_, Condition::Killed) => "killed",
            (_, Condition::Frozen) => "frozen: its sockets stay open, nothing answers",
            (Condition::Frozen, Condition::Up) => "thawed",
            (_, Condition::Up) => "started again",
        };
        self.board.tell(Kind::Act, format!("server {name} {words}"));
        self.board.set_condition(&server.host, condition);
        self.set.act(name, condition);
    }

    /// Ends the load and the pool; whether both ended in good order.
    pub(super) async fn close(&self, load: Load) -> bool {
        let tasks_ended = load.stop(ENDING).await;
        let left = self.pool.close(ENDING).await.still_out;
        tasks_ended && left == 0
    }
}

/// The pool's settings: as anybody would write them, but with short times, so that the story is soon told.
fn config(plan: &Plan, set: &Set) -> Config {
    Config::yugabyte()
        .hosts(set.seeds())
        .user("demo")
        .application_name(APPLICATION)
        .load_balance(LoadBalance::Any)
        .topology_keys(format!("{CLOUD}.{REGION}.{HOME}:1,{CLOUD}.{REGION}.*:2"))
        .yb_servers_refresh_interval(Duration::from_secs(1))
        .failed_host_reconnect_delay_secs(1)
        .connect_timeout(Duration::from_secs(1))
        .pool_size(plan.pool_size)
        .rebalance_interval(plan.rebalance_interval)
        .rebalance_batch(plan.rebalance_batch)
}
