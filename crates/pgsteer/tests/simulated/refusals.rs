//! What callers are told, and how soon, when something refuses: logins, a dialler that panics, a cancel request that
//! nobody takes.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::{FutureExt, pin_mut};
use pgsteer::world::{BoxFuture, Dial, Draw, Endpoint, Resolve, Socket, SocketOptions, World};
use pgsteer::{Conn, Error, Pool};
use pgsteer_sim::{Auth, Sim};

use crate::rig::{abc, blackhole, config, full, millis, names, pass, seconds, start, three, timed, until};

#[tokio::test(start_paused = true)]
async fn a_caller_that_comes_while_every_login_is_refused_is_told_so_at_once() {
    let sim = three().login(Auth::Cleartext, "app", "right").build();
    let pool = start(&sim, abc().pool_size(4).password("wrong"));
    assert!(matches!(pool.get().await, Err(Error::Login(_))));
    // Far into the outage the attempts are half a minute apart.
    pass(seconds(100)).await;
    for _ in 0..20 {
        let (result, took) = timed(pool.get()).await;
        assert!(matches!(result, Err(Error::Login(_))), "{result:?}");
        assert!(took < seconds(1), "{took:?}");
        pass(seconds(1)).await;
    }
}

/// A world in which dialling or resolving one host panics.
struct Trap {
    sim: Sim,
    resolving: bool,
}

impl Resolve for Trap {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        assert!(!(self.resolving && host == "a"), "a resolver's own trouble");
        Resolve::resolve(&self.sim, host)
    }
}

impl Dial for Trap {
    fn dial<'a>(&'a self, at: &'a Endpoint, socket: &'a SocketOptions) -> BoxFuture<'a, io::Result<Socket>> {
        Dial::dial(&self.sim, at, socket)
    }
}

impl Draw for Trap {
    fn draw(&self) -> u64 {
        7
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_whose_resolving_panics_has_failed_and_the_next_is_used() {
    let sim = three().build();
    let trap = || {
        Arc::new(Trap {
            sim: sim.clone(),
            resolving: true,
        })
    };
    let settings = config(&["a", "b"])
        .load_balance(pgsteer::LoadBalance::Off)
        .pool_size(2);
    let pool = Pool::start_in(settings, World::new(trap(), trap(), trap())).unwrap();
    let conn = pool.get().await.unwrap();
    assert_eq!(Conn::host(&conn).name(), "b");
    let snapshot = pool.cluster().snapshot();
    assert_eq!(names(&snapshot.rejected()), ["a"]);
    let reason = &snapshot.failures[&crate::rig::key("a")].reason;
    assert!(
        reason.contains("panicked") && !reason.contains("own trouble"),
        "{reason}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancel_request_that_nobody_took_costs_the_connection() {
    let sim = three().build();
    let settings = config(&["a"])
        .load_balance(pgsteer::LoadBalance::Off)
        .pool_size(1)
        .connect_timeout(seconds(1))
        .return_cancel_after(millis(200))
        .return_timeout(seconds(20));
    let pool = full(&sim, settings).await;
    let first = sim.sessions()[0].id;
    {
        let conn = pool.get().await.unwrap();
        let sleep = conn.batch_execute("SELECT pg_sleep(2.5)");
        pin_mut!(sleep);
        assert!(sleep.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    // New connections are not answered, so the request may be lying in the server's queue.
    blackhole(&sim.server("a"));
    pass(seconds(2)).await;
    sim.server("a").mend();
    until("it is replaced", || pool.status().idle == 1).await;
    assert_ne!(sim.sessions()[0].id, first);
}

#[tokio::test(start_paused = true)]
async fn what_the_server_said_of_a_statement_is_what_the_error_says() {
    let sim = three().build();
    let pool = full(&sim, abc().pool_size(1)).await;
    let error = pool.batch_execute("SELECT 1/0").await.unwrap_err();
    assert_eq!(error.code(), Some("22012"));
    let text = error.to_string();
    assert!(text.contains("22012") && text.contains("zero"), "{text}");
    let source = std::error::Error::source(&error).unwrap();
    assert!(source.downcast_ref::<pgsteer::tokio_postgres::Error>().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_long_text_from_a_server_is_cut() {
    let sim = three().build();
    for server in sim.servers() {
        server.set_login(pgsteer_sim::Login::Fatal {
            sqlstate: "XX000".into(),
            message: "x".repeat(100_000),
        });
    }
    let pool = start(&sim, abc().pool_size(1));
    let error = pool.get().await.unwrap_err();
    assert!(
        error.to_string().len() < 5_000,
        "{} characters",
        error.to_string().len()
    );
}
