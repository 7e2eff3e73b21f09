//! A first host that gets stuck at every point of a login and refuses with every code, before a healthy second one.

use futures_util::future::join_all;
use pgsteer::Conn;
use pgsteer_testkit::{Fake, FakePg, HaSet, Refusal, Tls};

use crate::rig::{LIMIT, get, key, pool, rig};

/// SQLSTATEs that a login, or what follows it, may be refused with.
const CODES: [&str; 11] = [
    "28P01", "28000", "3D000", "42501", "53300", "57P01", "57P03", "57M02", "08006", "XX000", "08P01",
];

/// Every point at which a server without TLS stops.
fn stuck() -> Vec<Fake> {
    let garbage = || b"garbage, and more of it".to_vec();
    let endless = FakePg::frame_of_length(b'R', i32::MAX, &[0, 0, 0, 0]);
    let negative = FakePg::frame_of_length(b'R', -1, &[0, 0, 0, 0]);
    let mut all = vec![
        Fake::Close,
        Fake::Silent,
        Fake::StartupThenClose,
        Fake::StartupThenSilent,
        Fake::StartupThenBytes(garbage()),
        Fake::StartupThenBytes(endless.clone()),
        Fake::StartupThenBytes(negative),
        Fake::AuthenticationOkThenClose,
        Fake::AuthenticationOkThenSilent,
        // From here on the login works, and what the server is stays open.
        Fake::Ready,
        Fake::ReadyThenSilent,
        Fake::ReadyThenClose,
        Fake::ReadyThenBytes(garbage()),
        Fake::ReadyThenBytes(endless),
        Fake::ReadyThenNotice(Refusal::warning("57P01", "terminating connection")),
        Fake::ReadyThenNotice(Refusal::warning("57P02", "terminating connection")),
    ];
    for code in CODES {
        let fatal = Refusal::fatal(code, "no");
        all.push(Fake::Refuse(fatal.clone()));
        all.push(Fake::ReadyThenRefuse(fatal.clone()));
        // By an old server, and by one that speaks another language.
        all.push(Fake::Refuse(fatal.translated("ФАТАЛ")));
    }
    all.push(Fake::Refuse(Refusal::fatal("", "no").without_sqlstate()));
    all
}

/// Every point at which a server that is to speak TLS stops.
fn stuck_in_tls() -> Vec<Fake> {
    vec![
        Fake::Silent,
        Fake::SslRequestThenClose,
        Fake::SslRequestThenBytes(b"X".to_vec()),
        Fake::SslRequestThenBytes(b"E\0\0\0\x08no!\0".to_vec()),
        // More than was asked for, before the handshake.
        Fake::SslRequestThenBytes(b"Sgarbage".to_vec()),
        Fake::TlsThenSilent,
        Fake::TlsThenClose,
        // No TLS at all. What follows in clear text, where that is allowed, is no better.
        Fake::Ready,
        Fake::StartupThenClose,
    ]
}

/// Puts each fake before the healthy node of the set, all at once, and checks that the node is reached.
async fn is_passed_over(set: &HaSet, fakes: Vec<Fake>, parameters: &str) {
    let checks = fakes.into_iter().map(|fake| async move {
        let first = FakePg::start(fake.clone());
        let addresses = format!("{},{}", first.address(), set.addresses());
        let pool = pool(
            &addresses,
            &format!("pool_size=1&connect_timeout=3s&{parameters}"),
        );
        let conn = match pool.get_timeout(LIMIT).await {
            Ok(conn) => conn,
            Err(error) => panic!("{parameters}: {fake:?} as the first host: {error}"),
        };
        assert_eq!(*Conn::host(&conn), key(set.node(0)), "{parameters}: {fake:?}");
        conn.batch_execute("SELECT 1").await.unwrap();
        assert!(first.connections() > 0, "{fake:?} was never tried");
    });
    join_all(checks).await;
}

/// Covers: R-07, F-04, F-05, F-06, F-07, F-08, F-09, F-10, Q-18, Q-21, Q-22, V-01
#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_first_host_does_the_second_is_reached() {
    let set = rig(HaSet::builder().standbys(0)).await;
    is_passed_over(&set, stuck(), "target_session_attrs=read-write").await;
}

/// Nothing is asked after the login, so that what comes later is not the login's.
///
///
#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_first_host_does_before_it_is_ready_the_second_is_reached_for_any_target() {
    let set = rig(HaSet::builder().standbys(0)).await;
    let before_ready = stuck()
        .into_iter()
        .filter(|fake| !format!("{fake:?}").starts_with("Ready"));
    is_passed_over(&set, before_ready.collect(), "target_session_attrs=any").await;
}

/// Covers: R-07, F-11, Q-14, Q-22
#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_first_host_does_in_the_place_of_tls_the_second_is_reached() {
    let builder = HaSet::builder().standbys(0);
    let set = rig(builder.configure(0, |spec| spec.tls(Tls::new().required()))).await;
    let ca = set.tls_files().ca.display().to_string();
    for mode in ["prefer", "require", "verify-ca", "verify-full"] {
        let parameters = format!("sslmode={mode}&sslrootcert={ca}&target_session_attrs=read-write");
        is_passed_over(&set, stuck_in_tls(), &parameters).await;
    }
}

/// Covers: F-11
#[tokio::test(flavor = "multi_thread")]
async fn a_first_host_without_tls_or_with_a_wrong_certificate_is_passed_over_loudly_and_never_in_clear_text()
{
    let builder = HaSet::builder()
        .standbys(1)
        .configure(1, |spec| spec.tls(Tls::new().required()));
    let set = rig(builder).await;
    let ca = set.tls_files().ca.display().to_string();
    let wrong: [(&str, Option<Tls>, &[&str]); 4] = [
        ("no TLS", None, &["require", "verify-ca", "verify-full"]),
        (
            "another name",
            Some(Tls::new().names(["elsewhere"])),
            &["verify-full"],
        ),
        (
            "expired",
            Some(Tls::new().expired()),
            &["verify-ca", "verify-full"],
        ),
        (
            "another authority",
            Some(Tls::new().another_authority()),
            &["verify-ca", "verify-full"],
        ),
    ];
    for (what, tls, modes) in wrong {
        set.node(0).set_tls(tls);
        for mode in modes {
            let parameters = format!("pool_size=1&sslmode={mode}&sslrootcert={ca}");
            let pool = pool(&set.addresses(), &parameters);
            let conn = get(&pool).await;
            assert_eq!(*Conn::host(&conn), key(set.node(1)), "{what} with {mode}");
            let failure = pool.cluster().snapshot().failures[&key(set.node(0))].clone();
            assert_eq!(failure.kind, pgsteer::FailureKind::Rejected, "{what} with {mode}");
            let logged = crate::log::logged(&["WARN", &set.node(0).address(), &failure.reason]);
            assert!(!logged.is_empty(), "{what} with {mode}: {}", failure.reason);
        }
    }
    assert_eq!(set.node(0).log().logins(pgsteer_testkit::USER), 0);
}
