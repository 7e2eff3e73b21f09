//! Who may log in, how many, and what the log tells about it.

use pgsteer_testkit::{DATABASE, PASSWORD, ServerSpec, USER, Universe};

use crate::{log_in, log_in_as, sqlstate};

#[tokio::test(flavor = "multi_thread")]
async fn passwords_are_checked_in_each_way_a_server_can() {
    let methods = ["scram-sha-256", "md5", "password", "trust"];
    let universe = methods
        .iter()
        .enumerate()
        .fold(Universe::builder().servers(4), |builder, (index, method)| {
            builder.configure(index, |spec| spec.auth(method))
        });
    let universe = universe.start();
    for (server, method) in universe.servers().iter().zip(methods) {
        log_in(server, method).await.unwrap();
        let wrong = log_in_as(server, USER, "wrong", method).await;
        match method {
            "trust" => assert!(wrong.is_ok()),
            _ => assert_eq!(sqlstate(&wrong.err().unwrap()), Some("28P01"), "{method}"),
        }
        let secret = server.sql(&format!(
            "SELECT left(rolpassword, 3) FROM pg_authid WHERE rolname = '{USER}'"
        ));
        let expected = if method == "md5" { "md5" } else { "SCR" };
        assert_eq!(secret, [[Some(expected.to_owned())]], "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn login_rules_are_in_force_when_the_call_returns() {
    let universe = Universe::builder().servers(1).start();
    let server = universe.server(0);
    for _ in 0..3 {
        server.set_hba(&["host all all 127.0.0.0/8 reject"]);
        assert_eq!(
            sqlstate(&log_in(server, "rejected").await.err().unwrap()),
            Some("28000")
        );
        server.reset_hba();
        log_in(server, "welcome").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_refuses_but_lets_the_testkit_in() {
    let universe = Universe::builder()
        .servers(2)
        .configure(0, |spec| spec.max_connections(2))
        .start();
    universe.server(1).set_max_connections(1);
    for (server, limit) in universe.servers().iter().zip([2, 1]) {
        let mut held = Vec::new();
        for _ in 0..limit {
            held.push(log_in(server, "holder").await.unwrap());
        }
        assert_eq!(
            sqlstate(&log_in(server, "late").await.err().unwrap()),
            Some("53300")
        );
        assert_eq!(server.sessions("holder"), limit);
        assert_eq!(server.log().failed_logins(USER), 1);
    }
    assert_eq!(universe.spread("holder").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_counts_logins_by_user() {
    let universe = Universe::builder().servers(1).start();
    let server = universe.server(0);
    server.sql("CREATE ROLE guest LOGIN PASSWORD 'guest'");
    let before = server.log();
    let _kept = log_in(server, "fine").await.unwrap();
    drop(log_in_as(server, "guest", PASSWORD, "wrong password").await);
    server.sql(&format!("REVOKE CONNECT ON DATABASE {DATABASE} FROM PUBLIC"));
    let refused = log_in_as(server, "guest", "guest", "no right to connect")
        .await
        .err()
        .unwrap();
    assert_eq!(sqlstate(&refused), Some("42501"));

    let log = server.log().since(&before);
    let counts = |user| {
        (
            log.login_attempts(user),
            log.failed_logins(user),
            log.logins(user),
        )
    };
    assert_eq!(counts(USER), (1, 0, 1));
    assert_eq!(counts("guest"), (2, 2, 0));
    assert_eq!(counts("nobody"), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_an_administrator_ends_is_no_failed_login() {
    let universe = Universe::builder().servers(1).start();
    let server = universe.server(0);
    let _client = log_in(server, "ended").await.unwrap();
    assert!(server.terminate(server.backends("ended")[0]));
    assert_eq!(
        (server.log().logins(USER), server.log().failed_logins(USER)),
        (1, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_shows_what_a_client_sent() {
    let universe = Universe::builder()
        .servers(1)
        .configure_all(ServerSpec::log_statements)
        .start();
    let server = universe.server(0);
    let client = log_in(server, "talker").await.unwrap();
    let _silent = log_in(server, "silent").await.unwrap();
    client.batch_execute("SELECT 'simple'").await.unwrap();
    let before = server.log();
    client.query("SELECT\n  'extended'", &[]).await.unwrap();
    client.prepare("SELECT 'parsed only'").await.unwrap();

    let after = server.log();
    assert_eq!(
        after.statements("talker"),
        ["SELECT 'simple'", "SELECT\n'extended'"]
    );
    assert!(after.since(&before).statements("silent").is_empty());
    assert!(
        after
            .lines()
            .iter()
            .any(|line| line.message.contains("parse") && line.message.contains("parsed only"))
    );
    assert!(after.since(&before).activity("talker") > 0);
    assert_eq!(after.since(&before).activity("silent"), 0);
}
