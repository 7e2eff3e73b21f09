//! A server that gets as far as a test wants and no further: it closes, goes silent, refuses or talks nonsense at a
//! chosen point of the login or after it. There is no PostgreSQL behind it.

mod conversation;
mod refusal;

use std::collections::BTreeMap;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::failure::{During as _, or_fail};
use crate::postmaster::LIMIT;
use crate::processes::wait_until;

pub use refusal::{Refusal, Severity};

/// How far a [`FakePg`] gets with a client, and what it does there. Up to there it behaves like a server without TLS
/// that trusts everybody. To go silent means to keep the connection, read on and answer nothing.
///
/// The four that are about TLS close at the startup packet on a client that asks for none.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fake {
    /// Accepts and closes, like a proxy with no backend.
    Close,
    /// Accepts and goes silent.
    Silent,
    /// Reads the SSLRequest and closes.
    SslRequestThenClose,
    /// Answers the SSLRequest with these bytes instead of `S` or `N`, and goes silent.
    SslRequestThenBytes(Vec<u8>),
    /// Says `S` and goes silent, so that the handshake hangs.
    TlsThenSilent,
    /// Says `S` and closes as soon as the handshake begins.
    TlsThenClose,
    /// Reads the startup packet and closes.
    StartupThenClose,
    /// Reads the startup packet and goes silent.
    StartupThenSilent,
    /// Sends AuthenticationOk and closes.
    AuthenticationOkThenClose,
    /// Sends AuthenticationOk and goes silent.
    AuthenticationOkThenSilent,
    /// Refuses the login with an ErrorResponse and closes.
    Refuse(Refusal),
    /// Answers the startup packet with these bytes and goes silent: wrong frames, huge lengths. See
    /// [`FakePg::frame`] and [`FakePg::frame_of_length`].
    StartupThenBytes(Vec<u8>),
    /// The login works, and every request is answered as one without rows.
    Ready,
    /// The login works, and the first request is answered by silence.
    ReadyThenSilent,
    /// The login works, and the first request closes the connection.
    ReadyThenClose,
    /// The login works, and the first request is answered by an ErrorResponse, after which the connection is closed.
    ReadyThenRefuse(Refusal),
    /// The login works, and the first request is answered by these bytes and then silence.
    ReadyThenBytes(Vec<u8>),
    /// The login works; then, without waiting for a request, the server warns by a NoticeResponse and closes, as one
    /// does that is stopped at once (57P01) or has lost another backend (57P02).
    ReadyThenNotice(Refusal),
}

/// A server of the [`Fake`] kind on a loopback address, and how many have come to it. Dropping it closes everything.
///
/// ```
/// use std::io::Read as _;
/// use pgsteer_testkit::{Fake, FakePg, Refusal};
///
/// let fake = FakePg::start(Fake::Close);
/// let mut client = std::net::TcpStream::connect(fake.address()).unwrap();
/// assert_eq!(client.read(&mut [0]).unwrap(), 0);
/// assert_eq!(fake.connections(), 1);
///
/// let mirror = Refusal::fatal("57M02", "the database system is in recovery mode").detail("last replayed 0/5000000");
/// fake.set(Fake::Refuse(mirror));              // for whoever comes from now on
/// fake.set(Fake::Ready);
/// fake.warn_and_close(Refusal::warning("57P01", "terminating connection"));  // whoever is logged in
/// ```
#[derive(Debug)]
pub struct FakePg {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared(Mutex<State>);

#[derive(Debug)]
struct State {
    fake: Fake,
    accepted: usize,
    /// Connections that are open on our side, by number. True once logged in.
    open: BTreeMap<usize, (TcpStream, bool)>,
    startups: Vec<BTreeMap<String, String>>,
    ended: bool,
}

impl FakePg {
    /// Starts one on a free port of 127.0.0.1.
    #[must_use]
    #[track_caller]
    pub fn start(fake: Fake) -> Self {
        Self::start_on("127.0.0.1:0", fake)
    }

    /// Starts one on this address, `127.0.0.2:20433`, for example in the place of a server that was stopped. Port 0
    /// is any free one.
    ///
    /// # Panics
    /// When the address is taken, or none of this machine.
    #[must_use]
    #[track_caller]
    pub fn start_on(address: &str, fake: Fake) -> Self {
        let listener = or_fail(TcpListener::bind(address).during(&format!("cannot listen on {address}")));
        let address = or_fail(listener.local_addr().during("cannot tell the port"));
        let shared = Arc::new(Shared(Mutex::new(State {
            fake,
            accepted: 0,
            open: BTreeMap::new(),
            startups: Vec::new(),
            ended: false,
        })));
        let theirs = Arc::clone(&shared);
        let acceptor = thread::Builder::new()
            .name("fake-pg".to_owned())
            .spawn(move || accept(&listener, &theirs));
        Self {
            address,
            shared,
            acceptor: Some(or_fail(acceptor.during("cannot start a thread"))),
        }
    }

    /// The loopback address it listens on.
    #[must_use]
    pub fn host(&self) -> String {
        self.address.ip().to_string()
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Address and port as one text, `127.0.0.1:43210`.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// What it is from now on, for those who come and for logged-in clients' next request. Whoever has met silence
    /// stays there.
    pub fn set(&self, fake: Fake) {
        self.shared.lock().fake = fake;
    }

    /// How many connections it has accepted so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.lock().accepted
    }

    /// How many connections are open now.
    #[must_use]
    pub fn open(&self) -> usize {
        self.shared.lock().open.len()
    }

    /// The parameters of each startup packet so far, oldest first.
    #[must_use]
    pub fn startups(&self) -> Vec<BTreeMap<String, String>> {
        self.shared.lock().startups.clone()
    }

    /// Waits until this many connections are open.
    ///
    /// # Panics
    /// When they are still not after 30 seconds.
    #[track_caller]
    pub fn wait_open(&self, count: usize) {
        let reached = wait_until(LIMIT, || self.open() == count);
        or_fail(if reached {
            Ok(())
        } else {
            Err(crate::failure::Failure::new(format!(
                "the fake at {} has {} open connections, not {count}",
                self.address,
                self.open()
            )))
        });
    }

    /// Sends each logged-in client a NoticeResponse, or what else the refusal's severity makes it, and closes.
    pub fn warn_and_close(&self, warning: Refusal) {
        self.shared.send_to_clients(&warning.notice());
        self.close_all();
    }

    /// Sends each logged-in client an ErrorResponse and closes.
    pub fn refuse_and_close(&self, refusal: Refusal) {
        self.shared.send_to_clients(&refusal.error());
        self.close_all();
    }

    /// Closes every open connection without a word.
    pub fn close_all(&self) {
        for (stream, _) in self.shared.lock().open.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// A message of the protocol: its type, the length that fits, its body.
    #[must_use]
    pub fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
        Self::frame_of_length(kind, i32::try_from(body.len() + 4).unwrap_or(i32::MAX), body)
    }

    /// A message that claims this length, whatever its body has.
    #[must_use]
    pub fn frame_of_length(kind: u8, length: i32, body: &[u8]) -> Vec<u8> {
        let mut frame = vec![kind];
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(body);
        frame
    }
}

impl Drop for FakePg {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.close_all();
        // The acceptor looks up only when somebody comes.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fake(&self) -> Fake {
        self.lock().fake.clone()
    }

    fn send_to_clients(&self, message: &[u8]) {
        use std::io::Write as _;
        for (stream, logged_in) in self.lock().open.values() {
            if *logged_in {
                let _ = (&*stream).write_all(message);
            }
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let mut state = shared.lock();
        if state.ended {
            return;
        }
        let Ok((stream, ours)) = stream.and_then(|stream| Ok((stream.try_clone()?, stream))) else {
            continue;
        };
        let number = state.accepted;
        state.accepted += 1;
        state.open.insert(number, (ours, false));
        drop(state);
        let theirs = Arc::clone(shared);
        // Not joined: it ends with its connection, and those are closed when the fake goes.
        let spawned = thread::Builder::new().spawn(move || {
            let _ = conversation::hold(stream, number, &theirs);
            if let Some((stream, _)) = theirs.lock().open.remove(&number) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        });
        if spawned.is_err() {
            shared.lock().open.remove(&number);
        }
    }
}
