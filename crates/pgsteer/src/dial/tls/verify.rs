//! What of a server's certificate is checked.
//!
//! rustls knows all or nothing; libpq's modes also have the chain without the name, and a server's own certificate as
//! its root. The checks themselves are rustls'.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// How much of the certificate is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Only that the server has its key, which channel binding relies on.
    Nothing,
    /// That it leads to a root.
    Chain,
    /// That it leads to a root and is for the server.
    ChainAndName,
}

/// Roots to which a chain may lead.
#[derive(Debug)]
pub(super) struct Roots {
    pub(super) store: RootCertStore,
    /// Certificates that are trusted as they are, also as a server's own: people give a self-signed one, which OpenSSL
    /// takes although it says that it is a CA.
    pub(super) as_given: Vec<CertificateDer<'static>>,
}

impl Roots {
    pub(super) fn none() -> Self {
        Roots {
            store: RootCertStore::empty(),
            as_given: Vec::new(),
        }
    }
}

/// Checks what it is told to.
#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) check: Check,
    pub(super) roots: Arc<Roots>,
    pub(super) provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn verify_chain(
        &self,
        server: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        if self.roots.as_given.iter().any(|root| root == server) {
            return within_its_time(server, now);
        }
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(server)?,
            &self.roots.store,
            intermediates,
            now,
            self.provider.signature_verification_algorithms.all,
        )
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.check != Check::Nothing {
            self.verify_chain(server, intermediates, now)?;
        }
        if self.check == Check::ChainAndName {
            verify_server_name(&ParsedCertificate::try_from(server)?, name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// A certificate that is trusted by itself has nothing to be checked but its dates.
fn within_its_time(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let parsed = Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let validity = parsed.tbs_certificate.validity;
    let (from, until) = (
        validity.not_before.to_unix_duration(),
        validity.not_after.to_unix_duration(),
    );
    let moment = Duration::from_secs(now.as_secs());
    if moment < from {
        let not_before = UnixTime::since_unix_epoch(from);
        return Err(CertificateError::NotValidYetContext {
            time: now,
            not_before,
        }
        .into());
    }
    if moment > until {
        let not_after = UnixTime::since_unix_epoch(until);
        return Err(CertificateError::ExpiredContext { time: now, not_after }.into());
    }
    Ok(())
}
