//! What is done to the servers under the callers, and in which order: drawn from a seed.

use std::time::Duration;

/// Something that is done to servers, and undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// A backend is killed (`kill -9`); the server then cuts off all sessions and recovers.
    CrashBackend,
    /// A server is killed (`kill -9`) and started.
    Kill,
    /// A server is stopped in fast mode and started.
    FastStop,
    /// A server is stopped in immediate mode and started.
    ImmediateStop,
    /// A server is frozen and thawed.
    Freeze,
    /// A server's packets are lost for a while.
    Blackhole,
    /// All servers are killed and started.
    Outage,
    /// No standby follows for a while, so no commit comes back.
    StandbysLost,
    /// The primary is killed and a standby promoted.
    PromoteAfterKill,
    /// The primary is stopped in fast mode and a standby promoted.
    PromoteAfterStop,
    /// A standby is promoted while the primary is frozen, which then goes on as if nothing had been.
    PromoteBesideFrozen,
    /// A standby is promoted while the primary's packets are lost.
    PromoteBesideCutOff,
    /// A standby is promoted while the primary goes on.
    PromoteBesideLiving,
    /// The standbys are lost, commits that wait for them are cancelled, and a standby without them is promoted.
    PromoteAfterCancel,
    /// The standbys are lost, the primary crashes under commits that wait for them and recovers, and a standby without
    /// them is promoted.
    PromoteAfterCrash,
}

impl Fault {
    /// What can be done to servers that share nothing.
    pub(crate) const TO_ANY: &[Fault] = &[
        Fault::CrashBackend,
        Fault::Kill,
        Fault::FastStop,
        Fault::ImmediateStop,
        Fault::Freeze,
        Fault::Blackhole,
        Fault::Outage,
    ];

    /// What can be done to a primary with standbys.
    pub(crate) const TO_A_SET: &[Fault] = &[
        Fault::CrashBackend,
        Fault::Kill,
        Fault::FastStop,
        Fault::ImmediateStop,
        Fault::Freeze,
        Fault::Blackhole,
        Fault::StandbysLost,
        Fault::PromoteAfterKill,
        Fault::PromoteAfterStop,
        Fault::PromoteBesideFrozen,
        Fault::PromoteBesideCutOff,
        Fault::PromoteBesideLiving,
        Fault::PromoteAfterCancel,
        Fault::PromoteAfterCrash,
    ];

    /// For tables.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Fault::CrashBackend => "kill -9 of a backend",
            Fault::Kill => "kill -9 of a server",
            Fault::FastStop => "fast stop",
            Fault::ImmediateStop => "immediate stop",
            Fault::Freeze => "freeze and thaw",
            Fault::Blackhole => "blackhole",
            Fault::Outage => "kill -9 of all servers",
            Fault::StandbysLost => "standbys lost for a while",
            Fault::PromoteAfterKill => "promotion after kill -9 with rejoin",
            Fault::PromoteAfterStop => "promotion after a fast stop with rejoin",
            Fault::PromoteBesideFrozen => "promotion beside a frozen primary with rejoin",
            Fault::PromoteBesideCutOff => "promotion beside a primary cut off with rejoin",
            Fault::PromoteBesideLiving => "promotion beside a living primary with rejoin",
            Fault::PromoteAfterCancel => "promotion without commits whose wait was cancelled with rejoin",
            Fault::PromoteAfterCrash => "promotion without commits that a crash recovered with rejoin",
        }
    }
}

/// One fault of a schedule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) fault: Fault,
    /// How long what is broken stays so.
    pub(crate) lasts: Duration,
    /// What else is to be chosen, such as the server, is chosen by this.
    pub(crate) draw: u64,
}

impl Step {
    /// One of so many.
    pub(crate) fn choose(&self, among: usize) -> usize {
        usize::try_from(self.draw % among as u64).unwrap_or(0)
    }
}

/// An endless history of faults: all of them in a random order, then all in another, and so on.
pub(crate) struct Schedule {
    random: fastrand::Rng,
    kinds: Vec<Fault>,
    longest: Duration,
    left: Vec<Fault>,
}

impl Schedule {
    /// Draws from these, each to last no longer than that.
    pub(crate) fn new(seed: u64, kinds: &[Fault], longest: Duration) -> Self {
        Schedule {
            random: fastrand::Rng::with_seed(seed),
            kinds: kinds.to_vec(),
            longest,
            left: Vec::new(),
        }
    }
}

impl Iterator for Schedule {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.left.is_empty() {
            self.left.clone_from(&self.kinds);
            self.random.shuffle(&mut self.left);
        }
        let longest = u64::try_from(self.longest.as_millis()).unwrap_or(u64::MAX);
        Some(Step {
            fault: self.left.pop()?,
            lasts: Duration::from_millis(self.random.u64(longest / 10..=longest)),
            draw: self.random.u64(..),
        })
    }
}
