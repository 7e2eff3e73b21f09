//! The statements this server understands, as values. Parsing makes them, the session carries them out.

use super::expression::Expression;

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Statement {
    Select(Select),
    Insert(Insert),
    Update {
        note: Expression,
        filter: Option<Expression>,
    },
    Delete {
        filter: Option<Expression>,
    },
    Begin {
        read_only: Option<bool>,
    },
    Commit,
    Rollback,
    Savepoint(String),
    RollbackTo(String),
    Release(String),
    Set {
        name: String,
        value: Option<String>,
        local: bool,
    },
    /// SET TRANSACTION and SET SESSION CHARACTERISTICS: only READ ONLY and READ WRITE mean anything here.
    SetTransaction {
        read_only: Option<bool>,
    },
    Reset(Option<String>),
    Show(String),
    DiscardAll,
    Deallocate(Option<String>),
    /// Accepted without effect; the text is the command tag.
    Nothing(&'static str),
    CopyIn,
    CopyOut(Select),
}

/// A SELECT.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Select {
    pub(crate) items: Vec<Item>,
    pub(crate) from: Option<Source>,
    pub(crate) filter: Option<Expression>,
    pub(crate) limit: Option<Expression>,
}

/// One thing selected.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    Star,
    Expression { expression: Expression, name: String },
}

/// Where rows come from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    YbServers,
    Ledger,
    Series {
        from: Expression,
        to: Expression,
    },
    ControlSystem,
    ControlCheckpoint,
    /// Every row of one with every row of the other.
    Both(Box<Source>, Box<Source>),
}

/// An INSERT into the ledger. `columns` holds `true` for the id column, `false` for the note.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Insert {
    pub(crate) columns: Vec<bool>,
    pub(crate) rows: Vec<Vec<Expression>>,
    pub(crate) returning: Vec<Item>,
}

impl Statement {
    /// Whether it may run inside a transaction that has failed.
    pub(crate) fn ends_failure(&self) -> bool {
        matches!(
            self,
            Statement::Commit | Statement::Rollback | Statement::RollbackTo(_)
        )
    }

    /// Whether it writes to the ledger, which a standby and a read-only transaction refuse; the command's name.
    pub(crate) fn writes(&self) -> Option<&'static str> {
        match self {
            Statement::Insert(_) => Some("INSERT"),
            Statement::Update { .. } => Some("UPDATE"),
            Statement::Delete { .. } => Some("DELETE"),
            Statement::CopyIn => Some("COPY FROM"),
            _ => None,
        }
    }

    /// Whether it asks for the list of servers.
    pub(crate) fn is_discovery(&self) -> bool {
        matches!(self, Statement::Select(select) if select.from == Some(Source::YbServers))
    }
}
