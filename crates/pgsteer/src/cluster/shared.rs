//! What all users of one cluster share: the state behind its lock, the dialler, and the background tasks that the
//! state's actions start. Every change goes through `with_state`, which carries the actions out afterwards.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use pgsteer_core::breaker::{Breaker, HostsMet, Permit, State};
use pgsteer_core::host::HostKey;
use pgsteer_core::hosts::{Action, ClusterOptions, ClusterState, Snapshot, TargetSessionAttrs};
use pgsteer_core::verdict::{BreakerEffect, HostEffect};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use super::BreakerStatus;
use super::breaker::{self, LastError};
use super::lookout::Lookout;
use super::membership::{MadeBy, Members};
use super::search::SearchError;
use crate::config::{ConfigError, Settings};
use crate::dial::{Ask, Dialler, Pulse};
use crate::error::Error;
use crate::world::World;

/// Quiet time after which a host's run of failures is over, for the log.
const LOG_WINDOW: Duration = Duration::from_secs(60);

/// One cluster, shared by its handles, its background tasks and the connections opened through it.
pub(crate) struct Shared {
    state: Mutex<ClusterState>,
    breaker: Option<Breaker<LastError>>,
    pub(super) dialler: Dialler,
    pub(super) settings: Arc<Settings>,
    pub(super) members: Members,
    pub(super) world: World,
    pub(crate) runtime: Handle,
    /// Tells the timer task that the next timer may have changed.
    timer_moved: Notify,
    ready: watch::Sender<bool>,
    stopped: watch::Sender<bool>,
    /// Marked whenever something has changed that users of a snapshot look at.
    changed: watch::Sender<()>,
    tasks: Mutex<Tasks>,
    /// Signs of life of the hosts that connections were opened to.
    pulses: Mutex<HashMap<HostKey, Arc<Pulse>>>,
    /// For the tasks started from `&self`.
    this: Weak<Shared>,
}

/// The background work under way, so that stopping the cluster ends it.
#[derive(Default)]
pub(super) struct Tasks {
    timer: Option<AbortHandle>,
    discovery: Option<AbortHandle>,
    names: Option<AbortHandle>,
    probes: HashMap<u64, AbortHandle>,
    pub(super) lookouts: HashMap<HostKey, Lookout>,
    /// The hosts a dial to which goes on though its search is over.
    pub(super) stragglers: HashSet<HostKey>,
}

impl Shared {
    /// Starts the cluster's timer task and whatever the fresh state asks for.
    ///
    /// # Errors
    ///
    /// What the settings name for TLS cannot be used.
    pub(super) fn start(
        settings: Arc<Settings>,
        world: World,
        made_by: MadeBy,
    ) -> Result<Arc<Self>, ConfigError> {
        let dialler = Dialler::new(settings.clone(), world.clone())?;
        let options = ClusterOptions {
            load_balance: settings.load_balance,
            topology_keys: settings.topology_keys.clone(),
            fallback_only: settings.fallback_to_topology_keys_only,
            host_order: settings.load_balance_hosts,
            role_ttl: settings.role_ttl,
            drain_stale_addresses: settings.drain_stale_addresses,
            refresh_interval: settings.refresh_interval,
            failed_host_delay: settings.failed_host_delay,
            failed_host_max_delay: settings.failed_host_max_delay,
            connect_timeout: settings.connect_timeout,
            log_window: LOG_WINDOW,
        };
        let mut state = ClusterState::new(options, settings.hosts.clone(), now());
        state.watch_roles(settings.target_session_attrs.asks());
        // Made inside, where its way to the cluster is known; judged with the rest of the settings before.
        let mut refused = None;
        let shared = Arc::new_cyclic(|this: &Weak<Shared>| Shared {
            breaker: breaker::new(&settings, world.clone(), this.clone()).unwrap_or_else(|error| {
                refused = Some(error);
                None
            }),
            state: Mutex::new(state),
            dialler,
            settings,
            members: Members::new(made_by),
            world,
            runtime: Handle::current(),
            timer_moved: Notify::new(),
            ready: watch::Sender::new(false),
            stopped: watch::Sender::new(false),
            changed: watch::Sender::new(()),
            tasks: Mutex::default(),
            pulses: Mutex::default(),
            this: this.clone(),
        });
        if let Some(error) = refused {
            return Err(error);
        }
        let timer = shared.runtime.spawn(run_timers(Arc::downgrade(&shared)));
        shared.tasks().timer = Some(timer.abort_handle());
        shared.with_state(|_, _| ());
        Ok(shared)
    }

    /// Runs `change` on the state, then carries out what the state asks for. The lock is held for `change` only.
    pub(super) fn with_state<R>(&self, change: impl FnOnce(&mut ClusterState, Instant) -> R) -> R {
        let now = now();
        let (result, actions, moved) = {
            let mut state = self.state();
            let before = state.next_timer();
            let result = change(&mut state, now);
            (result, state.take_actions(), state.next_timer() != before)
        };
        if moved {
            self.timer_moved.notify_one();
        }
        for action in actions {
            self.carry_out(action);
        }
        result
    }

    fn carry_out(&self, action: Action) {
        match action {
            Action::Log(event) => super::refresh::log(&event),
            Action::Ready => {
                self.ready.send_replace(true);
            }
            Action::StartDiscovery { targets, limit } => {
                if let Some(shared) = self.running() {
                    let task = self
                        .runtime
                        .spawn(super::refresh::discover(shared, targets, limit));
                    self.tasks().discovery = Some(task.abort_handle());
                }
            }
            Action::StartProbe {
                key,
                id,
                limit,
                ask_role,
                ask_timeline,
            } => {
                if let Some(shared) = self.running() {
                    let ask = Ask {
                        role: ask_role,
                        timeline: ask_timeline,
                        target: pgsteer_core::hosts::TargetSessionAttrs::Any,
                    };
                    let task = self
                        .runtime
                        .spawn(super::refresh::probe(shared, key, id, limit, ask));
                    self.tasks().probes.insert(id, task.abort_handle());
                }
            }
            Action::StopProbe { id, .. } => self.forget_probe(id),
            Action::ResolveNames { keys, limit } => {
                if let Some(shared) = self.running() {
                    let task = self.runtime.spawn(super::names::resolve(shared, keys, limit));
                    let before = self.tasks().names.replace(task.abort_handle());
                    // What it would find is older than what comes now.
                    before.inspect(AbortHandle::abort);
                }
            }
            Action::Changed => self.tell_changed(),
        }
    }

    /// This cluster, unless it has been stopped: then nothing new is started.
    fn running(&self) -> Option<Arc<Shared>> {
        self.this.upgrade().filter(|_| !self.is_stopped())
    }

    /// Ends the probe if it still runs; the entry goes either way.
    pub(super) fn forget_probe(&self, id: u64) {
        if let Some(probe) = self.tasks().probes.remove(&id) {
            probe.abort();
        }
    }

    /// What is known now, as it matters for a target.
    pub(crate) fn snapshot(&self, target: TargetSessionAttrs) -> Snapshot {
        self.state().snapshot(target, now())
    }

    /// Wakes those who look at a snapshot.
    pub(super) fn tell_changed(&self) {
        self.changed.send_replace(());
    }

    /// Leave for one pass over the hosts; `None` if nobody has to ask.
    ///
    /// # Errors
    ///
    /// Nothing is to be dialled now.
    pub(super) fn admit(&self) -> Result<Option<Permit<'_, LastError>>, SearchError> {
        let permit = self.breaker.as_ref().map(Breaker::admit).transpose();
        permit.map_err(|rejected| SearchError::CircuitOpen {
            retry_after: rejected.retry_after,
            last_error: rejected.last_error,
        })
    }

    /// Something that is not gated has met a server that works.
    pub(super) fn sign_of_life(&self) {
        self.breaker.iter().for_each(Breaker::sign_of_life);
    }

    /// Something that is not gated has failed at a host. One that answered is there, and dialling it has a pace of its own;
    /// while the breaker is closed that counts neither way, as in a pass.
    pub(super) fn met(&self, effect: HostEffect) {
        let mut met = HostsMet::default();
        met.failed(effect);
        let is_down = |breaker: &&Breaker<_>| breaker.state() != State::Closed;
        if met.effect() == Some(BreakerEffect::Neutral) {
            self.breaker
                .iter()
                .filter(is_down)
                .for_each(Breaker::sign_of_life);
        }
    }

    pub(crate) fn breaker_status(&self) -> Option<BreakerStatus> {
        self.breaker.as_ref().map(Breaker::status)
    }

    /// How long nobody may dial; `None` if anybody may.
    pub(crate) fn barred_for(&self) -> Option<Duration> {
        self.breaker.as_ref().and_then(Breaker::retry_after)
    }

    /// The error of whoever asks for a connection now, if a window is not over.
    pub(crate) fn circuit_open(&self) -> Option<Error> {
        let breaker = self
            .breaker
            .as_ref()
            .filter(|breaker| breaker.state() == State::Open)?;
        let status = breaker.status();
        let retry_after = status.retry_after.filter(|left| !left.is_zero())?;
        Some(Error::CircuitOpen {
            retry_after,
            last_error: status.last_error?,
        })
    }

    /// Wakes whenever something has changed that users of a snapshot look at.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// The server ended a connection to the host.
    pub(crate) fn suspect(&self, host: &HostKey) {
        self.with_state(|state, _| state.suspect(host));
    }

    /// The host did not react to a cancel request, or to what was asked on a connection.
    pub(crate) fn unresponsive(&self, host: &HostKey) {
        self.pulse(host).listen();
        self.with_state(|state, now| state.unresponsive(host, now));
    }

    /// The host's signs of life.
    pub(crate) fn pulse(&self, host: &HostKey) -> Arc<Pulse> {
        let mut pulses = self.pulses.lock().unwrap_or_else(PoisonError::into_inner);
        pulses.entry(host.clone()).or_default().clone()
    }

    pub(crate) fn refresh(&self) {
        self.with_state(|state, now| state.refresh(now));
    }

    /// The host refused a write to somebody who took it for a primary.
    pub(crate) fn role_doubted(&self, host: &HostKey) {
        self.with_state(|state, now| state.role_doubted(host, now));
    }

    /// The highest timeline that any configured host is known to write on.
    pub(crate) fn highest_timeline(&self) -> Option<u32> {
        self.state().highest_timeline()
    }

    /// A pool's `after_connect` failed on the host. Only the log hears of it.
    pub(crate) fn hook_failed(&self, host: &HostKey, reason: &str, keep_off: Duration) {
        self.with_state(|state, now| state.hook_failed(host, reason, keep_off, now));
    }

    /// A pool's `after_connect` passed on the host.
    pub(crate) fn hook_passed(&self, host: &HostKey) {
        self.with_state(|state, now| state.hook_passed(host, now));
    }

    /// Roles are looked at for as long as anybody's target asks for them.
    pub(super) fn watch_roles(&self, on: bool) {
        self.with_state(|state, _| state.watch_roles(on));
    }

    /// Which servers the cluster's own connections are wanted on.
    pub(crate) fn target(&self) -> TargetSessionAttrs {
        self.settings.target_session_attrs
    }

    /// One random draw from the world.
    pub(crate) fn draw(&self) -> u64 {
        self.world.draw()
    }

    /// Returns once the first discovery has ended.
    pub(crate) async fn wait_ready(&self) -> Result<(), SearchError> {
        let mut ready = self.ready.subscribe();
        let mut stopped = self.stopped.subscribe();
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => Err(SearchError::Stopped),
            _ = ready.wait_for(|ready| *ready) => Ok(()),
        }
    }

    /// Returns once the cluster has been stopped.
    pub(crate) async fn wait_stopped(&self) {
        // The sender lives in `self`, so this ends only by the value.
        let _ = self.stopped.subscribe().wait_for(|stopped| *stopped).await;
    }

    pub(crate) fn is_stopped(&self) -> bool {
        *self.stopped.borrow()
    }

    /// Ends all background work at once.
    pub(crate) fn stop(&self) {
        self.stopped.send_replace(true);
        let tasks = std::mem::take(&mut *self.tasks());
        for task in tasks
            .timer
            .into_iter()
            .chain(tasks.discovery)
            .chain(tasks.names)
            .chain(tasks.probes.into_values())
        {
            task.abort();
        }
        tasks.lookouts.values().for_each(Lookout::abort);
    }

    fn state(&self) -> MutexGuard<'_, ClusterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The clock of everything here: tokio's, so that paused time drives it.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Sleeps until the state's next timer, again and again.
async fn run_timers(shared: Weak<Shared>) {
    loop {
        let Some(strong) = shared.upgrade() else { return };
        let next = strong.state().next_timer();
        let moved = strong.timer_moved.notified();
        match next {
            Some(at) => {
                tokio::select! {
                    () = moved => continue,
                    () = tokio::time::sleep_until(at.into()) => {}
                }
                strong.with_state(|state, now| state.on_timer(now));
            }
            None => moved.await,
        }
    }
}
