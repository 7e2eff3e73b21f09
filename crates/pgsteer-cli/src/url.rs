//! `pgsteer url`: a connection string as it is understood, every option with its value, as JSON and without secrets.

use pgsteer::config::Config;

use crate::arguments::UrlArguments;
use crate::exit::Failure;
use crate::output::{Output, complain};

/// Reads the connection string and prints what it means, and to standard error what in it has no effect.
///
/// # Errors
///
/// A bad connection string, or output that cannot be written.
pub fn run(arguments: &UrlArguments, output: &mut Output) -> Result<(), Failure> {
    let config: Config = arguments.url.parse()?;
    output.pretty_json(&config.describe()?)?;
    for told in config.without_effect() {
        complain(&format!("hint: {told}"));
    }
    Ok(())
}
