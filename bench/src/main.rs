//! pgsteer beside the pools that a Rust program would use instead, all measured in one run on one machine: rounds are
//! interleaved, so that every contender meets the same conditions, and medians are compared. It starts a PostgreSQL
//! server of its own for the run. Nothing here is part of the product or of its tests.

mod allocations;
mod apart;
mod breaker;
mod contended;
mod contenders;
mod failover;
mod get_and_return;
mod guard;
mod ledger;
mod machine;
mod memory;
mod options;
mod page;
mod picking;
mod pooled;
mod report;
mod router;
mod runtimes;
mod select_one;
mod server;
mod sizes;
mod stops;
mod table;
mod transactions;
mod turns;

use std::process::ExitCode;

use machine::Machine;
use options::{Options, Section};
use report::Report;
use server::Server;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("failover") => return failover::main(std::env::args().skip(2)),
        Some("ledger") => return ledger::main(std::env::args().skip(2)),
        _ => {}
    }
    if std::env::args().nth(1).as_deref() == Some("router") {
        return router::main(std::env::args().skip(2));
    }
    let options = match Options::from_arguments(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("{problem}\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    let server = Server::start();
    let mut report = Report::new(Machine::describe(Some(&server)), &options);
    for section in &options.sections {
        eprintln!("{}", section.title());
        match section {
            Section::GetAndReturn => {
                get_and_return::measure(&server, &options, &mut report);
                memory::measure(&server, &mut report);
            }
            Section::Contended => contended::measure(&server, &options, &mut report),
            Section::SelectOne => select_one::measure(&server, &options, &mut report),
            Section::Sizes => sizes::measure(&options, &mut report),
            Section::Picking => picking::measure(&options, &mut report),
            Section::Breaker => breaker::measure(&options, &mut report),
            Section::Guard => guard::measure(&server, &options, &mut report),
            Section::Transactions => transactions::measure(&server, &options, &mut report),
        }
    }
    report.end();
    let text = report.to_string();
    println!("{text}");
    if let Some(path) = &options.out
        && let Err(error) = std::fs::write(path, text)
    {
        eprintln!("cannot write {}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
