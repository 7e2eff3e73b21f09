//! What stands between the clients and the backends.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use super::process::Process;

/// Backends of every run.
pub const BACKENDS: u32 = 2;
/// Clients that say nothing.
pub const IDLE: u32 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// With its defaults: a thread for each core, 16 connections to each backend at most.
    Defaults,
    /// With so many connections to each backend at most.
    Pool(u32),
    /// HAProxy with so many threads.
    Haproxy(u32),
    /// Clients speak to a backend directly.
    Nothing,
}

impl Contender {
    pub fn name(self) -> String {
        match self {
            Contender::Defaults => "pgsteer route".to_owned(),
            Contender::Pool(size) => format!("pgsteer route --pool-size {size}"),
            Contender::Haproxy(1) => "HAProxy, 1 thread".to_owned(),
            Contender::Haproxy(threads) => format!("HAProxy, {threads} threads"),
            Contender::Nothing => "no router".to_owned(),
        }
    }
}

/// Backends, and contenders in front of them.
pub struct Stand<'a> {
    program: &'a Path,
    _backends: Vec<Process>,
    routers: Vec<(Contender, Process)>,
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
    /// Backends with these options, and these contenders.
    pub fn start(program: &'a Path, echo_options: &[&str], contenders: &[Contender]) -> Self {
        let backend = |_| {
            let listen = ["echo", "--listen", "127.0.0.1:0"];
            Process::pgsteer(program, &[&listen, echo_options].concat())
        };
        let backends: Vec<Process> = (0..BACKENDS).map(backend).collect();
        let addresses: Vec<String> = backends.iter().map(|backend| backend.address.clone()).collect();
        let route = |options: &[&str]| {
            let mut arguments = vec!["route", "--listen", "127.0.0.1:0", "--log-level", "error"];
            arguments.extend(addresses.iter().flat_map(|address| ["--backend", address]));
            Process::pgsteer(program, &[&arguments, options].concat())
        };
        let process = |contender: &Contender| match contender {
            Contender::Defaults => Some(route(&[])),
            Contender::Pool(size) => Some(route(&["--pool-size", &size.to_string()])),
            Contender::Haproxy(threads) => Some(Process::haproxy(*threads, &addresses)),
            Contender::Nothing => None,
        };
        let routers = contenders
            .iter()
            .filter_map(|contender| Some((*contender, process(contender)?)));
        Stand {
            program,
            routers: routers.collect(),
            direct: addresses[0].clone(),
            _backends: backends,
        }
    }

    fn router(&self, contender: Contender) -> Option<&Process> {
        let ours = |(known, _): &&(Contender, Process)| *known == contender;
        self.routers.iter().find(ours).map(|(_, process)| process)
    }

    /// What ten thousand clients that say nothing cost a contender, in bytes of memory for each.
    pub fn idle_client(&self, contender: Contender) -> f64 {
        let router = self.router(contender).expect("it was started");
        run(
            self.program,
            &router.address,
            &["--clients", "100", "--requests", "10000"],
        );
        let before = router.resident();
        let idle = IDLE.to_string();
        let load = [
            "--idle",
            &idle,
            "--clients",
            "1",
            "--rate",
            "1",
            "--seconds",
            "60",
        ];
        let mut clients = Command::new(self.program)
            .args(["load", "--json", "--target", &router.address])
            .args(load)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it has just run");
        let mut line = String::new();
        let output = clients.stdout.take().expect("it is a pipe");
        BufReader::new(output)
            .read_line(&mut line)
            .expect("it says when they are there");
        assert!(line.contains("\"idle\""), "it says: {line}");
        // The last of them may still be in the kernel's queue.
        sleep(Duration::from_millis(500));
        let after = router.resident();
        let _ = clients.kill();
        let _ = clients.wait();
        (after - before) / f64::from(IDLE)
    }

    /// Puts load on a contender.
    pub fn measure(&self, contender: Contender, load: &[&str]) -> Figures {
        let process = self.router(contender);
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
