//! What a breaker tells: each change of its state, once. A rejection is no event; rejections are only counted, because
//! there may be millions of them in an outage.

use std::time::Duration;

/// A change of state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<E> {
    /// Nothing is admitted until the window is over.
    Opened(Opened<E>),
    /// One asker has been admitted as the probe.
    HalfOpened(HalfOpened),
    /// Everything is admitted again.
    Closed(Closed),
}

/// The breaker has opened, or is open for another window.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opened<E> {
    /// How long nothing is admitted from now on, jitter included.
    pub window: Duration,
    /// Windows in this outage whose length was drawn, this one included: 1 when it has just tripped. A probe that was
    /// given up repeats a window and does not count.
    pub trips: u32,
    /// Why it is open.
    pub cause: Cause,
    /// The last failure that counted.
    pub last_error: E,
}

impl<E> Opened<E> {
    /// Whether people are to be told of this window, and not only those who look for trouble: it began because something
    /// failed, and its number is a power of two. So an outage of any length costs a handful of lines.
    pub fn is_news(&self) -> bool {
        self.cause != Cause::Abandoned && self.trips.is_power_of_two()
    }
}

/// Why a window has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// As many failures in a row as the threshold asks for.
    Threshold,
    /// The probe failed.
    Probe,
    /// The probe was given up: cancelled, panicked or dropped without an outcome.
    Abandoned,
}

/// A probe is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct HalfOpened {
    /// As in [`Opened::trips`].
    pub trips: u32,
    /// Whether it replaces a probe whose lease ran out.
    pub replaces_lost: bool,
}

/// The outage is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Closed {
    /// Time since the breaker tripped.
    pub outage: Duration,
    /// How it became known.
    pub by: ClosedBy,
}

/// What ended an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClosedBy {
    /// The probe succeeded, or was at least answered.
    Probe,
    /// Something the breaker does not gate met a server that works.
    SignOfLife,
    /// Somebody closed it by hand.
    Reset,
}
