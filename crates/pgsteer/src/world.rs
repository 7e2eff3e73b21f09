//! The seams between pgsteer and the world: name resolution, dialling and random draws, one small trait each.
//!
//! [`World::real`] is the operating system's network; tests and simulations pass their own. The clock is not here
//! because it is tokio's own, which can be paused. Nothing in this file decides anything or keeps state.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};

use crate::config::Keepalives;

/// A boxed future, as the traits here return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Turns a host text into addresses.
pub trait Resolve: Send + Sync + 'static {
    /// All addresses of `host`, in the order in which they should be tried. `host` is a name or an address literal
    /// without brackets, never a socket directory.
    ///
    /// # Errors
    ///
    /// Whatever the resolver says; an empty list counts as a name that does not exist. The caller sets the time limit
    /// by dropping the future, so an implementation needs none of its own.
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// Opens a byte stream to one address.
pub trait Dial: Send + Sync + 'static {
    /// Connects to `target`. Dropping the future gives up the attempt and closes what was opened.
    ///
    /// # Errors
    ///
    /// The error of the connect; its `kind()` is what decides how the host is judged.
    fn dial<'a>(
        &'a self,
        target: &'a Endpoint,
        socket: &'a SocketOptions,
    ) -> BoxFuture<'a, io::Result<Socket>>;
}

/// Draws random numbers: which of several equal hosts, jitter of lifetimes and back-off.
pub trait Draw: Send + Sync + 'static {
    /// The next number, uniform over all of `u64`.
    fn draw(&self) -> u64;
}

/// Where one connection attempt goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A TCP address.
    Tcp(SocketAddr),
    /// The path of a Unix socket (the socket itself, not its directory).
    Unix(PathBuf),
}

impl Endpoint {
    /// The network address; `None` for a Unix socket.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Endpoint::Tcp(address) => Some(address.ip()),
            Endpoint::Unix(_) => None,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(address) => address.fmt(f),
            Endpoint::Unix(path) => path.display().fmt(f),
        }
    }
}

/// What is set on a TCP socket before it connects. Ignored for other sockets. TCP_NODELAY is always set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// Keepalive probes; `None` leaves them off.
    pub keepalives: Option<Keepalives>,
    /// How long sent data may stay unacknowledged (TCP_USER_TIMEOUT, Linux only); `None` leaves the system's default.
    pub tcp_user_timeout: Option<Duration>,
}

/// Any byte stream a connection can run over. Implemented for everything that has the listed traits.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> ByteStream for T {}

/// An open byte stream. Dropping it closes it at once.
pub enum Socket {
    /// A TCP connection.
    Tcp(TcpStream),
    /// A connection over a Unix socket.
    #[cfg(unix)]
    Unix(tokio::net::UnixStream),
    /// Anything else, such as an in-memory pipe.
    Other(Box<dyn ByteStream>),
}

impl Socket {
    /// Wraps any byte stream.
    pub fn other(stream: impl ByteStream) -> Self {
        Socket::Other(Box::new(stream))
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Socket::Tcp(_) => "Socket::Tcp",
            #[cfg(unix)]
            Socket::Unix(_) => "Socket::Unix",
            Socket::Other(_) => "Socket::Other",
        })
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            #[cfg(unix)]
            Socket::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
            Socket::Other(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            #[cfg(unix)]
            Socket::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Socket::Other(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            #[cfg(unix)]
            Socket::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Socket::Other(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            #[cfg(unix)]
            Socket::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Other(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// The three seams together. Clone is cheap.
#[derive(Clone)]
pub struct World {
    resolve: Arc<dyn Resolve>,
    dial: Arc<dyn Dial>,
    draw: Arc<dyn Draw>,
}

impl World {
    /// The operating system's resolver and network, and a fast random generator seeded by it.
    pub fn real() -> Self {
        World {
            resolve: Arc::new(SystemResolver),
            dial: Arc::new(SystemDialler),
            draw: Arc::new(SystemDraw),
        }
    }

    /// A world of your own.
    pub fn new(resolve: Arc<dyn Resolve>, dial: Arc<dyn Dial>, draw: Arc<dyn Draw>) -> Self {
        World { resolve, dial, draw }
    }

    /// The resolver.
    pub fn resolver(&self) -> &dyn Resolve {
        &*self.resolve
    }

    /// What opens sockets.
    pub fn dialler(&self) -> &dyn Dial {
        &*self.dial
    }

    /// The next random number.
    pub fn draw(&self) -> u64 {
        self.draw.draw()
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("World")
    }
}

/// The operating system's resolver, asked on tokio's blocking threads. A look-up that is given up goes on there
/// unseen until the system answers; it holds nothing but that thread.
struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let mut addresses = Vec::new();
            for address in tokio::net::lookup_host((host, 0)).await? {
                if !addresses.contains(&address.ip()) {
                    addresses.push(address.ip());
                }
            }
            Ok(addresses)
        })
    }
}

/// The operating system's network.
struct SystemDialler;

impl Dial for SystemDialler {
    fn dial<'a>(
        &'a self,
        target: &'a Endpoint,
        socket: &'a SocketOptions,
    ) -> BoxFuture<'a, io::Result<Socket>> {
        Box::pin(async move {
            match target {
                Endpoint::Tcp(address) => connect_tcp(*address, socket).await.map(Socket::Tcp),
                #[cfg(unix)]
                Endpoint::Unix(path) => tokio::net::UnixStream::connect(path).await.map(Socket::Unix),
                #[cfg(not(unix))]
                Endpoint::Unix(_) => Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    "no Unix sockets on this system",
                )),
            }
        })
    }
}

/// Options are set before the connect, so that the user timeout bounds the handshake's packets too.
async fn connect_tcp(address: SocketAddr, options: &SocketOptions) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_nodelay(true)?;
    let raw = socket2::SockRef::from(&socket);
    if let Some(keepalives) = &options.keepalives {
        raw.set_tcp_keepalive(&tcp_keepalive(keepalives))?;
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Some(timeout) = options.tcp_user_timeout {
        raw.set_tcp_user_timeout(Some(timeout))?;
    }
    socket.connect(address).await
}

fn tcp_keepalive(keepalives: &Keepalives) -> socket2::TcpKeepalive {
    let settings = socket2::TcpKeepalive::new().with_time(keepalives.idle);
    #[cfg(not(any(target_os = "redox", target_os = "solaris", target_os = "openbsd")))]
    let settings = settings.with_interval(keepalives.interval);
    #[cfg(not(any(target_os = "redox", target_os = "solaris", target_os = "openbsd", windows)))]
    let settings = settings.with_retries(keepalives.count);
    settings
}

/// The thread's fast generator.
struct SystemDraw;

impl Draw for SystemDraw {
    fn draw(&self) -> u64 {
        fastrand::u64(..)
    }
}
