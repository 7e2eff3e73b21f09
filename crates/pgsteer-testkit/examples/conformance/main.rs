//! Keeps `docs/conformance.md` true: which behaviour is shown by which test. `update` writes the table's last column
//! from the `Covers:` lines above the tests; `check LOG` fails unless the table is complete, up to date, and every test
//! in it passed in the run of `cargo test` whose output is LOG.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

mod sources;
mod table;
mod test_log;

use table::Table;

const USAGE: &str = "usage: conformance update | conformance check LOG";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["update"] => update(),
        ["check", log] => check(Path::new(log)),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("conformance: {why}");
            ExitCode::FAILURE
        }
    }
}

fn update() -> Result<String, String> {
    let (path, text) = document()?;
    let table = Table::read(&text)?;
    let covers = sources::collect(&root().join("crates"))?;
    table.unknown_cases(&covers)?;
    let new = table.with_tests(&covers);
    fs::write(&path, &new).map_err(|error| format!("cannot write {path}: {error}"))?;
    Ok(Table::read(&new)?.summary())
}

fn check(log: &Path) -> Result<String, String> {
    let (path, text) = document()?;
    let table = Table::read(&text)?;
    let covers = sources::collect(&root().join("crates"))?;
    table.unknown_cases(&covers)?;
    if table.with_tests(&covers) != text {
        return Err(format!("{path} is out of date: run scripts/conformance update"));
    }
    let log = fs::read_to_string(log).map_err(|error| format!("cannot read {}: {error}", log.display()))?;
    table.complete(&test_log::passed(&log))?;
    Ok(table.summary())
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn document() -> Result<(String, String), String> {
    let path = root().join("docs/conformance.md").display().to_string();
    let text = fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
    Ok((path, text))
}
