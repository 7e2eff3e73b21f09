//! Queries that failed, and whether that could not be helped: a query in flight on a server that is killed is lost, and
//! nothing a pool does can save it. Everything else that fails is the pool's fault.

use std::collections::BTreeMap;
use std::time::Duration;

use pgsteer::HostKey;
use tokio::time::Instant;

use crate::faults::CONNECTION_LOST;

/// How long the news of a killed server's closed sockets may take to be read. A query sent within this time after the
/// kill, on a connection from before it, was as good as in flight.
const NEWS: Duration = Duration::from_millis(100);
/// How long a lost query may take to fail.
const FAILS_WITHIN: Duration = Duration::from_secs(2);

/// A server was killed.
#[derive(Clone, Debug)]
pub struct Kill {
    /// Which.
    pub host: HostKey,
    /// When.
    pub at: Instant,
}

/// An operation failed.
#[derive(Clone, Debug)]
pub struct Loss {
    /// The error's class.
    pub class: String,
    /// The error in words.
    pub text: String,
    /// The query it was, if a connection was had at all.
    pub query: Option<LostQuery>,
}

/// When and where a query failed.
#[derive(Clone, Debug)]
pub struct LostQuery {
    /// The server.
    pub host: HostKey,
    /// When its connection was opened.
    pub opened: Instant,
    /// When it was sent.
    pub sent: Instant,
    /// When it failed.
    pub failed: Instant,
}

impl Loss {
    /// Whether it was in flight on a server as that was killed.
    pub fn is_in_flight(&self, kills: &[Kill]) -> bool {
        let Some(query) = &self.query else { return false };
        self.class == CONNECTION_LOST
            && kills.iter().any(|kill| {
                kill.host == query.host
                    && query.opened <= kill.at
                    && query.sent <= kill.at + NEWS
                    && query.failed >= kill.at
                    && query.failed <= kill.at + FAILS_WITHIN
            })
    }
}

/// Losses counted by why they happened.
pub fn by_cause(losses: &[Loss], kills: &[Kill]) -> BTreeMap<String, u64> {
    let mut causes = BTreeMap::new();
    for loss in losses {
        let cause = match loss.is_in_flight(kills) {
            true => "in flight on a server as it was killed".to_owned(),
            false => format!("{}: {}", loss.class, loss.text),
        };
        *causes.entry(cause).or_default() += 1;
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    /// A query on `host`, times in milliseconds around a kill at 10 s.
    fn loss(host: &str, class: &str, times: [i64; 3]) -> impl Fn(Instant) -> Loss {
        let (host, class) = (HostKey::new(host, 5433), class.to_owned());
        move |kill| {
            let at = |millis: i64| match u32::try_from(millis) {
                Ok(after) => kill + MILLI * after,
                Err(_) => kill - MILLI * millis.unsigned_abs() as u32,
            };
            let [opened, sent, failed] = times.map(at);
            let query = LostQuery {
                host: host.clone(),
                opened,
                sent,
                failed,
            };
            Loss {
                class: class.clone(),
                text: "gone".to_owned(),
                query: Some(query),
            }
        }
    }

    #[test]
    fn only_a_query_in_flight_on_a_killed_server_is_excused() {
        let at = Instant::now() + Duration::from_secs(3600);
        let kills = [Kill {
            host: HostKey::new("a1", 5433),
            at,
        }];
        let cases = [
            ("in flight", loss("a1", CONNECTION_LOST, [-5000, -2, 1]), true),
            (
                "sent before the news was read",
                loss("a1", CONNECTION_LOST, [-5000, 3, 4]),
                true,
            ),
            (
                "on another server",
                loss("b1", CONNECTION_LOST, [-5000, -2, 1]),
                false,
            ),
            (
                "failed before the kill",
                loss("a1", CONNECTION_LOST, [-5000, -20, -10]),
                false,
            ),
            (
                "sent long after",
                loss("a1", CONNECTION_LOST, [-5000, 500, 501]),
                false,
            ),
            (
                "hung before it failed",
                loss("a1", CONNECTION_LOST, [-5000, -2, 3000]),
                false,
            ),
            (
                "on a connection opened since",
                loss("a1", CONNECTION_LOST, [2, 5, 10]),
                false,
            ),
            (
                "of another class",
                loss("a1", "sqlstate_40001", [-5000, -2, 1]),
                false,
            ),
        ];

        for (name, loss, excused) in cases {
            assert_eq!(loss(at).is_in_flight(&kills), excused, "{name}");
        }
    }

    #[test]
    fn a_failed_checkout_is_never_excused() {
        let loss = Loss {
            class: "checkout_timeout".to_owned(),
            text: "too slow".to_owned(),
            query: None,
        };
        let kills = [Kill {
            host: HostKey::new("a1", 5433),
            at: Instant::now(),
        }];

        assert!(!loss.is_in_flight(&kills));
        assert_eq!(
            by_cause(&[loss], &kills),
            BTreeMap::from([("checkout_timeout: too slow".to_owned(), 1)])
        );
    }
}
