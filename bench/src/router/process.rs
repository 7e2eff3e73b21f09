//! The processes that are measured: started, asked how much CPU they used, and gone with their owner.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

/// Ticks of the kernel's account of CPU time in a second, for programs.
const TICKS: f64 = 100.0;
/// How long a process may take to start.
const STARTING: Duration = Duration::from_secs(10);

pub struct Process {
    child: Child,
    pub address: String,
}

impl Process {
    /// Starts a part of pgsteer that tells where it listens.
    pub fn pgsteer(program: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(program)
            .args(arguments)
            // Router, backends and load share two cores; a backend needs no more than one thread.
            .env(
                "TOKIO_WORKER_THREADS",
                if arguments[0] == "echo" { "1" } else { "2" },
            )
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let mut lines = BufReader::new(child.stdout.take().expect("it is a pipe")).lines();
        let line = lines.next().and_then(Result::ok).unwrap_or_default();
        let address = line.strip_prefix("listening on ").map(str::to_owned);
        // Whatever else it says must not fill the pipe.
        spawn(move || lines.for_each(drop));
        Process {
            child,
            address: address.unwrap_or_else(|| panic!("{arguments:?} says: {line}")),
        }
    }

    /// Starts HAProxy with so many threads in front of these backends.
    pub fn haproxy(threads: u32, backends: &[String]) -> Self {
        let address = free_address();
        let config = Config::write(&address, threads, backends);
        let child = Command::new(HAPROXY)
            .args(["-db", "-f"])
            .arg(&config.0)
            .stdin(Stdio::null())
            .spawn()
            .expect("it was found to be there");
        let process = Process { child, address };
        let begun = Instant::now();
        while TcpStream::connect(&process.address).is_err() {
            assert!(begun.elapsed() < STARTING, "HAProxy does not listen");
            sleep(Duration::from_millis(10));
        }
        process
    }

    /// Bytes of memory that it really holds.
    pub fn resident(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        kib.and_then(|kib| kib.parse::<f64>().ok())
            .map_or(f64::NAN, |kib| kib * 1024.0)
    }

    /// Seconds of CPU that it has used, in the kernel as well.
    pub fn cpu(&self) -> f64 {
        let account = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // The name in brackets may hold anything; times are the 12th and 13th field after it.
        let fields = account.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ticks = fields.split_whitespace().skip(11).take(2);
        ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const HAPROXY: &str = "haproxy";

/// Its version, if it is installed.
pub fn haproxy_version() -> Option<String> {
    let output = Command::new(HAPROXY).arg("-v").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.strip_prefix("HAProxy version ")?;
    Some(version.split_whitespace().next()?.to_owned())
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it is bound").to_string()
}

/// A configuration file that goes away once it has been read.
struct Config(PathBuf);

impl Config {
    fn write(address: &str, threads: u32, backends: &[String]) -> Self {
        let servers = backends.iter().enumerate();
        let servers: String = servers
            .map(|(number, backend)| format!("    server echo{number} {backend}\n"))
            .collect();
        let text = format!(
            "global\n    nbthread {threads}\n    maxconn 4000\n\
             defaults\n    mode tcp\n    maxconn 4000\n    timeout connect 2s\n    timeout client 60s\n    timeout server 60s\n\
             frontend clients\n    bind {address} backlog 4096\n    default_backend echoes\n\
             backend echoes\n    balance leastconn\n{servers}"
        );
        let path = std::env::temp_dir().join(format!("pgsteer-bench-{}-haproxy.cfg", std::process::id()));
        fs::write(&path, text).expect("the temporary folder can be written to");
        Config(path)
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
