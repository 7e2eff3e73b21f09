//! Backends in memory, which the test has behave as it likes, and which count what is done to them. On paused time.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses its own part of the rig"
)]

pub mod failing;
pub mod sets;

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use pgsteer_router::backend::{
    BackendAddress, BackendIo, BackendOptions, BackendPool, BackendSet, BackendStatus, Borrowed, BoxFuture,
    Dial,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::sync::watch;
use tokio::time::Instant;

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);

/// More dials at one instant than any test has reason for.
const DIALS_AT_ONCE: usize = 4_500;

/// What a backend does when it is dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    Open,
    Refuse,
    RefuseAfter(Duration),
    /// The dial is never answered.
    Hang,
    /// The dial takes so long.
    Slow(Duration),
    /// The dialer itself panics.
    Panic,
    /// The system has no descriptor left.
    NoDescriptors,
}

/// What a backend does with what it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manners {
    /// Sends every frame back.
    Echo,
    /// Sends every frame back after so long.
    SlowEcho(Duration),
    /// Takes everything and answers nothing.
    Silent,
    /// Answers four bytes that are no empty frame.
    Garbage,
    /// Closes as soon as it has been connected to.
    CloseAtOnce,
    /// Echoes, and has a byte more follow each answer.
    Chatty,
    /// Echoes, and does not close its half when the other is closed.
    NeverLetsGo,
}

/// An order to the connections that are open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Orders {
    close: u64,
    speak: u64,
}

#[derive(Default)]
struct Counts {
    dials: AtomicUsize,
    /// Sockets on our side, and the most there ever were.
    sockets: AtomicUsize,
    most_sockets: AtomicUsize,
    /// Connections that the backend has not let go of, and the most there ever were.
    held: AtomicUsize,
    most_held: AtomicUsize,
    empty_frames: AtomicUsize,
    frames: AtomicUsize,
}

fn count_up(count: &AtomicUsize, most: &AtomicUsize) {
    most.fetch_max(count.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
}

pub struct Backend {
    pub address: BackendAddress,
    door: Mutex<Door>,
    manners: watch::Sender<Manners>,
    orders: watch::Sender<Orders>,
    counts: Arc<Counts>,
    dialled_at: Mutex<Vec<Instant>>,
}

impl Backend {
    pub fn door(&self, door: Door) {
        *self.door.lock().unwrap() = door;
    }

    pub fn manners(&self, manners: Manners) {
        self.manners.send_replace(manners);
    }

    /// Ends every connection it has.
    pub fn close_all(&self) {
        self.orders.send_modify(|orders| orders.close += 1);
    }

    /// Sends a byte on every connection it has, unasked.
    pub fn speak(&self) {
        self.orders.send_modify(|orders| orders.speak += 1);
    }

    /// Dies: it refuses, and all connections end.
    pub fn kill(&self) {
        self.door(Door::Refuse);
        self.close_all();
    }

    pub fn dials(&self) -> usize {
        self.counts.dials.load(Ordering::SeqCst)
    }

    /// When it was dialled, counted from `since`.
    pub fn dialled_after(&self, since: Instant) -> Vec<Duration> {
        let dialled_at = self.dialled_at.lock().unwrap();
        dialled_at
            .iter()
            .map(|at| at.saturating_duration_since(since))
            .collect()
    }

    /// Notes a dial. Returns whether there were so many at this one instant that they must come of each other; they are to be
    /// answered no more then, so that the test can tell.
    fn is_dialled_in_a_circle(&self) -> bool {
        let (mut dialled_at, now) = (self.dialled_at.lock().unwrap(), Instant::now());
        dialled_at.push(now);
        let together = dialled_at.iter().rev().take_while(|at| **at == now).count();
        together > DIALS_AT_ONCE
    }

    /// Whether it was ever dialled without a rest in between.
    pub fn was_dialled_in_a_circle(&self) -> bool {
        let dialled_at = self.dialled_at.lock().unwrap();
        dialled_at
            .windows(DIALS_AT_ONCE + 1)
            .any(|window| window.first() == window.last())
    }

    pub fn sockets(&self) -> usize {
        self.counts.sockets.load(Ordering::SeqCst)
    }

    pub fn most_sockets(&self) -> usize {
        self.counts.most_sockets.load(Ordering::SeqCst)
    }

    pub fn most_held(&self) -> usize {
        self.counts.most_held.load(Ordering::SeqCst)
    }

    /// Empty frames it was sent.
    pub fn pinged(&self) -> usize {
        self.counts.empty_frames.load(Ordering::SeqCst)
    }

    /// Frames it was sent that were not empty.
    pub fn asked(&self) -> usize {
        self.counts.frames.load(Ordering::SeqCst)
    }
}

/// All backends there are.
#[derive(Clone, Default)]
pub struct World(Arc<Mutex<HashMap<String, Arc<Backend>>>>);

impl World {
    pub fn backend(&self, text: &str) -> Arc<Backend> {
        let address: BackendAddress = text.parse().unwrap();
        let backend = Arc::new(Backend {
            address: address.clone(),
            door: Mutex::new(Door::Open),
            manners: watch::Sender::new(Manners::Echo),
            orders: watch::Sender::new(Orders::default()),
            counts: Arc::default(),
            dialled_at: Mutex::default(),
        });
        self.0
            .lock()
            .unwrap()
            .insert(address.to_string(), Arc::clone(&backend));
        backend
    }

    pub fn dialer(&self) -> Arc<dyn Dial> {
        Arc::new(self.clone())
    }
}

impl Dial for World {
    fn dial<'a>(&'a self, address: &'a BackendAddress, _: Instant) -> BoxFuture<'a, io::Result<BackendIo>> {
        Box::pin(async move {
            let backend = self.0.lock().unwrap().get(&address.to_string()).cloned();
            let backend = backend.ok_or_else(|| io::Error::other("no such backend"))?;
            let counts = &backend.counts;
            counts.dials.fetch_add(1, Ordering::SeqCst);
            if backend.is_dialled_in_a_circle() {
                std::future::pending::<()>().await;
            }
            count_up(&counts.sockets, &counts.most_sockets);
            let socket = Socket(Arc::clone(counts));
            let door = *backend.door.lock().unwrap();
            match door {
                Door::Open => {}
                Door::Refuse => return Err(io::ErrorKind::ConnectionRefused.into()),
                Door::RefuseAfter(time) => {
                    tokio::time::sleep(time).await;
                    return Err(io::ErrorKind::ConnectionRefused.into());
                }
                Door::Hang => std::future::pending().await,
                Door::Slow(time) => tokio::time::sleep(time).await,
                Door::Panic => panic!("the dialer panics on purpose"),
                Door::NoDescriptors => return Err(io::Error::from_raw_os_error(24)),
            }
            let (ours, theirs) = duplex(4096);
            count_up(&counts.held, &counts.most_held);
            tokio::spawn(serve(Arc::clone(&backend), theirs));
            Ok(BackendIo::boxed(Counted {
                stream: ours,
                _socket: socket,
            }))
        })
    }
}

/// A socket on our side, for as long as it is open.
struct Socket(Arc<Counts>);

impl Drop for Socket {
    fn drop(&mut self) {
        self.0.sockets.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Counted {
    stream: DuplexStream,
    _socket: Socket,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

struct Held(Arc<Counts>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn serve(backend: Arc<Backend>, mut stream: DuplexStream) {
    let _held = Held(Arc::clone(&backend.counts));
    let manners = backend.manners.subscribe();
    let mut orders = backend.orders.subscribe();
    let began = *orders.borrow_and_update();
    let mut spoken = began.speak;
    loop {
        if *manners.borrow() == Manners::CloseAtOnce {
            return;
        }
        let mut header = [0; 4];
        tokio::select! {
            read = stream.read_exact(&mut header) => {
                if read.is_err() {
                    if *manners.borrow() == Manners::NeverLetsGo {
                        std::future::pending::<()>().await;
                    }
                    return;
                }
            }
            _ = orders.changed() => {
                let now = *orders.borrow_and_update();
                if now.close > began.close {
                    return;
                }
                if now.speak > spoken {
                    spoken = now.speak;
                    let _ = stream.write_all(b"!").await;
                }
                continue;
            }
        }
        let length = u32::from_be_bytes(header) as usize;
        let mut payload = vec![0; length];
        if stream.read_exact(&mut payload).await.is_err() {
            return;
        }
        let counts = &backend.counts;
        let counted = if length == 0 {
            &counts.empty_frames
        } else {
            &counts.frames
        };
        counted.fetch_add(1, Ordering::SeqCst);
        let now = *manners.borrow();
        match now {
            Manners::Echo | Manners::NeverLetsGo | Manners::CloseAtOnce => {}
            Manners::SlowEcho(time) => tokio::time::sleep(time).await,
            Manners::Silent => continue,
            Manners::Garbage => header = *b"what",
            Manners::Chatty => payload.push(b'!'),
        }
        if stream.write_all(&[&header[..], &payload].concat()).await.is_err() {
            return;
        }
    }
}

/// One request and its answer, as a router makes them.
pub async fn ask(io: &mut BackendIo, word: &[u8]) -> io::Result<Vec<u8>> {
    let header = (word.len() as u32).to_be_bytes();
    io.write_all(&[&header[..], word].concat()).await?;
    let mut header = [0; 4];
    io.read_exact(&mut header).await?;
    let mut answer = vec![0; u32::from_be_bytes(header) as usize];
    io.read_exact(&mut answer).await?;
    Ok(answer)
}

/// Lets everything happen that happens at this instant.
pub async fn settle() {
    tokio::time::sleep(Duration::from_micros(1)).await;
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

/// The options of most tests: nothing happens by itself for an hour.
pub fn quiet() -> BackendOptions {
    BackendOptions {
        min_idle: 0,
        idle_timeout: None,
        max_lifetime: None,
        enable_health_check: false,
        ..BackendOptions::default()
    }
}

pub fn start(world: &World, backend: &Backend, options: BackendOptions) -> BackendPool {
    BackendPool::start(backend.address.clone(), options, world.dialer()).unwrap()
}

pub fn start_set(world: &World, backends: &[(&Arc<Backend>, BackendOptions)]) -> BackendSet {
    let list = backends
        .iter()
        .map(|(backend, options)| (backend.address.clone(), options.clone()))
        .collect();
    BackendSet::start(list, world.dialer()).unwrap()
}

/// Idle, in use, opening and closing.
pub fn sizes(status: &BackendStatus) -> [u32; 4] {
    [status.idle, status.in_use, status.opening, status.closing]
}

/// So many connections, all held.
pub async fn borrow_all(pool: &BackendPool, count: usize) -> Vec<Borrowed> {
    let mut borrowed = Vec::new();
    for _ in 0..count {
        borrowed.push(pool.borrow().await.expect("there is room"));
    }
    borrowed
}
