//! Real sockets on the loopback: what is set on them, how names are dialled, and what a pool notices of its peers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pgsteer_router::backend::{
    BackendAddress, BackendIo, BackendOptions, BackendPool, BackendSet, BoxFuture, Dial, TcpDialer,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// Where nobody listens: a port that the system gives to nobody.
const NOBODY: &str = "127.0.0.1:1";

/// Long enough for anything on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until it is so.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waits = async {
        while !is_so() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, waits)
        .await
        .unwrap_or_else(|_| panic!("in vain: {what}"));
}

/// An echo backend on a socket, which counts its connections and ends them when told.
struct Echo {
    address: SocketAddr,
    open: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    accepted: Arc<AtomicUsize>,
    close: watch::Sender<u64>,
}

impl Echo {
    async fn start(at: &str) -> Self {
        let listener = TcpListener::bind(at).await.unwrap();
        let echo = Echo {
            address: listener.local_addr().unwrap(),
            open: Arc::default(),
            most: Arc::default(),
            accepted: Arc::default(),
            close: watch::Sender::new(0),
        };
        let (open, most, accepted, close) = (
            Arc::clone(&echo.open),
            Arc::clone(&echo.most),
            Arc::clone(&echo.accepted),
            echo.close.clone(),
        );
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::SeqCst);
                most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let (open, mut close) = (Arc::clone(&open), close.subscribe());
                let mut socket = socket;
                tokio::spawn(async move {
                    tokio::select! {
                        _ = echo_all(&mut socket) => {}
                        _ = close.changed() => {}
                    }
                    // Before the other side can know of it.
                    open.fetch_sub(1, Ordering::SeqCst);
                    drop(socket);
                });
            }
        });
        echo
    }

    fn backend(&self) -> BackendAddress {
        self.address.to_string().parse().unwrap()
    }

    fn close_all(&self) {
        self.close.send_modify(|count| *count += 1);
    }

    fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

async fn echo_all(socket: &mut TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut buffer = [0; 16 * 1024];
    loop {
        let read = socket.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        socket.write_all(&buffer[..read]).await?;
    }
}

async fn ask(io: &mut BackendIo, word: &[u8]) -> io::Result<Vec<u8>> {
    io.write_all(word).await?;
    let mut answer = vec![0; word.len()];
    io.read_exact(&mut answer).await?;
    Ok(answer)
}

fn quiet() -> BackendOptions {
    BackendOptions {
        min_idle: 0,
        idle_timeout: None,
        max_lifetime: None,
        enable_health_check: false,
        connect_timeout: PATIENCE,
        borrow_timeout: PATIENCE,
        ..BackendOptions::default()
    }
}

fn tcp() -> Arc<dyn Dial> {
    Arc::new(TcpDialer::new())
}

async fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

/// Covers: S-11
#[tokio::test]
async fn a_dialled_socket_has_no_delay_and_asks_a_silent_peer_whether_it_is_there() {
    let echo = Echo::start("127.0.0.1:0").await;
    let table = [
        (TcpDialer::new(), Some(Duration::from_secs(30))),
        (TcpDialer::new().keepalive(None), None),
        (
            TcpDialer::new().keepalive(Some(Duration::from_secs(7))),
            Some(Duration::from_secs(7)),
        ),
    ];
    for (dialer, silence) in table {
        let mut io = dialer.dial(&echo.backend(), deadline().await).await.unwrap();
        let socket = io.as_tcp().expect("it is a socket with nothing around it");
        assert!(socket.nodelay().unwrap());
        let raw = socket2::SockRef::from(&*socket);
        assert_eq!(raw.keepalive().unwrap(), silence.is_some());
        if let Some(silence) = silence {
            assert_eq!(raw.tcp_keepalive_time().unwrap(), silence);
        }
    }
}

/// Covers: S-40, S-65
#[tokio::test]
async fn names_and_bracketed_addresses_are_dialled() {
    let four = Echo::start("127.0.0.1:0").await;
    let by_name: BackendAddress = format!("localhost:{}", four.address.port()).parse().unwrap();
    let socket = TcpDialer::new()
        .connect(&by_name, deadline().await)
        .await
        .unwrap();
    assert_eq!(socket.peer_addr().unwrap().port(), four.address.port());

    let six = Echo::start("[::1]:0").await;
    let socket = TcpDialer::new()
        .connect(&six.backend(), deadline().await)
        .await
        .unwrap();
    assert_eq!(socket.peer_addr().unwrap(), six.address);
}

#[tokio::test]
async fn errors_of_a_dial_say_what_was_wrong() {
    let refused = TcpDialer::new()
        .connect(&NOBODY.parse().unwrap(), deadline().await)
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    let nowhere = "no-such-host.invalid:9090".parse().unwrap();
    assert!(
        TcpDialer::new()
            .connect(&nowhere, deadline().await)
            .await
            .is_err()
    );
}

/// A name is looked up at each dial, so that a backend that has moved is found where it is now.
/// Covers: S-40
#[tokio::test]
async fn each_dial_asks_anew_where_the_backend_is() {
    struct Moving(watch::Sender<SocketAddr>);
    impl Dial for Moving {
        fn dial<'a>(&'a self, _: &'a BackendAddress, _: Instant) -> BoxFuture<'a, io::Result<BackendIo>> {
            let now_at = *self.0.borrow();
            Box::pin(async move { Ok(BackendIo::tcp(TcpStream::connect(now_at).await?)) })
        }
    }
    let (old, new) = (Echo::start("127.0.0.1:0").await, Echo::start("127.0.0.1:0").await);
    let place = watch::Sender::new(old.address);
    let backend: BackendAddress = "backend.example:9090".parse().unwrap();
    let pool = BackendPool::start(backend, quiet(), Arc::new(Moving(place.clone()))).unwrap();
    let mut borrowed = pool.borrow().await.unwrap();
    ask(borrowed.io(), b"word").await.unwrap();
    place.send_replace(new.address);
    drop(borrowed);
    pool.borrow().await.unwrap().release();
    assert_eq!(
        (
            old.accepted.load(Ordering::SeqCst),
            new.accepted.load(Ordering::SeqCst)
        ),
        (1, 1)
    );
}

#[tokio::test]
async fn connections_are_reused_and_their_end_is_noticed_while_they_are_idle() {
    let echo = Echo::start("127.0.0.1:0").await;
    let options = BackendOptions {
        min_idle: 3,
        ..quiet()
    };
    let pool = BackendPool::start(echo.backend(), options, tcp()).unwrap();
    until("the floor is open", || pool.status().idle == 3).await;
    for _ in 0..20 {
        let mut borrowed = pool.borrow().await.unwrap();
        assert_eq!(ask(borrowed.io(), b"word").await.unwrap(), b"word");
        borrowed.release();
    }
    assert_eq!(echo.accepted.load(Ordering::SeqCst), 3);

    until("the backend has them", || echo.open() == 3).await;
    echo.close_all();
    until("the loss is noticed", || pool.status().totals.lost == 3).await;
    until("they are replaced", || pool.status().idle == 3).await;
    for _ in 0..3 {
        let mut borrowed = pool.borrow().await.unwrap();
        assert_eq!(ask(borrowed.io(), b"word").await.unwrap(), b"word");
        borrowed.release();
    }
}

/// Covers: S-29
#[tokio::test]
async fn the_backend_never_sees_more_connections_than_max_size_while_they_come_and_go() {
    let echo = Echo::start("127.0.0.1:0").await;
    let options = BackendOptions {
        max_size: 4,
        min_idle: 2,
        ..quiet()
    };
    let pool = BackendPool::start(echo.backend(), options, tcp()).unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..24 {
        let pool = pool.clone();
        tasks.spawn(async move {
            for round in 0..20 {
                let mut borrowed = pool.borrow().await.unwrap();
                assert_eq!(ask(borrowed.io(), b"word").await.unwrap(), b"word");
                if (number + round) % 9 == 0 {
                    // The end of it reaches the backend before its successor does: what is given up is closed with the
                    // other side's knowledge.
                    borrowed.io().shutdown().await.unwrap();
                    let mut end = [0];
                    assert_eq!(borrowed.io().read(&mut end).await.unwrap(), 0);
                    borrowed.stale();
                } else {
                    borrowed.release();
                }
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    assert_eq!(echo.most.load(Ordering::SeqCst), 4);
    pool.close(PATIENCE).await;
    until("all are gone", || echo.open() == 0).await;
}

/// Nobody listens at the other, so that it refuses at once.
/// Covers: S-44
#[tokio::test]
async fn with_a_backend_that_refuses_at_once_beside_it_a_good_one_answers_everything() {
    let echo = Echo::start("127.0.0.1:0").await;
    let list = vec![(NOBODY.parse().unwrap(), quiet()), (echo.backend(), quiet())];
    let set = BackendSet::start(list, tcp()).unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let set = set.clone();
        tasks.spawn(async move {
            for _ in 0..50 {
                let mut routed = set.borrow().await.unwrap();
                assert_eq!(ask(routed.io(), b"word").await.unwrap(), b"word");
                routed.answered();
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let status = set.status();
    assert_eq!((status[0].handled, status[1].handled), (0, 800));
    assert!(status[0].left_out_for.is_some());
}

#[tokio::test]
async fn a_backend_that_comes_back_on_its_port_serves_again() {
    let echo = Echo::start("127.0.0.1:0").await;
    let address = echo.address;
    // On an address of its own, where nobody else takes the port meanwhile.
    let dead = TcpListener::bind("127.83.12.7:0").await.unwrap();
    let port = dead.local_addr().unwrap();
    drop(dead);
    let options = BackendOptions {
        failed_backend_delay: Duration::from_millis(50),
        ..quiet()
    };
    let list = vec![
        (port.to_string().parse().unwrap(), options.clone()),
        (address.to_string().parse().unwrap(), options),
    ];
    let set = BackendSet::start(list, tcp()).unwrap();
    while set.status()[0].left_out_for.is_none() {
        set.borrow().await.unwrap().answered();
    }
    let back = Echo::start(&port.to_string()).await;
    until("a probe has found it", || set.status()[0].left_out_for.is_none()).await;
    while set.status()[0].handled == 0 {
        let mut routed = set.borrow().await.unwrap();
        assert_eq!(ask(routed.io(), b"word").await.unwrap(), b"word");
        routed.answered();
    }
    assert!(back.accepted.load(Ordering::SeqCst) > 0);
}

/// Real threads, real sockets, and backends that end all their connections again and again while requests are under way.
/// Covers: S-12
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn while_connections_are_torn_away_every_answer_is_the_right_one_and_nothing_is_lost() {
    let echoes = [
        Echo::start("127.0.0.1:0").await,
        Echo::start("127.0.0.1:0").await,
        Echo::start("127.0.0.1:0").await,
    ];
    let options = BackendOptions {
        max_size: 5,
        min_idle: 2,
        failure_threshold: 0,
        failed_backend_delay: Duration::from_millis(20),
        ..quiet()
    };
    let list = echoes.iter().map(|echo| (echo.backend(), options.clone()));
    let set = BackendSet::start(list.collect(), tcp()).unwrap();
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..24 {
        let set = set.clone();
        clients.spawn(async move {
            for request in 0..100 {
                let word = format!("request {request} of client {client}");
                // Until it is answered; one that has found its connection torn away wants a new one.
                let mut routed = set.borrow().await.unwrap();
                loop {
                    match ask(routed.io(), word.as_bytes()).await {
                        Ok(answer) => {
                            assert_eq!(answer, word.as_bytes());
                            break routed.answered();
                        }
                        Err(_) => routed.stale(),
                    }
                    routed = set.borrow_fresh().await.unwrap();
                }
            }
        });
    }
    let mut torn = 0;
    while !clients.is_empty() {
        tokio::select! {
            ended = clients.join_next() => ended.into_iter().for_each(|ended| ended.unwrap()),
            () = sleep(Duration::from_millis(5)) => {
                echoes[torn % 3].close_all();
                torn += 1;
            }
        }
    }
    let status = set.status();
    assert_eq!(status.iter().map(|status| status.handled).sum::<u64>(), 2_400);
    assert!(status.iter().all(|status| status.in_flight == 0), "{status:?}");

    let mut held = Vec::new();
    for _ in 0..15 {
        let mut routed = set.borrow().await.unwrap();
        while ask(routed.io(), b"last").await.is_err() {
            routed.stale();
            routed = set.borrow_fresh().await.unwrap();
        }
        held.push(routed);
    }
    assert!(
        set.status().iter().all(|status| status.in_use == 5),
        "every slot is there"
    );
    drop(held);
    assert_eq!(set.close(PATIENCE).await.still_out, 0);
}
