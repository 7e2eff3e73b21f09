//! What becomes of a transaction whose COMMIT was sent and whose answer did not come. The simulated servers keep one table
//! for all, so that it can be looked up afterwards what was really committed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use pgsteer::world::{BoxFuture, Dial, Draw, Endpoint, Resolve, Socket, SocketOptions, World};
use pgsteer::{Error, Pool};
use pgsteer_sim::{Death, Effect, Scope, Script, ServerSpec, Sim};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::rig::*;
use crate::transactions::{backend, insert, one, options, script};

fn committed(sim: &Sim) -> bool {
    !sim.ledger().is_empty()
}

/// The server commits and dies, or dies before it commits: the caller cannot see which, and is told so.
///
/// Covers: F-22
///
/// Covers: E-301
#[tokio::test(start_paused = true)]
async fn a_connection_lost_at_commit_leaves_the_outcome_unknown_and_is_not_run_again() {
    let rows = [
        (Effect::DieAfter(Death::Fin, Scope::Session), true),
        (Effect::DieAfter(Death::Rst, Scope::Session), true),
        (Effect::DieBefore(Death::Fin, Scope::Session), false),
        (Effect::DieBefore(Death::Rst, Scope::Session), false),
        (Effect::fatal("57P01"), false),
        (Effect::error("08006"), false),
        (Effect::error("40003"), false),
        (Effect::error("XX000"), false),
    ];
    for (effect, done) in rows {
        let (sim, pool) = one().await;
        script(&sim, Script::on("commit", effect.clone()));
        let (runs, result) = insert(&pool, options()).await;
        let error = result.unwrap_err();
        assert!(
            matches!(error, Error::CommitOutcomeUnknown(_)),
            "{effect:?}: {error:?}"
        );
        assert!(error.to_string().contains("may have been done"), "{error}");
        assert_eq!((runs, committed(&sim)), (1, done), "{effect:?}");
        assert!(pool.snapshot().failed().is_empty(), "{effect:?}");
        until("the pool is whole", || pool.status().idle == 2).await;
    }
}

/// Covers: E-322
#[tokio::test(start_paused = true)]
async fn silence_at_the_commit_leaves_the_outcome_unknown_within_the_limit() {
    let limited_by = ["socket_timeout", "attempt_timeout"];
    let effects = [
        (Effect::Hang { cancellable: false }, false),
        (Effect::RunThenHang, true),
    ];
    for (limit, (effect, done)) in limited_by
        .iter()
        .flat_map(|limit| effects.iter().map(move |row| (limit, row)))
    {
        let sim = plain([ServerSpec::new("a")]);
        let (config, options) = match *limit {
            "socket_timeout" => (config(&["a"]).socket_timeout(millis(300)), options()),
            _ => (config(&["a"]), options().attempt_timeout(millis(300))),
        };
        let pool = full(&sim, config.pool_size(1)).await;
        let before = backend(&pool).await;
        script(&sim, Script::on("commit", effect.clone()).once());
        let ((runs, result), took) = timed(insert(&pool, options)).await;
        assert!(
            matches!(result, Err(Error::CommitOutcomeUnknown(_))),
            "{limit} {effect:?}: {result:?}"
        );
        assert_eq!((runs, committed(&sim)), (1, *done), "{limit} {effect:?}");
        assert!((millis(300)..millis(1000)).contains(&took), "{took:?}");
        until("the pool is whole", || pool.status().idle == 1).await;
        assert_ne!(backend(&pool).await, before);
    }
}

/// CommandComplete with its tag, and ReadyForQuery.
const COMPLETE: usize = 12;
const ANSWER: usize = COMPLETE + 6;

/// The answer of a server that has committed is cut at every byte: once its tag is there it is known, before that it is not.
#[tokio::test(start_paused = true)]
async fn an_answer_cut_at_any_byte_is_a_success_only_from_the_byte_on_that_makes_it_one() {
    for death in [Death::Fin, Death::Rst] {
        for bytes in 0..=ANSWER {
            let (sim, pool) = one().await;
            script(
                &sim,
                Script::on("commit", Effect::CutAnswer { bytes, death }).once(),
            );
            let (runs, result) = insert(&pool, options()).await;
            assert_eq!((runs, committed(&sim)), (1, true), "{death} {bytes}");
            match result {
                Ok(_) => assert!(bytes >= COMPLETE, "{death} {bytes}"),
                Err(Error::CommitOutcomeUnknown(_)) if death == Death::Rst || bytes < COMPLETE => {}
                Err(error) => panic!("{death} {bytes}: {error:?}"),
            }
            until("the pool is whole", || pool.status().idle == 2).await;
        }
    }
}

/// COMMIT is cut on its way at every byte of its message: the server never hears of it before the last, so it is run again;
/// with the last it is done, and its caller told that nobody knows.
#[tokio::test(start_paused = true)]
async fn a_commit_cut_at_any_byte_on_its_way_is_run_again_until_all_of_it_is_sent() {
    const MESSAGE: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";
    for bytes in 0..=MESSAGE.len() {
        let sim = plain([ServerSpec::new("a")]);
        let cutting = Arc::new(Cutting {
            world: sim.world(),
            message: MESSAGE,
            bytes,
            times: Arc::new(AtomicUsize::new(1)),
        });
        let world = World::new(cutting.clone(), cutting.clone(), cutting);
        let pool = Pool::start_in(config(&["a"]).pool_size(2), world).unwrap();
        pool.ready(2, seconds(10)).await.unwrap();
        let (runs, result) = insert(&pool, options()).await;
        if bytes < MESSAGE.len() {
            assert_eq!((runs, result.unwrap()), (2, 1), "{bytes}");
        } else {
            assert!(
                matches!(result, Err(Error::CommitOutcomeUnknown(_))),
                "{bytes}: {result:?}"
            );
            assert_eq!(runs, 1);
            pass(seconds(1)).await;
        }
        assert!(committed(&sim), "{bytes}");
    }
}

/// The simulated world, where the first connection to send a certain message breaks after so many bytes of it.
struct Cutting {
    world: World,
    message: &'static [u8],
    bytes: usize,
    times: Arc<AtomicUsize>,
}

impl Resolve for Cutting {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<std::net::IpAddr>>> {
        self.world.resolver().resolve(host)
    }
}

impl Draw for Cutting {
    fn draw(&self) -> u64 {
        self.world.draw()
    }
}

impl Dial for Cutting {
    fn dial<'a>(
        &'a self,
        target: &'a Endpoint,
        socket: &'a SocketOptions,
    ) -> BoxFuture<'a, io::Result<Socket>> {
        Box::pin(async move {
            let stream = self.world.dialler().dial(target, socket).await?;
            Ok(Socket::other(CutStream {
                stream,
                message: self.message,
                bytes: self.bytes,
                times: self.times.clone(),
                broken: false,
            }))
        })
    }
}

struct CutStream {
    stream: Socket,
    message: &'static [u8],
    bytes: usize,
    times: Arc<AtomicUsize>,
    broken: bool,
}

impl AsyncRead for CutStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.broken {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for CutStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.broken {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        // What was queued before it may be written together with it.
        let Some(before) = bytes.strip_suffix(self.message) else {
            return Pin::new(&mut self.stream).poll_write(cx, bytes);
        };
        if self.times.load(Ordering::SeqCst) == 0 {
            return Pin::new(&mut self.stream).poll_write(cx, bytes);
        }
        self.times.fetch_sub(1, Ordering::SeqCst);
        self.broken = true;
        cx.waker().wake_by_ref();
        let some = &bytes[..before.len() + self.bytes];
        if some.is_empty() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.stream).poll_write(cx, some)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The server has said that the transaction has failed: COMMIT can only roll it back, whether its answer comes or not.
#[tokio::test(start_paused = true)]
async fn a_failed_transaction_is_told_to_be_aborted_though_the_answer_of_its_commit_is_lost() {
    let effects = [
        Effect::DieAfter(Death::Fin, Scope::Session),
        Effect::DieBefore(Death::Rst, Scope::Server),
        Effect::fatal("57P01"),
        Effect::RunThenHang,
        Effect::Hang { cancellable: false },
    ];
    for effect in effects {
        for resolve in [false, true] {
            let (sim, pool) = one().await;
            script(&sim, Script::at("commit", effect.clone()));
            let options = options().resolve_commit(resolve).attempt_timeout(seconds(2));
            let mut runs = 0;
            let error = pool
                .transaction_with(options, |tx| {
                    runs += 1;
                    async move {
                        tx.execute("INSERT INTO ledger VALUES (1, 'x')", &[]).await?;
                        let _ = tx.execute("SELECT 1/0", &[]).await;
                        Ok::<_, Error>(())
                    }
                })
                .await
                .unwrap_err();
            assert!(
                matches!(error, Error::TransactionAborted { .. }),
                "{effect:?}: {error:?}"
            );
            assert_eq!((error.code(), runs), (Some("22012"), 1), "{effect:?}");
            assert!(!committed(&sim));
        }
    }
}

/// A savepoint that is undone behind everything else, by a future that was dropped, mends the transaction after the server
/// has said that it failed.
#[tokio::test(start_paused = true)]
async fn a_transaction_that_may_have_been_mended_when_its_commit_was_sent_is_not_told_to_be_aborted() {
    let (sim, pool) = one().await;
    script(
        &sim,
        Script::at("commit", Effect::DieAfter(Death::Rst, Scope::Session)),
    );
    let result = pool
        .transaction(|tx| async move {
            tx.execute("INSERT INTO ledger VALUES (1, 'x')", &[]).await?;
            let part = tx.savepoint(|tx| async move {
                let _ = tx.execute("SELECT 1/0", &[]).await;
                std::future::pending::<Result<(), Error>>().await
            });
            assert!(tokio::time::timeout(millis(100), part).await.is_err());
            Ok(())
        })
        .await;
    assert!(
        matches!(result, Err(Error::CommitOutcomeUnknown(_))),
        "{result:?}"
    );
    assert!(committed(&sim));
}
