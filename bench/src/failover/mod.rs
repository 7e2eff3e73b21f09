//! pgsteer and what a Rust program would use instead, put through failovers of real servers by the same scripts, under
//! the same application: 32 tasks that write, each in a plain loop that tries again. Every run has servers of its own,
//! started for it.

mod clients;
mod contender;
mod kinds;
mod load;
mod options;
mod outage;
mod pools;
mod primary;
mod program;
mod servers;
mod summary;
mod table;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::page::{has_a_place, insert, on_what};
use contender::{Contender, FOLLOWERS, SPREADERS};
use options::Options;
use table::Table;

/// How long a run goes well before something breaks.
const LEAD: Duration = Duration::from_secs(5);

/// Rows measured at a time.
const AT_ONCE: usize = 2;

pub fn main(arguments: impl Iterator<Item = String>) -> ExitCode {
    let options = match Options::from_arguments(arguments) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("{problem}\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    // Known now, not after all the minutes.
    if let Some(Err(problem)) = options.out.as_deref().map(has_a_place) {
        eprintln!("{problem}");
        return ExitCode::from(2);
    }
    let mut page = on_what();
    match &options.program {
        Some(program) if options.outage => page += &outage::record(program),
        Some(program) => page += &program::record(program),
        None => page += &run_scripts(&options),
    }
    println!("{page}");
    match options.out.as_deref().map(|path| insert(path, &page)) {
        Some(Err(problem)) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// One row to measure: which table it is for, and how it is got.
type Job = (usize, Box<dyn Fn() -> Vec<String> + Send>);

fn run_scripts(options: &Options) -> String {
    let mut tables: Vec<Table> = options.scenarios.iter().copied().map(primary::table).collect();
    let mut jobs: VecDeque<Job> = VecDeque::new();
    for (table, scenario) in options.scenarios.iter().copied().enumerate() {
        for contender in FOLLOWERS.iter().filter(|known| options.wants(known.word)) {
            jobs.push_back((table, Box::new(move || primary::run(scenario, contender))));
        }
    }
    if options.servers {
        for contender in SPREADERS.iter().filter(|known| options.wants(known.word)) {
            jobs.push_back((tables.len(), Box::new(move || servers::run(contender))));
        }
        tables.push(servers::table());
    }
    for (table, row) in measure(jobs) {
        tables[table].add(row);
    }

    let mut page = configured("How each was configured to follow a primary", &FOLLOWERS, options);
    if options.servers {
        page += &configured("How each was configured to use all servers", &SPREADERS, options);
    }
    for table in tables {
        let _ = writeln!(page, "{table}");
    }
    page + &of_sqlx()
}

/// Rows by table, in the order of the jobs. [`AT_ONCE`] are measured at a time, since a script mostly waits.
fn measure(jobs: VecDeque<Job>) -> Vec<(usize, Vec<String>)> {
    let jobs = Mutex::new(jobs.into_iter().enumerate().collect::<VecDeque<_>>());
    let rows = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = jobs.lock().expect("no job holds it").pop_front();
                    let Some((place, (table, job))) = next else { break };
                    let row = job();
                    eprintln!("{}", row.join(" | "));
                    rows.lock().expect("no job holds it").insert(place, (table, row));
                }
            });
        }
    });
    let rows = rows.into_inner().expect("no job holds it");
    rows.into_values().collect()
}

fn configured(title: &str, contenders: &[Contender], options: &Options) -> String {
    let mut text = format!("### {title}\n\n");
    for contender in contenders.iter().filter(|known| options.wants(known.word)) {
        let _ = writeln!(text, "- **{}**: {}", contender.name, contender.configured);
    }
    text + "\n"
}

/// What sqlx makes of the list of hosts that the others were given.
fn of_sqlx() -> String {
    let list = "postgresql://app:app@127.0.0.1:5432,127.0.0.2:5432/app";
    let answer = match list.parse::<sqlx::postgres::PgConnectOptions>() {
        Ok(options) => format!("takes it for one host, `{}`", options.get_host()),
        Err(error) => format!("refuses it: `{error}`"),
    };
    format!("sqlx, given a connection string with two hosts (`{list}`), {answer}.\n")
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all();
    builder.build().expect("a runtime can be made")
}
