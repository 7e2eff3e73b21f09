//! What a server wrote about its clients: logins, refusals, statements. Read from the server's log file, whose line
//! prefix the template sets so that a line can be taken apart without guessing.

use std::collections::BTreeSet;

/// Sets the line prefix that [`LogLine`] is read by: process, user, application, SQLSTATE.
pub(crate) const LINE_PREFIX: &str = "%p|%u|%a|%e|";

/// SQLSTATEs by which a server ends a session that had already begun. Any other FATAL line is a login refused.
const SESSION_ENDS: [&str; 8] = [
    "57P01", "57P02", "57P04", "57P05", "25P03", "25P04", "08006", "08P01",
];

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The server process that wrote it.
    pub pid: i32,
    /// Who was logging in or logged in; empty before the server knows.
    pub user: String,
    /// The client's application name.
    pub application: String,
    /// `00000` unless the line is about an error.
    pub sqlstate: String,
    /// `LOG`, `ERROR`, `FATAL`, …
    pub level: String,
    /// The text, with its continuation lines.
    pub message: String,
}

/// A server's log from its first start up to the moment it was read.
#[derive(Clone, Debug)]
pub struct Log(Vec<LogLine>);

impl Log {
    pub(crate) fn parse(text: &str) -> Self {
        let mut lines: Vec<LogLine> = Vec::new();
        for line in text.lines() {
            match (parse_line(line), lines.last_mut()) {
                (Some(line), _) => lines.push(line),
                (None, Some(last)) => {
                    last.message.push('\n');
                    last.message.push_str(line.trim_start());
                }
                (None, None) => {}
            }
        }
        Self(lines)
    }

    /// All lines, oldest first.
    #[must_use]
    pub fn lines(&self) -> &[LogLine] {
        &self.0
    }

    /// The lines written after an earlier reading of the same log.
    #[must_use]
    pub fn since(&self, earlier: &Log) -> Log {
        Self(self.0.get(earlier.0.len()..).unwrap_or_default().to_vec())
    }

    /// How often this user tried to log in, with or without success.
    #[must_use]
    pub fn login_attempts(&self, user: &str) -> usize {
        let of_user = self.0.iter().filter(|line| line.user == user);
        of_user
            .filter(|line| is_accepted(line) || is_refused(line))
            .map(|line| line.pid)
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// How often this user was refused: a wrong password, a missing database, no free session, …
    #[must_use]
    pub fn failed_logins(&self, user: &str) -> usize {
        self.0
            .iter()
            .filter(|line| line.user == user && is_refused(line))
            .count()
    }

    /// How often this user logged in.
    #[must_use]
    pub fn logins(&self, user: &str) -> usize {
        self.login_attempts(user) - self.failed_logins(user)
    }

    /// The statements that clients of this application name ran, oldest first. The server must have been started
    /// with [`ServerSpec::log_statements`](crate::ServerSpec::log_statements).
    #[must_use]
    pub fn statements(&self, application: &str) -> Vec<String> {
        let of_application = self
            .0
            .iter()
            .filter(|line| line.application == application && line.level == "LOG");
        of_application
            .filter_map(|line| statement(&line.message))
            .map(str::to_owned)
            .collect()
    }

    /// How many lines the server wrote about anything that clients of this application name sent it. With
    /// [`ServerSpec::log_statements`](crate::ServerSpec::log_statements) each parse, bind and execute makes one, so
    /// an unchanged count means that they sent nothing.
    #[must_use]
    pub fn activity(&self, application: &str) -> usize {
        self.0
            .iter()
            .filter(|line| line.application == application)
            .count()
    }
}

fn is_accepted(line: &LogLine) -> bool {
    line.level == "LOG" && line.message.starts_with("connection authorized:")
}

fn is_refused(line: &LogLine) -> bool {
    line.level == "FATAL" && !SESSION_ENDS.contains(&line.sqlstate.as_str())
}

fn statement(message: &str) -> Option<&str> {
    if let Some(text) = message.strip_prefix("statement: ") {
        return Some(text);
    }
    // "execute NAME: TEXT", where NAME is `<unnamed>` or a prepared statement's.
    message
        .strip_prefix("execute ")?
        .split_once(": ")
        .map(|(_, text)| text)
}

fn parse_line(line: &str) -> Option<LogLine> {
    let mut fields = line.splitn(5, '|');
    let pid = fields.next()?.parse().ok()?;
    let mut text = || fields.next().map(str::to_owned);
    let (user, application, sqlstate) = (text()?, text()?, text()?);
    let (level, message) = fields.next()?.split_once(":  ")?;
    Some(LogLine {
        pid,
        user,
        application,
        sqlstate,
        level: level.to_owned(),
        message: message.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continuation_lines_belong_to_the_line_before_them() {
        let log =
            Log::parse("7|app|pool|00000|LOG:  statement: SELECT 1\n\tFROM t\n7|app|pool|00000|LOG:  done\n");
        assert_eq!(log.lines().len(), 2);
        assert_eq!(log.statements("pool"), ["SELECT 1\nFROM t"]);
    }

    #[test]
    fn logins_are_counted_by_process_and_session_ends_are_no_refusals() {
        let log = Log::parse(
            "1|||00000|LOG:  connection received: host=127.0.0.1\n\
             1|app||00000|LOG:  connection authorized: user=app\n\
             1|app||57P01|FATAL:  terminating connection due to administrator command\n\
             2|app||28P01|FATAL:  password authentication failed for user \"app\"\n\
             3|app||00000|LOG:  connection authorized: user=app\n\
             3|app||3D000|FATAL:  database \"none\" does not exist\n\
             4|other||53300|FATAL:  sorry, too many clients already\n",
        );
        assert_eq!(
            (
                log.login_attempts("app"),
                log.failed_logins("app"),
                log.logins("app")
            ),
            (3, 2, 1)
        );
        assert_eq!(
            (
                log.login_attempts("other"),
                log.failed_logins("other"),
                log.logins("other")
            ),
            (1, 1, 0)
        );
    }
}
