//! Holding the two ends of a connection on a core each, so that where the scheduler puts them is not what is measured: a
//! round trip between two cores takes more than twice as long as one within a core, and which it is changes by itself.

use std::process::{Command, Stdio};

/// This thread is on the first core and some of the server's processes on the last, as they would be on machines of their
/// own, until this is dropped; then the thread may run anywhere again.
#[must_use]
pub struct Apart {
    last: usize,
}

impl Apart {
    /// For the main thread only, whose number is the process's.
    pub fn hold(server: &[i32]) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let held = Apart { last: cores - 1 };
        run_on("0", std::process::id());
        for process in server {
            run_on(&held.last.to_string(), process);
        }
        held
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // Threads that are started later take after this one.
        run_on(&format!("0-{}", self.last), std::process::id());
    }
}

fn run_on(cores: &str, process: impl ToString) {
    let process = process.to_string();
    let status = Command::new("taskset")
        .args(["-cp", cores, &process])
        .stdout(Stdio::null())
        .status();
    let done = status.is_ok_and(|status| status.success());
    assert!(
        done,
        "taskset (Debian: util-linux) cannot put process {process} on core {cores}"
    );
}
