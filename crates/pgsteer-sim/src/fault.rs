//! What can be wrong with a simulated server, as plain values. Nothing here acts; [`Server`](crate::Server) carries
//! faults out, and a [`Schedule`](crate::Schedule) puts them on a time line.

use std::fmt;
use std::io;
use std::time::Duration;

use bytes::Bytes;

/// What happens to a connection attempt before a login can begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Accept {
    /// It is accepted and served. The default.
    #[default]
    Serve,
    /// Connection refused.
    Refuse,
    /// The connect fails at once with this kind of error, such as `HostUnreachable` or `NetworkUnreachable`. Over real
    /// TCP the connect is refused instead.
    Fail(io::ErrorKind),
    /// The connect never completes; it does if this ends while somebody still waits. Over real TCP the operating system
    /// completes it all the same and the server then says nothing.
    Blackhole,
    /// Accepted, then silence for as long as the client stays, even when this ends.
    Hang,
    /// Accepted, then closed at once.
    Close,
    /// Accepted, then these bytes and silence, whatever the client says.
    Babble(Bytes),
}

/// What goes wrong during a login.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Login {
    /// Nothing. The default.
    #[default]
    Work,
    /// A FATAL error with this SQLSTATE and text, such as 57P03, 53300, 28P01 or 3D000, once the startup is read.
    Fatal {
        /// Five characters.
        sqlstate: String,
        /// The error's text.
        message: String,
    },
    /// The connection is closed at this point.
    CloseAt(LoginStage),
    /// Nothing more is said from this point on.
    HangAt(LoginStage),
}

impl Login {
    /// A FATAL error with this SQLSTATE and a text that says no more than that.
    pub fn fatal(sqlstate: &str) -> Self {
        let message = match sqlstate {
            "57P03" => "the database system is starting up",
            "53300" => "sorry, too many clients already",
            "28P01" => "password authentication failed",
            "28000" => "no pg_hba.conf entry for this connection",
            "3D000" => "database does not exist",
            "57M02" => "the database system is in recovery mode",
            _ => "the login was refused",
        };
        Login::Fatal {
            sqlstate: sqlstate.to_owned(),
            message: message.to_owned(),
        }
    }
}

/// A point of the login.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LoginStage {
    /// Before TLS is declined. Only met by clients that ask for TLS.
    TlsAsked,
    /// After the startup message has been read.
    StartupRead,
    /// After the login was accepted and before the session is ready.
    Authenticated,
}

/// How a server or one of its sessions goes without a word of farewell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Death {
    /// The process is gone and its socket closed: the client reads an end of file.
    Fin,
    /// The connection is reset.
    Rst,
    /// The host is gone: no packet comes back. A later start of the server answers such a connection's next packet
    /// with a reset.
    Silence,
}

/// How a server is shut down by its administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Shutdown {
    /// Every session gets FATAL 57P01 and is closed.
    Fast,
    /// Every session gets a WARNING 57P01 and is closed.
    Immediate,
    /// A backend has crashed: every session gets a WARNING 57P02 and is closed.
    Crash,
}

/// What `yb_servers()` gives on one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Discovery {
    /// The table all servers share. The default.
    #[default]
    Shared,
    /// These rows, as they are: wrong, doubled, with NULLs, or none.
    Rows(Vec<DiscoveryRow>),
    /// The function does not exist (42883), as on any server but YugabyteDB.
    Missing,
    /// An error with this SQLSTATE.
    Fail(String),
}

/// One row of `yb_servers()`; `None` is NULL. `num_connections` is always 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveryRow {
    /// Name or address.
    pub host: Option<String>,
    /// Port of the YSQL interface.
    pub port: Option<i64>,
    /// `primary` or `read_replica`.
    pub node_type: Option<String>,
    /// Cloud provider.
    pub cloud: Option<String>,
    /// Region.
    pub region: Option<String>,
    /// Zone.
    pub zone: Option<String>,
    /// Public name or address; empty where there is none.
    pub public_ip: Option<String>,
    /// The server's own identity.
    pub uuid: Option<String>,
}

/// Something a server does instead of, or around, running statements whose text matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    pub(crate) matches: String,
    pub(crate) whole: bool,
    pub(crate) skip: u32,
    pub(crate) times: Option<u32>,
    pub(crate) effect: Effect,
}

impl Script {
    /// `effect` for every statement whose text contains `part`, whatever the case. An empty part is in every text.
    pub fn on(part: &str, effect: Effect) -> Self {
        Script {
            matches: part.to_lowercase(),
            whole: false,
            skip: 0,
            times: None,
            effect,
        }
    }

    /// `effect` for every statement whose whole text this is, whatever the case.
    pub fn at(statement: &str, effect: Effect) -> Self {
        Script {
            whole: true,
            ..Script::on(statement, effect)
        }
    }

    /// Only for the first `times` statements that match; then the script is gone.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Only once.
    #[must_use]
    pub fn once(self) -> Self {
        self.times(1)
    }

    /// Lets the first `skip` statements that match pass.
    #[must_use]
    pub fn after(mut self, skip: u32) -> Self {
        self.skip = skip;
        self
    }

    /// Whether it acts on this statement; counts as used if so.
    pub(crate) fn fires(&mut self, lower_case: &str) -> bool {
        let is_meant = match self.whole {
            true => lower_case.trim() == self.matches,
            false => lower_case.contains(&self.matches),
        };
        if self.times == Some(0) || !is_meant {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        self.times = self.times.map(|times| times - 1);
        true
    }
}

/// What a [`Script`] does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Answers with an ERROR; the statement does not run.
    Error {
        /// Five characters.
        sqlstate: String,
        /// The error's text.
        message: String,
    },
    /// Answers with a FATAL error and closes, as a pooler does whose server has gone; the statement does not run.
    Fatal {
        /// Five characters.
        sqlstate: String,
        /// The error's text.
        message: String,
    },
    /// Waits, then runs the statement. A cancel request and `statement_timeout` end the wait.
    Delay(Duration),
    /// Never answers and never runs the statement. Ended by a cancel request only if `cancellable`.
    Hang {
        /// Whether a cancel request and `statement_timeout` end it with 57014.
        cancellable: bool,
    },
    /// Runs the statement and never answers.
    RunThenHang,
    /// Dies instead of running the statement.
    DieBefore(Death, Scope),
    /// Runs the statement, so that a COMMIT is really committed, and dies before it answers.
    DieAfter(Death, Scope),
    /// Runs the statement, sends only the first bytes of everything it has to say, and dies.
    CutAnswer {
        /// How many bytes are sent.
        bytes: usize,
        /// How the session goes.
        death: Death,
    },
    /// Runs the statement and sends these bytes instead of the answer.
    Raw(Bytes),
    /// Runs the statement and answers with another command tag.
    Tag(String),
    /// Sends a WARNING with this SQLSTATE, then runs the statement.
    Warn {
        /// Five characters.
        sqlstate: String,
        /// The warning's text.
        message: String,
    },
}

impl Effect {
    /// An ERROR with this SQLSTATE.
    pub fn error(sqlstate: &str) -> Self {
        Effect::Error {
            sqlstate: sqlstate.to_owned(),
            message: format!("scripted error {sqlstate}"),
        }
    }

    /// A FATAL error with this SQLSTATE.
    pub fn fatal(sqlstate: &str) -> Self {
        Effect::Fatal {
            sqlstate: sqlstate.to_owned(),
            message: format!("scripted fatal error {sqlstate}"),
        }
    }
}

/// Who dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The session that ran the statement.
    Session,
    /// The whole server, with every session.
    Server,
}

/// How the servers check who logs in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Auth {
    /// Everybody may. The default.
    #[default]
    Trust,
    /// The password in clear text.
    Cleartext,
    /// The password hashed with MD5 and a salt.
    Md5,
    /// SCRAM-SHA-256.
    Scram,
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Death::Fin => "fin",
            Death::Rst => "rst",
            Death::Silence => "silence",
        })
    }
}

impl fmt::Display for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Shutdown::Fast => "fast",
            Shutdown::Immediate => "immediate",
            Shutdown::Crash => "crash",
        })
    }
}
