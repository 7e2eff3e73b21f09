//! The HA set and its companions do what they say. Clients here are plain tokio-postgres ones over TCP.

#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

use pgsteer_testkit::{DATABASE, PASSWORD, Server, USER};
use tokio_postgres::{Client, Config, Error, NoTls};

mod blackhole;
mod fake;
mod pgbouncer;
mod roles;
mod set;
mod tls;

/// Logs in over TCP as the tests' usual user.
async fn log_in(server: &Server, application: &str) -> Result<Client, Error> {
    log_in_at(server.host(), server.port(), application).await
}

async fn log_in_at(host: &str, port: u16, application: &str) -> Result<Client, Error> {
    let mut config = Config::new();
    config.host(host).port(port).dbname(DATABASE);
    config.user(USER).password(PASSWORD).application_name(application);
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn sqlstate(error: &Error) -> Option<&str> {
    error.code().map(tokio_postgres::error::SqlState::code)
}

/// The one value of one row.
fn value(server: &Server, sql: &str) -> Option<String> {
    server.sql(sql).into_iter().flatten().next().flatten()
}
