//! Connections to the target: TCP, or TLS over it.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use pgsteer_router::tls::{TlsError, files};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::arguments::LoadArguments;
use crate::exit::Failure;
use crate::sockets;

/// How connections are made.
#[derive(Clone)]
pub(super) struct Dialler {
    addresses: Vec<SocketAddr>,
    sources: Vec<IpAddr>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    reset: bool,
}

impl Dialler {
    pub(super) async fn new(arguments: &LoadArguments) -> Result<Self, Failure> {
        let addresses = sockets::resolve_all("--target", &arguments.target).await?;
        if addresses.is_empty() {
            return Err(Failure::work(format!(
                "--target {}: the name has no address",
                arguments.target
            )));
        }
        let tls = if arguments.tls {
            Some(tls(arguments)?)
        } else {
            None
        };
        for source in &arguments.sources {
            check_source(*source, &addresses)?;
        }
        Ok(Dialler {
            addresses,
            sources: arguments.sources.clone(),
            tls,
            reset: arguments.reset,
        })
    }

    /// Connects. The number picks the source, if several were given.
    pub(super) async fn connect(&self, number: u32) -> io::Result<Stream> {
        let stream = self.connect_tcp(number).await?;
        stream.set_nodelay(true)?;
        if self.reset {
            // With nothing to wait for, closing takes no time and says RST.
            rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
        }
        match &self.tls {
            None => Ok(Stream::Tcp(stream)),
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await?;
                Ok(Stream::Tls(Box::new(stream)))
            }
        }
    }

    async fn connect_tcp(&self, number: u32) -> io::Result<TcpStream> {
        if self.sources.is_empty() {
            return TcpStream::connect(self.addresses.as_slice()).await;
        }
        let source = self.sources[number as usize % self.sources.len()];
        let fits = |target: &&SocketAddr| target.is_ipv4() == source.is_ipv4();
        let Some(target) = self.addresses.iter().find(fits) else {
            let kind = io::ErrorKind::AddrNotAvailable;
            return Err(io::Error::new(
                kind,
                "the source is of another IP version than the target",
            ));
        };
        let socket = if source.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        }?;
        socket.bind(SocketAddr::new(source, 0))?;
        socket.connect(*target).await
    }
}

/// Once, so that an address that cannot be used is not told of as a port that was not free, once for each connection.
fn check_source(source: IpAddr, targets: &[SocketAddr]) -> Result<(), Failure> {
    if !targets.iter().any(|target| target.is_ipv4() == source.is_ipv4()) {
        return Err(Failure::Usage(format!(
            "--source {source}: the target has no address of that IP version; it takes one of this machine's addresses"
        )));
    }
    // Binding is asked of a socket that takes no port from the connections to come.
    UdpSocket::bind(SocketAddr::new(source, 0))
        .map(drop)
        .map_err(|error| {
            Failure::Usage(format!(
                "--source {source}: {error}; it takes one of this machine's addresses"
            ))
        })
}

fn tls(arguments: &LoadArguments) -> Result<(TlsConnector, ServerName<'static>), Failure> {
    let roots = match &arguments.ca {
        Some(path) => files::roots("--ca", path)?,
        // clap saw to it that there is one.
        None => RootCertStore::empty(),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Failure::work)?
        .with_root_certificates(roots);
    let config = match (&arguments.cert, &arguments.key) {
        (Some(cert), Some(path)) => {
            let (chain, key) = (files::chain("--cert", cert)?, files::key("--key", path)?);
            let paired = builder.with_client_auth_cert(chain, key);
            paired.map_err(|error| files::no_pair("--key", path, &error))?
        }
        _ => builder.with_no_client_auth(),
    };
    let host = arguments.target.rsplit_once(':').map_or("", |(host, _)| host);
    let name = match &arguments.server_name {
        Some(name) => name.as_str(),
        None => host.trim_start_matches('[').trim_end_matches(']'),
    };
    let name = ServerName::try_from(name.to_owned()).map_err(|_| {
        Failure::Usage(format!(
            "--server-name: `{name}` is no name that a certificate can be for; it takes a host name or an address"
        ))
    })?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}

/// As with an address that cannot be listened on: the option is as it should be, what it names is not.
impl From<TlsError> for Failure {
    fn from(error: TlsError) -> Self {
        Failure::Work(error.to_string())
    }
}

/// An open connection.
pub(super) enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
