//! Every option: its name, what it takes, and where it goes.

use std::path::PathBuf;
use std::time::Duration;

use super::{Given, LogLevel, values};
use crate::backend::AddressError;

/// An option.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Rule {
    /// Its name in a file; on the command line with two dashes before it.
    pub name: &'static str,
    /// What stands for its value in help texts.
    pub value: &'static str,
    /// What it is unless given, as one would write it; empty if there is nothing.
    pub default: &'static str,
    /// What it takes, in words.
    pub allowed: &'static str,
    /// What it is for.
    pub help: &'static str,
    /// It may be given several times, and in a file as an array.
    pub list: bool,
    /// On the command line the name alone means `on`.
    pub switch: bool,
    /// It is taken at the start, and a reload cannot change it.
    pub at_start: bool,
    pub(super) set: fn(&mut Given, &str) -> Result<(), Option<String>>,
}

/// The shortest limit there can be.
const MS: Duration = Duration::from_millis(1);

/// What most options are.
const PLAIN: Rule = Rule {
    name: "",
    value: "",
    default: "",
    allowed: "",
    help: "",
    list: false,
    switch: false,
    at_start: false,
    set: |_, _| Err(None),
};

const BACKEND: &str = "HOST:PORT or HOST:PORT:WEIGHT, an IPv6 address in brackets, each backend once";

/// Every option there is, in the order in which help texts list them.
pub const RULES: &[Rule] = &[
    Rule {
        name: "listen",
        value: "HOST:PORT",
        default: "0.0.0.0:8080",
        allowed: "HOST:PORT, an IPv6 address in brackets; port 0 lets the system choose",
        help: "Where clients connect",
        at_start: true,
        set: |given, text| put(&mut given.config.router.listen, values::place(text)),
        ..PLAIN
    },
    Rule {
        name: "metrics",
        value: "HOST:PORT",
        default: "",
        allowed: "HOST:PORT, an IPv6 address in brackets; port 0 lets the system choose",
        help: "Where /metrics, /healthz and /readyz are answered over HTTP; nowhere unless given",
        at_start: true,
        set: |given, text| put(&mut given.config.router.metrics, values::place(text).map(Some)),
        ..PLAIN
    },
    Rule {
        name: "backend",
        value: "HOST:PORT[:WEIGHT]",
        default: "127.0.0.1:9090",
        allowed: BACKEND,
        help: "A backend, and its share of the requests beside others; may be given several times",
        list: true,
        set: |given, text| backend(given, text),
        ..PLAIN
    },
    Rule {
        name: "max-connections",
        value: "N",
        default: "16384",
        allowed: "a number from 1 to 1048576",
        help: "The most client connections; further ones wait in the kernel's queue",
        set: |given, text| {
            put(
                &mut given.config.router.server.max_connections,
                values::number(text, 1, 1048576),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "backlog",
        value: "N",
        default: "4096",
        allowed: "a number from 1 to 65535",
        help: "How many connections the kernel may hold ready to be accepted",
        at_start: true,
        set: |given, text| {
            put(
                &mut given.config.router.server.backlog,
                values::number(text, 1, 65535),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "pipeline",
        value: "N",
        default: "1",
        allowed: "a number from 1 to 1024",
        help: "How many requests of one client are worked on at the same time; answers stay in order",
        set: |given, text| {
            put(
                &mut given.config.router.server.pipeline,
                values::number(text, 1, 1024),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "threads",
        value: "N",
        default: "",
        allowed: "a number from 1 to 1024",
        help: "Threads that serve clients; one for each core unless given",
        at_start: true,
        set: |given, text| {
            put(
                &mut given.config.threads,
                values::number(text, 1, 1_024).map(|count| Some(count as usize)),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "max-frame",
        value: "SIZE",
        default: "16MiB",
        allowed: "a number of bytes from 1 to 4294967295, like 65536, 64KiB or 16MiB",
        help: "The longest payload of a request or an answer",
        set: |given, text| put(&mut given.config.router.server.max_frame, values::size(text)),
        ..PLAIN
    },
    Rule {
        name: "client-timeout",
        value: "DURATION",
        default: "5s",
        allowed: "a duration from 1 ms to 24 h, like 500ms, 5s or 2min; a bare number is seconds",
        help: "How long a client may take to send a request that has begun, and to take an answer",
        set: |given, text| {
            put(
                &mut given.config.router.server.client_timeout,
                values::duration(text, MS),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "client-idle-timeout",
        value: "DURATION",
        default: "off",
        allowed: "off, or a duration from 1 ms to 24 h, like 500ms, 5s or 2min; a bare number is seconds",
        help: "How long a client may send nothing between two requests",
        set: |given, text| {
            put(
                &mut given.config.router.server.client_idle_timeout,
                values::duration_or_off(text, MS),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "backend-timeout",
        value: "DURATION",
        default: "5s",
        allowed: "a duration from 1 ms to 24 h, like 500ms, 5s or 2min; a bare number is seconds",
        help: "How long a backend may take to read and answer a request",
        set: |given, text| {
            put(
                &mut given.config.router.server.backend_timeout,
                values::duration(text, MS),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "min-rate",
        value: "SIZE",
        default: "256KiB",
        allowed: "bytes a second from 1 to 4294967295, like 65536, 64KiB or 1MiB",
        help: "Bytes a second that lengthen the three limits above by a message's length",
        set: |given, text| put(&mut given.config.router.server.min_rate, values::size(text)),
        ..PLAIN
    },
    Rule {
        name: "shutdown-grace",
        value: "DURATION",
        default: "30s",
        allowed: "a duration up to 24 h, like 500ms, 5s or 2min; a bare number is seconds",
        help: "How long ending may take; what is not answered by then is dropped",
        set: |given, text| {
            put(
                &mut given.config.shutdown_grace,
                values::duration(text, Duration::ZERO),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "drain-delay",
        value: "DURATION",
        default: "0s",
        allowed: "a duration up to 24 h, like 500ms, 5s or 2min; a bare number is seconds",
        help: "How long to go on accepting after readiness was taken back, less than shutdown-grace",
        set: |given, text| {
            put(
                &mut given.config.router.server.drain_delay,
                values::duration(text, Duration::ZERO),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "first-request-wait",
        value: "DURATION",
        default: "500ms",
        allowed: "a duration up to 24 h, like 500ms, 5s or 2min; a bare number is seconds",
        help: "How long ending waits for the first request of a client that has sent none",
        set: |given, text| {
            put(
                &mut given.config.router.server.first_request_wait,
                values::duration(text, Duration::ZERO),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "linger",
        value: "DURATION",
        default: "1s",
        allowed: "a duration up to 24 h, like 500ms, 5s or 2min; a bare number is seconds",
        help: "How long a client whose connection the router has ended may take to close it",
        set: |given, text| {
            put(
                &mut given.config.router.server.linger,
                values::duration(text, Duration::ZERO),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "pool-size",
        value: "N",
        default: "16",
        allowed: "a number from 1 to 65535",
        help: "The most connections to each backend",
        set: |given, text| {
            put(
                &mut given.config.router.backend.max_size,
                values::number(text, 1, 65535),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "min-idle",
        value: "N",
        default: "2",
        allowed: "a number from 0 to 65535",
        help: "Idle connections to each backend that are kept ready, at most pool-size",
        set: |given, text| {
            put(
                &mut given.config.router.backend.min_idle,
                values::number(text, 0, 65535),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "idle-timeout",
        value: "DURATION",
        default: "60s",
        allowed: "off, or a duration from 1 ms to 24 h, like 500ms, 5s or 2min; a bare number is seconds",
        help: "When a connection that no request has used is closed, above min-idle",
        set: |given, text| {
            put(
                &mut given.config.router.backend.idle_timeout,
                values::duration_or_off(text, MS),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "max-lifetime",
        value: "DURATION",
        default: "5min",
        allowed: "off, or a duration from 1 s to 24 h, like 30s or 5min; a bare number is seconds",
        help: "How long a connection may serve, from its opening",
        set: |given, text| {
            put(
                &mut given.config.router.backend.max_lifetime,
                values::duration_or_off(text, Duration::from_secs(1)),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "lifetime-jitter",
        value: "SHARE",
        default: "0.1",
        allowed: "a number from 0 to 0.9",
        help: "Each life is shorter by a random share up to this",
        set: |given, text| {
            put(
                &mut given.config.router.backend.lifetime_jitter,
                values::share(text, 0.9),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "enable-health-check",
        value: "on|off",
        default: "on",
        allowed: "on or off",
        help: "Whether idle connections are pinged with an empty frame",
        switch: true,
        set: |given, text| {
            put(
                &mut given.config.router.backend.enable_health_check,
                values::switch(text),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "health-check-interval",
        value: "DURATION",
        default: "10s",
        allowed: "a duration from 1 ms to 24 h, like 500ms, 5s or 2min; a bare number is seconds",
        help: "When a connection that was neither used nor pinged is pinged",
        set: |given, text| {
            put(
                &mut given.config.router.backend.health_check_interval,
                values::duration(text, MS),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "health-check-timeout",
        value: "DURATION",
        default: "1s",
        allowed: "a duration from 1 ms to 24 h, like 500ms, 5s or 2min; a bare number is seconds",
        help: "How long the answer to a ping may take",
        set: |given, text| {
            put(
                &mut given.config.router.backend.health_check_timeout,
                values::duration(text, MS),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "connect-timeout",
        value: "DURATION",
        default: "2s",
        allowed: "a duration from 1 ms to 24 h, like 500ms, 5s or 2min; a bare number is seconds",
        help: "How long opening a connection may take: name, TCP and TLS together",
        set: |given, text| {
            put(
                &mut given.config.router.backend.connect_timeout,
                values::duration(text, MS),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "borrow-timeout",
        value: "DURATION",
        default: "2s",
        allowed: "a duration from 1 ms to 24 h, like 500ms, 5s or 2min; a bare number is seconds",
        help: "How long a request waits for a connection to a backend",
        set: |given, text| {
            put(
                &mut given.config.router.backend.borrow_timeout,
                values::duration(text, MS),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "max-dials",
        value: "N",
        default: "4",
        allowed: "a number from 1 to 65535",
        help: "How many connections to each backend are opened at once",
        set: |given, text| {
            put(
                &mut given.config.router.backend.max_dials,
                values::number(text, 1, 65535),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "failed-backend-delay",
        value: "DURATION",
        default: "1s",
        allowed: "a duration from 1 ms to 24 h, like 500ms, 5s or 2min; a bare number is seconds",
        help: "How long a failed backend is left alone at least",
        set: |given, text| {
            put(
                &mut given.config.router.backend.failed_backend_delay,
                values::duration(text, MS),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "failure-threshold",
        value: "N",
        default: "5",
        allowed: "a number from 0 to 65535",
        help: "Failed requests in a row after which a backend counts as failed; 0 is never",
        set: |given, text| {
            put(
                &mut given.config.router.backend.failure_threshold,
                values::number(text, 0, 65535),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "breaker-threshold",
        value: "N",
        default: "5",
        allowed: "a number from 0 to 65535",
        help: "Failed dials in a row that open a backend's circuit breaker; 0 is never",
        set: |given, text| {
            put(
                &mut given.config.router.backend.breaker.threshold,
                values::number(text, 0, 65535),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "breaker-base",
        value: "DURATION",
        default: "1s",
        allowed: "a duration from 1 ms to 24 h, like 500ms, 5s or 2min; a bare number is seconds",
        help: "The breaker's first window, at most breaker-cap; each further one is twice as long",
        set: |given, text| {
            put(
                &mut given.config.router.backend.breaker.base,
                values::duration(text, MS),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "breaker-cap",
        value: "DURATION",
        default: "10s",
        allowed: "a duration from 1 ms to 24 h, like 500ms, 5s or 2min; a bare number is seconds",
        help: "The breaker's longest window",
        set: |given, text| {
            put(
                &mut given.config.router.backend.breaker.cap,
                values::duration(text, MS),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "breaker-jitter",
        value: "SHARE",
        default: "0.2",
        allowed: "a number from 0 to 1",
        help: "Each window is longer by a random share up to this",
        set: |given, text| {
            put(
                &mut given.config.router.backend.breaker.jitter,
                values::share(text, 1.0),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "close-timeout",
        value: "DURATION",
        default: "1s",
        allowed: "a duration from 1 ms to 24 h, like 500ms, 5s or 2min; a bare number is seconds",
        help: "How long a connection to a backend may take to close",
        set: |given, text| {
            put(
                &mut given.config.router.backend.close_timeout,
                values::duration(text, MS),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "tls-cert",
        value: "FILE",
        default: "",
        allowed: "the path of a file",
        help: "TLS towards clients: the router's certificate and its chain, PEM",
        set: |given, text| put(&mut given.tls.cert, file(text).map(Some)),
        ..PLAIN
    },
    Rule {
        name: "tls-key",
        value: "FILE",
        default: "",
        allowed: "the path of a file",
        help: "The certificate's key, PEM, not encrypted",
        set: |given, text| put(&mut given.tls.key, file(text).map(Some)),
        ..PLAIN
    },
    Rule {
        name: "tls-client-ca",
        value: "FILE",
        default: "",
        allowed: "the path of a file",
        help: "Authorities one of which must have signed each client's certificate, PEM; without it none is asked for",
        set: |given, text| put(&mut given.tls.client_ca, file(text).map(Some)),
        ..PLAIN
    },
    Rule {
        name: "tls-handshake-timeout",
        value: "DURATION",
        default: "5s",
        allowed: "a duration from 1 ms to 24 h, like 500ms, 5s or 2min; a bare number is seconds",
        help: "How long a client's TLS handshake may take",
        set: |given, text| {
            put(
                &mut given.config.router.server.tls_handshake_timeout,
                values::duration(text, MS),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "backend-tls",
        value: "on|off",
        default: "off",
        allowed: "on or off",
        help: "TLS towards backends, whose certificates are checked",
        switch: true,
        set: |given, text| put(&mut given.tls.backend, values::switch(text)),
        ..PLAIN
    },
    Rule {
        name: "backend-tls-ca",
        value: "FILE",
        default: "",
        allowed: "the path of a file",
        help: "Authorities that backends are checked against, PEM; the operating system's unless given",
        set: |given, text| put(&mut given.tls.backend_ca, file(text).map(Some)),
        ..PLAIN
    },
    Rule {
        name: "backend-tls-server-name",
        value: "NAME",
        default: "",
        allowed: "a host name or an address",
        help: "The name every backend's certificate must be for; the backend's host unless given",
        set: |given, text| {
            put(
                &mut given.tls.backend_server_name,
                file(text).map(|_| Some(text.to_owned())),
            )
        },
        ..PLAIN
    },
    Rule {
        name: "backend-tls-cert",
        value: "FILE",
        default: "",
        allowed: "the path of a file",
        help: "The certificate that the router shows to backends, PEM",
        set: |given, text| put(&mut given.tls.backend_cert, file(text).map(Some)),
        ..PLAIN
    },
    Rule {
        name: "backend-tls-key",
        value: "FILE",
        default: "",
        allowed: "the path of a file",
        help: "Its key, PEM, not encrypted",
        set: |given, text| put(&mut given.tls.backend_key, file(text).map(Some)),
        ..PLAIN
    },
    Rule {
        name: "log-level",
        value: "LEVEL",
        default: "info",
        allowed: "error, warn, info or debug",
        help: "What is logged to standard error; RUST_LOG goes over it",
        at_start: true,
        set: |given, text| put(&mut given.config.log_level, LogLevel::parse(text)),
        ..PLAIN
    },
];

fn put<T>(place: &mut T, value: Option<T>) -> Result<(), Option<String>> {
    *place = value.ok_or(None)?;
    Ok(())
}

fn file(text: &str) -> Option<PathBuf> {
    let is_path = !text.is_empty() && !text.contains("-----BEGIN") && !text.contains('\0');
    is_path.then(|| PathBuf::from(text))
}

fn backend(given: &mut Given, text: &str) -> Result<(), Option<String>> {
    let backend = text
        .parse()
        .map_err(|error: AddressError| Some(format!("{BACKEND}; {}", error.wrong())))?;
    let backends = &mut given.config.router.backends;
    if backends.iter().any(|earlier| earlier.is_same_backend(&backend)) {
        return Err(Some("each backend once".to_owned()));
    }
    backends.push(backend);
    Ok(())
}
