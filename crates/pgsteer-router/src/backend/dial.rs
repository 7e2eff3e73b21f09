//! Opening a stream to a backend.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout_at};

use super::address::BackendAddress;
use super::io::BackendIo;

/// A boxed future, as [`Dial`] returns it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Opens streams to backends: the seam for TLS, and for tests.
///
/// ```
/// use std::io;
/// use std::sync::Arc;
/// use pgsteer_router::backend::{BackendAddress, BackendIo, BoxFuture, Dial, TcpDialer};
/// use tokio::time::Instant;
///
/// /// Dials by TCP and says so.
/// struct Noted(TcpDialer);
///
/// impl Dial for Noted {
///     fn dial<'a>(&'a self, backend: &'a BackendAddress, deadline: Instant) -> BoxFuture<'a, io::Result<BackendIo>> {
///         Box::pin(async move {
///             let socket = self.0.connect(backend, deadline).await?;
///             println!("{backend} is at {}", socket.peer_addr()?);
///             Ok(BackendIo::tcp(socket))
///         })
///     }
/// }
/// ```
pub trait Dial: Send + Sync + 'static {
    /// Opens a stream that is ready for a first frame. The name is looked up anew each time.
    ///
    /// At `deadline` the future is dropped, which must close whatever it has opened; it is given so that several addresses can
    /// share the time.
    ///
    /// # Errors
    ///
    /// Why there is no stream, in words for people: the text ends up in errors and logs, so it must hold no secret.
    fn dial<'a>(
        &'a self,
        backend: &'a BackendAddress,
        deadline: Instant,
    ) -> BoxFuture<'a, io::Result<BackendIo>>;
}

/// Dials by TCP, without delay (`TCP_NODELAY`) and with keepalive.
#[derive(Clone, Copy, Debug)]
pub struct TcpDialer {
    keepalive: Option<Duration>,
}

/// How long a connection may be silent before the system asks whether its peer is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Between two such questions, and how many remain unanswered before the connection counts as lost.
const KEEPALIVE_AGAIN: (Duration, u32) = (Duration::from_secs(10), 3);

impl TcpDialer {
    /// Keepalive after 30 s of silence.
    pub fn new() -> Self {
        TcpDialer {
            keepalive: Some(KEEPALIVE),
        }
    }

    /// Keepalive after this much silence, in whole seconds; `None` turns it off.
    #[must_use]
    pub fn keepalive(self, silence: Option<Duration>) -> Self {
        TcpDialer { keepalive: silence }
    }

    /// A socket to the backend: its name is looked up and its addresses are tried in turn, each for its share of the time that
    /// is left until `deadline`.
    ///
    /// # Errors
    ///
    /// Why the name has no address, or why the last address could not be connected to.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it closes what it has opened.
    pub async fn connect(&self, backend: &BackendAddress, deadline: Instant) -> io::Result<TcpStream> {
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for address in tokio::net::lookup_host((backend.host(), backend.port())).await? {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        self.connect_to_any(&addresses, deadline).await
    }

    async fn connect_to_any(&self, addresses: &[SocketAddr], deadline: Instant) -> io::Result<TcpStream> {
        let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let several = addresses.len() > 1;
        for (address, left) in addresses.iter().zip((1..=addresses.len() as u32).rev()) {
            let now = Instant::now();
            let until = now + deadline.saturating_duration_since(now) / left;
            let error = match timeout_at(until, self.connect_to(*address)).await {
                Ok(Ok(socket)) => return Ok(socket),
                Ok(Err(error)) => error,
                Err(_) => io::Error::new(io::ErrorKind::TimedOut, "the connect was not answered"),
            };
            failed = if several {
                io::Error::new(error.kind(), format!("{address}: {error}"))
            } else {
                error
            };
        }
        Err(failed)
    }

    async fn connect_to(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_nodelay(true)?;
        if let Some(silence) = self.keepalive {
            let settings = socket2::TcpKeepalive::new().with_time(silence);
            #[cfg(not(any(target_os = "redox", target_os = "solaris", target_os = "openbsd")))]
            let settings = settings.with_interval(KEEPALIVE_AGAIN.0);
            #[cfg(not(any(target_os = "redox", target_os = "solaris", target_os = "openbsd", windows)))]
            let settings = settings.with_retries(KEEPALIVE_AGAIN.1);
            socket2::SockRef::from(&socket).set_tcp_keepalive(&settings)?;
        }
        let socket = socket.connect(address).await?;
        // Where nobody listens on a port that the system also gives out, a socket can be given that very port and meet
        // itself. It would answer every request with the request.
        if socket.local_addr()? == socket.peer_addr()? {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        Ok(socket)
    }
}

impl Default for TcpDialer {
    fn default() -> Self {
        TcpDialer::new()
    }
}

impl Dial for TcpDialer {
    fn dial<'a>(
        &'a self,
        backend: &'a BackendAddress,
        deadline: Instant,
    ) -> BoxFuture<'a, io::Result<BackendIo>> {
        Box::pin(async move { self.connect(backend, deadline).await.map(BackendIo::tcp) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);
    /// Where nobody listens: a port that the system gives to nobody.
    const NOBODY: &str = "127.0.0.1:1";

    /// A socket that listens and takes nobody any more, so that the system leaves connects to it unanswered; and what fills it.
    async fn unanswering() -> (socket2::Socket, Vec<TcpStream>) {
        let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let anywhere: SocketAddr = "127.0.0.1:0".parse().unwrap();
        listener.bind(&anywhere.into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let mut fillers = Vec::new();
        let moment = Duration::from_millis(300);
        while let Ok(connected) = tokio::time::timeout(moment, TcpStream::connect(address)).await {
            fillers.push(connected.unwrap());
        }
        (listener, fillers)
    }

    /// Covers: S-35
    #[tokio::test]
    async fn an_address_that_does_not_answer_costs_its_share_of_the_time_and_the_next_is_tried() {
        let (silent, _fillers) = unanswering().await;
        let silent = silent.local_addr().unwrap().as_socket().unwrap();
        let good = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addresses = [silent, NOBODY.parse().unwrap(), good.local_addr().unwrap()];
        let (began, limit) = (Instant::now(), Duration::from_secs(6));
        let socket = TcpDialer::new()
            .connect_to_any(&addresses, began + limit)
            .await
            .unwrap();
        assert_eq!(socket.peer_addr().unwrap(), addresses[2]);
        assert!(began.elapsed() >= limit / 3, "a third was the first one's");
    }

    #[tokio::test]
    async fn if_none_of_several_can_be_connected_to_the_last_is_named() {
        let addresses = [NOBODY.parse().unwrap(), "127.0.0.2:1".parse().unwrap()];
        let error = TcpDialer::new()
            .connect_to_any(&addresses, Instant::now() + PATIENCE)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(error.to_string().starts_with("127.0.0.2:1: "), "{error}");
    }
}
