//! The contenders that run `SELECT 1`, prepared, on real connections.

use std::future::Future;
use std::marker::PhantomData;

use deadpool_postgres::{Manager, ManagerConfig, RecyclingMethod};
use tokio_postgres::{Client, NoTls, Statement};

use crate::server::Route;

/// Connections that each contender has.
pub const CONNECTIONS: u32 = 8;
/// Tasks that share them.
pub const TASKS: usize = 16;

const SQL: &str = "SELECT 1";

/// Something that runs the statement.
pub trait Selects: Send + Sync + Sized + 'static {
    const NAME: &'static str;
    const TASKS: usize = TASKS;

    fn build(route: &Route) -> impl Future<Output = Self>;

    /// Runs the statement once, for the task of this number, and returns what it says.
    fn select(&self, task: usize) -> impl Future<Output = i32> + Send;
}

async fn connect(route: &Route) -> Client {
    let (client, connection) = route
        .tokio_postgres()
        .connect(NoTls)
        .await
        .expect("the server takes the connection");
    tokio::spawn(connection);
    client
}

async fn run(client: &Client, statement: &Statement) -> i32 {
    client
        .query_one(statement, &[])
        .await
        .expect("the statement runs")
        .get(0)
}

/// pgsteer, which keeps the statement by its text on each connection.
pub struct Pgsteer(pgsteer::Pool);

impl Selects for Pgsteer {
    const NAME: &'static str = "pgsteer, query_one_cached";

    async fn build(route: &Route) -> Self {
        Pgsteer(route.pool(CONNECTIONS).await)
    }

    async fn select(&self, _: usize) -> i32 {
        let connection = self.0.get().await.expect("a connection comes");
        let row = connection.query_one_cached(SQL, &[]).await;
        row.expect("the statement runs").get(0)
    }
}

/// No pool: as many tasks as connections, each with a client of its own. The limit of exclusive use.
pub struct Bare(Vec<(Client, Statement)>);

impl Selects for Bare {
    const NAME: &'static str = "8 bare clients, a task each";
    const TASKS: usize = CONNECTIONS as usize;

    async fn build(route: &Route) -> Self {
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            let client = connect(route).await;
            let statement = client.prepare(SQL).await.expect("the statement is good");
            clients.push((client, statement));
        }
        Bare(clients)
    }

    async fn select(&self, task: usize) -> i32 {
        let (client, statement) = &self.0[task];
        run(client, statement).await
    }
}

pub struct Deadpool(deadpool_postgres::Pool);

impl Selects for Deadpool {
    const NAME: &'static str = "deadpool-postgres, Fast, prepare_cached";

    async fn build(route: &Route) -> Self {
        let manager = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let manager = Manager::from_config(route.tokio_postgres(), NoTls, manager);
        let pool = deadpool_postgres::Pool::builder(manager)
            .max_size(CONNECTIONS as usize)
            .build();
        Deadpool(pool.expect("it needs no runtime"))
    }

    async fn select(&self, _: usize) -> i32 {
        let connection = self.0.get().await.expect("a connection comes");
        let statement = connection
            .prepare_cached(SQL)
            .await
            .expect("the statement is good");
        run(&connection, &statement).await
    }
}

/// bb8 has no statement cache; a connection that carries its statement is the best that can be done with it.
pub struct Bb8<Check>(bb8::Pool<WithStatement>, PhantomData<Check>);

pub struct WithStatement(bb8_postgres::PostgresConnectionManager<NoTls>);

pub struct Prepared {
    client: Client,
    statement: Statement,
}

impl bb8::ManageConnection for WithStatement {
    type Connection = Prepared;
    type Error = tokio_postgres::Error;

    async fn connect(&self) -> Result<Prepared, Self::Error> {
        let client = self.0.connect().await?;
        let statement = client.prepare(SQL).await?;
        Ok(Prepared { client, statement })
    }

    async fn is_valid(&self, connection: &mut Prepared) -> Result<(), Self::Error> {
        self.0.is_valid(&mut connection.client).await
    }

    fn has_broken(&self, connection: &mut Prepared) -> bool {
        self.0.has_broken(&mut connection.client)
    }
}

/// Whether bb8 checks a connection at each checkout, which it does unless told otherwise.
pub trait Check: Send + Sync + 'static {
    const NAME: &'static str;
    const ON: bool;
}

pub struct Checked;
pub struct Unchecked;

impl Check for Checked {
    const NAME: &'static str = "bb8-postgres, defaults, own statement";
    const ON: bool = true;
}

impl Check for Unchecked {
    const NAME: &'static str = "bb8-postgres, no check, own statement";
    const ON: bool = false;
}

impl<C: Check> Selects for Bb8<C> {
    const NAME: &'static str = C::NAME;

    async fn build(route: &Route) -> Self {
        let manager = bb8_postgres::PostgresConnectionManager::new(route.tokio_postgres(), NoTls);
        let pool = bb8::Pool::builder()
            .max_size(CONNECTIONS)
            .test_on_check_out(C::ON);
        let pool = pool
            .build(WithStatement(manager))
            .await
            .expect("the server takes the connections");
        Bb8(pool, PhantomData)
    }

    async fn select(&self, _: usize) -> i32 {
        let connection = self.0.get().await.expect("a connection comes");
        run(&connection.client, &connection.statement).await
    }
}

pub struct Sqlx(sqlx::PgPool);

impl Selects for Sqlx {
    const NAME: &'static str = "sqlx, defaults";

    async fn build(route: &Route) -> Self {
        let pool = sqlx::postgres::PgPoolOptions::new().max_connections(CONNECTIONS);
        Sqlx(
            pool.connect_with(route.sqlx())
                .await
                .expect("the server takes the connections"),
        )
    }

    async fn select(&self, _: usize) -> i32 {
        // Prepared once a connection and kept by sqlx.
        sqlx::query_scalar(SQL)
            .fetch_one(&self.0)
            .await
            .expect("the statement runs")
    }
}
