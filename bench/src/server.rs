//! The PostgreSQL server of the run, and how to reach it.

use std::path::PathBuf;
use std::time::Duration;

use pgsteer::config::HostSpec;
use pgsteer::{Config, Pool};
use pgsteer_testkit::{DATABASE, PASSWORD, USER, Universe};

/// A real server, alone, stopped when dropped.
pub struct Server {
    universe: Universe,
}

/// One way to reach it.
#[derive(Clone, Debug)]
pub enum Route {
    Unix { folder: PathBuf, port: u16 },
    Tcp { host: String, port: u16 },
}

impl Server {
    pub fn start() -> Self {
        Server {
            universe: Universe::builder().servers(1).start(),
        }
    }

    pub fn version(&self) -> String {
        let rows = self.universe.server(0).sql("SHOW server_version");
        rows.into_iter().flatten().flatten().next().unwrap_or_default()
    }

    pub fn unix(&self) -> Route {
        let server = self.universe.server(0);
        Route::Unix {
            folder: server.socket_folder().to_owned(),
            port: server.port(),
        }
    }

    pub fn tcp(&self) -> Route {
        let server = self.universe.server(0);
        Route::Tcp {
            host: server.host().to_owned(),
            port: server.port(),
        }
    }

    /// A pool on the server, with all its connections open.
    pub async fn pool(&self, size: u32) -> Pool {
        self.tcp().pool(size).await
    }
}

impl Route {
    pub fn name(&self) -> &'static str {
        match self {
            Route::Unix { .. } => "Unix socket",
            Route::Tcp { .. } => "TCP",
        }
    }

    /// A pool of pgsteer with its defaults, and all its connections open.
    pub async fn pool(&self, size: u32) -> Pool {
        let host = match self {
            Route::Unix { folder, port } => HostSpec::new(folder.to_string_lossy()).port(*port),
            Route::Tcp { host, port } => HostSpec::new(host).port(*port),
        };
        let config = Config::new()
            .host(host)
            .user(USER)
            .password(PASSWORD)
            .database(DATABASE)
            .pool_size(size);
        let pool = Pool::start(config).expect("the configuration is good");
        pool.ready(size, Duration::from_secs(30))
            .await
            .expect("the server takes the connections");
        pool
    }

    pub fn tokio_postgres(&self) -> tokio_postgres::Config {
        let mut config = tokio_postgres::Config::new();
        config.user(USER).password(PASSWORD).dbname(DATABASE);
        match self {
            Route::Unix { folder, port } => config.host_path(folder).port(*port),
            Route::Tcp { host, port } => config.host(host).port(*port),
        };
        config
    }

    pub fn sqlx(&self) -> sqlx::postgres::PgConnectOptions {
        let options = sqlx::postgres::PgConnectOptions::new_without_pgpass();
        let options = options.username(USER).password(PASSWORD).database(DATABASE);
        match self {
            Route::Unix { folder, port } => options.socket(folder).port(*port),
            Route::Tcp { host, port } => options.host(host).port(*port),
        }
    }
}
