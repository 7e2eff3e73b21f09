//! What all clients of a run share: where they connect, what they send, how much of it, and where they count.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::arguments::LoadArguments;
use super::payload::Payloads;
use super::stream::Dialler;
use super::tally::Recorder;

/// A run.
pub(super) struct Run {
    pub(super) dialler: Dialler,
    pub(super) payloads: Payloads,
    pub(super) recorder: Recorder,
    pub(super) pipeline: u32,
    pub(super) dial_per_request: bool,
    pub(super) timeout: Duration,
    /// From when on nothing more is sent; waited for by clients that have nothing else to do.
    pub(super) stopped: watch::Sender<bool>,
    stopped_at: OnceLock<Instant>,
    /// Requests still to be sent, if there is a number of them.
    left: Option<AtomicU64>,
    begun: Instant,
    /// When the last conversation ended, in nanoseconds from the beginning.
    last: AtomicU64,
}

impl Run {
    pub(super) fn new(arguments: &LoadArguments, dialler: Dialler, payloads: Payloads) -> Self {
        Run {
            dialler,
            payloads,
            recorder: Recorder::new(),
            pipeline: arguments.pipeline,
            dial_per_request: arguments.dial_per_request,
            timeout: arguments.timeout,
            stopped: watch::Sender::new(false),
            stopped_at: OnceLock::new(),
            left: arguments.requests.map(AtomicU64::new),
            begun: Instant::now(),
            last: AtomicU64::new(0),
        }
    }

    /// The same target and payloads, for connections that send a single request each.
    pub(super) fn of_single_requests(&self) -> Self {
        Run {
            dialler: self.dialler.clone(),
            payloads: self.payloads.clone(),
            recorder: Recorder::new(),
            pipeline: 1,
            dial_per_request: true,
            timeout: self.timeout,
            stopped: watch::Sender::new(false),
            stopped_at: OnceLock::new(),
            left: None,
            begun: self.begun,
            last: AtomicU64::new(0),
        }
    }

    /// Whether another request may be sent; one less is left then.
    pub(super) fn claim(&self) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        let claimed = |left: &AtomicU64| {
            let updated = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
            updated.is_ok()
        };
        !self.is_stopped() && self.left.as_ref().is_none_or(claimed)
    }

    /// Whether there may be more to send, now or later.
    pub(super) fn is_going_on(&self) -> bool {
        let some_left = |left: &AtomicU64| left.load(Ordering::Relaxed) > 0;
        !self.is_stopped() && self.left.as_ref().is_none_or(some_left)
    }

    /// Nothing more is sent; what is under way is waited for.
    pub(super) fn stop(&self) {
        self.stopped_at.get_or_init(Instant::now);
        self.stopped.send_replace(true);
    }

    /// When it was stopped, if it was.
    pub(super) fn stopped_at(&self) -> Option<Instant> {
        self.stopped_at.get().copied()
    }

    fn is_stopped(&self) -> bool {
        self.stopped_at.get().is_some()
    }

    /// A conversation has ended now.
    pub(super) fn note_last(&self) {
        let since = self.begun.elapsed().as_nanos();
        self.last
            .fetch_max(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// When the last conversation ended.
    pub(super) fn last(&self) -> Instant {
        self.begun + Duration::from_nanos(self.last.load(Ordering::Relaxed))
    }
}
