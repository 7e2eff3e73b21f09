//! The real network, in which one COMMIT or its answer does not arrive: the connection falls silent there, for as long as
//! the test wants, and then breaks.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use pgsteer::world::{BoxFuture, Dial, Draw, Endpoint, Resolve, Socket, SocketOptions, World};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

/// Bytes of the answer to a COMMIT that was done, the message that has its tag, and all of it.
pub(crate) const TAG: usize = 12;
pub(crate) const ANSWER: usize = TAG + 6;

/// Where a connection falls silent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At {
    /// The server never gets the COMMIT, which its client has sent.
    Commit,
    /// The same, and the server does not learn either that its client is gone, until it is let go.
    CommitUnnoticed,
    /// Of its answer so many bytes arrive.
    Answer(usize),
}

/// Whoever cuts.
#[derive(Clone)]
pub(crate) struct Cutter(Arc<State>);

struct State {
    /// The next COMMIT to be cut.
    next: Mutex<Option<At>>,
    silent: Notify,
    broken: AtomicBool,
    reader: Mutex<Option<Waker>>,
    /// What the server takes to be alive still.
    unnoticed: Mutex<Option<Socket>>,
}

impl Cutter {
    pub(crate) fn new() -> Self {
        Cutter(Arc::new(State {
            next: Mutex::new(None),
            silent: Notify::new(),
            broken: AtomicBool::new(false),
            reader: Mutex::new(None),
            unnoticed: Mutex::new(None),
        }))
    }

    /// The network with the cutter in it.
    pub(crate) fn world(&self) -> World {
        let network = Arc::new(Network {
            world: World::real(),
            state: self.0.clone(),
        });
        World::new(network.clone(), network.clone(), network)
    }

    /// The next COMMIT is cut, and only that.
    pub(crate) fn cut(&self, at: At) {
        self.0.broken.store(false, Ordering::SeqCst);
        *self.0.next.lock().unwrap() = Some(at);
    }

    /// Returns when the connection has fallen silent.
    pub(crate) async fn silent(&self) {
        self.0.silent.notified().await;
    }

    /// The server learns that its client is gone.
    pub(crate) fn let_go(&self) {
        *self.0.unnoticed.lock().unwrap() = None;
    }

    /// The silent connection breaks.
    pub(crate) fn break_off(&self) {
        self.0.broken.store(true, Ordering::SeqCst);
        if let Some(reader) = self.0.reader.lock().unwrap().take() {
            reader.wake();
        }
    }
}

struct Network {
    world: World,
    state: Arc<State>,
}

impl Resolve for Network {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        self.world.resolver().resolve(host)
    }
}

impl Draw for Network {
    fn draw(&self) -> u64 {
        self.world.draw()
    }
}

impl Dial for Network {
    fn dial<'a>(
        &'a self,
        target: &'a Endpoint,
        socket: &'a SocketOptions,
    ) -> BoxFuture<'a, io::Result<Socket>> {
        Box::pin(async move {
            let stream = self.world.dialler().dial(target, socket).await?;
            Ok(Socket::other(Cut {
                stream,
                state: self.state.clone(),
                left: None,
                unnoticed: false,
            }))
        })
    }
}

struct Cut {
    stream: Socket,
    state: Arc<State>,
    /// Bytes that may still be read, once it has been cut.
    left: Option<usize>,
    unnoticed: bool,
}

impl Drop for Cut {
    fn drop(&mut self) {
        if self.unnoticed {
            let stream = std::mem::replace(&mut self.stream, Socket::other(tokio::io::empty()));
            *self.state.unnoticed.lock().unwrap() = Some(stream);
        }
    }
}

impl AsyncRead for Cut {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let Some(left) = this.left else {
            return Pin::new(&mut this.stream).poll_read(cx, buffer);
        };
        if left > 0 {
            let mut some = buffer.take(left);
            let read = Pin::new(&mut this.stream).poll_read(cx, &mut some);
            let count = some.filled().len();
            // What a part of the buffer was filled with is initialised, which the whole does not know.
            let bytes = some.filled().to_vec();
            buffer.put_slice(&bytes);
            this.left = Some(left - count);
            if this.left == Some(0) {
                this.state.silent.notify_one();
            }
            return read;
        }
        *this.state.reader.lock().unwrap() = Some(cx.waker().clone());
        match this.state.broken.load(Ordering::SeqCst) {
            true => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            false => Poll::Pending,
        }
    }
}

impl AsyncWrite for Cut {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let cut = match bytes.ends_with(COMMIT) {
            true => this.state.next.lock().unwrap().take(),
            false => None,
        };
        match cut {
            None => Pin::new(&mut this.stream).poll_write(cx, bytes),
            Some(at @ (At::Commit | At::CommitUnnoticed)) => {
                assert_eq!(bytes, COMMIT, "it is sent alone");
                this.unnoticed = matches!(at, At::CommitUnnoticed);
                this.left = Some(0);
                this.state.silent.notify_one();
                cx.waker().wake_by_ref();
                Poll::Ready(Ok(bytes.len()))
            }
            Some(At::Answer(count)) => {
                let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
                assert!(matches!(written, Poll::Ready(Ok(count)) if count == bytes.len()));
                this.left = Some(count);
                if count == 0 {
                    this.state.silent.notify_one();
                }
                cx.waker().wake_by_ref();
                written
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
