//! `pgsteer bench --json` through a time in which every server is stopped: a row for each second, with what was done to the
//! servers in between, and the lines of JSON around the turning points.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{self, sleep};
use std::time::Duration;

use pgsteer_testkit::HaSet;
use serde_json::Value;

use super::program::{Lines, clock};

const ARGUMENTS: [&str; 9] = [
    "--pool-size",
    "16",
    "--tasks",
    "200",
    "--seconds",
    "100",
    "--query",
    "SELECT 1",
    "--json",
];

const UNTIL_STOPPED: Duration = Duration::from_secs(5);
const OUTAGE: Duration = Duration::from_secs(60);

/// Runs it, and gives the section for the page.
pub fn record(program: &Path) -> String {
    let set = HaSet::start();
    let url = format!("{}?connect_timeout=2", set.url());
    let mut child = Command::new(program)
        .arg("bench")
        .arg(&url)
        .args(ARGUMENTS)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let lines = Lines::default();
    let output = lines.read(child.stdout.take().expect("it is a pipe"));
    let log = Lines::default();
    let logged = log.read(child.stderr.take().expect("it is a pipe"));
    // Its warm-up of a second is not printed.
    sleep(UNTIL_STOPPED + Duration::from_secs(1));
    lines.push(format!("--- {}  all three servers are stopped", clock()));
    thread::scope(|scope| {
        for node in set.nodes() {
            scope.spawn(|| node.stop_immediate());
        }
    });
    sleep(OUTAGE);
    lines.push(format!("--- {}  all three servers are started", clock()));
    thread::scope(|scope| {
        for node in set.nodes() {
            scope.spawn(|| node.start());
        }
    });
    lines.push(format!("--- {}  all three servers run", clock()));
    let status = child.wait().expect("it ends");
    output.join().expect("it was read");
    logged.join().expect("it was read");
    assert!(status.success(), "pgsteer bench: {status}");
    let hosts: Vec<(String, String)> = (0..3)
        .map(|node| (set.node(node).address(), format!("node {node}")))
        .collect();
    page(&lines.take(), &log.take(), &hosts)
}

fn page(lines: &[String], log: &[String], hosts: &[(String, String)]) -> String {
    let renamed = |text: &str| {
        hosts.iter().fold(text.to_owned(), |text, (address, name)| {
            text.replace(address, name)
        })
    };
    let mut page = String::new();
    let _ = writeln!(
        page,
        "    pgsteer bench 'postgresql://…@node 0,node 1,node 2/…?connect_timeout=2' \\\n      {}\n",
        ARGUMENTS.join(" ").replace("SELECT 1", "'SELECT 1'")
    );
    let _ = writeln!(
        page,
        "```text\nsecond      ops  breaker    window  passes failed  turned away  errors in this second"
    );
    let mut total = None;
    for line in lines {
        match serde_json::from_str::<Value>(line) {
            Ok(report) if report["type"] == "second" => page += &row(&report),
            Ok(report) => total = Some(report),
            Err(_) => {
                let _ = writeln!(page, "{line}");
            }
        }
    }
    let _ = writeln!(page, "```\n");
    if let Some(total) = total {
        let _ = writeln!(page, "The last line, without latencies:\n\n```json");
        let mut short = total;
        for figure in ["latency_us", "checkout_us"] {
            short.as_object_mut().map(|figures| figures.remove(figure));
        }
        let text = serde_json::to_string_pretty(&short).unwrap_or_default();
        let _ = writeln!(page, "{}\n```\n", renamed(&text));
    }
    let _ = writeln!(
        page,
        "All that was logged:\n\n```text\n{}\n```",
        renamed(&log.join("\n"))
    );
    page
}

fn row(report: &Value) -> String {
    let status = &report["status"];
    let breaker = &status["breaker"];
    let errors = report["errors"].as_object().into_iter().flatten();
    let errors: Vec<String> = errors.map(|(class, count)| format!("{class}: {count}")).collect();
    // A JSON value does not pad itself to a width; its text does.
    let text = |value: &Value| value.to_string();
    let line = format!(
        "{:>6} {:>8}  {:<9}  {:>6}  {:>13}  {:>11}  {}",
        text(&report["second"]),
        text(&report["ops"]),
        breaker["state"].as_str().unwrap_or("off"),
        text(&breaker["trips"]),
        text(&status["totals"]["open_failures"]),
        text(&status["totals"]["circuit_open"]),
        errors.join(", ")
    );
    format!("{}\n", line.trim_end())
}
