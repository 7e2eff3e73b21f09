//! Failures as short words that can be counted, the same for all contenders.

use std::error::Error as _;
use std::io;

/// What a driver's error is called. The drivers' error types are the same by shape and not by type.
macro_rules! driver_kind {
    ($name:ident, $error:ty) => {
        pub fn $name(error: &$error) -> String {
            if let Some(said) = error.as_db_error() {
                return said.code().code().to_owned();
            }
            if let Some(error) = error
                .source()
                .and_then(|source| source.downcast_ref::<io::Error>())
            {
                return of_io(error);
            }
            if error.is_closed() {
                return "connection closed".to_owned();
            }
            error.to_string()
        }
    };
}

driver_kind!(of_tokio_postgres, tokio_postgres::Error);
driver_kind!(of_yugabyte, yb_tokio_postgres::Error);

fn of_io(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "refused".to_owned(),
        // How these drivers report that no host is writable.
        io::ErrorKind::PermissionDenied => "read-only host".to_owned(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => "connection reset".to_owned(),
        io::ErrorKind::UnexpectedEof => "connection closed".to_owned(),
        io::ErrorKind::TimedOut => "connect timeout".to_owned(),
        kind => format!("io {kind:?}"),
    }
}

pub fn of_pgsteer(error: &pgsteer::Error) -> String {
    use pgsteer::Error;
    match error {
        Error::CheckoutTimeout(_) => "checkout timeout".to_owned(),
        Error::Connect(_) => "no host could be connected to".to_owned(),
        Error::Login(_) => "login refused".to_owned(),
        Error::Postgres(error) => of_tokio_postgres(error),
        other => other.to_string().split(':').next().unwrap_or_default().to_owned(),
    }
}

pub fn of_deadpool(error: &deadpool_postgres::PoolError) -> String {
    use deadpool_postgres::{PoolError, TimeoutType};
    match error {
        PoolError::Timeout(TimeoutType::Wait) => "wait timeout".to_owned(),
        PoolError::Timeout(TimeoutType::Create) => "create timeout".to_owned(),
        PoolError::Timeout(TimeoutType::Recycle) => "recycle timeout".to_owned(),
        PoolError::Backend(error) => of_tokio_postgres(error),
        other => other.to_string(),
    }
}

pub fn of_bb8(error: &bb8::RunError<tokio_postgres::Error>) -> String {
    match error {
        bb8::RunError::User(error) => of_tokio_postgres(error),
        bb8::RunError::TimedOut => "get timeout".to_owned(),
    }
}
