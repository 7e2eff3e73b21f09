//! What lives in a slot: one open stream to the backend, watched while nobody has it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use pgsteer_core::pool::{IdleWatch, Tenant};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc::UnboundedSender;

use super::inner::now;
use super::io::BackendIo;
use super::keeper::Message;

/// An open connection. It stays in its slot from opening to closing; holders reach it through their lease.
pub(super) struct Connection {
    pub(super) io: BackendIo,
    watch: Arc<Watch>,
    /// The watch, as the waker that the stream is left with.
    waker: Waker,
    /// Requests it has answered.
    pub(super) answered: u32,
    pub(super) opened_at: Instant,
}

/// Tells the keeper of whatever comes on a connection that nobody has.
pub(super) struct Watch {
    idle: IdleWatch,
    keeper: UnboundedSender<Message>,
    slot: u32,
    epoch: u64,
}

impl Watch {
    pub(super) fn retire(&self) {
        self.idle.retire();
    }

    pub(super) fn unretire(&self) {
        self.idle.unretire();
    }
}

impl Wake for Watch {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.idle.stir() {
            // Without a keeper the pool has ended.
            let _ = self.keeper.send(Message::Stirred {
                slot: self.slot,
                epoch: self.epoch,
            });
        }
    }
}

impl Tenant for Connection {
    #[inline]
    fn is_fit(&self) -> bool {
        self.watch.idle.is_fit()
    }
}

/// Why a connection that was to rest cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restless {
    /// The backend has closed it.
    Closed,
    /// The backend has sent something unasked, so that nobody could tell an answer from it.
    Spoke,
    /// The stream has failed.
    Failed(io::ErrorKind),
}

impl fmt::Display for Restless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Restless::Closed => f.write_str("the backend closed an idle connection"),
            Restless::Spoke => f.write_str("the backend sent something unasked on an idle connection"),
            Restless::Failed(kind) => write!(f, "an idle connection failed: {kind}"),
        }
    }
}

impl Connection {
    pub(super) fn new(io: BackendIo, keeper: UnboundedSender<Message>, slot: u32, epoch: u64) -> Self {
        let watch = Arc::new(Watch {
            idle: IdleWatch::new(),
            keeper,
            slot,
            epoch,
        });
        Connection {
            io,
            waker: Waker::from(Arc::clone(&watch)),
            watch,
            answered: 0,
            opened_at: now(),
        }
    }

    pub(super) fn watch(&self) -> &Arc<Watch> {
        &self.watch
    }

    /// Whoever has the lease begins to use it. If not, something has come since it was laid down, and the keeper looks.
    #[inline]
    #[must_use]
    pub(super) fn take_up(&self) -> bool {
        self.watch.idle.take_up()
    }

    /// Leaves the stream with its watch, unless something is there already. Sends nothing and does not wait; where the
    /// runtime has seen the stream run dry it costs no system call.
    pub(super) fn lay_down(&mut self) -> Result<(), Restless> {
        self.watch.idle.rest();
        let mut byte = [0];
        let mut read = ReadBuf::new(&mut byte);
        let io = &mut self.io;
        // Not bounded by the task's share of the thread: out of it, a stream would seem quiet without having been asked.
        let look = tokio::task::unconstrained(poll_fn(|cx| Pin::new(&mut *io).poll_read(cx, &mut read)));
        let looked = pin!(look).poll(&mut Context::from_waker(&self.waker));
        match looked {
            Poll::Pending => Ok(()),
            Poll::Ready(Err(error)) => Err(Restless::Failed(error.kind())),
            Poll::Ready(Ok(())) if read.filled().is_empty() => Err(Restless::Closed),
            Poll::Ready(Ok(())) => Err(Restless::Spoke),
        }
    }
}
