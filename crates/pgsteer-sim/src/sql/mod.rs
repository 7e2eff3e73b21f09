//! The little SQL that the simulated servers speak: tokens, statements, expressions, values and the ledger table.
//!
//! Everything here is pure. It knows no session and no network; what a statement needs from its surroundings comes
//! in through [`eval::Surroundings`]. Statements it does not know are syntax errors, as the real server would say.

mod cursor;
pub(crate) mod describe;
pub(crate) mod eval;
pub(crate) mod expression;
pub(crate) mod ledger;
mod operator;
pub(crate) mod parse;
mod queries;
pub(crate) mod statement;
pub(crate) mod token;
pub(crate) mod value;

/// An error answer: an SQLSTATE and its text. Severity ERROR; a FATAL ends the session and is made elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SqlError {
    pub(crate) sqlstate: String,
    pub(crate) message: String,
}

impl SqlError {
    pub(crate) fn new(sqlstate: &str, message: impl Into<String>) -> Self {
        SqlError {
            sqlstate: sqlstate.to_owned(),
            message: message.into(),
        }
    }

    pub(crate) fn syntax(near: &str) -> Self {
        if near.is_empty() {
            SqlError::new("42601", "syntax error at end of input")
        } else {
            SqlError::new("42601", format!("syntax error at or near \"{near}\""))
        }
    }
}
