//! Logins: credentials that are wrong everywhere, that are put right, that rotate.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pgsteer::{Config, Error, LoadBalance, Pool};
use pgsteer_testkit::{DATABASE, Log, PASSWORD, USER, Universe};

use crate::rig::{LIMIT, backends, becomes, full_pool, three};

fn logs(universe: &Universe) -> Vec<Log> {
    universe.servers().iter().map(|server| server.log()).collect()
}

/// Starts a pool with these credentials and gives its first checkout's error, which must blame them and no host.
async fn refused(
    universe: &Universe,
    credentials: &str,
    database: &str,
    options: &str,
    sqlstate: &str,
) -> Pool {
    let url = format!(
        "postgresql://{credentials}@{}/{database}?load_balance=any&{options}",
        universe.addresses()
    );
    let pool = Pool::start(url.parse().unwrap()).unwrap();
    let error = pool.get_timeout(LIMIT).await.unwrap_err();
    assert!(matches!(error, Error::Login(_)), "{error}");
    assert_eq!(error.code(), Some(sqlstate));
    assert_eq!(error.hosts_tried().len(), 3, "{error}");
    for server in universe.servers() {
        assert!(error.to_string().contains(&server.address()), "{error}");
    }
    assert!(
        error.to_string().contains(sqlstate) && !error.to_string().contains("wrong-secret"),
        "{error}"
    );
    assert!(
        pool.cluster().snapshot().failures.is_empty(),
        "no host is at fault"
    );
    pool
}

///
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_told_at_once_marks_no_host_and_makes_no_storm_of_logins() {
    let universe = three().await;
    let pool = refused(
        &universe,
        &format!("{USER}:wrong-secret"),
        DATABASE,
        "pool_size=10",
        "28P01",
    )
    .await;
    becomes(0, || pool.status().opening).await;
    let before = logs(&universe);
    for log in &before {
        // One for the first of the ten connections, which the others wait for, and a discovery a second.
        let attempts = log.login_attempts(USER);
        assert!(
            attempts <= 4,
            "{attempts} logins on one server before the pool was sure"
        );
    }
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let pool = pool.clone();
        callers.spawn(async move {
            let end = tokio::time::Instant::now() + Duration::from_secs(10);
            while tokio::time::Instant::now() < end {
                assert!(pool.get_timeout(Duration::from_millis(200)).await.is_err());
            }
        });
    }
    callers.join_all().await;
    for (server, before) in universe.servers().iter().zip(&before) {
        // Rests of 1, 2 and 4 s lie between the attempts; each may bring a discovery that logs in too.
        let attempts = server.log().since(before).login_attempts(USER);
        assert!(
            (1..=8).contains(&attempts),
            "{attempts} logins on {} in ten seconds",
            server.address()
        );
    }
    let snapshot = pool.cluster().snapshot();
    assert!(snapshot.failures.is_empty(), "{:?}", snapshot.failures);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_database_is_told_at_once_and_marks_no_host() {
    let universe = three().await;
    refused(
        &universe,
        &format!("{USER}:{PASSWORD}"),
        "no_such_database",
        "pool_size=4",
        "3D000",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkout_while_logins_rest_is_told_at_once_why_there_is_no_connection() {
    let universe = three().await;
    let pool = refused(
        &universe,
        &format!("{USER}:wrong-secret"),
        DATABASE,
        "pool_size=2",
        "28P01",
    )
    .await;
    becomes(0, || pool.status().opening).await;
    let error = pool.get_timeout(LIMIT).await.unwrap_err();
    assert!(matches!(error, Error::Login(_)), "{error}");
    assert_eq!(
        pool.status().totals.open_failures,
        1,
        "it did not wait for another attempt"
    );
    assert!(error.to_string().contains("28P01"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_are_put_right_on_the_servers_are_taken_without_a_restart() {
    let universe = three().await;
    let pool = refused(
        &universe,
        "newcomer:wrong-secret",
        DATABASE,
        "pool_size=6",
        "28P01",
    )
    .await;
    for server in universe.servers() {
        server.sql("CREATE ROLE newcomer LOGIN PASSWORD 'wrong-secret'");
    }
    pool.ready(6, LIMIT).await.unwrap();
    assert_eq!(
        pool.query_one("SELECT current_user::text", &[])
            .await
            .unwrap()
            .get::<_, &str>(0),
        "newcomer"
    );
}

/// A password source whose answer a test changes and whose questions it counts.
#[derive(Clone, Default)]
struct Source {
    password: Arc<Mutex<String>>,
    asked: Arc<AtomicUsize>,
}

impl Source {
    fn set(&self, password: &str) {
        *self.password.lock().unwrap_or_else(PoisonError::into_inner) = password.to_owned();
    }

    fn config(&self, universe: &Universe) -> Config {
        let source = self.clone();
        let hosts = universe
            .servers()
            .iter()
            .map(|server| (server.host().to_owned(), server.port()));
        Config::new()
            .hosts(hosts)
            .user(USER)
            .database(DATABASE)
            .application_name("rotating")
            .load_balance(LoadBalance::Any)
            .pool_size(3)
            .password_source(move || {
                let source = source.clone();
                async move {
                    source.asked.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, std::io::Error>(
                        source
                            .password
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .clone(),
                    )
                }
            })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_source_is_asked_at_each_dial_so_that_passwords_may_rotate() {
    let universe = three().await;
    let source = Source::default();
    source.set(PASSWORD);
    let pool = Pool::start(source.config(&universe)).unwrap();
    pool.ready(3, LIMIT).await.unwrap();
    assert_eq!(
        source.asked.load(Ordering::Relaxed),
        4,
        "for each connection and for discovery"
    );
    let first = backends(&universe, "rotating");

    for server in universe.servers() {
        server.sql(&format!("ALTER ROLE {USER} PASSWORD 'rotated'"));
    }
    source.set("rotated");
    pool.retire_all();
    becomes(true, || {
        let now = backends(&universe, "rotating");
        now.len() == 3 && now.iter().all(|process| !first.contains(process))
    })
    .await;
    becomes(3, || pool.status().idle).await;
    assert_eq!(source.asked.load(Ordering::Relaxed), 7);
    assert_eq!(pool.status().totals.open_failures, 0);
    pool.query_one("SELECT 1", &[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_rotates_under_a_pool_with_the_old_one_leaves_its_connections_alone() {
    let universe = three().await;
    let pool = full_pool(&universe, "pool_size=3&application_name=old-password").await;
    for server in universe.servers() {
        server.sql(&format!("ALTER ROLE {USER} PASSWORD 'rotated'"));
    }
    let held = pool.get().await.unwrap();
    pgsteer::Conn::discard(pool.get().await.unwrap());
    becomes(true, || pool.status().totals.open_failures > 0).await;
    held.batch_execute("SELECT 1").await.unwrap();
    pool.query_one("SELECT 1", &[]).await.unwrap();
    assert!(pool.cluster().snapshot().failures.is_empty());
    for server in universe.servers() {
        server.sql(&format!("ALTER ROLE {USER} PASSWORD '{PASSWORD}'"));
    }
    becomes(3, || pool.status().idle + pool.status().leased).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_source_that_fails_is_named_in_the_error_and_marks_no_host() {
    let universe = three().await;
    let hosts = universe
        .servers()
        .iter()
        .map(|server| (server.host().to_owned(), server.port()));
    let config = Config::new()
        .hosts(hosts)
        .user(USER)
        .database(DATABASE)
        .password_source(|| async { Err::<String, _>(std::io::Error::other("the vault is sealed")) });
    let pool = Pool::start(config).unwrap();
    let error = pool.get_timeout(LIMIT).await.unwrap_err();
    assert!(error.to_string().contains("the vault is sealed"), "{error}");
    assert!(pool.cluster().snapshot().failures.is_empty(), "{error}");
    for server in universe.servers() {
        assert_eq!(server.log().login_attempts(USER), 0);
    }
}
