//! The testkit does to real servers what it says. Clients here are plain tokio-postgres ones over TCP.

#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

use pgsteer_testkit::{DATABASE, PASSWORD, Server, USER};
use tokio_postgres::{Client, Config, Error, NoTls};

mod cleaning_up;
mod listing;
mod logins;
mod processes;

/// Logs in over TCP as the tests' usual user.
async fn log_in(server: &Server, application: &str) -> Result<Client, Error> {
    log_in_as(server, USER, PASSWORD, application).await
}

async fn log_in_as(server: &Server, user: &str, password: &str, application: &str) -> Result<Client, Error> {
    let mut config = Config::new();
    config.host(server.host()).port(server.port()).dbname(DATABASE);
    config.user(user).password(password).application_name(application);
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn sqlstate(error: &Error) -> Option<&str> {
    error.code().map(tokio_postgres::error::SqlState::code)
}
