//! What stands between the clients and the backends.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::process::Process;

/// Backends of every run.
const BACKENDS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    Pgsteer,
    Haproxy,
    /// Clients speak to a backend directly.
    Nothing,
}

impl Contender {
    pub fn name(self) -> &'static str {
        match self {
            Contender::Pgsteer => "pgsteer route",
            Contender::Haproxy => "HAProxy",
            Contender::Nothing => "no router",
        }
    }
}

/// Backends, and each contender in front of them.
pub struct Stand<'a> {
    program: &'a Path,
    _backends: Vec<Process>,
    pgsteer: Process,
    haproxy: Process,
    direct: String,
}

/// The figures of one round of one contender.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    pub answers_per_s: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    /// CPU of the contender, not of clients and backends.
    pub cpu_s_per_100k: f64,
    /// Requests that were not answered rightly.
    pub amiss: f64,
}

impl<'a> Stand<'a> {
    /// Backends with these options, and the contenders.
    pub fn start(program: &'a Path, echo_options: &[&str]) -> Self {
        let backend = |_| {
            let listen = ["echo", "--listen", "127.0.0.1:0"];
            Process::pgsteer(program, &[&listen, echo_options].concat())
        };
        let backends: Vec<Process> = (0..BACKENDS).map(backend).collect();
        let addresses: Vec<String> = backends.iter().map(|backend| backend.address.clone()).collect();
        let mut arguments = vec!["route", "--listen", "127.0.0.1:0"];
        for address in &addresses {
            arguments.extend(["--backend", address]);
        }
        Stand {
            program,
            pgsteer: Process::pgsteer(program, &arguments),
            haproxy: Process::haproxy(&addresses),
            direct: addresses[0].clone(),
            _backends: backends,
        }
    }

    /// Puts load on a contender.
    pub fn measure(&self, contender: Contender, load: &[&str]) -> Figures {
        let process = match contender {
            Contender::Pgsteer => Some(&self.pgsteer),
            Contender::Haproxy => Some(&self.haproxy),
            Contender::Nothing => None,
        };
        let target = process.map_or(&self.direct, |process| &process.address);
        let before = process.map_or(0.0, Process::cpu);
        let account = run(self.program, target, load);
        let cpu = process.map_or(0.0, Process::cpu) - before;
        let count = |part: &Value, name: &str| part[name].as_f64().unwrap_or(f64::NAN);
        let answered = count(&account, "answered") + count(&account["warmup"], "answered");
        let sent = count(&account, "sent") + count(&account["warmup"], "sent");
        Figures {
            answers_per_s: count(&account, "answered_per_s"),
            p50_us: count(&account["latency_us"], "p50"),
            p99_us: count(&account["latency_us"], "p99"),
            cpu_s_per_100k: cpu / answered * 100_000.0,
            amiss: sent - answered,
        }
    }
}

/// The total of a load.
fn run(program: &Path, target: &str, load: &[&str]) -> Value {
    let output = Command::new(program)
        .args(["load", "--json", "--target", target])
        .args(load)
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let text = String::from_utf8_lossy(&output.stdout);
    let total = text.lines().last().unwrap_or_default();
    let complaint = String::from_utf8_lossy(&output.stderr);
    eprint!("{complaint}");
    serde_json::from_str(total).unwrap_or_else(|error| panic!("{load:?}: {error}: {total}\n{complaint}"))
}
