//! Servers and sessions that go: killed, shut down, frozen, cut off, and back again.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{PORT, Raw, client, field, kinds, never, sqlstate, try_client};
use pgsteer_sim::{Death, End, Event, Shutdown, Sim};
use postgres_protocol::message::frontend;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_killed_server_drops_its_sessions_and_refuses_until_it_is_started() {
    for (death, kind) in [
        (Death::Fin, None),
        (Death::Rst, Some(std::io::ErrorKind::ConnectionReset)),
    ] {
        let sim = Sim::new(1);
        let mut raw = Raw::log_in(&sim, "a").await;
        let other = client(&sim, "b").await;
        sim.server("a").kill(death);
        let outcome = raw.stream.read_u8().await.unwrap_err().kind();
        assert_eq!(
            outcome,
            kind.unwrap_or(std::io::ErrorKind::UnexpectedEof),
            "{death}"
        );
        assert!(!sim.server("a").is_up());
        let refused = sim.connect("a", PORT).await.unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        sim.server("a").start();
        client(&sim, "a").await.simple_query("SELECT 1").await.unwrap();
        other
            .simple_query("SELECT 1")
            .await
            .expect("other servers are not touched");
        assert!(
            sim.log()
                .iter()
                .any(|entry| entry.event == Event::Ended(End::Died(death)))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_death_in_silence_nothing_comes_back_until_the_host_is_back() {
    let sim = Sim::new(1);
    let mut raw = Raw::log_in(&sim, "a").await;
    sim.server("a").kill(Death::Silence);
    raw.send(|out| frontend::query("SELECT 1", out).unwrap()).await;
    never(raw.stream.read_u8()).await;
    never(sim.connect("a", PORT)).await;
    assert_eq!(sim.live(), 0, "for the server the session is gone");
    sim.server("a").start();
    assert_eq!(
        raw.stream.read_u8().await.unwrap_err().kind(),
        std::io::ErrorKind::ConnectionReset
    );
    client(&sim, "a").await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_peer_of_a_host_that_came_back_finds_out_at_its_next_packet() {
    let sim = Sim::new(1);
    let mut raw = Raw::log_in(&sim, "a").await;
    sim.server("a").kill(Death::Silence);
    tokio::time::sleep(Duration::from_millis(1)).await;
    sim.server("a").start();
    never(raw.stream.read_u8()).await;
    raw.stream.write_all(b"anything").await.unwrap();
    assert_eq!(
        raw.stream.read_u8().await.unwrap_err().kind(),
        std::io::ErrorKind::ConnectionReset
    );
}

#[tokio::test(start_paused = true)]
async fn a_fast_shutdown_dismisses_every_session_with_57p01() {
    let sim = Sim::new(1);
    let (mut idle, mut busy) = (Raw::log_in(&sim, "a").await, Raw::log_in(&sim, "a").await);
    busy.send(|out| frontend::query("SELECT pg_sleep(3600)", out).unwrap())
        .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    sim.server("a").shut_down(Shutdown::Fast);
    for raw in [&mut idle, &mut busy] {
        let message = raw.next().await.unwrap();
        assert_eq!(
            (message.0, field(&message, b'S'), field(&message, b'C')),
            ('E', "FATAL".into(), "57P01".into())
        );
        assert_eq!(raw.next().await, None);
    }
    assert!(sim.connect("a", PORT).await.is_err());
    assert_eq!(sim.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_immediate_shutdown_warns_with_57p01_and_closes() {
    let sim = Sim::new(1);
    let mut raw = Raw::log_in(&sim, "a").await;
    sim.server("a").shut_down(Shutdown::Immediate);
    let message = raw.next().await.unwrap();
    assert_eq!(
        (message.0, field(&message, b'S'), field(&message, b'C')),
        ('N', "WARNING".into(), "57P01".into())
    );
    assert_eq!(raw.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_restart_lets_old_sessions_go_and_new_ones_come() {
    let sim = Sim::new(1);
    let old = client(&sim, "a").await;
    sim.server("a").restart(Shutdown::Fast);
    let new = client(&sim, "a").await;
    assert!(old.simple_query("SELECT 1").await.is_err());
    new.simple_query("SELECT 1").await.unwrap();
    assert_eq!(sim.live(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_session_can_be_terminated_and_the_others_stay() {
    let sim = Sim::new(1);
    let (victim, other) = (client(&sim, "a").await, client(&sim, "a").await);
    let id = sim.sessions()[0].id;
    assert!(sim.terminate(id));
    let error = victim.simple_query("SELECT 1").await.unwrap_err();
    assert!(error.is_closed() || sqlstate(&error) == "57P01", "{error:?}");
    other.simple_query("SELECT 1").await.unwrap();
    assert!(!sim.terminate(id), "it is gone");
    assert!(!sim.terminate(999));
    assert!(sim.kill_session(sim.sessions()[0].id, Death::Rst));
    assert!(other.simple_query("SELECT 1").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_session_can_terminate_and_cancel_another_one_in_sql() {
    let sim = Sim::new(1);
    let (one, two) = (client(&sim, "a").await, client(&sim, "a").await);
    let pid = two
        .query_one("SELECT pg_backend_pid()", &[])
        .await
        .unwrap()
        .get::<_, i32>(0);
    let sleeping = async { two.simple_query("SELECT pg_sleep(60)").await.unwrap_err() };
    let cancelling = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        one.query_one("SELECT pg_cancel_backend($1)", &[&pid])
            .await
            .unwrap()
    };
    let (error, row) = tokio::join!(sleeping, cancelling);
    assert_eq!((sqlstate(&error), row.get::<_, bool>(0)), ("57014", true));
    let row = one
        .query_one("SELECT pg_terminate_backend($1)", &[&pid])
        .await
        .unwrap();
    assert!(row.get::<_, bool>(0));
    assert!(two.simple_query("SELECT 1").await.is_err());
    assert!(
        !one.query_one("SELECT pg_terminate_backend(1)", &[])
            .await
            .unwrap()
            .get::<_, bool>(0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_frozen_server_goes_on_where_it_was_once_thawed() {
    let sim = Sim::new(1);
    let client = client(&sim, "a").await;
    let sleeping =
        tokio::spawn(async move { client.simple_query("SELECT pg_sleep(2)").await.map(|_| client) });
    tokio::time::sleep(Duration::from_secs(1)).await;
    sim.server("a").freeze();
    let connecting = tokio::spawn({
        let sim = sim.clone();
        async move { try_client(&sim, "a").await }
    });
    sim.terminate(sim.sessions()[0].id);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!sleeping.is_finished() && !connecting.is_finished());
    assert_eq!(
        sim.live(),
        1,
        "a stopped process does not even obey an administrator"
    );
    sim.server("a").thaw();
    assert_eq!(
        sqlstate(&sleeping.await.unwrap().map(|_| ()).unwrap_err()),
        "57P01"
    );
    connecting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_frozen_server_can_be_killed() {
    let sim = Sim::new(1);
    let mut raw = Raw::log_in(&sim, "a").await;
    sim.server("a").freeze();
    sim.server("a").kill(Death::Fin);
    assert_eq!(raw.next().await, None);
    assert_eq!(sim.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_cut_off_goes_on_and_its_answers_arrive_later() {
    let sim = Sim::new(1);
    let mut raw = Raw::log_in(&sim, "a").await;
    raw.send(|out| frontend::query("SELECT pg_sleep(1); INSERT INTO ledger VALUES (1)", out).unwrap())
        .await;
    tokio::task::yield_now().await;
    sim.server("a").partition();
    never(raw.stream.read_u8()).await;
    assert_eq!(sim.ledger().len(), 1, "what had arrived was carried out");
    never(sim.connect("a", PORT)).await;
    sim.server("a").heal();
    assert_eq!(kinds(&raw.until('Z').await), "TDCCZ");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_behind_a_cut_is_found_out_afterwards() {
    let sim = Sim::new(1);
    let mut raw = Raw::log_in(&sim, "a").await;
    sim.server("a").partition();
    sim.server("a").kill(Death::Fin);
    never(raw.stream.read_u8()).await;
    sim.server("a").start();
    sim.server("a").heal();
    raw.stream.write_all(b"hello").await.unwrap();
    assert_eq!(
        raw.stream.read_u8().await.unwrap_err().kind(),
        std::io::ErrorKind::ConnectionReset
    );
}

#[tokio::test(start_paused = true)]
async fn sessions_are_told_of_a_promotion() {
    let sim = Sim::new(1);
    sim.server("a").demote();
    let mut raw = Raw::log_in(&sim, "a").await;
    sim.server("a").promote();
    assert_eq!(
        raw.next().await.unwrap(),
        ('S', b"in_hot_standby\0off\0".to_vec())
    );
}

#[tokio::test(start_paused = true)]
async fn mending_undoes_everything() {
    let sim = Sim::new(1);
    let server = sim.server("a");
    server.kill(Death::Silence);
    server.freeze();
    server.partition();
    server.set_accept(pgsteer_sim::Accept::Hang);
    server.set_login(pgsteer_sim::Login::fatal("57P03"));
    server.set_answer_latency(Duration::from_secs(9));
    server.set_connect_latency(Duration::from_secs(9));
    server.set_max_connections(Some(0));
    server.mend();
    let start = Instant::now();
    client(&sim, "a").await.simple_query("SELECT 1").await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// On real threads: a connect that meets the very moment of the kill either finds nobody or dies with the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_connection_outlives_a_server_that_was_killed_as_it_was_made() {
    for round in 0..1_500 {
        let sim = Sim::new(round);
        let start = Arc::new(tokio::sync::Barrier::new(5));
        let dials: Vec<_> = (0..4)
            .map(|_| {
                let (sim, start) = (sim.clone(), start.clone());
                tokio::spawn(async move {
                    start.wait().await;
                    sim.connect("a", PORT).await.ok()
                })
            })
            .collect();
        start.wait().await;
        sim.server("a").kill(Death::Fin);
        for dial in dials {
            if let Some(mut stream) = dial.await.unwrap() {
                let read = tokio::time::timeout(Duration::from_secs(30), stream.read_u8()).await;
                assert!(read.expect("it has ended").is_err(), "round {round}");
            }
        }
    }
}
