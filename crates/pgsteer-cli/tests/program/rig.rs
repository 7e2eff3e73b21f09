//! What the tests run against: the program's binary, and a simulated cluster on loopback TCP.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use pgsteer_sim::{Sim, SimBuilder};
use serde_json::Value;
use tokio::runtime::Runtime;

/// The program, with these arguments.
pub(crate) fn pgsteer(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgsteer"));
    command
        .args(arguments)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null());
    command
}

/// What a run of the program came to.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Run {
    let output = pgsteer(arguments).output().expect("the program runs");
    Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("standard output is text"),
        stderr: String::from_utf8(output.stderr).expect("standard error is text"),
    }
}

/// Each line of standard output as JSON.
pub(crate) fn json_lines(run: &Run) -> Vec<Value> {
    run.stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {run:?}")))
        .collect()
}

/// A run that is still going on, read line by line.
pub(crate) struct Going {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Going {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = pgsteer(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let stdout = child.stdout.take().expect("standard output is a pipe");
        Going {
            child,
            lines: BufReader::new(stdout).lines(),
        }
    }

    /// The next line of standard output.
    pub(crate) fn line(&mut self) -> Option<String> {
        self.lines
            .next()
            .map(|line| line.expect("standard output is text"))
    }

    /// Interrupts it as Ctrl-C does.
    #[cfg(unix)]
    pub(crate) fn interrupt(&self) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill")
            .args(["-INT", &id])
            .status()
            .expect("kill runs");
        assert!(sent.success(), "the program was not there to be interrupted");
    }

    /// Stops reading, and waits for its end.
    pub(crate) fn stop_reading(self) -> Run {
        let Going { child, lines } = self;
        drop(lines);
        finish(child, String::new())
    }

    /// Reads on, and waits for its end.
    pub(crate) fn end(self) -> Run {
        let Going { child, lines } = self;
        let rest = lines
            .map(|line| line.expect("standard output is text") + "\n")
            .collect();
        finish(child, rest)
    }
}

fn finish(mut child: Child, stdout: String) -> Run {
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .expect("standard error is a pipe")
        .read_to_string(&mut stderr)
        .expect("standard error is text");
    let code = child.wait().expect("the program ends").code();
    Run { code, stdout, stderr }
}

/// A simulated cluster that listens on loopback TCP for as long as it lives.
pub(crate) struct Cluster {
    pub(crate) sim: Sim,
    // Runs the servers.
    _runtime: Runtime,
}

impl Cluster {
    pub(crate) fn start(builder: SimBuilder) -> Self {
        let runtime = Runtime::new().expect("a runtime starts");
        let sim = builder.build();
        runtime
            .block_on(sim.listen())
            .expect("loopback can be listened on");
        Cluster {
            sim,
            _runtime: runtime,
        }
    }

    /// Where a server listens, as in a connection string.
    pub(crate) fn address(&self, server: &str) -> String {
        self.sim
            .server(server)
            .listening()
            .expect("every server listens")
            .to_string()
    }

    /// A connection string that starts at one server.
    pub(crate) fn url(&self, server: &str, options: &str) -> String {
        format!("yugabytedb://app@{}/app?{options}", self.address(server))
    }
}
