//! What the tests here share: real tokio-postgres clients on simulated servers, and a raw client for what no driver
//! sends. No behaviour of the simulation is asserted here.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "each test binary uses its own part"
)]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, and only of tests"
)]

use std::time::Duration;

use bytes::{Buf, BytesMut};
use pgsteer_sim::{Sim, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_postgres::{Client, Config, Error, NoTls};

pub const PORT: u16 = 5433;

pub fn config() -> Config {
    let mut config = Config::new();
    config
        .user("app")
        .password("secret")
        .dbname("app")
        .application_name("test");
    config
}

pub async fn try_with(sim: &Sim, host: &str, config: &Config) -> Result<Client, Error> {
    let stream = sim.connect(host, PORT).await.expect("the connect itself works");
    let (client, connection) = config.connect_raw(stream, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

pub async fn try_client(sim: &Sim, host: &str) -> Result<Client, Error> {
    try_with(sim, host, &config()).await
}

pub async fn client(sim: &Sim, host: &str) -> Client {
    try_client(sim, host).await.expect("the login works")
}

pub fn sqlstate(error: &Error) -> &str {
    error
        .code()
        .unwrap_or_else(|| panic!("not an SQL error: {error:?}"))
        .code()
}

/// What never comes: waits an hour of simulated time.
pub async fn never<F: Future>(future: F) {
    let outcome = tokio::time::timeout(Duration::from_secs(3600), future).await;
    assert!(outcome.is_err(), "something came that should not have");
}

/// Speaks the protocol by hand.
pub struct Raw {
    pub stream: Stream,
    inbox: BytesMut,
}

/// A message from the server: its type and body.
pub type Message = (char, Vec<u8>);

impl Raw {
    pub async fn connect(sim: &Sim, host: &str) -> Self {
        let stream = sim.connect(host, PORT).await.expect("the connect itself works");
        Raw {
            stream,
            inbox: BytesMut::new(),
        }
    }

    pub async fn log_in(sim: &Sim, host: &str) -> Self {
        let mut raw = Raw::connect(sim, host).await;
        raw.send(|out| {
            postgres_protocol::message::frontend::startup_message([("user", "app")], out).unwrap();
        })
        .await;
        raw.until('Z').await;
        raw
    }

    pub async fn send(&mut self, write: impl FnOnce(&mut BytesMut)) {
        let mut out = BytesMut::new();
        write(&mut out);
        self.stream.write_all(&out).await.expect("writing works");
    }

    /// The next message, or `None` at the end of the file.
    pub async fn next(&mut self) -> Option<Message> {
        loop {
            if self.inbox.len() >= 5 {
                let length = (&self.inbox[1..5]).get_u32() as usize;
                if self.inbox.len() > length {
                    let message = self.inbox.split_to(length + 1);
                    return Some((char::from(message[0]), message[5..].to_vec()));
                }
            }
            if self.stream.read_buf(&mut self.inbox).await.ok()? == 0 {
                return None;
            }
        }
    }

    /// All messages up to the first of this type.
    pub async fn until(&mut self, kind: char) -> Vec<Message> {
        let mut messages = Vec::new();
        while messages.last().is_none_or(|(last, _)| *last != kind) {
            messages.push(
                self.next()
                    .await
                    .unwrap_or_else(|| panic!("end of file before {kind}: {messages:?}")),
            );
        }
        messages
    }
}

/// The types of messages, as one word.
pub fn kinds(messages: &[Message]) -> String {
    messages.iter().map(|(kind, _)| *kind).collect()
}

/// A field of an error or notice, such as `C` for the SQLSTATE.
pub fn field((_, body): &Message, field: u8) -> String {
    let found = body
        .split(|byte| *byte == 0)
        .find(|part| part.first() == Some(&field));
    String::from_utf8_lossy(&found.unwrap_or_else(|| panic!("no field {field}"))[1..]).into_owned()
}
