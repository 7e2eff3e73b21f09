//! A postmaster as a child of the test process: starting it, waiting for it to come up, waiting for it to end.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::failure::{During as _, Failure, Outcome};
use crate::processes::{signal, wait_until, working_in};
use crate::programs::Programs;
use crate::sql::{Session, SqlError};

/// Longest wait for a server to come up, go down or take note of something.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A running postmaster, our child.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn is_alive(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|end| end.is_none())
    }

    /// The postmaster's pid, if it runs.
    pub(crate) fn living_pid(&mut self) -> Option<Pid> {
        if !self.is_alive() {
            return None;
        }
        Pid::from_raw(i32::try_from(self.0.id()).ok()?)
    }

    /// Stops it in fast mode.
    pub(crate) fn shut_down(&mut self, data: &Path) -> Outcome<()> {
        if let Some(pid) = self.living_pid() {
            signal(pid, data, Signal::INT);
        }
        self.wait_for_end(data)
    }

    /// Waits until the postmaster and everything in its data folder are gone.
    pub(crate) fn wait_for_end(&mut self, data: &Path) -> Outcome<()> {
        if wait_until(LIMIT, || !self.is_alive() && working_in(data).is_empty()) {
            return Ok(());
        }
        Err(Failure::new(format!(
            "the server in {} does not end",
            data.display()
        )))
    }
}

impl Drop for Process {
    /// The universe's watcher has ended it by now; this only takes note, so that no zombie stays.
    fn drop(&mut self) {
        let _ = wait_until(Duration::from_secs(1), || !self.is_alive());
    }
}

/// When a server counts as started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// It takes sessions.
    Sessions,
    /// It is a standby that takes none, and replays.
    Replaying,
}

impl Readiness {
    fn is_reached(self, error: &SqlError) -> bool {
        // A server that is still on its way there says "starting up".
        self == Self::Replaying && error.message == "the database system is not accepting connections"
    }
}

/// Starts a server on a data folder and waits until it is ready on its Unix socket.
pub(crate) fn start_bare(
    programs: &Programs,
    data: &Path,
    socket_folder: &Path,
    log: &Path,
    port: u16,
    settings: &[(String, String)],
    readiness: Readiness,
) -> Outcome<Process> {
    let log_file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .at("cannot open", log)?;
    let mut command = programs.server_program("postgres");
    command.current_dir(data).arg("-D").arg(data);
    command
        .arg("-c")
        .arg(format!("unix_socket_directories={}", socket_folder.display()));
    for (name, value) in settings {
        command.arg("-c").arg(format!("{name}={value}"));
    }
    command.stdout(Stdio::null()).stderr(log_file);
    let mut process = Process(command.spawn().during("cannot start postgres")?);
    let mut last = String::new();
    let up = wait_until(LIMIT, || match Session::open(socket_folder, port, "template1") {
        Ok(_) => true,
        Err(error) => {
            last = error.to_string();
            readiness.is_reached(&error) || !process.is_alive()
        }
    });
    if up && process.is_alive() {
        return Ok(process);
    }
    let words = fs::read_to_string(log).unwrap_or_default();
    let tail: Vec<&str> = words.lines().rev().take(8).collect();
    let tail: Vec<&str> = tail.into_iter().rev().collect();
    Err(Failure::new(format!(
        "a server did not come up ({last}). Its log ends:\n{}",
        tail.join("\n")
    )))
}
