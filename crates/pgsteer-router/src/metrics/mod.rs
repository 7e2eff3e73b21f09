//! What the router counts: for people by [`Totals`], for Prometheus by the text of a scrape.
//!
//! Counters are handles that whoever counts holds; no name is looked up for a request. What can be read off elsewhere, such
//! as idle connections, is read at each scrape and counted nowhere.

mod backends;
mod scrape;

use prometheus_client::metrics::counter::Counter;

pub(crate) use backends::Backends;
pub(crate) use scrape::{Scrape, TEXT_TYPE};

/// The router's counters.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) accepted: Counter,
    pub(crate) turned_away: Counter,
    pub(crate) requests: Counter,
    pub(crate) answered: Counter,
    pub(crate) retried: Counter,
    pub(crate) dropped: Counter,
    pub(crate) unavailable: Counter,
    pub(crate) backend_write: Counter,
    pub(crate) backend_read: Counter,
    pub(crate) answer_cut: Counter,
    pub(crate) client_cut: Counter,
    pub(crate) client_slow: Counter,
    pub(crate) client_too_long: Counter,
    pub(crate) client_write: Counter,
    pub(crate) client_tls: Counter,
}

/// What became of a request that got no answer from a backend, or whose answer did not get to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Error {
    /// There was no connection to a backend: the client was told.
    Unavailable,
    /// The backend did not take it: the client was told.
    BackendWrite,
    /// The backend did not answer it: the client was told.
    BackendRead,
    /// The backend's answer broke off after the client had got a part of it, and the client was cut off.
    AnswerCut,
    /// The client broke it off.
    ClientCut,
    /// The client took too long to send it.
    ClientSlow,
    /// The client announced more than is allowed.
    ClientTooLong,
    /// The client did not take the answer.
    ClientWrite,
}

impl Metrics {
    /// Counts a request in. It must be ended one way or another; if it is dropped, it counts as dropped.
    pub(crate) fn begin(&self) -> Outstanding<'_> {
        self.requests.inc();
        Outstanding { metrics: Some(self) }
    }

    fn error(&self, error: Error) -> &Counter {
        match error {
            Error::Unavailable => &self.unavailable,
            Error::BackendWrite => &self.backend_write,
            Error::BackendRead => &self.backend_read,
            Error::AnswerCut => &self.answer_cut,
            Error::ClientCut => &self.client_cut,
            Error::ClientSlow => &self.client_slow,
            Error::ClientTooLong => &self.client_too_long,
            Error::ClientWrite => &self.client_write,
        }
    }

    /// The counters by the name of the kind of error.
    fn errors(&self) -> [(&'static str, &Counter); 9] {
        [
            ("backend_unavailable", &self.unavailable),
            ("backend_write", &self.backend_write),
            ("backend_read", &self.backend_read),
            ("answer_cut", &self.answer_cut),
            ("client_cut", &self.client_cut),
            ("client_slow", &self.client_slow),
            ("client_too_long", &self.client_too_long),
            ("client_write", &self.client_write),
            ("client_tls", &self.client_tls),
        ]
    }

    pub(crate) fn totals(&self, connected: usize) -> Totals {
        Totals {
            accepted: self.accepted.get(),
            connected: connected as u64,
            turned_away: self.turned_away.get(),
            requests: self.requests.get(),
            answered: self.answered.get(),
            retried: self.retried.get(),
            dropped: self.dropped.get(),
            errors: Errors {
                backend_unavailable: self.unavailable.get(),
                backend_write: self.backend_write.get(),
                backend_read: self.backend_read.get(),
                answer_cut: self.answer_cut.get(),
                client_cut: self.client_cut.get(),
                client_slow: self.client_slow.get(),
                client_too_long: self.client_too_long.get(),
                client_write: self.client_write.get(),
                client_tls: self.client_tls.get(),
            },
        }
    }
}

/// What the router has done since it was started. Read one after the other while requests go on, so sums may be off by a
/// few until it has ended; then [`ended`](Self::ended) equals `requests`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Client connections accepted.
    pub accepted: u64,
    /// Client connections open at present.
    pub connected: u64,
    /// Client connections closed at once because there was no descriptor for them.
    pub turned_away: u64,
    /// Requests of which a first byte has come.
    pub requests: u64,
    /// Requests whose answer, a backend's, was written to the client.
    pub answered: u64,
    /// Requests that were sent once more because a reused connection had been closed.
    pub retried: u64,
    /// Requests that were neither answered nor ended when the router was stopped.
    pub dropped: u64,
    /// What went wrong.
    pub errors: Errors,
}

impl Totals {
    /// Requests for which the client was written an error.
    pub fn answered_with_errors(&self) -> u64 {
        self.errors.backend_unavailable + self.errors.backend_write + self.errors.backend_read
    }

    /// Requests that have ended in whatever way.
    pub fn ended(&self) -> u64 {
        let errors = &self.errors;
        let clients = errors.client_cut + errors.client_slow + errors.client_too_long + errors.client_write;
        self.answered + self.answered_with_errors() + errors.answer_cut + clients + self.dropped
    }
}

/// What went wrong, by kind. All but the last are ways in which a request ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Errors {
    /// There was no connection to a backend: the client was told.
    pub backend_unavailable: u64,
    /// The backend did not take the request: the client was told.
    pub backend_write: u64,
    /// The backend did not answer, or not with a frame: the client was told.
    pub backend_read: u64,
    /// The answer broke off after the client had got a part of it: the client was cut off.
    pub answer_cut: u64,
    /// The client went in the middle of a request.
    pub client_cut: u64,
    /// The client took too long to send a request.
    pub client_slow: u64,
    /// The client announced a payload longer than is taken.
    pub client_too_long: u64,
    /// The client did not take an answer.
    pub client_write: u64,
    /// TLS handshakes of clients that failed.
    pub client_tls: u64,
}

/// A request that has begun and not yet ended.
#[derive(Debug)]
#[must_use]
pub(crate) struct Outstanding<'a> {
    metrics: Option<&'a Metrics>,
}

impl Outstanding<'_> {
    /// A backend's answer was written to the client.
    pub(crate) fn answered(mut self) {
        if let Some(metrics) = self.metrics.take() {
            metrics.answered.inc();
        }
    }

    /// It ended otherwise.
    pub(crate) fn failed(mut self, error: Error) {
        if let Some(metrics) = self.metrics.take() {
            metrics.error(error).inc();
        }
    }
}

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        if let Some(metrics) = self.metrics {
            metrics.dropped.inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Error, Metrics};

    /// Covers: S-47
    #[test]
    fn a_request_ends_in_exactly_one_way() {
        let metrics = Metrics::default();

        metrics.begin().answered();
        metrics.begin().failed(Error::BackendRead);
        metrics.begin().failed(Error::ClientCut);
        drop(metrics.begin());

        let totals = metrics.totals(0);
        assert_eq!((totals.requests, totals.answered, totals.dropped), (4, 1, 1));
        assert_eq!((totals.errors.backend_read, totals.errors.client_cut), (1, 1));
        assert_eq!(totals.answered_with_errors(), 1);
        assert_eq!(totals.ended(), 4);
    }
}
