//! What the router goes by towards its clients: the knobs, their defaults and ranges.

use std::fmt;
use std::time::Duration;

use super::deadline::Allowance;
use super::relay::Terms;
use crate::backend::OptionError;
use crate::frame::DEFAULT_MAX_FRAME;

const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The knobs of the router's side towards clients, and of what passes between a client and a backend.
///
/// ```
/// use pgsteer_router::server::ServerOptions;
///
/// let options = ServerOptions { pipeline: 8, ..ServerOptions::default() };
/// assert!(options.check().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// The most client connections at any moment. Further clients wait in the kernel's queue until one has gone. Default
    /// 16384; from 1 to 1048576.
    pub max_connections: u32,
    /// How many connections the kernel may hold ready for the router to accept. Default 4096; from 1 to 65535. The kernel
    /// has a bound of its own (`net.core.somaxconn`). Taken at the start only.
    pub backlog: u32,
    /// The longest payload of a request or an answer, in bytes. Default 16 MiB; from 1 to 4294967295. A client that
    /// announces more is cut off, a backend that does has failed the request.
    pub max_frame: u32,
    /// How long a client may take to send a request of which a byte has come, and to take an answer of which a byte has
    /// been sent; beside what the length takes at `min_rate`. Default 5 s; from 1 ms to 24 h.
    pub client_timeout: Duration,
    /// How long a client may send nothing between two requests, or before its first one. Default `None`: for ever. From 1 ms to
    /// 24 h.
    pub client_idle_timeout: Option<Duration>,
    /// How long a backend may take for a request, from its first byte sent to the last byte of an answer; beside what the
    /// length of either takes at `min_rate`. Default 5 s; from 1 ms to 24 h.
    pub backend_timeout: Duration,
    /// The slowest that a long message may pass, in bytes a second. It lengthens the three limits by the message's length,
    /// and nothing else does. Default 256 KiB; from 1 to 4294967295.
    pub min_rate: u32,
    /// How many requests of one client are worked on at the same time. Default 1: each is answered before the next one is
    /// read. From 1 to 1024. Answers are in the order of the requests whatever it is.
    pub pipeline: u32,
    /// How long the TLS handshake of a client may take. Default 5 s; from 1 ms to 24 h.
    pub tls_handshake_timeout: Duration,
    /// How long a drain goes on accepting after readiness has been taken back. Default 0; up to 24 h.
    pub drain_delay: Duration,
    /// How long a drain waits for the first request of a client that has sent none. Default 500 ms; up to 24 h.
    pub first_request_wait: Duration,
    /// How long a client that the router has ended may take to close its side; what it sends meanwhile is thrown away.
    /// Without that its system could throw away the last answer. Default 1 s; up to 24 h.
    pub linger: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            max_connections: 16_384,
            backlog: 4_096,
            max_frame: DEFAULT_MAX_FRAME,
            client_timeout: Duration::from_secs(5),
            client_idle_timeout: None,
            backend_timeout: Duration::from_secs(5),
            min_rate: 256 * 1024,
            pipeline: 1,
            tls_handshake_timeout: Duration::from_secs(5),
            drain_delay: Duration::ZERO,
            first_request_wait: Duration::from_millis(500),
            linger: Duration::from_secs(1),
        }
    }
}

impl ServerOptions {
    /// Whether every knob is in its range.
    ///
    /// # Errors
    ///
    /// The first one that is not.
    pub fn check(&self) -> Result<(), OptionError> {
        let refuse = |name, value: &dyn fmt::Debug, allowed| {
            Err(OptionError {
                name,
                value: format!("{value:?}"),
                allowed,
            })
        };
        for (name, value, most, allowed) in [
            (
                "max_connections",
                self.max_connections,
                1_048_576,
                "a number from 1 to 1048576",
            ),
            ("backlog", self.backlog, 65_535, "a number from 1 to 65535"),
            (
                "max_frame",
                self.max_frame,
                u32::MAX,
                "a number of bytes from 1 to 4294967295",
            ),
            (
                "min_rate",
                self.min_rate,
                u32::MAX,
                "bytes a second from 1 to 4294967295",
            ),
            ("pipeline", self.pipeline, 1_024, "a number from 1 to 1024"),
        ] {
            if !(1..=most).contains(&value) {
                return refuse(name, &value, allowed);
            }
        }
        let short = Duration::from_millis(1);
        for (name, value, least) in [
            ("client_timeout", self.client_timeout, short),
            (
                "client_idle_timeout",
                self.client_idle_timeout.unwrap_or(short),
                short,
            ),
            ("backend_timeout", self.backend_timeout, short),
            ("tls_handshake_timeout", self.tls_handshake_timeout, short),
            ("drain_delay", self.drain_delay, Duration::ZERO),
            ("first_request_wait", self.first_request_wait, Duration::ZERO),
            ("linger", self.linger, Duration::ZERO),
        ] {
            if !(least..=LONGEST).contains(&value) {
                let allowed = match least.is_zero() {
                    true => "a duration up to 24 h",
                    false => "a duration from 1 ms to 24 h",
                };
                return refuse(name, &value, allowed);
            }
        }
        Ok(())
    }

    /// What goes for frames that are passed on.
    pub(crate) fn terms(&self) -> Terms {
        Terms {
            client: self.client(),
            backend: self.backend(),
            max_frame: self.max_frame,
        }
    }

    /// What a client is allowed for a message.
    pub(crate) fn client(&self) -> Allowance {
        Allowance {
            base: self.client_timeout,
            rate: self.min_rate.into(),
        }
    }

    /// What a backend is allowed for a message.
    pub(crate) fn backend(&self) -> Allowance {
        Allowance {
            base: self.backend_timeout,
            rate: self.min_rate.into(),
        }
    }
}
