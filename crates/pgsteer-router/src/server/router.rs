//! Starting a router, changing it while it runs, and ending it.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::error::{ReloadError, StartError};
use super::phase::Phase;
use super::settings::RouterConfig;
use super::shared::Shared;
use super::{arrived, connection, listener};
use crate::admin;
use crate::backend::{BackendSet, BackendStatus, Dial, TcpDialer};
use crate::metrics::Totals;
use crate::threads::{Crew, Threads};
use crate::tls::{BackendTls, ServerTls, TlsDialer, TlsError};

/// A running router. Dropped, it stops at once and drops what it was doing; [`shutdown`](Self::shutdown) lets it finish.
pub struct Router {
    shared: Arc<Shared>,
    dialer: TlsDialer,
    config: tokio::sync::Mutex<RouterConfig>,
    local_addr: SocketAddr,
    metrics_addr: Option<SocketAddr>,
    stop_accepting: CancellationToken,
    accepting: Mutex<Option<JoinHandle<()>>>,
    stop_admin: CancellationToken,
}

/// How a router ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Requests that were answered after the drain had begun, by a backend or with an error.
    pub answered: u64,
    /// Requests that had begun and were given up when the grace was over.
    pub dropped: u64,
    /// Client connections that were cut when the grace was over, with a request or without.
    pub cut: usize,
    /// How long it took.
    pub took: Duration,
}

impl Router {
    /// Binds the addresses, reads certificates, starts the backends' pools, and accepts clients from then on.
    ///
    /// # Errors
    ///
    /// An address that cannot be bound, a file or an option that cannot be used. Backends that are down are no error.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future starts nothing.
    pub async fn start(config: RouterConfig) -> Result<Self, StartError> {
        Router::start_over(config, Arc::new(TcpDialer::new())).await
    }

    /// As [`start`](Self::start), with streams to backends opened by `dialer`, under TLS if the configuration says so.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future starts nothing.
    pub async fn start_over(config: RouterConfig, dialer: Arc<dyn Dial>) -> Result<Self, StartError> {
        Router::start_with(config, dialer, Crew::default()).await
    }

    /// As [`start`](Self::start), with clients and connections to backends spread over these threads and the one that polls
    /// this future, which should be of a runtime with one thread. The threads must live as long as the router.
    ///
    /// A client stays on its thread. That saves what it costs to hand work from one thread to another, and leaves a thread idle
    /// while another has more to do.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future starts nothing.
    pub async fn start_across(config: RouterConfig, threads: &Threads) -> Result<Self, StartError> {
        Router::start_with(config, Arc::new(TcpDialer::new()), threads.crew().clone()).await
    }

    async fn start_with(config: RouterConfig, dialer: Arc<dyn Dial>, crew: Crew) -> Result<Self, StartError> {
        config.server.check()?;
        config.check_backends()?;
        let (tls, dialer) = read_files(&config, |backend_tls| TlsDialer::new(dialer, backend_tls)).await?;
        let bind = |option, address: String| {
            let backlog = config.server.backlog;
            async move {
                let bound = listener::bind(&address, backlog).await;
                bound.map_err(|error| StartError::Bind {
                    option,
                    address,
                    error,
                })
            }
        };
        let listening = bind("--listen", config.listen.clone()).await?;
        let local_addr = address_of("--listen", &listening)?;
        let (admin, metrics_addr) = match &config.metrics {
            None => (None, None),
            Some(address) => {
                let admin = bind("--metrics", address.clone()).await?;
                let address = address_of("--metrics", &admin)?;
                (Some(admin), Some(address))
            }
        };
        let set = BackendSet::start_across(config.set(), Arc::new(dialer.clone()), crew.clone())?;
        let shared = Arc::new(Shared::new(set, config.server.clone(), tls, crew));
        let stop_accepting = CancellationToken::new();
        let stop_admin = CancellationToken::new();
        let accepting = tokio::spawn(listener::accept(
            listening,
            Arc::clone(&shared),
            stop_accepting.clone(),
        ));
        if let Some(admin) = admin {
            tokio::spawn(admin::serve(admin, Arc::clone(&shared), stop_admin.clone()));
        }
        Ok(Router {
            shared,
            dialer,
            config: tokio::sync::Mutex::new(config),
            local_addr,
            metrics_addr,
            stop_accepting,
            accepting: Mutex::new(Some(accepting)),
            stop_admin,
        })
    }

    /// Serves a client over a stream of any kind, as if it had been accepted, without TLS. Ready when the client has gone or
    /// the router ends.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cuts the client off.
    pub fn serve<S>(&self, stream: S) -> impl Future<Output = ()> + Send + use<S>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        self.shared.metrics.accepted.inc();
        let place = self.shared.clients.enrol();
        let work = place.watch(connection::in_clear(
            stream,
            arrived::unknown,
            Arc::clone(&self.shared),
        ));
        async {
            work.await;
        }
    }

    /// Where clients connect.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Where metrics and health are asked for.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics_addr
    }

    /// What has been counted.
    pub fn totals(&self) -> Totals {
        self.shared.metrics.totals(self.shared.clients.connected())
    }

    /// What each backend looks like now.
    pub fn backends(&self) -> Vec<BackendStatus> {
        self.shared.set.status()
    }

    /// Whether new clients are welcome: true until [`shutdown`](Self::shutdown) begins.
    pub fn is_ready(&self) -> bool {
        self.shared.is_ready()
    }

    /// Goes on with another configuration. Certificates and keys are read again even if nothing else is different. Clients
    /// that are connected stay so, and their next requests go by the new knobs; TLS and `pipeline` are for new connections.
    ///
    /// # Errors
    ///
    /// What cannot be used, or cannot change while the router runs; then everything is as before.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes all or nothing.
    pub async fn reload(&self, config: RouterConfig) -> Result<(), ReloadError> {
        let mut current = self.config.lock().await;
        config.server.check()?;
        config.check_backends()?;
        let fixed = [
            ("--listen", Some(&current.listen), Some(&config.listen)),
            ("--metrics", current.metrics.as_ref(), config.metrics.as_ref()),
        ];
        for (option, from, to) in fixed {
            if from != to {
                return Err(needs_restart(option, from, to));
            }
        }
        if current.server.backlog != config.server.backlog {
            let (from, to) = (current.server.backlog, config.server.backlog);
            return Err(needs_restart("--backlog", Some(&from), Some(&to)));
        }
        let (tls, backend_tls) = read_files(&config, |backend_tls| {
            backend_tls.map(BackendTls::load).transpose()
        })
        .await?;
        self.shared.set.update(config.set())?;
        self.dialer.replace(backend_tls);
        self.shared.tls.store(tls);
        self.shared.options.store(Arc::new(config.server.clone()));
        self.shared.clients.look_again();
        *current = config;
        Ok(())
    }

    /// Ends the router. In this order: it says that it is not ready; after `drain_delay` it stops accepting, but for those
    /// whom the kernel has already accepted; it answers all that has come; it closes each client that has been answered.
    /// What is not done `grace` after the call is dropped. May be called again; the shorter grace counts.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the router draining, without a limit.
    pub async fn shutdown(&self, grace: Duration) -> Drained {
        let began = Instant::now();
        let until = began + grace;
        let before = self.totals();
        self.shared.take_back_readiness();
        let delay = self.shared.options.load().drain_delay;
        tokio::time::sleep_until(until.min(began + delay)).await;
        self.stop_accepting.cancel();
        self.shared.clients.enter(Phase::Draining);
        let mut accepting = self.accepting();
        let _abort = accepting
            .as_ref()
            .map(|accepting| AbortOnDrop(accepting.abort_handle()));
        let all_gone = async {
            if let Some(accepting) = &mut accepting {
                let _ = accepting.await;
            }
            accepting = None;
            self.shared.clients.fewer_than(|| 1).await;
        };
        let mut cut = 0;
        if timeout_at(until, all_gone).await.is_err() {
            // Its end counts those who are still in the kernel's queue.
            if let Some(accepting) = accepting {
                accepting.abort();
                let _ = accepting.await;
            }
            cut = self.shared.clients.connected();
            self.shared.clients.enter(Phase::Stopped);
            self.shared.clients.fewer_than(|| 1).await;
        }
        // Idle connections close in order if there is time; nobody waits for an answer any more.
        let left = until.saturating_duration_since(Instant::now());
        let _ = timeout(CLOSING.min(left), self.shared.set.close(CLOSING)).await;
        self.stop_admin.cancel();
        let after = self.totals();
        let answers = |totals: &Totals| totals.answered + totals.answered_with_errors();
        Drained {
            answered: answers(&after) - answers(&before),
            dropped: after.dropped - before.dropped,
            cut,
            took: began.elapsed(),
        }
    }

    fn accepting(&self) -> Option<JoinHandle<()>> {
        self.accepting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

/// How long the backends' connections may take to close when all is done.
const CLOSING: Duration = Duration::from_secs(1);

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.stop_accepting.cancel();
        self.stop_admin.cancel();
        if let Some(accepting) = self.accepting() {
            accepting.abort();
        }
        self.shared.clients.enter(Phase::Stopped);
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router")
            .field("local_addr", &self.local_addr)
            .field("metrics_addr", &self.metrics_addr)
            .field("totals", &self.totals())
            .finish_non_exhaustive()
    }
}

fn address_of(option: &'static str, listener: &tokio::net::TcpListener) -> Result<SocketAddr, StartError> {
    listener.local_addr().map_err(|error| StartError::Bind {
        option,
        address: String::new(),
        error,
    })
}

fn needs_restart(
    option: &'static str,
    from: Option<&impl fmt::Display>,
    to: Option<&impl fmt::Display>,
) -> ReloadError {
    let told =
        |value: Option<&dyn fmt::Display>| value.map_or("nothing".to_owned(), |value| value.to_string());
    ReloadError::NeedsRestart {
        option,
        from: told(from.map(|value| value as &dyn fmt::Display)),
        to: told(to.map(|value| value as &dyn fmt::Display)),
    }
}

type Certificates = Option<Arc<rustls::ServerConfig>>;

/// Reads certificates and keys, off the runtime's threads.
async fn read_files<T: Send + 'static>(
    config: &RouterConfig,
    backend: impl FnOnce(Option<&BackendTls>) -> Result<T, TlsError> + Send + 'static,
) -> Result<(Certificates, T), TlsError> {
    let (tls, backend_tls) = (config.tls.clone(), config.backend_tls.clone());
    let read = spawn_blocking(move || {
        let tls = tls.as_ref().map(ServerTls::load).transpose()?;
        Ok((tls, backend(backend_tls.as_ref())?))
    });
    match read.await {
        Ok(read) => read,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}
