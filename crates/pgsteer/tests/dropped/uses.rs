//! The ways to use the driver through a guard. Each is right about its own answers when it is let to its end.
//!
//! Rows with the note `no` are written by what is never committed, and must never be seen by anybody else.

use std::pin::pin;

use bytes::Bytes;
use futures_util::future::{join, join_all};
use futures_util::{SinkExt, TryStreamExt};
use pgsteer::tokio_postgres::binary_copy::{BinaryCopyInWriter, BinaryCopyOutStream};
use pgsteer::tokio_postgres::error::SqlState;
use pgsteer::tokio_postgres::types::Type;
use pgsteer::tokio_postgres::{Client, SimpleQueryMessage};
use pgsteer::{Conn, Error};

use crate::giving_up::Patience;
use crate::site::{LENGTH, ROWS, Site};

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Simple,
    Batch,
    LeftOpen,
    Extended,
    Failing,
    Typed,
    Cached,
    Prepared,
    RowStream,
    SimpleStream,
    BigRows,
    Transaction,
    Savepoints,
    Portals,
    CopyIn,
    CopyInUnfinished,
    CopyOut,
    Pipelined,
    Cancelled,
    // Beyond the server in memory.
    BinaryCopyIn,
    BinaryCopyOut,
    Notifications,
    Notices,
}

use Use::*;

impl Use {
    const IN_MEMORY: [Use; 19] = [
        Simple,
        Batch,
        LeftOpen,
        Extended,
        Failing,
        Typed,
        Cached,
        Prepared,
        RowStream,
        SimpleStream,
        BigRows,
        Transaction,
        Savepoints,
        Portals,
        CopyIn,
        CopyInUnfinished,
        CopyOut,
        Pipelined,
        Cancelled,
    ];
    const REAL_ONLY: [Use; 4] = [BinaryCopyIn, BinaryCopyOut, Notifications, Notices];

    /// All that the site's server knows.
    pub(crate) fn known(site: &Site) -> Vec<Use> {
        let mut uses = Self::IN_MEMORY.to_vec();
        if site.is_real() {
            uses.extend(Self::REAL_ONLY);
        }
        uses
    }

    /// Until it has ended, or is given up.
    pub(crate) async fn run(
        self,
        site: &Site,
        conn: &mut Conn,
        number: i32,
        patience: Patience,
    ) -> Option<Result<(), Error>> {
        match self {
            Cancelled => cancelled(site, conn, patience).await,
            _ => patience.with(self.to_its_end(site, conn, number)).await,
        }
    }

    async fn to_its_end(self, site: &Site, conn: &mut Conn, number: i32) -> Result<(), Error> {
        match self {
            Simple => simple(conn, number).await,
            Batch => {
                conn.batch_execute("SELECT 1; SELECT 2; BEGIN; SELECT 3; ROLLBACK")
                    .await
            }
            LeftOpen => {
                let id = site.next_id();
                conn.batch_execute(&format!("BEGIN; INSERT INTO ledger VALUES ({id}, 'no')"))
                    .await
            }
            Extended => extended(conn, number).await,
            Failing => failing(conn, number).await,
            Typed => typed(conn, number).await,
            Cached => cached(conn, number).await,
            Prepared => prepared(conn, number).await,
            RowStream => row_stream(conn).await,
            SimpleStream => simple_stream(conn).await,
            BigRows => big_rows(conn).await,
            Transaction => transaction(site, conn).await,
            Savepoints => savepoints(site, conn).await,
            Portals => portals(conn).await,
            CopyIn => copy_in(site, conn, true).await,
            CopyInUnfinished => copy_in(site, conn, false).await,
            CopyOut => copy_out(conn).await,
            Pipelined => pipelined(conn, number).await,
            Cancelled => cancelled(site, conn, Patience::Endless).await.unwrap_or(Ok(())),
            BinaryCopyIn => binary_copy_in(site, conn).await,
            BinaryCopyOut => binary_copy_out(conn).await,
            Notifications => notifications(conn, number).await,
            Notices => notices(conn, number).await,
        }
    }
}

fn text(message: &SimpleQueryMessage) -> Option<&str> {
    match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    }
}

async fn simple(conn: &Conn, number: i32) -> Result<(), Error> {
    let answer = conn.simple_query(&format!("SELECT {number}")).await?;
    let answer: Vec<_> = answer.iter().filter_map(text).collect();
    assert_eq!(answer, [number.to_string()]);
    Ok(())
}

async fn extended(conn: &Conn, number: i32) -> Result<(), Error> {
    let sql = "SELECT $1::int + 1";
    assert_eq!(
        conn.query_one(sql, &[&number]).await?.get::<_, i32>(0),
        number + 1
    );
    assert_eq!(conn.query(sql, &[&number]).await?.len(), 1);
    assert_eq!(
        conn.query_one_scalar::<i32, _>(sql, &[&number]).await?,
        number + 1
    );
    let none = "SELECT id FROM ledger WHERE id = $1";
    assert!(conn.query_opt(none, &[&-1_000_000_i64]).await?.is_none());
    assert_eq!(conn.execute(none, &[&-1_i64]).await?, 1);
    conn.check_connection().await
}

async fn failing(conn: &Conn, number: i32) -> Result<(), Error> {
    let error = conn.batch_execute("SELECT no_such_column").await.unwrap_err();
    assert_eq!(error.code(), Some(SqlState::UNDEFINED_COLUMN.code()));
    let error = conn.query("SELECT no_such_column", &[]).await.unwrap_err();
    assert_eq!(error.code(), Some(SqlState::UNDEFINED_COLUMN.code()));
    simple(conn, number).await
}

async fn typed(conn: &Conn, number: i32) -> Result<(), Error> {
    let sql = "SELECT $1 + 1";
    let rows = conn.query_typed(sql, &[(&number, Type::INT4)]).await?;
    assert_eq!(rows[0].get::<_, i32>(0), number + 1);
    let row = conn.query_typed_one(sql, &[(&number, Type::INT4)]).await?;
    assert_eq!(row.get::<_, i32>(0), number + 1);
    assert_eq!(conn.execute_typed(sql, &[(&number, Type::INT4)]).await?, 1);
    Ok(())
}

async fn cached(conn: &Conn, number: i32) -> Result<(), Error> {
    // A few texts, so that some are kept and some are new.
    let sql = format!("SELECT $1::int + {}", number % 8);
    let row = conn.query_one_cached(&sql, &[&number]).await?;
    assert_eq!(row.get::<_, i32>(0), number + number % 8);
    assert_eq!(conn.query_cached(&sql, &[&number]).await?.len(), 1);
    assert!(conn.query_opt_cached(&sql, &[&number]).await?.is_some());
    assert_eq!(conn.execute_cached(&sql, &[&number]).await?, 1);
    Ok(())
}

async fn prepared(conn: &Conn, number: i32) -> Result<(), Error> {
    let statement = conn.prepare_typed("SELECT $1 + 1", &[Type::INT4]).await?;
    let other = conn.prepare("SELECT 1").await?;
    assert_eq!(
        conn.query_one(&statement, &[&number]).await?.get::<_, i32>(0),
        number + 1
    );
    drop(other);
    assert_eq!(conn.query(&statement, &[&number]).await?.len(), 1);
    Ok(())
}

async fn row_stream(conn: &Conn) -> Result<(), Error> {
    let rows = conn
        .query_raw("SELECT * FROM generate_series(1, 300)", Vec::<i32>::new())
        .await?;
    let mut rows = pin!(rows);
    let mut seen = 0;
    while rows.try_next().await?.is_some() {
        seen += 1;
        if seen % 50 == 0 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(seen, 300);
    let typed = conn.query_typed_raw("SELECT $1", [(7, Type::INT4)]).await?;
    let typed: Vec<_> = typed.try_collect().await?;
    assert_eq!(typed[0].get::<_, i32>(0), 7);
    Ok(())
}

async fn simple_stream(conn: &Conn) -> Result<(), Error> {
    let messages = conn
        .simple_query_raw("SELECT * FROM generate_series(1, 100); SELECT 1")
        .await?;
    let messages: Vec<_> = messages.try_collect().await?;
    assert_eq!(messages.iter().filter_map(text).count(), 101);
    Ok(())
}

/// More than any buffer on the way holds.
async fn big_rows(conn: &Conn) -> Result<(), Error> {
    let rows = conn.query("SELECT note FROM ledger WHERE id < 0", &[]).await?;
    let lengths: Vec<_> = rows.iter().map(|row| row.get::<_, &str>(0).len()).collect();
    assert_eq!(lengths, [LENGTH; ROWS as usize]);
    Ok(())
}

/// Committed, if it comes to that.
async fn transaction(site: &Site, conn: &mut Conn) -> Result<(), Error> {
    let id = site.next_id();
    let open = conn.transaction().await?;
    open.execute("INSERT INTO ledger VALUES ($1, 'may')", &[&id])
        .await?;
    open.commit().await?;
    let open = conn.build_transaction().read_only(true).start().await?;
    open.query("SELECT 1", &[]).await?;
    open.rollback().await?;
    Ok(())
}

async fn savepoints(site: &Site, conn: &mut Conn) -> Result<(), Error> {
    let mut open = conn.transaction().await?;
    for depth in 0..3 {
        let mut inner = open.savepoint(format!("depth_{depth}")).await?;
        let id = site.next_id();
        inner
            .execute("INSERT INTO ledger VALUES ($1, 'no')", &[&id])
            .await?;
        let innermost = inner.transaction().await?;
        innermost
            .batch_execute("SELECT no_such_column")
            .await
            .unwrap_err();
        innermost.rollback().await?;
        if depth == 1 {
            inner.commit().await?;
        } else {
            inner.rollback().await?;
        }
    }
    // Dropped with the rest, which is undone by that.
    open.query("SELECT 1", &[]).await?;
    Ok(())
}

async fn portals(conn: &mut Conn) -> Result<(), Error> {
    let open = conn.transaction().await?;
    let portal = open.bind("SELECT * FROM generate_series(1, 25)", &[]).await?;
    let other = open.bind("SELECT * FROM generate_series(1, 5)", &[]).await?;
    let mut seen = Vec::new();
    loop {
        let rows = open.query_portal(&portal, 10).await?;
        if rows.is_empty() {
            break;
        }
        seen.push(rows.len());
    }
    assert_eq!(seen, [10, 10, 5]);
    assert_eq!(open.query_portal(&other, 2).await?.len(), 2);
    open.commit().await?;
    Ok(())
}

async fn copy_in(site: &Site, conn: &Conn, finish: bool) -> Result<(), Error> {
    let sink = conn.copy_in::<_, Bytes>("COPY ledger FROM STDIN").await?;
    let mut sink = pin!(sink);
    let note = if finish { "may" } else { "no" };
    for _ in 0..5 {
        let line = format!("{}\t{note}\n", site.next_id());
        sink.send(line.into()).await?;
        sink.flush().await?;
    }
    if finish {
        assert_eq!(sink.finish().await?, 5);
    }
    Ok(())
}

async fn copy_out(conn: &Conn) -> Result<(), Error> {
    let stream = conn
        .copy_out("COPY (SELECT * FROM ledger WHERE id < 0) TO STDOUT")
        .await?;
    let mut stream = pin!(stream);
    let mut length = 0;
    while let Some(part) = stream.try_next().await? {
        length += part.len();
    }
    assert!(length > LENGTH * ROWS as usize);
    Ok(())
}

/// Several at once, each with an answer of its own.
async fn pipelined(conn: &Conn, number: i32) -> Result<(), Error> {
    let ask = async |extra: i32| {
        let row = conn
            .query_one("SELECT $1::int + $2::int", &[&number, &extra])
            .await?;
        assert_eq!(row.get::<_, i32>(0), number + extra);
        Ok::<_, Error>(())
    };
    let (asked, simple) = join(join_all((0..5).map(ask)), simple(conn, number)).await;
    asked.into_iter().collect::<Result<Vec<()>, Error>>()?;
    simple
}

/// A query that a cancel request may hit. The query may be given up, the request is seen to its end: one that is under way when
/// the connection goes back may hit whoever has it next.
async fn cancelled(site: &Site, conn: &Conn, patience: Patience) -> Option<Result<(), Error>> {
    let sleep = patience.with(conn.batch_execute("SELECT pg_sleep(0.05)"));
    let token = conn.cancel_token();
    let (slept, ()) = join(sleep, site.cancel(conn, token)).await;
    // It may come too early or too late.
    if let Some(Err(error)) = &slept {
        assert_eq!(error.code(), Some(SqlState::QUERY_CANCELED.code()));
        return Some(Ok(()));
    }
    slept
}

async fn binary_copy_in(site: &Site, conn: &Conn) -> Result<(), Error> {
    let sink = conn.copy_in("COPY ledger FROM STDIN BINARY").await?;
    let mut writer = pin!(BinaryCopyInWriter::new(sink, &[Type::INT8, Type::TEXT]));
    for _ in 0..5 {
        writer.as_mut().write(&[&site.next_id(), &"may"]).await?;
    }
    assert_eq!(writer.finish().await?, 5);
    Ok(())
}

async fn binary_copy_out(conn: &Conn) -> Result<(), Error> {
    let stream = conn
        .copy_out("COPY (SELECT * FROM ledger WHERE id < 0) TO STDOUT BINARY")
        .await?;
    let rows = BinaryCopyOutStream::new(stream, &[Type::INT8, Type::TEXT]);
    let rows: Vec<_> = rows.try_collect().await?;
    assert_eq!(rows.len(), ROWS as usize);
    assert_eq!(rows[0].get::<String>(1).len(), LENGTH);
    Ok(())
}

async fn notifications(conn: &Conn, number: i32) -> Result<(), Error> {
    conn.batch_execute("LISTEN dropped").await?;
    for _ in 0..3 {
        conn.query("SELECT pg_notify('dropped', $1)", &[&number.to_string()])
            .await?;
    }
    conn.batch_execute("NOTIFY dropped; UNLISTEN dropped").await
}

async fn notices(conn: &Conn, number: i32) -> Result<(), Error> {
    conn.batch_execute("DO $$ BEGIN FOR i IN 1..20 LOOP RAISE WARNING 'w'; END LOOP; END $$")
        .await?;
    simple(conn, number).await
}

/// What the driver's own client does, unlike the guard's: without limits and with errors of its own.
pub(crate) async fn of_the_client(client: &Client, number: i32) -> Result<(), Error> {
    let row = client.query_one("SELECT $1::int", &[&number]).await?;
    assert_eq!(row.get::<_, i32>(0), number);
    client.batch_execute("SELECT 1").await?;
    Ok(())
}
