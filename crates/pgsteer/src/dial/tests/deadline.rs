//! However a host hangs, `connect_timeout` bounds the whole attempt, and nothing stays open behind it.

use pgsteer_core::hosts::FailureKind;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::*;

/// A server that says this after the startup message and then nothing more; tells when its socket closes.
fn falls_silent_after(said: Vec<u8>) -> (Host, oneshot::Receiver<()>) {
    let (closed, on_close) = oneshot::channel();
    let closed = Arc::new(Mutex::new(Some(closed)));
    let host = serves(move |mut peer| {
        let (said, closed) = (said.clone(), closed.clone());
        async move {
            peer.startup().await;
            peer.send(&said).await;
            peer.end().await;
            closed.lock().unwrap().take().unwrap().send(()).unwrap();
        }
    });
    (host, on_close)
}

fn sasl() -> Vec<u8> {
    message(b'R', &[&10_i32.to_be_bytes()[..], b"SCRAM-SHA-256\0\0"].concat())
}

/// Covers: F-04
#[tokio::test(start_paused = true)]
async fn a_server_that_falls_silent_anywhere_costs_one_deadline_and_its_socket() {
    let logged_in = [accepted(), ready(b'I')].concat();
    let cases = [
        ("accepts and says nothing", vec![], Stage::Startup),
        ("stops within a message", vec![b'R', 0, 0], Stage::Startup),
        ("asks for SCRAM, then nothing", sasl(), Stage::Startup),
        ("accepts the login, never ready", accepted(), Stage::Startup),
        ("never answers the setup", logged_in, Stage::SessionSetup),
    ];
    for (name, said, stage) in cases {
        let (host, closed) = falls_silent_after(said);
        let config = config().statement_timeout(Duration::from_secs(1));
        let began = Instant::now();
        let error = dial_asking(host, config, ROLE).await.unwrap_err();
        assert_eq!(began.elapsed(), CONNECT_TIMEOUT, "{name}");
        assert_eq!(error.took(), CONNECT_TIMEOUT, "{name}");
        assert_eq!(error.stage(), stage, "{name}");
        assert_eq!(error.evidence(), Evidence::Deadline, "{name}");
        assert_eq!(
            error.host_effect(),
            HostEffect::Failed(FailureKind::Down),
            "{name}"
        );
        assert!(error.to_string().contains("10s"), "{name}: {error}");
        closed.await.expect(name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_half_of_the_setup_costs_one_deadline() {
    let host = serves(|mut peer| async move {
        peer.accept().await;
        peer.query().await;
        peer.send(&[completed("SET"), ready(b'I')].concat()).await;
        peer.end().await;
    });
    let config = config().statement_timeout(Duration::from_secs(1));
    let began = Instant::now();
    let error = dial_asking(host, config, ROLE).await.unwrap_err();
    assert_eq!(
        (began.elapsed(), error.stage()),
        (CONNECT_TIMEOUT, Stage::SessionSetup)
    );
}

/// Covers: F-02
#[tokio::test(start_paused = true)]
async fn a_name_that_never_resolves_costs_one_deadline() {
    let world = Scripted::default();
    world.name_that_hangs("db");
    let began = Instant::now();
    let error = world
        .dialler(config())
        .dial(&db(), Purpose::Pool, Ask::default())
        .await
        .unwrap_err();
    assert_eq!(
        (began.elapsed(), error.stage()),
        (CONNECT_TIMEOUT, Stage::Resolve)
    );
}

/// Covers: F-03
#[tokio::test(start_paused = true)]
async fn a_socket_that_never_connects_costs_one_deadline() {
    let began = Instant::now();
    let error = dial(Host::Hangs, config()).await.unwrap_err();
    assert_eq!(
        (began.elapsed(), error.stage()),
        (CONNECT_TIMEOUT, Stage::Connect)
    );
}

#[tokio::test(start_paused = true)]
async fn a_password_source_that_never_answers_costs_one_deadline_and_blames_no_host() {
    let config = config().password_source(pending::<Result<String, io::Error>>);
    let began = Instant::now();
    let error = dial(serves(|mut peer| async move { peer.accept().await }), config)
        .await
        .unwrap_err();
    assert_eq!(began.elapsed(), CONNECT_TIMEOUT);
    assert_eq!(error.host_effect(), HostEffect::Nothing);
}

#[tokio::test(start_paused = true)]
async fn slow_stages_share_the_one_deadline() {
    let slowly = || async {
        tokio::time::sleep(Duration::from_secs(6)).await;
        Ok::<_, io::Error>("s3cret")
    };
    let host = serves(|mut peer| async move {
        peer.startup().await;
        tokio::time::sleep(Duration::from_secs(6)).await;
        peer.send(&[accepted(), ready(b'I')].concat()).await;
    });
    let began = Instant::now();
    let error = dial(host, config().password_source(slowly)).await.unwrap_err();
    assert_eq!(
        (began.elapsed(), error.stage()),
        (CONNECT_TIMEOUT, Stage::Startup)
    );
}

#[tokio::test(start_paused = true)]
async fn an_address_that_hangs_leaves_the_others_of_its_name_their_share() {
    let world = Scripted::default();
    world
        .name("db", &["10.0.0.1", "10.0.0.2"])
        .host("10.0.0.1:5432", Host::Hangs);
    world.host(
        "10.0.0.2:5432",
        serves(|mut peer| async move {
            peer.accept().await;
            peer.end().await;
        }),
    );
    let began = Instant::now();
    let dialled = world
        .dialler(config())
        .dial(&db(), Purpose::Pool, Ask::default())
        .await
        .unwrap();
    assert_eq!(dialled.peer.to_string(), "10.0.0.2:5432");
    assert_eq!(began.elapsed(), CONNECT_TIMEOUT / 2);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_dial_closes_its_socket_at_once() {
    let (host, closed) = falls_silent_after(accepted());
    let began = Instant::now();
    let attempt = dial(host, config());
    assert!(
        tokio::time::timeout(Duration::from_secs(1), attempt)
            .await
            .is_err()
    );
    closed.await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(1));
}
