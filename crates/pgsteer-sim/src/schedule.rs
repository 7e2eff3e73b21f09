//! Random histories of faults from a seed: what breaks, when, and when it is mended. A schedule is a plain list that
//! can be printed, read and run again; it draws nothing while it runs.

use std::fmt;
use std::time::Duration;

use crate::fault::{Accept, Death, Login, Shutdown};
use crate::sim::Sim;

/// One kind of trouble with a server, which can be mended again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Breakage {
    /// The process is killed; its sockets close.
    Crash,
    /// The process is killed; its connections are reset.
    Reset,
    /// The host is gone without a packet.
    PowerLoss,
    /// A fast shutdown.
    FastShutdown,
    /// An immediate shutdown.
    ImmediateShutdown,
    /// The process stops answering.
    Freeze,
    /// Nothing arrives in either direction.
    Partition,
    /// New connections are refused, old ones stay.
    Refuse,
    /// New connections are not answered.
    Blackhole,
    /// New connections are accepted and met with silence.
    Hang,
    /// New connections are accepted and closed.
    Close,
    /// Logins fail with 57P03.
    StartingUp,
    /// Logins fail with 53300.
    TooManyClients,
    /// Answers take a second.
    Slow,
    /// It turns into a standby.
    Demotion,
    /// It is taken out of `yb_servers()`.
    Unlisting,
    /// Its sessions are terminated, once; there is nothing to mend.
    Termination,
}

impl Breakage {
    /// All there are.
    pub const ALL: [Breakage; 17] = [
        Breakage::Crash,
        Breakage::Reset,
        Breakage::PowerLoss,
        Breakage::FastShutdown,
        Breakage::ImmediateShutdown,
        Breakage::Freeze,
        Breakage::Partition,
        Breakage::Refuse,
        Breakage::Blackhole,
        Breakage::Hang,
        Breakage::Close,
        Breakage::StartingUp,
        Breakage::TooManyClients,
        Breakage::Slow,
        Breakage::Demotion,
        Breakage::Unlisting,
        Breakage::Termination,
    ];
}

/// What is done to a server at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It breaks in this way.
    Break(Breakage),
    /// That is mended.
    Mend(Breakage),
}

/// One step of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledFault {
    /// When, from the start of the run.
    pub at: Duration,
    /// The server's name.
    pub server: String,
    /// What.
    pub fault: Fault,
}

/// What a random schedule may hold.
#[derive(Clone, Debug)]
pub struct ScheduleOptions {
    /// The servers that may break, by name.
    pub servers: Vec<String>,
    /// The kinds of trouble. Default all.
    pub kinds: Vec<Breakage>,
    /// How many breakages to aim for; fewer if they do not fit. Default 10.
    pub breakages: usize,
    /// Within this time everything breaks and is mended again. Default 60 s.
    pub length: Duration,
    /// The shortest and longest time something stays broken. Default 100 ms to 10 s.
    pub outage: (Duration, Duration),
    /// At every moment at least so many of the servers are whole. Default 1.
    pub spare: usize,
}

impl ScheduleOptions {
    /// Defaults for these servers.
    pub fn new(servers: &[&str]) -> Self {
        ScheduleOptions {
            servers: servers.iter().map(|name| (*name).to_owned()).collect(),
            kinds: Breakage::ALL.to_vec(),
            breakages: 10,
            length: Duration::from_secs(60),
            outage: (Duration::from_millis(100), Duration::from_secs(10)),
            spare: 1,
        }
    }
}

/// A history of faults. [`Display`](fmt::Display) prints it, with its seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// What it was drawn from.
    pub seed: u64,
    /// The steps, in order of time.
    pub steps: Vec<ScheduledFault>,
}

/// When which server is broken.
struct Outage {
    server: usize,
    from: Duration,
    until: Duration,
}

impl Outage {
    fn overlaps(&self, other: &Outage) -> bool {
        self.from < other.until && other.from < self.until
    }
}

impl Schedule {
    /// Draws a history. The same seed and options give the same one. Every breakage is mended within
    /// [`length`](ScheduleOptions::length), and no server is broken in two ways at once.
    #[must_use]
    pub fn random(seed: u64, options: &ScheduleOptions) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut outages: Vec<Outage> = Vec::new();
        let mut steps = Vec::new();
        let (shortest, longest) = options.outage;
        let most = options.servers.len().saturating_sub(options.spare);
        let drawable = most > 0 && !options.kinds.is_empty();
        // Draws that do not fit are given up after a while: a short length may not hold as many as are asked for.
        for _ in 0..options.breakages * 20 * usize::from(drawable) {
            if outages.len() == options.breakages {
                break;
            }
            let lasts = between(&mut random, shortest, longest.max(shortest)).min(options.length);
            let from = between(&mut random, Duration::ZERO, options.length - lasts);
            let server = random.usize(..options.servers.len());
            let kind = options.kinds[random.usize(..options.kinds.len())];
            let outage = Outage {
                server,
                from,
                until: from + lasts,
            };
            let meanwhile: Vec<_> = outages.iter().filter(|other| other.overlaps(&outage)).collect();
            if meanwhile.len() >= most || meanwhile.iter().any(|other| other.server == server) {
                continue;
            }
            let step = |at, fault| ScheduledFault {
                at,
                server: options.servers[server].clone(),
                fault,
            };
            steps.push(step(outage.from, Fault::Break(kind)));
            steps.push(step(outage.until, Fault::Mend(kind)));
            outages.push(outage);
        }
        // Stable, and in the order drawn where times are equal.
        steps.sort_by_key(|step| step.at);
        Schedule { seed, steps }
    }

    /// Carries it out, from now, on tokio's clock. Servers the simulation does not have are passed over. Cancel safe in
    /// that each step happens wholly or not at all; what is broken then stays broken.
    pub async fn run(&self, sim: &Sim) {
        let start = tokio::time::Instant::now();
        for step in &self.steps {
            tokio::time::sleep_until(start + step.at).await;
            step.apply(sim);
        }
    }
}

impl ScheduledFault {
    /// Does it now, whatever its time.
    pub fn apply(&self, sim: &Sim) {
        let Some(server) = sim.find(&self.server) else {
            return;
        };
        match self.fault {
            Fault::Break(kind) => match kind {
                Breakage::Crash => server.kill(Death::Fin),
                Breakage::Reset => server.kill(Death::Rst),
                Breakage::PowerLoss => server.kill(Death::Silence),
                Breakage::FastShutdown => server.shut_down(Shutdown::Fast),
                Breakage::ImmediateShutdown => server.shut_down(Shutdown::Immediate),
                Breakage::Freeze => server.freeze(),
                Breakage::Partition => server.partition(),
                Breakage::Refuse => server.set_accept(Accept::Refuse),
                Breakage::Blackhole => server.set_accept(Accept::Blackhole),
                Breakage::Hang => server.set_accept(Accept::Hang),
                Breakage::Close => server.set_accept(Accept::Close),
                Breakage::StartingUp => server.set_login(Login::fatal("57P03")),
                Breakage::TooManyClients => server.set_login(Login::fatal("53300")),
                Breakage::Slow => server.set_answer_latency(Duration::from_secs(1)),
                Breakage::Demotion => server.demote(),
                Breakage::Unlisting => server.unlist(),
                Breakage::Termination => server.terminate_all(),
            },
            Fault::Mend(kind) => match kind {
                Breakage::Crash
                | Breakage::Reset
                | Breakage::PowerLoss
                | Breakage::FastShutdown
                | Breakage::ImmediateShutdown => server.start(),
                Breakage::Freeze => server.thaw(),
                Breakage::Partition => server.heal(),
                Breakage::Refuse | Breakage::Blackhole | Breakage::Hang | Breakage::Close => {
                    server.set_accept(Accept::Serve);
                }
                Breakage::StartingUp | Breakage::TooManyClients => server.set_login(Login::Work),
                Breakage::Slow => server.set_answer_latency(Duration::ZERO),
                Breakage::Demotion => server.promote(),
                Breakage::Unlisting => server.list(),
                Breakage::Termination => {}
            },
        }
    }
}

/// A time between two, in whole milliseconds so that printed schedules are exact.
fn between(random: &mut fastrand::Rng, low: Duration, high: Duration) -> Duration {
    let (low, high) = (low.as_millis() as u64, high.as_millis() as u64);
    Duration::from_millis(random.u64(low..=high.max(low)))
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        for step in &self.steps {
            writeln!(
                f,
                "{:>10.3} s  {}  {:?}",
                step.at.as_secs_f64(),
                step.server,
                step.fault
            )?;
        }
        Ok(())
    }
}
