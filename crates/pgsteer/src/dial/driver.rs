//! The driver: the future that moves one connection's messages, keeps its session's state true, and remembers why it
//! ended. It has to be polled for the connection to work; dropping it cuts the socket.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pgsteer_core::pool::{PassEnd, Session};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_postgres::{AsyncMessage, Connection, Notification};

use super::control::{Control, Handle};
use super::ending::{EndReason, LastWords};
use super::pulse::Pulse;
use super::stall::Stall;
use super::tap::{Tap, Wire};
use super::tls::Encrypted;
use crate::world::Socket;

/// How long a server may take to close after Terminate before the socket is cut.
const POLITE_CLOSE: Duration = Duration::from_secs(2);

/// The connection as tokio-postgres runs it, over the tapped stream.
pub(super) type Tapped = Connection<Tap<Socket>, Encrypted<Tap<Socket>>>;

/// Drives one connection until it ends. Resolves to the reason, after the socket is closed and the owner was told.
///
/// When the client is dropped it lets the requests under way finish, sends Terminate, closes its half and waits for
/// the server to close the other, so that the session is really gone from the server; [`POLITE_CLOSE`] after
/// Terminate it cuts the socket.
pub(crate) struct Driver {
    /// `None` once it has ended.
    connection: Option<Tapped>,
    wire: Arc<Wire>,
    control: Arc<Control>,
    session: Arc<Session>,
    /// The task that polls it.
    task: Waker,
    /// Wakes that task, for everything that the connection waits for.
    waker: Waker,
    last_words: Option<LastWords>,
    notifications: Option<mpsc::UnboundedSender<Notification>>,
    close_by: Option<Pin<Box<Sleep>>>,
    stall: Option<Stall>,
    pulse: Option<Arc<Pulse>>,
    /// The owner has been told that the server may not be what it was taken for.
    told_of_doubt: bool,
}

impl Driver {
    pub(super) fn new(connection: Tapped, wire: Arc<Wire>) -> Self {
        let session = Arc::new(Session::new());
        let control = Control::new(Arc::clone(&session));
        let task = Waker::noop().clone();
        Driver {
            connection: Some(connection),
            wire,
            waker: control.moved_to(&task),
            task,
            control,
            session,
            last_words: None,
            notifications: None,
            close_by: None,
            stall: None,
            pulse: None,
            told_of_doubt: false,
        }
    }

    /// From now on it ends the connection when the server owes an answer and is silent for this long.
    pub(crate) fn end_when_silent(&mut self, limit: Option<Duration>) {
        self.stall = limit.map(Stall::new);
    }

    /// From now on it tells of the host's signs of life.
    pub(crate) fn tell_of_life(&mut self, pulse: Arc<Pulse>) {
        self.pulse = Some(pulse);
    }

    /// The session it keeps.
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// For orders to it.
    pub(crate) fn handle(&self) -> Handle {
        self.control.handle()
    }

    /// Where NOTIFY messages go. Without this, or once the receiver is gone, they are dropped.
    #[allow(
        dead_code,
        reason = "LISTEN is not offered above yet; the messages pass here all the same"
    )]
    pub(crate) fn forward_notifications(&mut self, to: mpsc::UnboundedSender<Notification>) {
        self.notifications = Some(to);
    }

    /// Drives the connection until `work` is done. If the connection ends first, `work` sees it closed.
    ///
    /// Cancel safe: the driver can be used further when the future is dropped.
    pub(crate) async fn drive_while<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| {
            if self.connection.is_some() {
                let _ = Pin::new(&mut *self).poll(cx);
            }
            work.as_mut().poll(cx)
        })
        .await
    }

    /// Polls the connection until it has nothing more to do, and publishes what it left behind.
    ///
    /// A round trip takes two of these and nothing else, so what is not part of one stands elsewhere.
    #[inline]
    fn pass(&mut self) -> Poll<EndReason> {
        let Some(connection) = &mut self.connection else {
            return Poll::Ready(EndReason::TaskDied);
        };
        self.session.begin_pass();
        let mut cx = Context::from_waker(&self.waker);
        loop {
            self.wire.begin_poll();
            match connection.poll_message(&mut cx) {
                Poll::Pending => break,
                Poll::Ready(Some(Ok(message))) => {
                    hear(&mut self.last_words, self.notifications.as_ref(), message);
                }
                Poll::Ready(Some(Err(error))) => {
                    let reason = EndReason::after_error(&error, &self.wire, self.last_words.as_ref());
                    return Poll::Ready(reason);
                }
                Poll::Ready(None) => return Poll::Ready(EndReason::ClosedByUs),
            }
        }
        let after = self.wire.after_pass();
        // Before the session counts as quiet, so that nobody else gets it.
        if after.role_doubted && !self.told_of_doubt {
            self.told_of_doubt = self.control.tell(|owner| owner.role_doubted());
        }
        match self.session.end_pass(after.busy, after.dirty) {
            // Whatever woke the session has woken this task too: the next pass comes by itself.
            PassEnd::Again | PassEnd::Rest => {}
            PassEnd::Release => _ = self.control.tell(|owner| owner.release()),
            PassEnd::HandOver => _ = self.control.tell(|owner| owner.hand_over()),
        }
        let heard = self.wire.take_heard();
        if let Some(stall) = &mut self.stall {
            stall.after_pass(heard, after.awaits_server);
        }
        if let Some(pulse) = self.pulse.as_deref().filter(|_| heard) {
            pulse.beat();
        }
        if after.terminated && self.close_by.is_none() {
            self.close_at(Instant::now() + POLITE_CLOSE);
        }
        Poll::Pending
    }

    /// Does as it was told. If that is to cut the socket, returns why.
    #[cold]
    fn heed_orders(&mut self) -> Option<EndReason> {
        let ordered = self.control.take_orders();
        if let (None, Some(limit)) = (&ordered.cut, ordered.close_by) {
            self.close_at(limit);
        }
        ordered.cut
    }

    #[cold]
    fn close_at(&mut self, limit: Instant) {
        if self
            .close_by
            .as_ref()
            .is_none_or(|earlier| earlier.deadline() > limit)
        {
            self.close_by = Some(Box::pin(sleep_until(limit)));
        }
    }

    #[cold]
    fn end(&mut self, reason: EndReason) -> EndReason {
        if self.connection.is_some() {
            tracing::debug!("connection ended: {reason}");
            self.control.note_end(&reason);
            // The socket goes before anybody is told: whoever learns of the end may rely on that.
            self.connection = None;
            self.control.end(reason.clone());
        }
        reason
    }
}

/// The server has said something that is no answer.
#[cold]
fn hear(
    last_words: &mut Option<LastWords>,
    notifications: Option<&mpsc::UnboundedSender<Notification>>,
    message: AsyncMessage,
) {
    match message {
        AsyncMessage::Notice(notice) => {
            tracing::debug!(
                severity = notice.severity(),
                code = notice.code().code(),
                "{}",
                notice.message()
            );
            *last_words = LastWords::of(&notice).or(last_words.take());
        }
        AsyncMessage::Notification(notification) => {
            if let Some(receiver) = notifications {
                let _ = receiver.send(notification);
            }
        }
        _ => {}
    }
}

impl Future for Driver {
    type Output = EndReason;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<EndReason> {
        let this = self.get_mut();
        if !this.task.will_wake(cx.waker()) {
            this.task.clone_from(cx.waker());
            this.waker = this.control.moved_to(cx.waker());
        }
        if this.control.has_orders()
            && let Some(reason) = this.heed_orders()
        {
            return Poll::Ready(this.end(reason));
        }
        if let Poll::Ready(reason) = this.pass() {
            return Poll::Ready(this.end(reason));
        }
        if this
            .close_by
            .as_mut()
            .is_some_and(|limit| limit.as_mut().poll(cx).is_ready())
        {
            return Poll::Ready(this.end(EndReason::Cut));
        }
        if this.stall.as_mut().is_some_and(|stall| stall.poll(cx).is_ready()) {
            return Poll::Ready(this.end(EndReason::Stalled));
        }
        Poll::Pending
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.end(EndReason::TaskDied);
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("session", self.session())
            .finish_non_exhaustive()
    }
}
