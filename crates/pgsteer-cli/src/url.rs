//! `pgsteer url`: a connection string of any kind as it is understood, every option with its value, as JSON and without secrets.

use pgsteer::config::Config;

use crate::arguments::UrlArguments;
use crate::exit::Failure;
use crate::output::{Output, complain};

/// Reads the connection string and prints what it means, and to standard error what in it has no effect.
///
/// # Errors
///
/// A bad connection string, environment or password file, or output that cannot be written.
pub fn run(arguments: &UrlArguments, output: &mut Output) -> Result<(), Failure> {
    let mut config: Config = arguments.url.parse()?;
    if arguments.environment {
        config = config.with_environment()?;
    }
    config = match &arguments.pgpass {
        None => config,
        Some(None) => config.with_pgpass()?,
        Some(Some(file)) => config.with_pgpass_file(file)?,
    };
    output.pretty_json(&config.describe()?)?;
    for told in config.without_effect() {
        complain(&format!("hint: {told}"));
    }
    Ok(())
}
