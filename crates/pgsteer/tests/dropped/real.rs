//! Rounds on a real PostgreSQL server, over its Unix socket, on several threads.

use std::time::Duration;

use pgsteer::config::{HostSpec, Recycle};
use pgsteer::{Config, Pool};
use pgsteer_testkit::{DATABASE, PASSWORD, USER, Universe};
use tokio::task::JoinSet;

use crate::round::{round, seeds};
use crate::site::{Server, Site};
use crate::uses::Use;

const ROUNDS: u64 = 5_000;
const CALLERS: u64 = 12;
const SIZE: u32 = 4;

async fn run(seed: u64, recycle: Recycle, statements: u32) {
    let universe = Universe::builder().servers(1).start();
    let server = universe.server(0);
    server.sql("CREATE TABLE ledger (id int8 PRIMARY KEY, note text)");
    server.sql("GRANT ALL ON ledger TO PUBLIC");
    let folder = server.socket_folder();
    let config = Config::new()
        .host(HostSpec::new(folder.to_string_lossy()).port(server.port()))
        .user(USER)
        .password(PASSWORD)
        .database(DATABASE)
        .pool_size(SIZE)
        .recycle(recycle)
        .statement_cache_size(statements)
        .return_cancel_after(Duration::from_millis(200))
        // The machine may be slow and busy: what is cut only for that is replaced.
        .return_timeout(Duration::from_secs(60))
        .checkout_timeout(Duration::from_secs(120));
    let pool = Pool::start(config).unwrap();
    pool.ready(SIZE, Duration::from_secs(60)).await.unwrap();
    let socket = folder.join(format!(".s.PGSQL.{}", server.port()));
    let site = Site::new(pool.clone(), Server::Unix(socket));
    site.fill().await;
    let uses = Use::known(&site);
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (site, uses) = (site.clone(), uses.clone());
        let mut random = fastrand::Rng::with_seed(seed ^ (caller << 32));
        callers.spawn(async move {
            for _ in 0..ROUNDS / CALLERS {
                round(&site, &uses, &mut random).await;
            }
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    let all = async {
        while pool.status().idle != SIZE {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let whole = tokio::time::timeout(Duration::from_secs(60), all).await;
    assert!(whole.is_ok(), "seed {seed}: {:?}", pool.status());
    let rows = server.sql("SELECT count(*) FROM ledger WHERE note = 'no'");
    assert_eq!(rows[0][0].as_deref(), Some("0"), "seed {seed}");
    assert_eq!(
        pool.close(Duration::from_secs(60)).await.still_out,
        0,
        "seed {seed}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn uses_of_the_driver_on_a_real_server_given_up_at_any_moment_leave_clean_connections() {
    run(seeds(1)[0], Recycle::Fast, 256).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn with_sessions_reset_and_no_statement_kept_they_do_so_too() {
    run(seeds(1)[0], Recycle::Clean, 0).await;
}
