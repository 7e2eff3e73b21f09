//! Pages of their own for what is recorded: what it was measured on, and a place between two lines of the page where that
//! and the figures go.

use std::path::Path;

use crate::machine::{self, Machine};
use crate::server::Server;

const BEGIN: &str = "<!-- measured: begin -->\n";
const END: &str = "<!-- measured: end -->";

pub fn on_what() -> String {
    let server = Server::start();
    let machine = Machine::describe(Some(&server));
    let yugabyte = machine::version("yb-tokio-postgres");
    format!("{machine}\n- yb-tokio-postgres {yugabyte}\n\n")
}

/// Puts the text between the two lines of the file.
pub fn insert(path: &Path, text: &str) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let page = std::fs::read_to_string(path).map_err(told)?;
    let parts = page
        .split_once(BEGIN)
        .and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    let (head, tail) = parts.ok_or_else(|| format!("{} lacks the two lines", path.display()))?;
    std::fs::write(path, format!("{head}{BEGIN}\n{text}\n{END}{tail}")).map_err(told)
}

/// What is between the two lines of a page, without what it was measured on: from the command on, which is the first
/// line that is set in.
pub fn figures(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once(BEGIN)?;
    let (measured, _) = rest.split_once(END)?;
    let (_, figures) = measured.split_once("\n    ")?;
    Some(figures)
}
