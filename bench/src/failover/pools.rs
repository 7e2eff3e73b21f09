//! The pools: a task gets a connection, writes, and gives it back.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bb8_postgres::PostgresConnectionManager;
use deadpool_postgres::{ManagerConfig, PoolConfig, RecyclingMethod, Runtime, Timeouts};
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage};

use super::contender::{Hosts, TASKS, WRITE, Writer, Writers};
use super::kinds;

/// How long each pool may take to hand out a connection.
const LIMIT: Duration = Duration::from_secs(5);

struct OfPgsteer(pgsteer::Pool);
struct OfDeadpool(deadpool_postgres::Pool);
struct OfBb8(bb8::Pool<PostgresConnectionManager<NoTls>>);

pub fn pgsteer(hosts: &Hosts, options: &str) -> Writers {
    let url = hosts.url(&format!("{options}&pool_size={TASKS}"));
    let config: pgsteer::Config = url.parse().expect("the string is good");
    // Waiting at most 5 s for a connection is the default.
    let pool = pgsteer::Pool::start(config).expect("the configuration is good");
    writers(|| OfPgsteer(pool.clone()))
}

pub fn deadpool(hosts: &Hosts, options: &str, recycling: RecyclingMethod) -> Writers {
    let mut config = deadpool_postgres::Config::new();
    config.url = Some(hosts.url(options));
    config.manager = Some(ManagerConfig {
        recycling_method: recycling,
    });
    config.pool = Some(PoolConfig {
        timeouts: Timeouts {
            wait: Some(LIMIT),
            create: Some(LIMIT),
            recycle: Some(LIMIT),
        },
        ..PoolConfig::new(TASKS)
    });
    let pool = config.create_pool(Some(Runtime::Tokio1), NoTls);
    let pool = pool.expect("the configuration is good");
    writers(|| OfDeadpool(pool.clone()))
}

pub fn bb8(hosts: &Hosts, options: &str) -> Writers {
    let url = hosts.url(options);
    let manager = PostgresConnectionManager::new_from_stringlike(url, NoTls).expect("the string is good");
    let pool = bb8::Pool::builder()
        .max_size(TASKS as u32)
        .connection_timeout(LIMIT)
        .build_unchecked(manager);
    writers(|| OfBb8(pool.clone()))
}

fn writers<W: Writer + 'static>(writer: impl Fn() -> W) -> Writers {
    (0..TASKS)
        .map(|_| Box::new(writer()) as Box<dyn Writer>)
        .collect()
}

async fn write(client: &Client) -> Result<String, Error> {
    let messages = client.simple_query(WRITE).await?;
    let server = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    Ok(server.unwrap_or_default().to_owned())
}

impl Writer for OfPgsteer {
    fn write(&mut self) -> Pin<Box<dyn Future<Output = Result<String, String>> + Send + '_>> {
        Box::pin(async {
            let connection = self.0.get().await.map_err(|error| kinds::of_pgsteer(&error))?;
            let written = write(&connection).await;
            written.map_err(|error| kinds::of_tokio_postgres(&error))
        })
    }
}

impl Writer for OfDeadpool {
    fn write(&mut self) -> Pin<Box<dyn Future<Output = Result<String, String>> + Send + '_>> {
        Box::pin(async {
            let connection = self.0.get().await.map_err(|error| kinds::of_deadpool(&error))?;
            let written = write(&connection).await;
            written.map_err(|error| kinds::of_tokio_postgres(&error))
        })
    }
}

impl Writer for OfBb8 {
    fn write(&mut self) -> Pin<Box<dyn Future<Output = Result<String, String>> + Send + '_>> {
        Box::pin(async {
            let connection = self.0.get().await.map_err(|error| kinds::of_bb8(&error))?;
            let written = write(&connection).await;
            written.map_err(|error| kinds::of_tokio_postgres(&error))
        })
    }
}
