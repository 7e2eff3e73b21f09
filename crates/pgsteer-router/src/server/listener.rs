//! The listening socket: binding it, accepting from it, and closing it without losing whom the kernel has accepted.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::phase::Enrolled;
use super::shared::Shared;
use super::spare::Shortage;
use super::{arrived, connection};

/// How long a client may be silent before the system asks whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// How long the last packet of a client's connecting may be under way when the socket is shut.
const HALF_CONNECTED: Duration = Duration::from_millis(100);

/// When the system is asked again after it refused to give one of the last clients, which it does where descriptors run out.
const AFTER_REFUSAL: Duration = Duration::from_millis(5);

/// How many clients are turned away between two rests at most.
const TURNED_AWAY_AT_ONCE: usize = 64;

/// Listens on the first address of `place` that can be bound.
///
/// Options that a client's socket should have are set on the listening one, from which Linux hands them down: that saves
/// system calls for each client.
pub(crate) async fn bind(place: &str, backlog: u32) -> io::Result<TcpListener> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in tokio::net::lookup_host(place).await? {
        match bind_to(address, backlog) {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn bind_to(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    set_options(&socket)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket.into())
}

fn set_options(socket: &Socket) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))
}

/// Accepts clients until it is told to stop; then those whom the kernel has accepted by then, and closes the socket.
pub(crate) async fn accept(listener: TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    let mut queue = KernelQueue {
        listener,
        shared: &shared,
        is_empty: false,
    };
    let mut door = Door {
        spare: spare(&queue.listener),
        shortage: Shortage::default(),
    };
    let most = || shared.options.load().max_connections as usize;
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = shared.clients.fewer_than(most) => {}
        }
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = queue.listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, _)) => {
                door.accepted();
                welcome(socket, &shared);
            }
            Err(error) if is_the_clients(&error) => {}
            Err(error) => {
                let rest = door.failed(&queue.listener, &shared, &error);
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break,
                    () = sleep(rest) => {}
                }
            }
        }
    }
    accept_the_last(&queue, &shared).await;
    queue.is_empty = true;
}

/// The client went before it was accepted.
fn is_the_clients(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

/// Whom the kernel has accepted was accepted. Nobody else gets in: a first packet that comes from now on is thrown away, and
/// whoever has had the kernel's answer to one is waited for, since to that client it is connected.
async fn accept_the_last(queue: &KernelQueue<'_>, shared: &Arc<Shared>) {
    #[cfg(target_os = "linux")]
    if let Err(error) = SockRef::from(&queue.listener).attach_filter(&WITHOUT_FIRST_PACKETS) {
        tracing::debug!(target: "pgsteer::router", "the listening socket cannot be shut before it is closed: {error}");
    }
    let until = Instant::now() + HALF_CONNECTED;
    let most = || shared.options.load().max_connections as usize;
    loop {
        // Whoever is only waited for until they close must not cost those who come behind them the grace.
        shared.clients.fewer_staying_than(most).await;
        match timeout_at(until, queue.listener.accept()).await {
            Ok(Ok((socket, _))) => welcome_late(socket, shared),
            Ok(Err(error)) if is_the_clients(&error) => {}
            Ok(Err(_)) => sleep(AFTER_REFUSAL).await,
            Err(_) => break,
        }
    }
    // The system itself is asked at the end: the runtime may not have heard yet of whoever came last.
    loop {
        shared.clients.fewer_staying_than(most).await;
        let accepted = queue
            .accept_at_once()
            .and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
        match accepted {
            Ok(socket) => {
                if let Ok(socket) = TcpStream::from_std(socket.into()) {
                    welcome_late(socket, shared);
                }
            }
            Err(error) if is_the_clients(&error) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => sleep(AFTER_REFUSAL).await,
        }
    }
}

/// The listening socket, with those whom the kernel has accepted and nobody has accepted from it yet. Where accepting ends before
/// they are all in, since the grace is over, the rest are lost with the socket: each that has asked for something is counted
/// as a request that was dropped.
struct KernelQueue<'a> {
    listener: TcpListener,
    shared: &'a Shared,
    is_empty: bool,
}

impl KernelQueue<'_> {
    /// The next, by the system itself.
    fn accept_at_once(&self) -> io::Result<Socket> {
        SockRef::from(&self.listener).accept().map(|(socket, _)| socket)
    }

    /// Closes what is there; returns how many clients.
    fn turn_away(&self) -> u32 {
        let mut clients = 0;
        // No more than can have been in the queue at one instant: others may come all the time.
        for _ in 0..=self.shared.options.load().backlog {
            match self.accept_at_once() {
                Ok(socket) => {
                    clients += 1;
                    self.shared.metrics.turned_away.inc();
                    if arrived::of_socket(&socket) > 0 {
                        drop(self.shared.metrics.begin());
                    }
                }
                Err(error) if is_the_clients(&error) => {}
                Err(_) => break,
            }
        }
        clients
    }
}

impl Drop for KernelQueue<'_> {
    fn drop(&mut self) {
        let clients = if self.is_empty { 0 } else { self.turn_away() };
        if clients > 0 {
            tracing::warn!(
                target: "pgsteer::router",
                "there is no time left: {clients} clients that waited to be accepted are turned away"
            );
        }
    }
}

/// One that was accepted after the listening socket was shut, and has inherited its filter.
fn welcome_late(socket: TcpStream, shared: &Arc<Shared>) {
    #[cfg(target_os = "linux")]
    let _ = SockRef::from(&socket).detach_filter();
    welcome(socket, shared);
}

/// A filter that keeps every packet of a listening socket but those that ask for a connection: of a TCP header's flags, in
/// its byte 13, SYN is set and ACK is not.
#[cfg(target_os = "linux")]
const WITHOUT_FIRST_PACKETS: [socket2::SockFilter; 5] = {
    const LOAD_BYTE: u16 = 0x30;
    const AND: u16 = 0x54;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const SYN: u32 = 0x02;
    const ACK: u32 = 0x10;
    [
        socket2::SockFilter::new(LOAD_BYTE, 0, 0, 13),
        socket2::SockFilter::new(AND, 0, 0, SYN | ACK),
        socket2::SockFilter::new(JUMP_IF_EQUAL, 0, 1, SYN),
        socket2::SockFilter::new(RETURN, 0, 0, 0),
        socket2::SockFilter::new(RETURN, 0, 0, u32::MAX),
    ]
};

/// Gives a client a task of its own.
fn welcome(socket: TcpStream, shared: &Arc<Shared>) {
    #[cfg(not(target_os = "linux"))]
    if set_options(&SockRef::from(&socket)).is_err() {
        return;
    }
    shared.metrics.accepted.inc();
    let client = shared.clients.enrol();
    let placed = shared.crew.place();
    let Some(runtime) = placed.runtime().cloned() else {
        serve(socket, client.on(placed), shared);
        return;
    };
    // It is this thread's runtime that it is registered with, and it has to be the other's. Both can be done from here, so
    // that the other thread is first woken for the client itself.
    let _entered = runtime.enter();
    match socket.into_std().and_then(TcpStream::from_std) {
        Ok(socket) => serve(socket, client.on(placed), shared),
        Err(error) => {
            tracing::debug!(target: "pgsteer::router", "a client could not be handed on: {error}")
        }
    }
}

/// On the thread of the runtime that has been entered.
fn serve(socket: TcpStream, client: Enrolled, shared: &Arc<Shared>) {
    let work = Arc::clone(shared);
    match shared.tls.load_full() {
        None => drop(tokio::spawn(client.watch(connection::in_clear(
            socket,
            arrived::over_tcp,
            work,
        )))),
        Some(config) => drop(tokio::spawn(
            client.watch(connection::encrypted(socket, config, work)),
        )),
    }
}

/// What is kept for the time when there are no descriptors.
struct Door {
    spare: Option<Socket>,
    shortage: Shortage,
}

/// A descriptor that can be given up.
fn spare(listener: &TcpListener) -> Option<Socket> {
    SockRef::from(listener).try_clone().ok()
}

impl Door {
    fn accepted(&mut self) {
        if let Some(over) = self.shortage.accepted(Instant::now()) {
            tracing::info!(
                target: "pgsteer::router",
                "clients are accepted again after {:.1?}; {} were turned away",
                over.lasted,
                over.turned_away
            );
        }
    }

    /// How long to rest.
    fn failed(&mut self, listener: &TcpListener, shared: &Shared, error: &io::Error) -> Duration {
        let advice = self.shortage.failed(Instant::now());
        if advice.tell {
            tracing::warn!(
                "no client can be accepted: {error}; raise the limit of open files, or lower max-connections"
            );
        }
        if advice.turn_away {
            self.spare = None;
            for _ in 0..TURNED_AWAY_AT_ONCE {
                // It is closed as soon as it is there, so one descriptor is enough for all of them.
                let Some(Ok(_closed)) = listener.accept().now_or_never() else {
                    break;
                };
                self.shortage.turned_away();
                shared.metrics.turned_away.inc();
            }
            self.spare = spare(listener);
        }
        advice.rest
    }
}

#[cfg(test)]
mod tests {
    use socket2::SockRef;
    use tokio::net::TcpStream;

    use super::bind;

    /// A header and its payload may come in two writes, and an answer must not wait for the acknowledgement of the one before.
    /// Covers: S-11
    #[tokio::test]
    async fn the_sockets_of_clients_have_no_delay_and_keepalive_as_they_are_accepted() {
        let listener = bind("127.0.0.1:0", 16).await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();

        let (accepted, _) = listener.accept().await.unwrap();

        #[cfg(not(target_os = "linux"))]
        super::set_options(&SockRef::from(&accepted)).unwrap();
        let socket = SockRef::from(&accepted);
        assert!(socket.tcp_nodelay().unwrap());
        assert!(socket.keepalive().unwrap());
    }

    /// Covers: S-15
    #[tokio::test]
    async fn a_port_that_is_listened_on_is_not_shared() {
        let first = bind("127.0.0.1:0", 16).await.unwrap();
        let place = first.local_addr().unwrap().to_string();

        let second = bind(&place, 16).await;

        assert_eq!(second.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    }

    /// Covers: S-15, S-65
    #[tokio::test]
    async fn an_ipv6_address_in_brackets_is_listened_on() {
        let listener = bind("[::1]:0", 16).await.unwrap();

        assert!(listener.local_addr().unwrap().is_ipv6());
    }
}
