//! PgBouncer in front of a node.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::Duration;

use pgsteer_testkit::{HaSet, PASSWORD, PgBouncer, USER};
use tokio::time::timeout;
use tokio_postgres::{Client, Error, NoTls};

use crate::{log_in_at, sqlstate};

async fn log_in_through(bouncer: &PgBouncer) -> Result<Client, Error> {
    log_in_at(bouncer.host(), bouncer.port(), "pooled").await
}

async fn is_standby(client: &Client) -> bool {
    client
        .query_one("SELECT pg_is_in_recovery()", &[])
        .await
        .unwrap()
        .get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_reach_the_server_behind_it_with_their_password_only() {
    let set = HaSet::builder().standbys(1).start();
    let bouncer = PgBouncer::before(set.node(1));
    let client = log_in_through(&bouncer).await.unwrap();
    assert!(is_standby(&client).await);
    assert_eq!(set.spread("pooled"), [0, 1]);

    let url = bouncer.url();
    assert!(url.contains(&format!("{USER}:{PASSWORD}@{}", bouncer.address())));
    let wrong = tokio_postgres::connect(&url.replace(&format!(":{PASSWORD}@"), ":wrong@"), NoTls).await;
    // Its SQLSTATE depends on its version.
    let refused = wrong.err().unwrap();
    assert!(refused.as_db_error().is_some(), "{refused:?}");
    assert!(bouncer.log().contains("password authentication failed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repointed_one_leads_new_sessions_elsewhere() {
    let set = HaSet::builder().standbys(1).start();
    let bouncer = PgBouncer::before(set.node(0));
    let before = log_in_through(&bouncer).await.unwrap();
    assert!(!is_standby(&before).await);

    bouncer.repoint(set.node(1));

    let after = log_in_through(&bouncer).await.unwrap();
    assert!(is_standby(&after).await);
    assert!(!is_standby(&before).await, "a session was moved");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_promotion_behind_it_its_welcome_still_tells_the_old_role() {
    let set = HaSet::builder().standbys(1).start();
    let bouncer = PgBouncer::before(set.node(1));
    let told = async || {
        let (client, connection) = tokio_postgres::connect(&bouncer.url(), NoTls).await.unwrap();
        let told = connection.parameter("in_hot_standby").map(str::to_owned);
        tokio::spawn(connection);
        (told, is_standby(&client).await)
    };
    let on = Some("on".to_owned());
    assert_eq!(told().await, (on.clone(), true));

    set.promote(1);

    assert_eq!(told().await, (on, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_lets_clients_in_while_the_server_behind_it_is_down() {
    let set = HaSet::builder().standbys(0).start();
    let bouncer = PgBouncer::configured(set.node(0), &[("query_wait_timeout", "1")]);
    let known = log_in_through(&bouncer).await.unwrap();
    known.batch_execute("SELECT 1").await.unwrap();
    set.node(0).kill();

    let client = log_in_through(&bouncer).await.unwrap();

    let query = timeout(Duration::from_secs(10), client.batch_execute("SELECT 1"));
    assert_eq!(sqlstate(&query.await.unwrap().unwrap_err()), Some("08P01"));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_can_be_stopped_killed_and_started_again() {
    let set = HaSet::builder().standbys(0).start();
    let bouncer = PgBouncer::before(set.node(0));
    for down in [PgBouncer::stop as fn(&PgBouncer), PgBouncer::kill] {
        let client = log_in_through(&bouncer).await.unwrap();
        down(&bouncer);
        assert!(client.batch_execute("SELECT 1").await.is_err());
        let refused = TcpStream::connect(bouncer.address()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        bouncer.start();
        log_in_through(&bouncer).await.unwrap();
    }
}

#[test]
fn its_settings_and_its_console_are_at_hand() {
    let set = HaSet::builder().standbys(0).start();
    let bouncer = PgBouncer::configured(set.node(0), &[("pool_mode", "transaction")]);
    let settings = bouncer.console("SHOW CONFIG");
    let pool_mode = settings.iter().find(|row| row[0].as_deref() == Some("pool_mode"));
    assert_eq!(pool_mode.unwrap()[1].as_deref(), Some("transaction"));
}

#[test]
fn it_ends_with_its_set() {
    let set = HaSet::builder().standbys(0).start();
    let bouncer = PgBouncer::before(set.node(0));
    drop(set);
    assert!(TcpStream::connect(bouncer.address()).is_err());
}

#[test]
#[should_panic(expected = "PgBouncer did not come up")]
fn a_setting_that_it_does_not_know_fails_the_test() {
    let set = HaSet::builder().standbys(0).start();
    drop(PgBouncer::configured(set.node(0), &[("pool_mode", "sometimes")]));
}
