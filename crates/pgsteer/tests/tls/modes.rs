//! The modes of sslmode against servers that offer TLS, do not, or take nothing else.

use pgsteer_testkit::{DATABASE, PASSWORD, Tls, USER};

use crate::rig::{assert_failed, encrypted, encrypted_by, one, trusting};

/// Covers: E-063
#[tokio::test(flavor = "multi_thread")]
async fn each_mode_is_encrypted_clear_or_refused_as_the_server_allows() {
    let not_offered = "does not offer TLS";
    let modes = [
        "disable",
        "allow",
        "prefer",
        "require",
        "verify-ca",
        "verify-full",
    ];
    type Outcomes = [Result<bool, &'static str>; 6];
    let (yes, no) = (Ok(true), Ok(false));
    let cases: [(&str, Option<Tls>, Outcomes); 3] = [
        (
            "has none",
            None,
            [no, no, no, Err(not_offered), Err(not_offered), Err(not_offered)],
        ),
        ("offers it", Some(Tls::new()), [no, no, yes, yes, yes, yes]),
        (
            "takes nothing else",
            Some(Tls::new().required()),
            [Err("28000"), yes, yes, yes, yes, yes],
        ),
    ];
    let universe = one(None).await;
    for (server, tls, outcomes) in cases {
        universe.server(0).set_tls(tls);
        for (mode, expected) in modes.into_iter().zip(outcomes) {
            let case = format!("{mode}, server {server}");
            let outcome = encrypted(&universe, &trusting(&universe, mode)).await;
            match expected {
                Ok(tls) => assert_eq!(outcome.expect(&case), tls, "{case}"),
                Err(words) => assert_failed(&case, outcome, words),
            }
        }
    }
}

/// Covers: E-064
#[test]
fn a_mode_that_is_none_is_refused_by_name() {
    let error = "postgresql://app@db/?sslmode=yes"
        .parse::<pgsteer::Config>()
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("sslmode") && error.contains("yes") && error.contains("verify-full"),
        "{error}"
    );
}

/// PostgreSQL before 17 takes the handshake for a broken login and hangs up.
#[tokio::test(flavor = "multi_thread")]
async fn direct_negotiation_with_an_older_server_fails_and_says_why() {
    let universe = one(Tls::new()).await;
    let outcome = encrypted(&universe, "sslmode=require&sslnegotiation=direct").await;
    assert_failed("direct", outcome, "needs PostgreSQL 17");
}

/// A socket directory has no TLS, whatever the server offers over TCP.
#[tokio::test(flavor = "multi_thread")]
async fn over_a_unix_socket_the_session_is_clear() {
    let universe = one(Tls::new()).await;
    let server = universe.server(0);
    let folder = server.socket_folder().display().to_string().replace('/', "%2F");
    let url = format!(
        "postgresql://{USER}:{PASSWORD}@{folder}:{}/{DATABASE}?sslmode=prefer",
        server.port()
    );
    assert!(!encrypted_by(url.parse().unwrap()).await.unwrap());
}
