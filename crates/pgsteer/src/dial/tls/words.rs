//! Failures of TLS in words for the person who has to mend them: what is wrong, with which certificate, and what to do.
//!
//! Names, dates and addresses are told; nothing of a key ever gets here.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use pgsteer_core::verdict::Stage;
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error};
use x509_cert::der::DateTime;

use super::failed;
use crate::dial::error::{Failure, Observed};
use crate::error::shortened;
use crate::world::Endpoint;

/// What a handshake was about.
pub(super) struct About<'a> {
    pub(super) endpoint: &'a Endpoint,
    /// The name the certificate should be for.
    pub(super) name: &'a str,
    /// Where trusted roots come from.
    pub(super) trusted: &'static str,
    pub(super) direct: bool,
}

impl About<'_> {
    /// A handshake that failed.
    pub(super) fn handshake_failure(&self, error: &io::Error) -> Failure {
        if let Some(error) = by_rustls(error) {
            return failed(self.endpoint, &self.told(error));
        }
        let observed = match error.kind() {
            io::ErrorKind::UnexpectedEof => Observed::Closed,
            kind => Observed::Io(kind),
        };
        let hint = match self.direct {
            true => "; sslnegotiation=direct needs PostgreSQL 17 or later",
            false => "",
        };
        let text = format!("the server broke the handshake off ({error}){hint}");
        Failure {
            observed,
            ..failed(self.endpoint, &text)
        }
    }

    fn told(&self, error: &Error) -> String {
        match error {
            Error::InvalidCertificate(reason) => self.bad_certificate(reason),
            Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
                "the server does TLS, but not for PostgreSQL's protocol (sslnegotiation=direct)".to_owned()
            }
            Error::AlertReceived(AlertDescription::UnrecognisedName) => {
                format!("the server knows nothing of the name {}", self.name)
            }
            Error::AlertReceived(alert) => alert_in_words(*alert),
            Error::InvalidMessage(_) => "what the server sent is not TLS".to_owned(),
            Error::PeerIncompatible(reason) => {
                format!("the server and pgsteer (TLS 1.2 and 1.3) have no way in common: {reason:?}")
            }
            other => other.to_string(),
        }
    }

    fn bad_certificate(&self, reason: &CertificateError) -> String {
        let trusted = self.trusted;
        match reason {
            CertificateError::ExpiredContext { time, not_after } => format!(
                "the server's certificate, or one it rests on, expired at {} ({} ago): renew it on the server, or set \
                 this machine's clock right",
                date(*not_after),
                days(*not_after, *time),
            ),
            CertificateError::Expired => {
                "the server's certificate has expired: renew it on the server".to_owned()
            }
            CertificateError::NotValidYetContext { not_before, .. } => format!(
                "the server's certificate is valid only from {} on: is this machine's clock right?",
                date(*not_before)
            ),
            CertificateError::NotValidForNameContext { presented, .. } => format!(
                "the server's certificate is not for {}, but for {}: connect by a name it has, or give it this one",
                self.name,
                names(presented)
            ),
            CertificateError::NotValidForName => {
                format!("the server's certificate is not for {}", self.name)
            }
            CertificateError::UnknownIssuer => format!(
                "the CA that signed the server's certificate is not known: it is not in {trusted}; give the \
                 certificate of that CA as sslrootcert, if it is the right one"
            ),
            CertificateError::BadSignature => format!(
                "the server's certificate is not signed by the CA of that name in {trusted}: it comes from another \
                 CA, or the CA has a new key"
            ),
            other if other.to_string().contains("CaUsedAsEndEntity") => format!(
                "the server uses the certificate of a CA as its own, and exactly that one is not in {trusted}"
            ),
            other => format!("the server's certificate is no good: {other}"),
        }
    }
}

/// What TLS has to say of a stream that failed after the handshake: with TLS 1.3 only then does a server tell that it
/// wants another client certificate.
pub(super) fn after_the_handshake(error: &tokio_postgres::Error) -> Option<Failure> {
    let error = error.source()?.downcast_ref::<io::Error>()?;
    let text = match by_rustls(error)? {
        Error::AlertReceived(alert) => alert_in_words(*alert),
        other => other.to_string(),
    };
    let text = format!("TLS: {text}");
    Some(Failure::new(Stage::Tls, Observed::Tls, shortened(&text)))
}

fn by_rustls(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// What the server said with an alert.
fn alert_in_words(alert: AlertDescription) -> String {
    use AlertDescription as Alert;
    match alert {
        Alert::CertificateRequired => {
            "the server wants a client certificate: give one with its key (sslcert, sslkey)".to_owned()
        }
        Alert::HandshakeFailure => {
            "the server broke the handshake off: it may want a client certificate (sslcert, \
                                    sslkey), or has no cipher in common"
                .to_owned()
        }
        Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateRevoked
        | Alert::CertificateExpired
        | Alert::CertificateUnknown
        | Alert::UnknownCA
        | Alert::AccessDenied
        | Alert::DecryptError => {
            format!("the server does not take the client's certificate ({alert:?}): check sslcert and sslkey")
        }
        Alert::ProtocolVersion => "the server has neither TLS 1.2 nor 1.3".to_owned(),
        other => format!("the server broke TLS off ({other:?})"),
    }
}

fn date(time: UnixTime) -> String {
    match DateTime::from_unix_duration(Duration::from_secs(time.as_secs())) {
        Ok(date) => date.to_string(),
        Err(_) => format!("{} s after 1970", time.as_secs()),
    }
}

fn days(from: UnixTime, until: UnixTime) -> String {
    let seconds = until.as_secs().saturating_sub(from.as_secs());
    match seconds / (24 * 60 * 60) {
        0 => "less than a day".to_owned(),
        1 => "one day".to_owned(),
        days => format!("{days} days"),
    }
}

/// The names as rustls lists them, `DnsName("db")` and the like, without the wrapping. A certificate may have thousands.
fn names(presented: &[String]) -> String {
    const TOLD: usize = 5;
    let mut told: Vec<&str> = presented
        .iter()
        .take(TOLD)
        .map(|name| {
            let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
            inner.unwrap_or(name).trim_matches('"')
        })
        .collect();
    if told.is_empty() {
        return "no name at all (it has no subjectAltName, and a common name does not count)".to_owned();
    }
    if presented.len() > TOLD {
        told.push("others");
    }
    told.join(", ")
}
