//! Holding the two ends of a connection on one core, so that where the scheduler puts them is not what is measured: a round
//! trip between two cores takes more than twice as long as one on the same core, and which it is changes by itself.

use std::process::{Command, Stdio};

/// This thread and some processes are on the first core until this is dropped; then the thread may run anywhere again.
#[must_use]
pub struct OneCore {
    cores: usize,
}

impl OneCore {
    /// For the main thread only, whose number is the process's.
    pub fn hold(processes: &[i32]) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let held = OneCore { cores };
        run_on("0", std::process::id());
        for process in processes {
            run_on("0", process);
        }
        held
    }
}

impl Drop for OneCore {
    fn drop(&mut self) {
        // Threads that are started later take after this one.
        run_on(&format!("0-{}", self.cores - 1), std::process::id());
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
