//! What these tests share: one server with a table of accounts, and a pool on it.

use std::future::Future;
use std::time::Duration;

use pgsteer::Pool;
use pgsteer::world::World;
use pgsteer_testkit::{DATABASE, PASSWORD, ServerSpec, USER, Universe};
use tokio::sync::{Semaphore, SemaphorePermit};

/// How long anything may take that must happen. Generous: the machine may be slow and busy.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Servers that may be up at once.
static TURNS: Semaphore = Semaphore::const_new(3);

/// A pool on one server of its own, which has a table `accounts` of ids and balances: 1 and 2 with a hundred each.
pub(crate) struct Bank {
    pub(crate) pool: Pool,
    pub(crate) server: Universe,
    _turn: SemaphorePermit<'static>,
}

pub(crate) async fn bank(size: u32) -> Bank {
    bank_of(size, &[], World::real()).await
}

/// The same on a server with these settings, in a world of its own.
pub(crate) async fn bank_of(size: u32, settings: &[(&str, &str)], world: World) -> Bank {
    let turn = TURNS.acquire().await.unwrap();
    let with_settings = |spec| {
        settings
            .iter()
            .fold(spec, |spec: ServerSpec, (name, value)| spec.setting(name, value))
    };
    let server = Universe::builder()
        .servers(1)
        .configure_all(with_settings)
        .start();
    let url = url(&server.addresses(), size);
    let pool = Pool::start_in(url.parse().unwrap(), world).unwrap();
    pool.batch_execute(
        "CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL CHECK (balance >= 0));
         INSERT INTO accounts VALUES (1, 100), (2, 100)",
    )
    .await
    .unwrap();
    pool.ready(size, LIMIT).await.unwrap();
    Bank {
        pool,
        server,
        _turn: turn,
    }
}

/// Where a pool of this size connects to.
pub(crate) fn url(address: &str, size: u32) -> String {
    format!(
        "postgresql://{USER}:{PASSWORD}@{address}/{DATABASE}?load_balance=false&connect_timeout=1min&checkout_timeout=1min\
         &pool_size={size}"
    )
}

/// What must come within the limit.
pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, work)
        .await
        .expect("this takes too long")
}

/// Waits until it is so, looking every 10 ms.
pub(crate) async fn becomes(what: &str, mut so: impl FnMut() -> bool) {
    let waiting = async {
        while !tokio::task::block_in_place(&mut so) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, waiting)
        .await
        .unwrap_or_else(|_| panic!("not so within {LIMIT:?}: {what}"));
}

impl Bank {
    /// Ids and balances, as another connection sees them.
    pub(crate) async fn accounts(&self) -> Vec<(i32, i32)> {
        let rows = self
            .pool
            .query("SELECT id, balance FROM accounts ORDER BY id", &[])
            .await
            .unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// The process that serves whoever checks out now.
    pub(crate) async fn backend(&self) -> i32 {
        let row = self.pool.query_one("SELECT pg_backend_pid()", &[]).await.unwrap();
        row.get(0)
    }
}
