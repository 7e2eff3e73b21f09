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

/// Whether the file has the two lines that figures go between.
pub fn has_a_place(path: &Path) -> Result<(), String> {
    around(path).map(drop)
}

/// Puts the text between the two lines of the file.
pub fn insert(path: &Path, text: &str) -> Result<(), String> {
    let (head, tail) = around(path)?;
    let page = format!("{head}{BEGIN}\n{text}\n{END}{tail}");
    std::fs::write(path, page).map_err(|error| format!("{}: {error}", path.display()))
}

/// What is before the two lines and behind them.
fn around(path: &Path) -> Result<(String, String), String> {
    let page = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let parts = page
        .split_once(BEGIN)
        .and_then(|(head, rest)| Some((head.to_owned(), rest.split_once(END)?.1.to_owned())));
    parts.ok_or_else(|| format!("{} lacks the two lines that figures go between", path.display()))
}

/// What is between the two lines of a page, without what it was measured on: from the command on, which is the first
/// line that is set in.
pub fn figures(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once(BEGIN)?;
    let (measured, _) = rest.split_once(END)?;
    let (_, figures) = measured.split_once("\n    ")?;
    Some(figures)
}
