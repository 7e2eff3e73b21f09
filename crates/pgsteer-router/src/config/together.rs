//! What options have to do with each other: those that cannot both hold, which is an error, and those that change nothing
//! because of how others are set, which is told and no more.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use super::error::ConfigError;
use super::rules::RULES;
use super::{Config, Given};

/// A bound that one option is to another.
struct Bound {
    name: &'static str,
    /// In words, before the name of the other option.
    words: &'static str,
    other: &'static str,
    holds: fn(&Config) -> bool,
}

/// Every such bound. It binds what was given: a default makes way where it can, and where it cannot there is a second line
/// for the case that the other option was given.
const BOUNDS: &[Bound] = &[
    Bound {
        name: "min-idle",
        words: "at most",
        other: "pool-size",
        holds: |config| config.router.backend.min_idle <= config.router.backend.max_size,
    },
    Bound {
        name: "breaker-base",
        words: "at most",
        other: "breaker-cap",
        holds: breaker_holds,
    },
    Bound {
        name: "breaker-cap",
        words: "at least",
        other: "breaker-base",
        holds: breaker_holds,
    },
    // The grace is all the time there is: those who were accepted in the delay would be dropped.
    Bound {
        name: "drain-delay",
        words: "less than",
        other: "shutdown-grace",
        holds: delay_holds,
    },
    Bound {
        name: "shutdown-grace",
        words: "more than",
        other: "drain-delay",
        holds: delay_holds,
    },
];

fn breaker_holds(config: &Config) -> bool {
    config.router.backend.breaker.base <= config.router.backend.breaker.cap
}

fn delay_holds(config: &Config) -> bool {
    let delay = config.router.server.drain_delay;
    delay.is_zero() || delay < config.shutdown_grace
}

impl Given {
    /// Whether the options go together.
    pub(super) fn judge_together(&self) -> Result<(), ConfigError> {
        for bound in BOUNDS {
            if !self.is_given(bound.name) || (bound.holds)(&self.config) {
                continue;
            }
            let other = self.written(bound.other);
            return Err(self.refused(
                bound.name,
                format!("{} {}, which is {other}", bound.words, bound.other),
            ));
        }
        self.judge_places()
    }

    /// A router that is its own backend would send every request round until nothing is left to send it on.
    fn judge_places(&self) -> Result<(), ConfigError> {
        let router = &self.config.router;
        let mut places = vec![("listen", router.listen.clone())];
        places.extend(router.metrics.iter().map(|metrics| ("metrics", metrics.clone())));
        places.extend(
            router
                .backends
                .iter()
                .map(|backend| ("backend", backend.to_string())),
        );
        for (at, (name, place)) in places.iter().enumerate() {
            // Backends have been compared with each other when they were given.
            let earlier = places[..at].iter().filter(|(other, _)| other != name);
            for (other, taken) in earlier {
                if !is_same_place(place, taken) {
                    continue;
                }
                // Whichever was given is the one to change.
                let (blamed, other, taken) = match self.is_given(name) {
                    true => (name, other, taken),
                    false => (other, name, place),
                };
                return Err(self.refused(blamed, format!("another place than {other}, which is {taken}")));
            }
        }
        Ok(())
    }

    fn refused(&self, name: &'static str, allowed: String) -> ConfigError {
        ConfigError::Value {
            source: self.source_of(name),
            name,
            value: self.written(name),
            allowed,
        }
    }

    /// As it was given or else as it is by default.
    fn written(&self, name: &str) -> String {
        let default = RULES
            .iter()
            .find(|rule| rule.name == name)
            .map(|rule| rule.default);
        let given = self.given.get(name).map(|(_, text)| text.as_str());
        given.or(default).unwrap_or_default().to_owned()
    }

    /// One sentence for each option that was given and yet changes nothing. Empty if there is nothing to tell, and if the
    /// options make no configuration, which [`finish`](Given::finish) tells.
    pub(super) fn without_effect(&self) -> Vec<String> {
        let (router, backend) = (&self.config.router, &self.config.router.backend);
        let no_checks = (!backend.enable_health_check).then_some("enable-health-check is off");
        let no_breaker =
            (backend.breaker.threshold == 0).then_some("breaker-threshold is 0, so there is no breaker");
        let outlived = |limit: Option<Duration>| {
            let life = backend.max_lifetime?;
            (limit? >= life).then_some("it is not less than max-lifetime, which ends the connection before")
        };
        let never_idle = || {
            let full = backend.idle_timeout.is_some() && backend.min_idle == backend.max_size;
            full.then_some("min-idle is pool-size, so that no connection is closed for being idle")
        };
        let reasons = [
            ("idle-timeout", outlived(backend.idle_timeout).or_else(never_idle)),
            (
                "lifetime-jitter",
                backend.max_lifetime.is_none().then_some("max-lifetime is off"),
            ),
            (
                "health-check-interval",
                no_checks.or_else(|| outlived(Some(backend.health_check_interval))),
            ),
            ("health-check-timeout", no_checks),
            (
                "max-dials",
                (backend.max_dials > backend.max_size).then_some("there are never more than pool-size"),
            ),
            ("breaker-base", no_breaker),
            ("breaker-cap", no_breaker),
            ("breaker-jitter", no_breaker),
            (
                "tls-handshake-timeout",
                router
                    .tls
                    .is_none()
                    .then_some("without tls-cert clients speak no TLS"),
            ),
        ];
        let told = reasons.into_iter().filter(|(name, _)| self.is_given(name));
        told.filter_map(|(name, reason)| reason.map(|reason| format!("{name} has no effect: {reason}")))
            .collect()
    }
}

/// Whether two places are the same, as far as that can be told without asking anybody. A port of 0 is another one each time.
fn is_same_place(one: &str, other: &str) -> bool {
    let (Some((one, one_port)), Some((other, other_port))) = (one.rsplit_once(':'), other.rsplit_once(':'))
    else {
        return false;
    };
    let (Ok(one_port), Ok(other_port)) = (one_port.parse::<u16>(), other_port.parse::<u16>()) else {
        return false;
    };
    one_port == other_port && one_port != 0 && Host::of(one).is(&Host::of(other))
}

/// The host of a place.
enum Host {
    Address(IpAddr),
    /// This machine, by whichever of its own addresses.
    Localhost,
    Name(String),
}

impl Host {
    fn of(text: &str) -> Self {
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        match bare.parse() {
            Ok(address) => Host::Address(IpAddr::to_canonical(&address)),
            Err(_) if bare.eq_ignore_ascii_case("localhost") => Host::Localhost,
            Err(_) => Host::Name(bare.to_ascii_lowercase()),
        }
    }

    fn is(&self, other: &Host) -> bool {
        match (self, other) {
            (Host::Name(one), Host::Name(other)) => one == other,
            (Host::Name(_), _) | (_, Host::Name(_)) => false,
            (Host::Address(one), Host::Address(other)) => {
                let all = one.is_unspecified() || other.is_unspecified();
                // Whoever listens on all of IPv6 listens on all of IPv4 as well.
                let of_a_kind = one.is_ipv4() == other.is_ipv4();
                let both = [one, other].contains(&&IpAddr::from(Ipv6Addr::UNSPECIFIED));
                one == other || all && (of_a_kind || both) && one.is_own() && other.is_own()
            }
            (Host::Address(address), Host::Localhost) | (Host::Localhost, Host::Address(address)) => {
                address.is_own()
            }
            (Host::Localhost, Host::Localhost) => true,
        }
    }
}

trait Own {
    /// Whether it can be none but this machine.
    fn is_own(&self) -> bool;
}

impl Own for IpAddr {
    fn is_own(&self) -> bool {
        self.is_loopback() || self.is_unspecified()
    }
}

#[cfg(test)]
mod tests {
    use super::is_same_place;

    #[test]
    fn places_are_the_same_where_that_can_be_told() {
        let cases = [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
            ("127.0.0.1:080", "127.0.0.1:80", true),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("0.0.0.0:80", "10.0.0.1:80", false),
            ("0.0.0.0:80", "localhost:80", true),
            ("[::]:80", "[::1]:80", true),
            ("[::1]:80", "localhost:80", true),
            ("[::1]:80", "127.0.0.1:80", false),
            ("LOCALHOST:80", "localhost:80", true),
            ("a.example:80", "A.example:80", true),
            ("a.example:80", "b.example:80", false),
            ("0.0.0.0:80", "a.example:80", false),
            ("[::]:80", "127.0.0.1:80", true),
            ("[::]:80", "0.0.0.0:80", true),
            ("[::]:80", "10.0.0.1:80", false),
            ("0.0.0.0:80", "[::1]:80", false),
            ("0.0.0.0:80", "[::ffff:127.0.0.1]:80", true),
            ("127.0.0.1:80", "[::ffff:127.0.0.1]:80", true),
        ];
        for (one, other, same) in cases {
            assert_eq!(is_same_place(one, other), same, "{one} and {other}");
            assert_eq!(is_same_place(other, one), same, "{other} and {one}");
        }
    }
}
