//! Where a backend is and what its share of the requests is.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::str::FromStr;

use pgsteer_core::host::HostKey;

/// A backend: host, port and weight. Read from `HOST:PORT` or `HOST:PORT:WEIGHT`, IPv6 addresses in brackets:
/// `[::1]:9090:2`.
///
/// The host is a name, looked up anew at each dial, or an address. The weight is the backend's share beside others: one of
/// weight 2 carries twice the requests of one of weight 1. It is at least 1, and 1 unless given; a backend that is to get
/// nothing is left out of the list.
///
/// Written as text it is `HOST:PORT`, which is what tells one backend from another.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BackendAddress {
    host: HostKey,
    weight: NonZeroU32,
}

/// What is wrong with a backend's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError {
    given: String,
    wrong: &'static str,
}

impl AddressError {
    /// What is wrong, without what was given.
    pub(crate) fn wrong(&self) -> &'static str {
        self.wrong
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "backend `{}` cannot be used: {}; a backend is HOST:PORT or HOST:PORT:WEIGHT, an IPv6 address in brackets",
            self.given, self.wrong
        )
    }
}

impl std::error::Error for AddressError {}

/// The longest host name there can be, in bytes.
const LONGEST_NAME: usize = 253;

impl BackendAddress {
    /// A backend of weight 1. `host` is a name, in whatever case, or an address without brackets, in whatever spelling.
    ///
    /// # Errors
    ///
    /// [`AddressError`] if the host cannot be one, or the port is 0.
    pub fn new(host: &str, port: u16) -> Result<Self, AddressError> {
        let refuse = |wrong| {
            Err(AddressError {
                given: format!("{host}:{port}"),
                wrong,
            })
        };
        if host.is_empty() {
            return refuse("the host is missing");
        }
        if host.len() > LONGEST_NAME {
            return refuse("the host is longer than 253 bytes");
        }
        let may_be_name =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte) || !byte.is_ascii();
        // Written one way, or the same backend could be given twice.
        let written = match host.parse::<IpAddr>() {
            Ok(address) => address.to_string(),
            Err(_) if host.bytes().all(may_be_name) => host.to_ascii_lowercase(),
            Err(_) => return refuse("the host is neither an address nor a name"),
        };
        if port == 0 {
            return refuse("the port is 0; it goes from 1 to 65535");
        }
        Ok(BackendAddress {
            host: HostKey::new(written, port),
            weight: NonZeroU32::MIN,
        })
    }

    /// The same backend with this weight.
    #[must_use]
    pub fn with_weight(self, weight: NonZeroU32) -> Self {
        BackendAddress { weight, ..self }
    }

    /// The name in lower case, or the address in its shortest spelling, without brackets.
    pub fn host(&self) -> &str {
        self.host.name()
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.host.port()
    }

    /// The share of the requests beside other backends.
    pub fn weight(&self) -> NonZeroU32 {
        self.weight
    }

    pub(super) fn key(&self) -> &HostKey {
        &self.host
    }

    /// Whether both are the same backend, whatever their weights.
    pub fn is_same_backend(&self, other: &BackendAddress) -> bool {
        self.host == other.host
    }
}

impl FromStr for BackendAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let refuse = |wrong| AddressError {
            given: text.to_owned(),
            wrong,
        };
        let (host, rest) = match text.strip_prefix('[') {
            Some(bracketed) => {
                let (host, rest) = bracketed
                    .split_once(']')
                    .ok_or_else(|| refuse("the closing bracket is missing"))?;
                if host.parse::<std::net::Ipv6Addr>().is_err() {
                    return Err(refuse("there is no IPv6 address in the brackets"));
                }
                (host, rest)
            }
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let rest = rest
            .strip_prefix(':')
            .ok_or_else(|| refuse("the port is missing"))?;
        let (port, weight) = match rest.split_once(':') {
            Some((port, weight)) => (port, Some(weight)),
            None => (rest, None),
        };
        if weight.is_some_and(|weight| weight.contains(':')) {
            return Err(refuse("there are too many colons"));
        }
        let port = number(port)
            .and_then(|port| u16::try_from(port).ok())
            .filter(|port| *port > 0)
            .ok_or_else(|| refuse("the port is not a number from 1 to 65535"))?;
        let weight = match weight {
            None => NonZeroU32::MIN,
            Some(weight) => number(weight)
                .and_then(NonZeroU32::new)
                .ok_or_else(|| refuse("the weight is not a number from 1 to 4294967295"))?,
        };
        let address = BackendAddress::new(host, port).map_err(|error| refuse(error.wrong))?;
        Ok(address.with_weight(weight))
    }
}

/// Digits and nothing else: no sign.
fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

impl fmt::Display for BackendAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.host, f)
    }
}

impl fmt::Debug for BackendAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.weight)
    }
}
