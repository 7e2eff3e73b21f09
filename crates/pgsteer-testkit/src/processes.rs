//! The processes of one server, found by their working folder: a PostgreSQL server and everything it forks work in
//! its data folder. No signal goes to a process that was not just seen there, so none can hit a stranger.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a look at the processes is good for before the next one.
pub(crate) const GLANCE: Duration = Duration::from_millis(5);

/// Every living process that works in this folder. Zombies have no folder, so they are not among them.
pub(crate) fn working_in(folder: &Path) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let number: i32 = entry.file_name().to_str()?.parse().ok()?;
            let pid = Pid::from_raw(number)?;
            works_in(pid, folder).then_some(pid)
        })
        .collect()
}

/// Whether this process lives and works in this folder.
pub(crate) fn works_in(pid: Pid, folder: &Path) -> bool {
    fs::read_link(format!("/proc/{}/cwd", pid.as_raw_pid())).is_ok_and(|cwd| cwd == folder)
}

/// Signals one process, if it still works in this folder.
pub(crate) fn signal(pid: Pid, folder: &Path, signal: Signal) {
    if works_in(pid, folder) {
        let _ = kill_process(pid, signal);
    }
}

/// Signals every process of the folder save one.
pub(crate) fn signal_others(spared: Pid, folder: &Path, what: Signal) {
    for pid in working_in(folder) {
        if pid != spared {
            signal(pid, folder, what);
        }
    }
}

/// Whether the kernel has really stopped this process, or it is gone.
pub(crate) fn is_stopped(pid: Pid) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())) else {
        return true;
    };
    // The state follows the program's name, which is in brackets and may hold anything.
    let state = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.trim_start().chars().next());
    matches!(state, Some('T' | 't' | 'Z' | 'X') | None)
}

/// Looks again and again until the condition holds. False when the time is over.
pub(crate) fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while !condition() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(GLANCE);
    }
    true
}
