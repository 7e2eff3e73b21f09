//! The program as a process of its own: started, read line by line, signalled, and gone at the latest with the test.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long anything may take before a test gives up on it. Machines are slow at times; nothing waits for this long
/// unless something is wrong.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running process.
pub(crate) struct Process {
    child: Child,
    stdout: Receiver<String>,
    stderr: Arc<Mutex<String>>,
    /// Reads standard error to its end.
    reader: Option<JoinHandle<()>>,
    name: String,
}

/// What a process left behind.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    /// The lines not read before.
    pub(crate) stdout: Vec<String>,
    pub(crate) stderr: String,
}

impl Process {
    /// Starts the program with these arguments.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Process::spawn(Command::new(env!("CARGO_BIN_EXE_pgsteer")).args(arguments))
    }

    /// Starts what this command says.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let name = format!("{command:?}");
        let mut child = command
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let stdout = child.stdout.take().expect("standard output is a pipe");
        let stderr = child.stderr.take().expect("standard error is a pipe");
        let (send, lines) = channel();
        spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // The test may have ended.
                let _ = send.send(line);
            }
        });
        let said = Arc::new(Mutex::new(String::new()));
        let keep = Arc::clone(&said);
        let reader = spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                *keep.lock().expect("nobody panics with it") += &(line + "\n");
            }
        });
        Process {
            child,
            stdout: lines,
            stderr: said,
            reader: Some(reader),
            name,
        }
    }

    /// What it has said on standard error so far.
    pub(crate) fn said(&self) -> String {
        self.stderr.lock().expect("nobody panics with it").clone()
    }

    /// The next line of its output.
    pub(crate) fn line(&mut self) -> String {
        match self.stdout.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("`{}` says nothing", self.name),
            Err(RecvTimeoutError::Disconnected) => {
                let _ = self.reader.take().map(JoinHandle::join);
                panic!("`{}` has ended: {}", self.name, self.said())
            }
        }
    }

    /// Memory that it really holds, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("the system tells of its processes");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let size = line.and_then(|line| line.trim().strip_suffix(" kB"));
        size.and_then(|size| size.parse().ok())
            .expect("a running process has a size")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("it is a process id");
        let pid = Pid::from_raw(pid).expect("it is a process id");
        kill_process(pid, signal).expect("it has not been waited for, so it is there");
    }

    /// Kills it, and waits until it is gone.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }

    /// Whether it has ended already.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it can be asked").is_some()
    }

    /// Waits until it ends by itself.
    pub(crate) fn end(mut self) -> Ended {
        let name = self.name.clone();
        until(&format!("`{name}` ends"), || self.has_ended());
        let code = self.child.wait().expect("it has ended").code();
        let _ = self.reader.take().map(JoinHandle::join);
        Ended {
            code,
            stdout: self.stdout.iter().collect(),
            stderr: self.said(),
        }
    }

    /// Asks it to end as a service manager does, and waits until it has.
    pub(crate) fn terminate(self) -> Ended {
        self.signal(Signal::TERM);
        self.end()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended; either way nothing of it is left.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "in vain: until {what}");
        sleep(Duration::from_millis(5));
    }
}
