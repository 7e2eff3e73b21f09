//! Long runs of the ledger: what callers of transactions are told is held against what is there, after minutes of
//! everything that can be done to servers. The runs are those of the product's own test, which makes short ones.

mod options;
#[path = "../../../crates/pgsteer/tests/ledger/run/mod.rs"]
mod run;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::page::{has_a_place, insert, on_what};
use crate::runtimes::two_workers;
use options::{Options, Servers};
use run::{Ha, Many, Outcome, Plan, Site};

/// The longest that something stays broken.
const LONGEST: Duration = Duration::from_secs(3);

const TASKS: usize = 32;

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
    let mut outcomes = Vec::new();
    for (servers, resolve) in options.runs() {
        let site: Arc<dyn Site> = match servers {
            Servers::Ha => Arc::new(Ha::start()),
            Servers::Universe => Arc::new(Many::start()),
        };
        let plan = Plan {
            seed: options.seed,
            faults: site.faults().to_vec(),
            time: Some(options.time),
            longest: LONGEST,
            tasks: TASKS,
            resolve: Some(resolve),
        };
        eprintln!("{}, resolve_commit {resolve}, seed {}", site.name(), plan.seed);
        let outcome = two_workers().block_on(run::run(site, plan));
        eprint!("{outcome}{}", outcome.wrong());
        outcomes.push(outcome);
    }
    page += &format!("    pgsteer-bench ledger {}\n\n", options.told());
    page += &Outcome::table(&outcomes);
    for outcome in &outcomes {
        page += &outcome.details();
    }
    println!("{page}");
    let written = options.out.as_deref().map_or(Ok(()), |path| insert(path, &page));
    if let Err(problem) = &written {
        eprintln!("{problem}");
    }
    let all_true = outcomes.iter().all(|outcome| outcome.wrong().is_empty());
    if all_true && written.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
