//! `pgsteer bench` writing to a primary that is killed: its own output, with what was done to the servers in between.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, SystemTime};

use pgsteer_testkit::{HaSet, USER};

use super::contender::TASKS;

const UNTIL_KILLED: Duration = Duration::from_secs(5);
const UNTIL_PROMOTED: Duration = Duration::from_secs(2);
const UNTIL_REJOINED: Duration = Duration::from_secs(5);

/// Runs it, and gives the section for the page.
pub fn record(program: &Path) -> String {
    let set = HaSet::start();
    set.node(0).sql(
        "CREATE TABLE writes (id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp())",
    );
    set.node(0).sql(&format!("ALTER TABLE writes OWNER TO {USER}"));
    set.wait_caught_up(1, 0);
    let url = format!("{}?target_session_attrs=read-write&connect_timeout=2", set.url());
    let tasks = TASKS.to_string();
    let arguments = [
        "--pool-size",
        &tasks,
        "--tasks",
        &tasks,
        "--seconds",
        "20",
        "--query",
        "INSERT INTO writes DEFAULT VALUES",
    ];
    let mut child = Command::new(program)
        .arg("bench")
        .arg(&url)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let lines = Lines::default();
    let reader = lines.read(child.stdout.take().expect("it is a pipe"));
    let note = |what: &str| {
        let at = clock();
        lines.push(format!("--- {at}  {what}"));
        at
    };
    // Its warm-up of a second is not printed.
    sleep(UNTIL_KILLED + Duration::from_secs(1));
    note("the primary, node 0, is killed");
    set.node(0).kill();
    sleep(UNTIL_PROMOTED);
    note("node 1 is told to promote itself");
    set.promote(1);
    let promoted = note("node 1 takes writes");
    set.follow(2, 1);
    sleep(UNTIL_REJOINED);
    set.rejoin(0, 1);
    note("node 0 has rejoined as a standby");
    let status = child.wait().expect("it ends");
    reader.join().expect("it was read");
    assert!(status.success(), "pgsteer bench: {status}");

    let lines = lines.take();
    let resumed = lines.iter().find_map(|line| resumed(line));
    let mut page = String::new();
    let shown = ["target_session_attrs=read-write", "connect_timeout=2"].join("&");
    let _ = writeln!(
        page,
        "    pgsteer bench 'postgresql://…@node 0,node 1,node 2/…?{shown}' \\\n      {}\n",
        arguments.join(" ").replace(
            "INSERT INTO writes DEFAULT VALUES",
            "'INSERT INTO writes DEFAULT VALUES'"
        )
    );
    let hosts = (0..3).map(|node| (set.node(node).address(), format!("node {node}")));
    let renamed = hosts.fold(lines.join("\n"), |text, (address, name)| {
        text.replace(&address, &name)
    });
    let _ = writeln!(page, "```text\n{renamed}\n```\n");
    let _ = match resumed {
        Some(resumed) => writeln!(
            page,
            "First success after node 1 was seen to take writes: {:+.3} s.",
            milliseconds(&resumed) as f64 / 1000.0 - milliseconds(&promoted) as f64 / 1000.0
        ),
        None => writeln!(page, "The output names no time without a success."),
    };
    page
}

/// What a program has written so far, with notes in between.
#[derive(Clone, Default)]
pub struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    pub fn push(&self, line: String) {
        eprintln!("{line}");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    /// Takes in every line of the output as it comes.
    pub fn read(&self, output: impl Read + Send + 'static) -> JoinHandle<()> {
        let lines = self.clone();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                lines.push(line);
            }
        })
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The time of day, UTC, as `pgsteer bench` writes it.
pub fn clock() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()[11..23].to_owned()
}

/// When the outage that this line tells of was over.
fn resumed(line: &str) -> Option<String> {
    let (_, rest) = line.strip_prefix("no success for ")?.split_once(" to ")?;
    Some(rest.get(..12)?.to_owned())
}

/// Since midnight.
fn milliseconds(clock: &str) -> u64 {
    let parts = clock
        .split([':', '.'])
        .map(|part| part.parse::<u64>().unwrap_or(0));
    parts
        .zip([3_600_000, 60_000, 1000, 1])
        .map(|(part, unit)| part * unit)
        .sum()
}
