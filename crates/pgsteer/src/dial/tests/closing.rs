//! How connections end: politely, by force, by the server; what is remembered, and who is told when.

use std::future::poll_fn;

use pgsteer_core::pool::GiveBack;
use pgsteer_core::verdict::{Class, classify};
use tokio::time::Instant;

use super::session::{Open, Told};
use super::*;

/// A server that accepts the login, waits a second, says this and closes.
fn says_and_closes(said: Vec<u8>) -> Host {
    serves(move |mut peer| {
        let said = said.clone();
        async move {
            peer.accept().await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            peer.send(&said).await;
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_dropped_client_says_goodbye_and_waits_for_the_server_to_let_go() {
    let (said_goodbye, goodbye) = tokio::sync::oneshot::channel();
    let said_goodbye = Arc::new(Mutex::new(Some(said_goodbye)));
    let host = serves(move |mut peer| {
        let said_goodbye = said_goodbye.clone();
        async move {
            peer.accept().await;
            assert_eq!(peer.next().await, Some((b'X', vec![])));
            assert_eq!(peer.next().await, None, "the client closes its half");
            said_goodbye.lock().unwrap().take().unwrap().send(()).unwrap();
            tokio::time::sleep(Duration::from_millis(700)).await;
        }
    });
    let mut open = Open::on(host).await;
    let began = Instant::now();
    drop(std::mem::replace(
        &mut open.client,
        Open::on(says_and_closes(vec![])).await.client,
    ));
    goodbye.await.unwrap();
    assert!(!open.session.is_closed());
    assert_eq!(open.told().await, Told::Ended(EndReason::ClosedByUs, false));
    assert!(began.elapsed() >= Duration::from_millis(700) && began.elapsed() < Duration::from_secs(2));
    assert!(open.session.is_closed());
    assert_eq!(open.handle.end_reason(), Some(EndReason::ClosedByUs));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_let_go_is_cut_off_after_two_seconds() {
    let host = serves(|mut peer| async move {
        peer.accept().await;
        pending::<()>().await;
        drop(peer);
    });
    let Open { client, task, .. } = Open::on(host).await;
    let began = Instant::now();
    drop(client);
    assert_eq!(task.await.unwrap(), EndReason::Cut);
    assert_eq!(began.elapsed(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_never_answered_does_not_outlive_the_closing_deadline() {
    let host = serves(|mut peer| async move {
        peer.accept().await;
        peer.end().await;
    });
    let Open {
        client, task, handle, ..
    } = Open::on(host).await;
    let began = Instant::now();
    let hanging = tokio::time::timeout(Duration::from_secs(1), client.batch_execute("SELECT 1")).await;
    assert!(hanging.is_err());
    drop(client);
    handle.close_within(Duration::from_secs(5));
    handle.close_within(Duration::from_secs(50));
    assert_eq!(task.await.unwrap(), EndReason::Cut);
    assert_eq!(began.elapsed(), Duration::from_secs(6));
}

#[tokio::test(start_paused = true)]
async fn an_abort_closes_the_socket_at_once_and_fails_what_is_under_way() {
    let (closed, on_close) = tokio::sync::oneshot::channel();
    let closed = Arc::new(Mutex::new(Some(closed)));
    let host = serves(move |mut peer| {
        let closed = closed.clone();
        async move {
            peer.accept().await;
            assert_eq!(peer.query().await.as_deref(), Some("SELECT 1"));
            assert_eq!(peer.next().await, None, "nothing is said any more");
            closed.lock().unwrap().take().unwrap().send(()).unwrap();
        }
    });
    let mut open = Open::on(host).await;
    let handle = open.handle.clone();
    let began = Instant::now();
    let (result, ()) = tokio::join!(open.client.batch_execute("SELECT 1"), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        handle.abort();
    });
    assert!(result.unwrap_err().is_closed());
    on_close.await.unwrap();
    assert_eq!(open.told().await, Told::Ended(EndReason::Cut, false));
    assert_eq!(began.elapsed(), Duration::from_secs(1));
}

/// Covers: E-325
#[tokio::test(start_paused = true)]
async fn a_dead_connection_fails_queries_as_closed_and_cannot_be_given_back_as_clean() {
    let mut open = Open::on(says_and_closes(vec![])).await;
    let Told::Ended(reason, owned) = open.told().await else {
        panic!("not told of the end")
    };
    assert_eq!((&reason, owned), (&EndReason::Eof, false));
    assert_eq!(classify(&reason.evidence()), Class::ConnectionLost);
    assert!(
        open.client
            .batch_execute("SELECT 1")
            .await
            .unwrap_err()
            .is_closed()
    );
    assert_eq!(open.session.give_back(), GiveBack::Keeper);
}

#[tokio::test(start_paused = true)]
async fn the_servers_last_words_are_the_reason() {
    let reason = |sqlstate: &str, text: &str| EndReason::ServerError {
        sqlstate: sqlstate.to_owned(),
        text: text.to_owned(),
    };
    let cases = [
        ("a fatal error while idle", fatal("57P01"), reason("57P01", "no")),
        ("an idle session timeout", fatal("57P05"), reason("57P05", "no")),
        (
            "an immediate stop",
            report(b'N', "WARNING", "57P01", "stop"),
            reason("57P01", "stop"),
        ),
        (
            "the crash of another backend",
            report(b'N', "WARNING", "57P02", "crash"),
            reason("57P02", "crash"),
        ),
        (
            "a notice of another kind",
            report(b'N', "WARNING", "01000", "hm"),
            EndReason::Eof,
        ),
        ("no words", vec![], EndReason::Eof),
        ("half a word", vec![b'E', 0, 0], EndReason::Eof),
    ];
    for (name, said, expected) in cases {
        let mut open = Open::on(says_and_closes(said)).await;
        assert_eq!(open.told().await, Told::Ended(expected, false), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fatal_error_that_went_to_the_query_is_the_reason_too() {
    let host = serves(|mut peer| async move {
        peer.accept().await;
        peer.query().await;
        peer.send(&fatal("57P01")).await;
    });
    let mut open = Open::on(host).await;
    let error = open.client.batch_execute("SELECT 1").await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "57P01");
    match open.told().await {
        Told::Ended(EndReason::ServerError { sqlstate, .. }, false) => assert_eq!(sqlstate, "57P01"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn nonsense_ends_the_connection_as_such() {
    let cases = [vec![b'Z', 0xff, 0xff, 0xff, 0xff], ready(b'I'), row(&[])];
    for said in cases {
        let mut open = Open::on(says_and_closes(said.clone())).await;
        match open.told().await {
            Told::Ended(EndReason::OutOfStep(_), false) => {}
            other => panic!("{said:?}: {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_parked_connection_gives_its_slot_to_the_owner() {
    let mut open = Open::on(says_and_closes(vec![])).await;
    {
        let mut query = Box::pin(open.client.batch_execute("SELECT 1"));
        poll_fn(|cx| std::task::Poll::Ready(query.as_mut().poll(cx).is_pending())).await;
    }
    assert_eq!(open.session.give_back(), GiveBack::Parked);
    assert_eq!(open.told().await, Told::Ended(EndReason::Eof, true));
}

#[tokio::test(start_paused = true)]
async fn the_death_of_the_drivers_task_is_reported() {
    let mut open = Open::on(says_and_closes(vec![])).await;
    open.task.abort();
    assert_eq!(open.told().await, Told::Ended(EndReason::TaskDied, false));
    assert!(open.session.is_closed());
    assert!(open.client.is_closed());
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_comes_too_late_learns_the_reason() {
    struct Never;
    impl Owner for Never {
        fn release(&self) {
            panic!("nothing was parked")
        }
        fn hand_over(&self) {
            panic!("nothing was parked")
        }
        fn role_doubted(&self) {
            panic!("nothing was refused")
        }
        fn ended(&self, _: EndReason, _: bool) {
            panic!("it was told by attach")
        }
    }
    let Dialled {
        driver,
        handle,
        client: _client,
        ..
    } = dial(says_and_closes(fatal("57P01")), config()).await.unwrap();
    let reason = driver.await;
    assert_eq!(handle.attach(Arc::new(Never)), Err(reason));
}

#[tokio::test(start_paused = true)]
async fn a_guard_of_a_detached_connection_lives_until_the_socket_is_closed() {
    struct Guard(Arc<Mutex<Option<Instant>>>);
    impl Drop for Guard {
        fn drop(&mut self) {
            *self.0.lock().unwrap() = Some(Instant::now());
        }
    }
    let host = serves(|mut peer| async move {
        peer.accept().await;
        peer.end().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    });
    let dropped = Arc::new(Mutex::new(None));
    let client = dial(host, config())
        .await
        .unwrap()
        .run_detached(Guard(dropped.clone()), |_| ());
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(*dropped.lock().unwrap(), None);
    let began = Instant::now();
    drop(client);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(dropped.lock().unwrap().unwrap() - began, Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_request_waits_until_the_server_has_passed_it_on() {
    let world = Scripted::with(serves(|mut peer| async move {
        peer.startup().await;
        peer.send(&[accepted(), message(b'K', &[0, 0, 0, 7, 0, 0, 0, 9]), ready(b'I')].concat())
            .await;
        peer.end().await;
    }));
    let dialled = world
        .dialler(config())
        .dial(&db(), Purpose::Pool, Ask::default())
        .await
        .unwrap();
    world.host(
        "10.0.0.1:5432",
        serves(|mut peer| async move {
            let mut request = [0; 16];
            peer.stream.read_exact(&mut request).await.unwrap();
            assert_eq!(request[4..], [4, 210, 22, 46, 0, 0, 0, 7, 0, 0, 0, 9]);
            tokio::time::sleep(Duration::from_secs(3)).await;
        }),
    );
    let began = Instant::now();
    dialled.canceller.cancel(Duration::from_secs(5)).await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_request_is_bounded() {
    let world = Scripted::with(serves(|mut peer| async move {
        peer.accept().await;
        peer.end().await;
    }));
    let dialled = world
        .dialler(config())
        .dial(&db(), Purpose::Pool, Ask::default())
        .await
        .unwrap();
    let silent = serves(|peer| async move {
        pending::<()>().await;
        drop(peer);
    });
    for host in [Host::Hangs, silent] {
        world.host("10.0.0.1:5432", host);
        let began = Instant::now();
        let error = dialled
            .canceller
            .cancel(Duration::from_secs(5))
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), began.elapsed()),
            (io::ErrorKind::TimedOut, Duration::from_secs(5))
        );
    }
    world.host("10.0.0.1:5432", Host::Fails(io::ErrorKind::ConnectionRefused));
    let error = dialled
        .canceller
        .cancel(Duration::from_secs(5))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}
