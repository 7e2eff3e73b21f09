//! pgsteer and what a Rust program would use instead, put through failovers of real servers by the same scripts, under
//! the same application: 32 tasks that write, each in a plain loop that tries again. Every run has servers of its own,
//! started for it.

mod clients;
mod contender;
mod kinds;
mod load;
mod options;
mod pools;
mod primary;
mod program;
mod servers;
mod summary;
mod table;

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::machine::{self, Machine};
use crate::server::Server;
use contender::{Contender, FOLLOWERS, SPREADERS};
use options::Options;

/// How long a run goes well before something breaks.
const LEAD: Duration = Duration::from_secs(5);

const BEGIN: &str = "<!-- measured: begin -->\n";
const END: &str = "<!-- measured: end -->";

pub fn main(arguments: impl Iterator<Item = String>) -> ExitCode {
    let options = match Options::from_arguments(arguments) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("{problem}\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    let mut page = on_what();
    match &options.program {
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

fn run_scripts(options: &Options) -> String {
    let mut page = configured("How each was configured", &FOLLOWERS, options);
    let wanted = |contenders: &'static [Contender]| {
        contenders
            .iter()
            .filter(|contender| options.wants(contender.word))
    };
    for scenario in options.scenarios.iter().copied() {
        let mut table = primary::table(scenario);
        for contender in wanted(&FOLLOWERS) {
            eprintln!("{}: {}", scenario.word(), contender.name);
            let row = primary::run(scenario, contender);
            eprintln!("  {}", row.join(" | "));
            table.add(row);
        }
        let _ = writeln!(page, "{table}");
    }
    if options.servers {
        let mut table = servers::table();
        for contender in wanted(&SPREADERS) {
            eprintln!("servers: {}", contender.name);
            let row = servers::run(contender);
            eprintln!("  {}", row.join(" | "));
            table.add(row);
        }
        let _ = writeln!(page, "{table}");
        page += &configured("How each was configured for that", &SPREADERS, options);
    }
    page += &of_sqlx();
    page
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

fn on_what() -> String {
    let server = Server::start();
    let machine = Machine::describe(&server);
    let yugabyte = machine::version("yb-tokio-postgres");
    format!("{machine}\n- yb-tokio-postgres {yugabyte}\n\n")
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all();
    builder.build().expect("a runtime can be made")
}

/// Puts the text between the two lines of the file.
fn insert(path: &std::path::Path, page: &str) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(told)?;
    let parts = text
        .split_once(BEGIN)
        .and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    let (head, tail) = parts.ok_or_else(|| format!("{} lacks the two lines", path.display()))?;
    std::fs::write(path, format!("{head}{BEGIN}\n{page}\n{END}{tail}")).map_err(told)
}
