//! Random histories of roles: two pools with targets of their own on one cluster, while servers are promoted, demoted,
//! killed, started, made cold and split. A connection is only ever handed out that was opened on a server of the right
//! role, and in the end every pool is where it belongs and every count is exact.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pgsteer::config::TargetSessionAttrs::{self, PreferPrimary, PreferStandby, ReadWrite, Standby};
use pgsteer::{Conn, Error, Pool};
use pgsteer_sim::{Death, Login, ServerSpec, Shutdown, Sim};
use tokio::time::Instant;

use crate::rig::*;
use crate::roles::ordered;

const SEEDS: u64 = 24;
const HOSTS: [&str; 3] = ["pg1", "pg2", "pg3"];

/// When which server has been a standby: at each moment the last entry before it counts.
#[derive(Default)]
struct Past(Mutex<Vec<(Duration, String, bool)>>);

impl Past {
    fn note(&self, sim: &Sim, server: &str) {
        let recovery = sim.server(server).is_in_recovery();
        self.0
            .lock()
            .unwrap()
            .push((sim.elapsed(), server.to_owned(), recovery));
    }

    /// Whether the server could truly have said at this moment that it is a standby (or is not).
    fn could_be(&self, server: &str, standby: bool, at: Duration) -> bool {
        let past = self.0.lock().unwrap();
        let of_server = past.iter().filter(|(_, name, _)| name == server);
        let before = of_server.clone().rfind(|(since, _, _)| *since < at);
        // What it was, or what it became in that very moment.
        before.is_some_and(|(_, _, was)| *was == standby)
            || of_server
                .clone()
                .any(|(since, _, is)| *since == at && *is == standby)
    }
}

/// What happens to one server.
fn happen(sim: &Sim, past: &Past, random: &mut fastrand::Rng) {
    let name = HOSTS[random.usize(..HOSTS.len())];
    let server = sim.server(name);
    match random.u32(0..12) {
        0..3 => server.promote(),
        // A primary becomes a standby by a restart.
        3..5 => {
            server.kill(Death::Rst);
            server.demote();
            server.start();
        }
        // Or, behind a proxy, without its sessions noticing.
        5 => server.demote(),
        6 => server.kill(Death::Fin),
        7 => server.restart(Shutdown::Crash),
        8 => server.set_login(Login::fatal("57M02")),
        9 => server.set_login(Login::fatal("57P03")),
        10 => blackhole(&server),
        _ => server.mend(),
    }
    past.note(sim, name);
}

/// Whether a pool of this target may have a connection that was opened on such a server.
fn may_open(target: TargetSessionAttrs, past: &Past, server: &str, at: Duration) -> bool {
    match target {
        ReadWrite => past.could_be(server, false, at),
        Standby => past.could_be(server, true, at),
        _ => true,
    }
}

async fn work(pool: Pool, target: TargetSessionAttrs, sim: Sim, past: Arc<Past>, seed: u64, end: Instant) {
    let mut random = fastrand::Rng::with_seed(seed);
    while Instant::now() < end {
        tokio::time::sleep(millis(random.u64(0..700))).await;
        let limit = millis([5, 300, 3000][random.usize(..3)]);
        let (result, took) = timed(pool.get_timeout(limit)).await;
        assert!(took <= limit + millis(3), "{limit:?} became {took:?}");
        let conn = match result {
            Ok(conn) => conn,
            Err(Error::CheckoutTimeout(_) | Error::Connect(_) | Error::CircuitOpen { .. }) => continue,
            Err(other) => panic!("{target}: {other:?}"),
        };
        let host = Conn::host(&conn).name().to_owned();
        if let Ok(row) = conn.query_one("SELECT pg_backend_pid()", &[]).await {
            let pid: i32 = row.get(0);
            let session = sim
                .sessions()
                .into_iter()
                .find(|session| session.pid == pid)
                .expect("who answers has a session");
            assert_eq!(&*session.server, host);
            assert!(
                may_open(target, &past, &host, session.since),
                "{target}: on {host}, opened at {:?}",
                session.since
            );
        }
        match random.u32(0..6) {
            0 => drop(
                tokio::time::timeout(
                    millis(random.u64(0..50)),
                    conn.batch_execute("SELECT pg_sleep(1)"),
                )
                .await,
            ),
            1 => drop(conn.batch_execute("BEGIN").await),
            2 => drop(
                conn.batch_execute(&format!("INSERT INTO ledger VALUES ({})", random.i64(..)))
                    .await,
            ),
            3 => Conn::discard(conn),
            _ => tokio::time::sleep(millis(random.u64(0..400))).await,
        }
        if random.u32(0..4) == 0 {
            drop(tokio::time::timeout(millis(random.u64(0..100)), pool.get()).await);
        }
    }
}

fn check_slots(pool: &Pool) {
    let status = pool.status();
    let slots = status.idle + status.leased + status.opening + status.settling + status.closing;
    assert!(slots <= status.size, "{status:?}");
}

async fn live(seed: u64) {
    let random = &mut fastrand::Rng::with_seed(seed);
    let sim = plain([
        ServerSpec::new("pg1"),
        ServerSpec::new("pg2").standby(),
        ServerSpec::new("pg3").standby(),
    ]);
    let past = Arc::new(Past::default());
    HOSTS.iter().for_each(|name| past.note(&sim, name));
    let targets = [
        [ReadWrite, PreferPrimary][random.usize(..2)],
        [Standby, PreferStandby][random.usize(..2)],
    ];
    let config = ordered(&HOSTS, targets[0])
        .pool_size(random.u32(1..=4))
        .connect_timeout(seconds(2))
        .role_ttl(seconds([1, 10][random.usize(..2)]))
        .connect_race_delay([None, Some(millis(300))][random.usize(..2)])
        .yb_servers_refresh_interval(seconds([2, 10][random.usize(..2)]));
    let first = start(&sim, config);
    let second = first.with_target(targets[1]).unwrap();
    // Nothing may be known of a server before the moment at which it is first seen.
    tokio::time::sleep(millis(1)).await;

    let end = Instant::now() + seconds(120);
    let mut workers = tokio::task::JoinSet::new();
    for (pool, target) in [(&first, targets[0]), (&second, targets[1])] {
        for worker in 0..4 {
            let seed = seed << 8 | worker;
            workers.spawn(work(pool.clone(), target, sim.clone(), past.clone(), seed, end));
        }
    }
    while Instant::now() < end {
        tokio::time::sleep(millis(random.u64(1..6000))).await;
        happen(&sim, &past, random);
        check_slots(&first);
        check_slots(&second);
    }
    while let Some(worker) = workers.join_next().await {
        worker.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    }

    // All is well again: pg2 is the primary, and nobody has to do anything about it.
    for name in HOSTS {
        sim.server(name).mend();
        if name != "pg2" {
            sim.server(name).demote();
        }
    }
    sim.server("pg2").promote();
    HOSTS.iter().for_each(|name| past.note(&sim, name));
    let size = first.status().size;
    let homes = [format!("pg2:{size}"), format!("pg1:{size}")];
    let at_home = || placed(&first.status()) == homes[0] && placed(&second.status()) == homes[1];
    within(&format!("seed {seed}: {targets:?} at home"), seconds(90), at_home).await;
    within("every count is exact", seconds(30), || {
        let snapshot = first.cluster().snapshot();
        let idle = first.status().idle + second.status().idle;
        snapshot.pending.is_empty()
            && idle == 2 * size
            && counted(&snapshot) == format!("pg1:{size} pg2:{size}")
    })
    .await;
    within("no session is left over", seconds(30), || {
        sim.live() == 2 * size as usize
    })
    .await;
    first.close(seconds(10)).await;
    second.close(seconds(10)).await;
    assert_eq!(sim.live(), 0);
}

#[test]
fn random_roles() {
    let seeds = match std::env::var("PGSTEER_SEED") {
        Ok(seed) => seed
            .parse()
            .map(|seed| seed..seed + 1)
            .expect("PGSTEER_SEED is a number"),
        Err(_) => 0..SEEDS,
    };
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let outcome = std::panic::catch_unwind(|| runtime.block_on(live(seed)));
        assert!(
            outcome.is_ok(),
            "again with: PGSTEER_SEED={seed} cargo test -p pgsteer --test simulated random_roles"
        );
    }
}
