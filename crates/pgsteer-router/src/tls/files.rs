//! Certificates and keys in PEM files: read, judged, and told of without a word of what is in them.
//!
//! `option` is what names the file to whoever has to mend it. Everything here blocks for as long as reading takes.

use std::fs;
use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::TlsError;

/// A certificate with its chain, its own first.
///
/// # Errors
///
/// A file that cannot be read, or has no certificate in it.
pub fn chain(option: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes(option, path)?).collect();
    match read {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(unusable(
            option,
            path,
            "there is no certificate in PEM form in it",
        )),
        Err(_) => Err(unusable(option, path, "it is not in PEM form")),
    }
}

/// A private key.
///
/// # Errors
///
/// A file that cannot be read, or has no key in it that can be used as it is.
pub fn key(option: &'static str, path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let bytes = bytes(option, path)?;
    // Both ways of writing it, PKCS #8 and the older headers, have the word.
    let encrypted = bytes.windows(9).any(|window| window == b"ENCRYPTED");
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| {
        let reason = match encrypted {
            true => "the key is encrypted, and there is nobody to ask for a passphrase: store it decrypted",
            false => "there is no private key in PEM form in it",
        };
        unusable(option, path, reason)
    })
}

/// Authorities to trust.
///
/// # Errors
///
/// A file that cannot be read, or has a certificate in it that no authority can have, or none at all.
pub fn roots(option: &'static str, path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(option, path)? {
        roots.add(certificate).map_err(|error| {
            unusable(
                option,
                path,
                &format!("a certificate in it cannot be an authority's: {error}"),
            )
        })?;
    }
    Ok(roots)
}

/// The operating system's authorities.
pub(super) fn system_roots(option: &'static str) -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added > 0 {
        return Ok(roots);
    }
    let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
    let reason = match errors.is_empty() {
        true => "it is empty".to_owned(),
        false => errors.join("; "),
    };
    Err(TlsError::NoRoots { option, reason })
}

/// What keeps rustls from using a certificate with its key.
pub fn no_pair(option: &'static str, path: &Path, error: &rustls::Error) -> TlsError {
    let reason = match error {
        rustls::Error::InconsistentKeys(_) => "the key does not belong to the certificate".to_owned(),
        other => format!("certificate and key cannot be used together: {other}"),
    };
    unusable(option, path, &reason)
}

pub(super) fn unusable(option: &'static str, path: &Path, reason: &str) -> TlsError {
    TlsError::File {
        option,
        path: path.to_owned(),
        reason: reason.to_owned(),
    }
}

fn bytes(option: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|error| unusable(option, path, &error.to_string()))
}
