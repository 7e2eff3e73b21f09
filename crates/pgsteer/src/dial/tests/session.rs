//! What a holder may and may not give back, end to end: client, driver, tap and session over a scripted server.

use std::future::poll_fn;
use std::pin::pin;

use futures_util::{StreamExt, TryStreamExt};
use pgsteer_core::pool::{GiveBack, Session};
use tokio::sync::{Notify, mpsc};
use tokio_postgres::{Client, SimpleQueryMessage};

use super::*;

/// What an owner was told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Told {
    Release,
    HandOver,
    RoleDoubted,
    Ended(EndReason, bool),
}

struct Recorder(mpsc::UnboundedSender<Told>);

impl Owner for Recorder {
    fn release(&self) {
        let _ = self.0.send(Told::Release);
    }

    fn hand_over(&self) {
        let _ = self.0.send(Told::HandOver);
    }

    fn role_doubted(&self) {
        let _ = self.0.send(Told::RoleDoubted);
    }

    fn ended(&self, reason: EndReason, owned: bool) {
        let _ = self.0.send(Told::Ended(reason, owned));
    }
}

/// An open connection with an owner, its driver running.
pub(super) struct Open {
    pub(super) client: Client,
    pub(super) session: Arc<Session>,
    pub(super) wire: Arc<Wire>,
    pub(super) handle: Handle,
    pub(super) told: mpsc::UnboundedReceiver<Told>,
    pub(super) task: tokio::task::JoinHandle<EndReason>,
}

impl Open {
    pub(super) async fn on(host: Host) -> Self {
        Self::from(dial(host, config()).await.unwrap()).await
    }

    pub(super) async fn from(dialled: Dialled) -> Self {
        let (sender, told) = mpsc::unbounded_channel();
        let Dialled {
            client,
            driver,
            session,
            wire,
            handle,
            ..
        } = dialled;
        handle.attach(Arc::new(Recorder(sender))).unwrap();
        let task = tokio::spawn(driver);
        let open = Open {
            client,
            session,
            wire,
            handle,
            told,
            task,
        };
        open.settle().await;
        open
    }

    /// Waits until the session is quiet.
    pub(super) async fn settle(&self) {
        while !self.session.is_quiet() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(super) async fn told(&mut self) -> Told {
        self.told.recv().await.unwrap()
    }
}

/// A server that answers each simple query with this, as soon as it is let.
fn answers_when_let(answer: Vec<u8>) -> (Host, Arc<Notify>) {
    let let_it = Arc::new(Notify::new());
    let host = serves({
        let let_it = let_it.clone();
        move |mut peer| {
            let (answer, let_it) = (answer.clone(), let_it.clone());
            async move {
                peer.accept().await;
                while peer.query().await.is_some() {
                    let_it.notified().await;
                    peer.send(&answer).await;
                }
            }
        }
    });
    (host, let_it)
}

/// Polls the future once, then drops it.
async fn start_and_drop<T>(work: impl Future<Output = T>) {
    let mut work = pin!(work);
    let pending = poll_fn(|cx| std::task::Poll::Ready(work.as_mut().poll(cx).is_pending())).await;
    assert!(pending);
}

#[tokio::test(start_paused = true)]
async fn a_fresh_connection_is_clean() {
    let open = Open::on(answers_when_let(vec![]).0).await;
    assert_eq!(open.session.give_back(), GiveBack::Clean);
    assert_eq!(open.wire.status(), TransactionStatus::Idle);
}

#[tokio::test(start_paused = true)]
async fn a_query_dropped_right_after_it_was_queued_parks_the_session_until_its_answer() {
    let (host, let_it) = answers_when_let([completed("SELECT 1"), ready(b'I')].concat());
    let mut open = Open::on(host).await;
    start_and_drop(open.client.simple_query("SELECT 1")).await;
    // On this one thread the driver has not run: nothing but the wake says that a request is queued.
    assert_eq!(open.wire.unanswered(), 0);
    assert_eq!(open.session.give_back(), GiveBack::Parked);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(open.session.is_parked() && open.told.try_recv().is_err());
    assert_eq!(open.wire.unanswered(), 1);
    let_it.notify_one();
    assert_eq!(open.told().await, Told::Release);
    assert_eq!(open.session.give_back(), GiveBack::Clean);
}

#[tokio::test(start_paused = true)]
async fn a_begin_that_was_dropped_ends_with_the_keeper() {
    for status in [b'T', b'E'] {
        let (host, let_it) = answers_when_let([completed("BEGIN"), ready(status)].concat());
        let mut open = Open::on(host).await;
        start_and_drop(open.client.batch_execute("BEGIN")).await;
        assert_eq!(open.session.give_back(), GiveBack::Parked);
        let_it.notify_one();
        assert_eq!(open.told().await, Told::HandOver);
        assert!(open.session.is_dirty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_transaction_goes_to_the_keeper_at_once() {
    let (host, let_it) = answers_when_let([completed("BEGIN"), ready(b'T')].concat());
    let open = Open::on(host).await;
    let_it.notify_one();
    open.client.batch_execute("BEGIN").await.unwrap();
    open.settle().await;
    assert_eq!(open.session.give_back(), GiveBack::Keeper);
    assert_eq!(open.wire.status(), TransactionStatus::InTransaction);
}

#[tokio::test(start_paused = true)]
async fn an_error_whose_ready_message_is_late_parks_the_session_until_it_comes() {
    let host = serves(|mut peer| async move {
        peer.accept().await;
        peer.query().await;
        peer.send(&report(b'E', "ERROR", "42601", "syntax")).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        peer.send(&ready(b'I')).await;
        peer.end().await;
    });
    let mut open = Open::on(host).await;
    let error = open.client.simple_query("SELCT").await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "42601");
    assert_eq!(open.session.give_back(), GiveBack::Parked);
    assert!(open.told.try_recv().is_err());
    assert_eq!(open.told().await, Told::Release);
    assert_eq!(open.wire.last_error().unwrap().sqlstate.as_str(), "42601");
}

#[tokio::test(start_paused = true)]
async fn a_row_stream_kept_after_the_guard_keeps_the_session_parked() {
    let mut answer = columns(&["x"]);
    for _ in 0..200 {
        answer.extend(row(&[Some(&"x".repeat(1000))]));
    }
    answer.extend([completed("SELECT 200"), ready(b'I')].concat());
    let (host, let_it) = answers_when_let(answer);
    let mut open = Open::on(host).await;
    let_it.notify_one();
    let mut rows = Box::pin(open.client.simple_query_raw("SELECT").await.unwrap());
    let first = rows.next().await.unwrap().unwrap();
    assert!(matches!(first, SimpleQueryMessage::RowDescription(_)));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(open.session.give_back(), GiveBack::Parked);
    assert!(open.told.try_recv().is_err());
    // Read to the end elsewhere, it lets the session go.
    assert_eq!(rows.try_collect::<Vec<_>>().await.unwrap().len(), 201);
    assert_eq!(open.told().await, Told::Release);
}

#[tokio::test(start_paused = true)]
async fn a_row_stream_that_is_dropped_lets_the_session_go() {
    let mut answer = columns(&["x"]);
    for _ in 0..200 {
        answer.extend(row(&[Some(&"x".repeat(1000))]));
    }
    answer.extend([completed("SELECT 200"), ready(b'I')].concat());
    let (host, let_it) = answers_when_let(answer);
    let mut open = Open::on(host).await;
    let_it.notify_one();
    drop(open.client.simple_query_raw("SELECT").await.unwrap());
    assert_eq!(open.session.give_back(), GiveBack::Parked);
    assert_eq!(open.told().await, Told::Release);
}

#[tokio::test(start_paused = true)]
async fn a_retired_session_ends_with_the_keeper_though_it_is_clean() {
    let (host, let_it) = answers_when_let([completed("SELECT 1"), ready(b'I')].concat());
    let mut open = Open::on(host).await;
    start_and_drop(open.client.simple_query("SELECT 1")).await;
    assert_eq!(open.session.give_back(), GiveBack::Parked);
    open.session.retire();
    let_it.notify_one();
    assert_eq!(open.told().await, Told::HandOver);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_reading_keeps_the_session_busy() {
    let host = serves(|mut peer| async move {
        peer.accept().await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        while peer.query().await.is_some() {
            peer.send(&[completed("SELECT 1"), ready(b'I')].concat()).await;
        }
    });
    let mut open = Open::on(host).await;
    // More than the pipe holds, so that the last request cannot be written whole.
    let long = format!("SELECT '{}'", "x".repeat(50_000));
    for _ in 0..3 {
        start_and_drop(open.client.simple_query(&long)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(open.session.give_back(), GiveBack::Parked);
    assert_eq!(open.told().await, Told::Release);
    assert_eq!(open.wire.unanswered(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_tag_of_a_commit_that_rolled_back_is_known() {
    let (host, let_it) = answers_when_let([completed("ROLLBACK"), ready(b'I')].concat());
    let open = Open::on(host).await;
    let_it.notify_one();
    open.client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(open.wire.last_tag().unwrap().as_str(), "ROLLBACK");
}

#[tokio::test(start_paused = true)]
async fn a_write_refused_by_a_read_only_session_is_told_once_and_before_the_session_is_let_go() {
    let refused = [report(b'E', "ERROR", "25006", "read-only"), ready(b'I')].concat();
    let (host, let_it) = answers_when_let(refused);
    let mut open = Open::on(host).await;
    assert!(!open.wire.is_role_doubted());
    for _ in 0..2 {
        let_it.notify_one();
        start_and_drop(open.client.simple_query("INSERT")).await;
        assert_eq!(open.session.give_back(), GiveBack::Parked);
        if !open.wire.is_role_doubted() {
            assert_eq!(open.told().await, Told::RoleDoubted);
        }
        assert_eq!(open.told().await, Told::Release);
    }
    assert!(open.wire.is_role_doubted());
}

#[tokio::test(start_paused = true)]
async fn notices_do_not_make_a_session_busy() {
    let host = serves(|mut peer| async move {
        peer.accept().await;
        for _ in 0..1000 {
            peer.send(&report(b'N', "NOTICE", "00000", "x")).await;
        }
        peer.send(&message(b'S', b"in_hot_standby\0on\0")).await;
        peer.end().await;
    });
    let open = Open::on(host).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(open.session.give_back(), GiveBack::Clean);
    assert_eq!(open.wire.said().notice.unwrap().severity, Severity::Notice);
    assert_eq!(open.wire.said().in_hot_standby, Some(true));
}

#[tokio::test(start_paused = true)]
async fn notifications_are_forwarded_where_that_was_asked_for_and_dropped_elsewhere() {
    let host = || {
        serves(|mut peer| async move {
            peer.accept().await;
            peer.query().await;
            peer.send(&[completed("LISTEN"), ready(b'I')].concat()).await;
            peer.send(&message(b'A', b"\0\0\0\x07jobs\0ready\0")).await;
            peer.end().await;
        })
    };
    let mut dialled = dial(host(), config()).await.unwrap();
    let (sender, mut received) = mpsc::unbounded_channel();
    dialled.driver.forward_notifications(sender);
    let open = Open::from(dialled).await;
    open.client.batch_execute("LISTEN jobs").await.unwrap();
    let notification = received.recv().await.unwrap();
    assert_eq!(
        (notification.channel(), notification.payload()),
        ("jobs", "ready")
    );
    drop(received);
    assert_eq!(open.session.give_back(), GiveBack::Clean);

    let open = Open::on(host()).await;
    open.client.batch_execute("LISTEN jobs").await.unwrap();
    open.settle().await;
    assert_eq!(open.session.give_back(), GiveBack::Clean);
}
