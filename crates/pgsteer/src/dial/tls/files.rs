//! Certificates and keys in PEM form, from files or as given: reading them, and judging what was read.
//!
//! An error names the option and the file. It repeats nothing of what stands in the file, which may be a key.

use std::fs;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::verify::Roots;
use crate::config::{self, ConfigError, Pem, RootCerts};

/// What the options name, as it is now. Holds a key, so it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Contents {
    roots: Option<Vec<u8>>,
    certificate: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
}

/// The client's certificate with its chain, and its key.
pub(super) type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Whether any of it is in files, which may change.
pub(super) fn any_file(options: &config::Tls) -> bool {
    let roots = matches!(&options.roots, RootCerts::Given(Pem::File(_)));
    let client = [&options.client_cert, &options.client_key];
    roots || client.iter().any(|pem| matches!(pem, Some(Pem::File(_))))
}

/// Reads everything. Blocks.
pub(super) fn read(options: &config::Tls) -> Result<Contents, ConfigError> {
    let roots = match &options.roots {
        RootCerts::Given(pem) => Some(pem),
        RootCerts::Unset | RootCerts::System => None,
    };
    let bytes = |name, pem: Option<&Pem>| pem.map(|pem| bytes(name, pem)).transpose();
    Ok(Contents {
        roots: bytes("sslrootcert", roots)?,
        certificate: bytes("sslcert", options.client_cert.as_ref())?,
        key: bytes("sslkey", options.client_key.as_ref())?,
    })
}

fn bytes(name: &'static str, pem: &Pem) -> Result<Vec<u8>, ConfigError> {
    match pem {
        Pem::Bytes(bytes) => Ok(bytes.to_vec()),
        Pem::File(path) => fs::read(path).map_err(|error| unusable(name, Some(pem), &error.to_string())),
    }
}

/// The roots given, if some were.
pub(super) fn given_roots(options: &config::Tls, contents: &Contents) -> Result<Option<Roots>, ConfigError> {
    let (RootCerts::Given(pem), Some(bytes)) = (&options.roots, &contents.roots) else {
        return Ok(None);
    };
    let name = "sslrootcert";
    let as_given = certificates(name, pem, bytes)?;
    let mut store = RootCertStore::empty();
    for certificate in &as_given {
        store.add(certificate.clone()).map_err(|error| {
            unusable(
                name,
                Some(pem),
                &format!("a certificate in it is no good: {error}"),
            )
        })?;
    }
    Ok(Some(Roots { store, as_given }))
}

/// The roots of the operating system, as they are now. Blocks.
pub(super) fn system_roots() -> Result<Roots, ConfigError> {
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    let (added, _) = store.add_parsable_certificates(found.certs);
    if added == 0 {
        let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(ConfigError::UnusableCertificate {
            name: "sslrootcert",
            place: "the operating system's trust store".to_owned(),
            reason: format!("it has no certificate; give the CA's. {}", errors.join("; "))
                .trim_end()
                .to_owned(),
        });
    }
    Ok(Roots {
        store,
        as_given: Vec::new(),
    })
}

/// What the client shows of itself, if something was given.
pub(super) fn identity(options: &config::Tls, contents: &Contents) -> Result<Option<Identity>, ConfigError> {
    match (
        options.client_cert.as_ref().zip(contents.certificate.as_ref()),
        options.client_key.as_ref().zip(contents.key.as_ref()),
    ) {
        (None, None) => Ok(None),
        (Some((certificate, chain)), Some((pem, bytes))) => Ok(Some((
            certificates("sslcert", certificate, chain)?,
            key(pem, bytes)?,
        ))),
        (Some(_), None) => Err(unusable("sslkey", None, "sslcert needs its key")),
        (None, Some(_)) => Err(unusable("sslcert", None, "sslkey needs its certificate")),
    }
}

/// What keeps rustls from using a certificate with a key.
pub(super) fn unusable_identity(options: &config::Tls, error: &rustls::Error) -> ConfigError {
    let reason = match error {
        rustls::Error::InconsistentKeys(_) => {
            "the key does not belong to the certificate in sslcert".to_owned()
        }
        other => format!("certificate and key cannot be used: {other}"),
    };
    unusable("sslkey", options.client_key.as_ref(), &reason)
}

fn certificates(
    name: &'static str,
    pem: &Pem,
    bytes: &[u8],
) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    match read {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(unusable(
            name,
            Some(pem),
            "there is no certificate in PEM form in it",
        )),
        Err(_) => Err(unusable(name, Some(pem), "it is not in PEM form")),
    }
}

fn key(pem: &Pem, bytes: &[u8]) -> Result<PrivateKeyDer<'static>, ConfigError> {
    // Both ways of writing it, PKCS #8 and the older headers, have the word.
    let encrypted = bytes.windows(9).any(|window| window == b"ENCRYPTED");
    PrivateKeyDer::from_pem_slice(bytes).map_err(|_| {
        let reason = match encrypted {
            true => "the key is encrypted, and pgsteer takes no passphrase: decrypt it (openssl pkey -in … -out …)",
            false => "there is no private key in PEM form in it",
        };
        unusable("sslkey", Some(pem), reason)
    })
}

fn unusable(name: &'static str, pem: Option<&Pem>, reason: &str) -> ConfigError {
    let place = match pem {
        Some(Pem::File(path)) => path.display().to_string(),
        Some(Pem::Bytes(_)) => "the text given".to_owned(),
        None => "not given".to_owned(),
    };
    ConfigError::UnusableCertificate {
        name,
        place,
        reason: reason.to_owned(),
    }
}
