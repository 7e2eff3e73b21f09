//! Ends a universe's servers and removes its folder when the test lets go of it, however that happens: dropped at the
//! end, dropped by a panic, or the test process killed outright.
//!
//! A small shell process waits at the end of a pipe whose other end only the test process holds. When that end
//! closes, it looks for processes that work inside the universe's folder and ends them. A death signal to the servers
//! would not do: the kernel sends that when the *thread* that started them ends, and tests are threads.

use std::path::Path;
use std::process::{Child, Stdio};

use crate::failure::{During as _, Outcome};
use crate::programs::Programs;

/// Waits for the pipe to close, then: wakes frozen processes, asks all to quit (a server then releases what it
/// shares), and after five seconds kills what is left. The folder goes once nothing works in it any more. `$1` is the
/// folder.
const SCRIPT: &str = r#"
cd / || exit 1
cat >/dev/null
inside() { find /proc/[0-9]*/cwd -maxdepth 0 -lname "$1/*" 2>/dev/null | cut -d/ -f3; }
round=0
while pids=$(inside "$1"); [ -n "$pids" ]; do
  signal=QUIT
  [ "$round" -lt 100 ] || signal=KILL
  # Again every half second or so, for processes that were just being forked.
  if [ $((round % 20)) -eq 0 ] || [ "$signal" = KILL ]; then
    for pid in $pids; do kill -CONT "$pid" 2>/dev/null; kill -"$signal" "$pid" 2>/dev/null; done
  fi
  round=$((round + 1))
  [ "$round" -lt 200 ] || exit 1
  sleep 0.02
done
rm -rf "$1"
"#;

/// The waiting shell. Dropping it ends the servers and waits until they and their files are gone.
#[derive(Debug)]
pub(crate) struct Watcher(Child);

impl Watcher {
    /// Starts watching over this folder and everything below it.
    pub(crate) fn over(folder: &Path, programs: &Programs) -> Outcome<Self> {
        let mut command = programs.command(Path::new("/bin/sh"));
        command.args(["-c", SCRIPT, "pgsteer-testkit"]).arg(folder);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/");
        command
            .spawn()
            .during("cannot start the shell that watches over the servers")
            .map(Self)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // `wait` closes the pipe first.
        let _ = self.0.wait();
    }
}
