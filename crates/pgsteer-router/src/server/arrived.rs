//! How much of what a client has sent has come and has not been read yet.
//!
//! A drain answers what had come when it began. A client that always sends the next request before it has the last answer
//! would never be done otherwise.

use socket2::{SockRef, Socket};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// Asks a stream for the bytes that have come and are not read; at least as many, where it cannot be told exactly.
pub(crate) type Arrived<S> = fn(&S) -> usize;

/// What TLS has read from a socket and not yet given on is less than this.
const HELD_BY_TLS: usize = 64 * 1024;

/// Of a socket.
pub(crate) fn over_tcp(stream: &TcpStream) -> usize {
    of_socket(&SockRef::from(stream))
}

/// Of a socket of nobody's yet.
pub(crate) fn of_socket(socket: &Socket) -> usize {
    #[cfg(unix)]
    if let Ok(bytes) = rustix::io::ioctl_fionread(socket) {
        return usize::try_from(bytes).unwrap_or(usize::MAX);
    }
    unknown(socket)
}

/// Of a socket under TLS, where what comes is longer than what it says.
#[expect(clippy::borrowed_box, reason = "it is served in a box")]
pub(crate) fn over_tls(stream: &Box<TlsStream<TcpStream>>) -> usize {
    over_tcp(stream.get_ref().0).saturating_add(HELD_BY_TLS)
}

/// Of a stream that cannot be asked.
pub(crate) fn unknown<S>(_: &S) -> usize {
    usize::MAX
}
