//! How the command line is read, for all commands alike.

use std::ffi::OsString;

use clap::{Command, CommandFactory, Error, FromArgMatches};

use crate::arguments::Arguments;

/// Reads a command line.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Arguments, Error> {
    let mut command = Arguments::command().mut_subcommands(set_up);
    let mut matches = command.try_get_matches_from_mut(arguments)?;
    Arguments::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

fn set_up(command: Command) -> Command {
    // Else `-1` is taken for a flag that there is not, and nobody is told what the option takes.
    let command = command.mut_args(
        |arg| match arg.is_positional() || !arg.get_action().takes_values() {
            true => arg,
            false => arg.allow_negative_numbers(true),
        },
    );
    match command.get_after_help().map(|help| flowing(&help.to_string())) {
        Some(help) => command.after_help(help),
        None => command,
    }
}

/// A text without the line breaks inside its paragraphs, which are for the terminal's width to say. Indented lines stay.
fn flowing(text: &str) -> String {
    let mut flowing = String::new();
    let mut before = "";
    for line in text.lines() {
        let starts_anew = |line: &str| line.is_empty() || line.starts_with(' ');
        if !flowing.is_empty() {
            flowing.push(if starts_anew(before) || starts_anew(line) {
                '\n'
            } else {
                ' '
            });
        }
        flowing.push_str(line);
        before = line;
    }
    flowing
}

#[cfg(test)]
mod tests {
    use super::flowing;

    #[test]
    fn paragraphs_flow_and_indented_lines_and_empty_ones_stay() {
        let text = "One\nline.\n\nList:\n  a  1\n  b  2\nAfter\nit.";

        assert_eq!(flowing(text), "One line.\n\nList:\n  a  1\n  b  2\nAfter it.");
    }
}
