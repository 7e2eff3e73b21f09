//! What a transaction of the pool costs beside BEGIN and COMMIT by hand: round trips, counted on the wire, and time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pgsteer::{Error, Pool};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::options::Options;
use crate::report::{Bound, Report};
use crate::runtimes;
use crate::server::{Route, Server};
use crate::table::{Column, Table};

const TRIPS: &str = "round trips";
const TIME: &str = "µs a transaction";
const COLUMNS: &[Column] = &[Column::plain(TRIPS), Column::lower(TIME)];

const BY_HAND: &str = "BEGIN, SELECT, COMMIT by hand, tokio-postgres";
const OURS: &str = "Pool::transaction, query_one_cached";

const SQL: &str = "SELECT 1";

/// Passes bytes on, and counts how often the client spoke after the server had.
struct Counting {
    route: Route,
    trips: Arc<AtomicU64>,
}

impl Counting {
    async fn before(host: &str, port: u16) -> Self {
        let listener = TcpListener::bind((host, 0)).await.expect("a port is free");
        let own = listener.local_addr().expect("it has an address");
        let route = Route::Tcp {
            host: own.ip().to_string(),
            port: own.port(),
        };
        let trips = Arc::new(AtomicU64::new(0));
        let (there, counted) = ((host.to_owned(), port), Arc::clone(&trips));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (there, counted) = (there.clone(), Arc::clone(&counted));
                tokio::spawn(async move {
                    let server = TcpStream::connect(there).await?;
                    relay(client, server, &counted).await
                });
            }
        });
        Counting { route, trips }
    }

    fn taken(&self) -> u64 {
        self.trips.swap(0, Ordering::Relaxed)
    }
}

async fn relay(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    mut server: impl AsyncRead + AsyncWrite + Unpin,
    trips: &AtomicU64,
) -> std::io::Result<()> {
    let (mut asked, mut answered) = ([0; 8192], [0; 8192]);
    let mut server_spoke = true;
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let read = read?;
                if read == 0 {
                    return Ok(());
                }
                if std::mem::take(&mut server_spoke) {
                    trips.fetch_add(1, Ordering::Relaxed);
                }
                server.write_all(&asked[..read]).await?;
            }
            read = server.read(&mut answered) => {
                let read = read?;
                if read == 0 {
                    return Ok(());
                }
                server_spoke = true;
                client.write_all(&answered[..read]).await?;
            }
        }
    }
}

async fn by_hand(client: &tokio_postgres::Client, statement: &tokio_postgres::Statement) {
    client.batch_execute("BEGIN").await.expect("it begins");
    client
        .query_one(statement, &[])
        .await
        .expect("the statement runs");
    client.batch_execute("COMMIT").await.expect("it is committed");
}

async fn ours(pool: &Pool) {
    let done = pool.transaction(|tx| async move {
        tx.query_one_cached(SQL, &[]).await?;
        Ok::<_, Error>(())
    });
    done.await.expect("it is committed");
}

/// Both, over one route.
struct Both {
    client: tokio_postgres::Client,
    statement: tokio_postgres::Statement,
    pool: Pool,
}

impl Both {
    async fn open(route: &Route) -> Self {
        let (client, connection) = route
            .tokio_postgres()
            .connect(tokio_postgres::NoTls)
            .await
            .expect("the server takes the connection");
        tokio::spawn(connection);
        let statement = client.prepare(SQL).await.expect("the statement is good");
        let both = Both {
            client,
            statement,
            pool: route.pool(1).await,
        };
        // Keeps the statement prepared from now on.
        ours(&both.pool).await;
        both
    }
}

async fn time(times: u32, both: &Both, hand: bool) -> Duration {
    let started = Instant::now();
    for _ in 0..times {
        match hand {
            true => by_hand(&both.client, &both.statement).await,
            false => ours(&both.pool).await,
        }
    }
    started.elapsed() / times
}

pub fn measure(server: &Server, options: &Options, report: &mut Report) {
    let runtime = runtimes::current_thread();
    let route = server.tcp();
    let Route::Tcp { host, port } = &route else {
        unreachable!("it is a route over TCP")
    };
    let mut table = Table::new("8. A transaction of one statement, TCP", COLUMNS);
    runtime.block_on(async {
        let counting = Counting::before(host, *port).await;
        let (counted, direct) = (Both::open(&counting.route).await, Both::open(&route).await);
        let times = if options.quick { 50 } else { 1_000 };
        for round in 0..options.rounds(31) {
            counting.taken();
            by_hand(&counted.client, &counted.statement).await;
            let trips_by_hand = counting.taken() as f64;
            ours(&counted.pool).await;
            let our_trips = counting.taken() as f64;
            let hand_first = round % 2 == 0;
            let first = time(times, &direct, hand_first).await;
            let second = time(times, &direct, !hand_first).await;
            let (hand, our) = if hand_first {
                (first, second)
            } else {
                (second, first)
            };
            let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
            table.add(BY_HAND, [trips_by_hand, micros(hand)]);
            table.add(OURS, [our_trips, micros(our)]);
        }
    });
    report.demand(
        "a transaction's round trips, more than BEGIN, the statement and COMMIT by hand",
        Bound::AtMost(0.0),
        table.median(OURS, TRIPS) - table.median(BY_HAND, TRIPS),
        "",
    );
    report.table(
        table,
        "Round trips by a relay that counts how often the client speaks after the server has; times without it. One task \
         on one thread, a pool of one; the checkout is part of the transaction.",
    );
}
