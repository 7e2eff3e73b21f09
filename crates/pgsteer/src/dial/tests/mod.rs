//! The dialler and the driver against scripted servers, in memory and on paused time. This file holds what the tests
//! share: a world whose hosts do as they are told, and the server's side of the wire.

mod closing;
mod deadline;
mod discovery;
mod failures;
mod real;
mod role;
mod session;
mod tls;

use std::collections::HashMap;
use std::future::{Future, pending};
use std::io;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use super::tap::{CopyState, Severity};
use pgsteer_core::verdict::Evidence;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};

use super::*;
use crate::config::{Config, SslMode};
use crate::world::{BoxFuture, Dial, Draw, Endpoint, Resolve, Socket};

/// The deadline of every dial in these tests.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What a host does when it is dialled.
#[derive(Clone)]
enum Host {
    Fails(io::ErrorKind),
    /// The socket never connects.
    Hangs,
    /// Accepts, and does this.
    Serves(Arc<dyn Fn(Peer) -> BoxFuture<'static, ()> + Send + Sync>),
}

/// A server that does this with every connection.
fn serves<F: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(Peer) -> F + Send + Sync + 'static,
) -> Host {
    Host::Serves(Arc::new(move |peer| Box::pin(serve(peer))))
}

/// A world of scripted hosts. Names that are not listed do not exist.
#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    /// `None`: the look-up never ends.
    names: HashMap<String, Option<Vec<IpAddr>>>,
    hosts: HashMap<String, Host>,
    dialled: Vec<String>,
}

impl Scripted {
    /// A world with one host, `db`, at 10.0.0.1.
    fn with(host: Host) -> Self {
        let scripted = Scripted::default();
        scripted.name("db", &["10.0.0.1"]).host("10.0.0.1:5432", host);
        scripted
    }

    fn name(&self, name: &str, addresses: &[&str]) -> &Self {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        self.0
            .lock()
            .unwrap()
            .names
            .insert(name.to_owned(), Some(addresses));
        self
    }

    fn name_that_hangs(&self, name: &str) -> &Self {
        self.0.lock().unwrap().names.insert(name.to_owned(), None);
        self
    }

    fn host(&self, address: &str, host: Host) -> &Self {
        self.0.lock().unwrap().hosts.insert(address.to_owned(), host);
        self
    }

    /// Every address dialled so far.
    fn dialled(&self) -> Vec<String> {
        self.0.lock().unwrap().dialled.clone()
    }

    /// A dialler that speaks clear text.
    fn dialler(&self, config: Config) -> Dialler {
        let mut settings = config.settings().unwrap();
        settings.tls.mode = SslMode::Disable;
        self.dialler_by(settings)
    }

    fn dialler_by(&self, settings: Settings) -> Dialler {
        Dialler::new(Arc::new(settings), self.world()).unwrap()
    }

    fn world(&self) -> World {
        World::new(
            Arc::new(self.clone()),
            Arc::new(self.clone()),
            Arc::new(self.clone()),
        )
    }
}

impl Resolve for Scripted {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let name = self.0.lock().unwrap().names.get(host).cloned();
        Box::pin(async move {
            match name {
                Some(Some(addresses)) => Ok(addresses),
                Some(None) => pending().await,
                None => Err(io::Error::other("no such name")),
            }
        })
    }
}

impl Dial for Scripted {
    fn dial<'a>(&'a self, target: &'a Endpoint, _: &'a SocketOptions) -> BoxFuture<'a, io::Result<Socket>> {
        let mut script = self.0.lock().unwrap();
        script.dialled.push(target.to_string());
        let host = script.hosts.get(&target.to_string()).cloned();
        Box::pin(async move {
            match host {
                Some(Host::Serves(serve)) => {
                    let (ours, theirs) = tokio::io::duplex(64 * 1024);
                    tokio::spawn(serve(Peer { stream: theirs }));
                    Ok(Socket::other(ours))
                }
                Some(Host::Hangs) => pending().await,
                Some(Host::Fails(kind)) => Err(kind.into()),
                None => Err(io::ErrorKind::ConnectionRefused.into()),
            }
        })
    }
}

impl Draw for Scripted {
    fn draw(&self) -> u64 {
        0
    }
}

fn config() -> Config {
    Config::new()
        .hosts(["db"])
        // The scripted servers speak in clear text from the first byte.
        .ssl_mode(SslMode::Disable)
        .user("app")
        .password("s3cret")
        .database("app")
        .connect_timeout(CONNECT_TIMEOUT)
}

fn db() -> HostKey {
    HostKey::new("db", 5432)
}

/// The question for the role.
const ROLE: Ask = Ask {
    role: true,
    timeline: false,
    target: pgsteer_core::hosts::TargetSessionAttrs::Any,
};

/// Dials `db` in a world where it does this.
async fn dial(host: Host, config: Config) -> Result<Dialled, DialError> {
    dial_asking(host, config, Ask::default()).await
}

/// The same, asking this.
async fn dial_asking(host: Host, config: Config, ask: Ask) -> Result<Dialled, DialError> {
    Scripted::with(host)
        .dialler(config)
        .dial(&db(), Purpose::Pool, ask)
        .await
}

/// The server's end of a connection.
struct Peer<S = DuplexStream> {
    stream: S,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    /// Reads the startup message and accepts the login.
    async fn accept(&mut self) {
        self.startup().await;
        self.send(&[accepted(), ready(b'I')].concat()).await;
    }

    async fn startup(&mut self) {
        let length = self.stream.read_u32().await.unwrap();
        let mut body = vec![0; length as usize - 4];
        self.stream.read_exact(&mut body).await.unwrap();
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// The next message; `None` once the client has closed its side.
    async fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let kind = self.stream.read_u8().await.ok()?;
        let length = self.stream.read_u32().await.ok()?;
        let mut body = vec![0; length as usize - 4];
        self.stream.read_exact(&mut body).await.ok()?;
        Some((kind, body))
    }

    /// Reads on until the text of a simple query; `None` at the end.
    async fn query(&mut self) -> Option<String> {
        loop {
            let (kind, body) = self.next().await?;
            if kind == b'Q' {
                return Some(String::from_utf8(body[..body.len() - 1].to_vec()).unwrap());
            }
        }
    }

    /// Reads on until the client has closed its side.
    async fn end(&mut self) {
        while self.next().await.is_some() {}
    }
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend((body.len() as i32 + 4).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn ready(status: u8) -> Vec<u8> {
    message(b'Z', &[status])
}

fn accepted() -> Vec<u8> {
    message(b'R', &0_i32.to_be_bytes())
}

fn completed(tag: &str) -> Vec<u8> {
    message(b'C', format!("{tag}\0").as_bytes())
}

fn report(kind: u8, severity: &str, sqlstate: &str, text: &str) -> Vec<u8> {
    message(
        kind,
        format!("S{severity}\0V{severity}\0C{sqlstate}\0M{text}\0\0").as_bytes(),
    )
}

fn fatal(sqlstate: &str) -> Vec<u8> {
    report(b'E', "FATAL", sqlstate, "no")
}

/// A row description for text columns of these names.
fn columns(names: &[&str]) -> Vec<u8> {
    let mut body = (names.len() as i16).to_be_bytes().to_vec();
    for name in names {
        body.extend(name.as_bytes());
        body.push(0);
        body.extend([0; 6]);
        body.extend(25_i32.to_be_bytes());
        body.extend((-1_i16).to_be_bytes());
        body.extend((-1_i32).to_be_bytes());
        body.extend([0; 2]);
    }
    message(b'T', &body)
}

fn row(values: &[Option<&str>]) -> Vec<u8> {
    let mut body = (values.len() as i16).to_be_bytes().to_vec();
    for value in values {
        match value {
            Some(value) => {
                body.extend((value.len() as i32).to_be_bytes());
                body.extend(value.as_bytes());
            }
            None => body.extend((-1_i32).to_be_bytes()),
        }
    }
    message(b'D', &body)
}
