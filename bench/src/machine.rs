//! What the figures were measured on.

use std::fmt;
use std::fs;
use std::time::SystemTime;

use crate::server::Server;

/// The rivals' versions are read where cargo has settled them.
const LOCK: &str = include_str!("../Cargo.lock");

pub struct Machine {
    date: String,
    processor: String,
    cores: usize,
    kernel: String,
    postgres: Option<String>,
    load: String,
}

impl Machine {
    /// With the server's version, if one takes part.
    pub fn describe(server: Option<&Server>) -> Self {
        Machine {
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string()[..10].to_owned(),
            processor: processor(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: read("/proc/sys/kernel/osrelease"),
            postgres: server.map(Server::version),
            load: load(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine {
            date,
            processor,
            cores,
            kernel,
            postgres,
            load,
        } = self;
        writeln!(f, "- measured on {date}")?;
        writeln!(f, "- {processor}, {cores} cores, Linux {kernel}")?;
        writeln!(f, "- {}, release profile", env!("COMPILER"))?;
        let Some(postgres) = postgres else {
            return write!(f, "- load average before the run {load}");
        };
        writeln!(f, "- PostgreSQL {postgres} on the same machine")?;
        let peers = [
            "deadpool",
            "deadpool-postgres",
            "bb8",
            "bb8-postgres",
            "sqlx",
            "failsafe",
            "recloser",
            "tokio-postgres",
            "tokio",
        ];
        let peers: Vec<String> = peers
            .iter()
            .map(|name| format!("{name} {}", version(name)))
            .collect();
        writeln!(f, "- {}", peers.join(", "))?;
        write!(f, "- load average before the run {load}")
    }
}

/// The load average over one minute.
pub fn load() -> String {
    read("/proc/loadavg")
        .split(' ')
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn processor() -> String {
    let information = read("/proc/cpuinfo");
    let value = |name: &str| {
        let line = information.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split(": ").nth(1))
            .unwrap_or("?")
            .to_owned()
    };
    let virtual_machine = information
        .lines()
        .any(|line| line.starts_with("flags") && line.contains(" hypervisor"));
    let model = format!(
        "{} (family {}, model {})",
        value("model name"),
        value("cpu family"),
        value("model\t")
    );
    if virtual_machine {
        format!("{model}, virtual machine")
    } else {
        model
    }
}

/// The version of a rival.
pub fn version(name: &str) -> &'static str {
    let package = LOCK
        .split("[[package]]")
        .find(|package| package.contains(&format!("\nname = \"{name}\"\n")));
    let line = package.and_then(|package| package.lines().find(|line| line.starts_with("version = ")));
    line.and_then(|line| line.split('"').nth(1)).unwrap_or("?")
}
