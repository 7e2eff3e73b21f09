//! Errors as classes that can be counted. What a server's answer means is the library's decision; this only names it.

use pgsteer::Error;
use pgsteer_core::verdict::{Class, Evidence, classify};

/// The class of connections that died under their holder.
pub const CONNECTION_LOST: &str = "connection_lost";

/// The class of an error: short, stable, fit for a JSON key.
pub fn class(error: &Error) -> String {
    match error {
        Error::Config(_) => "config".to_owned(),
        Error::CheckoutTimeout(_) => "checkout_timeout".to_owned(),
        Error::Connect(_) => "connect".to_owned(),
        Error::Login(_) => "login".to_owned(),
        Error::NoNode(_) => "no_node".to_owned(),
        Error::NoFit(_) => "no_fit".to_owned(),
        Error::AfterConnect(_) => "after_connect".to_owned(),
        Error::CircuitOpen { .. } => "circuit_open".to_owned(),
        Error::NoServer => "no_server".to_owned(),
        Error::Closed => "pool_closed".to_owned(),
        Error::ConnectionLost(_) => CONNECTION_LOST.to_owned(),
        Error::Postgres(error) => of_driver(error),
        _ => "other".to_owned(),
    }
}

/// The class of an error of the driver.
pub fn of_driver(error: &pgsteer::tokio_postgres::Error) -> String {
    if let Some(answer) = error.as_db_error() {
        let sqlstate = answer.code().code();
        let fatal = matches!(answer.severity(), "FATAL" | "PANIC");
        return match classify(&Evidence::Server { fatal, sqlstate }) {
            Class::ConnectionLost => CONNECTION_LOST.to_owned(),
            _ => format!("sqlstate_{sqlstate}"),
        };
    }
    let broken = std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>());
    if error.is_closed() || broken {
        CONNECTION_LOST.to_owned()
    } else {
        "driver".to_owned()
    }
}
