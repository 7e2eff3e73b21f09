//! Authorities of a test's own, and files with what they sign.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// A folder for certificates and keys.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Folder(TempDir::new().expect("a folder"))
    }

    /// Where a file of this name is, or will be.
    pub(crate) fn path(&self, name: &str) -> String {
        let path = self.0.path().join(name);
        path.to_str().expect("the path is text").to_owned()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(Path::new(&path), text).expect("it is written");
        path
    }

    /// Certificate and key for 127.0.0.1 as files of this name, in the place of those that are there.
    pub(crate) fn pair(&self, name: &str, authority: &Authority) -> [String; 2] {
        let (cert, key) = authority.sign();
        [
            self.write(&format!("{name}.pem"), &cert),
            self.write(&format!("{name}.key"), &key),
        ]
    }
}

/// Somebody who signs.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate.
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no name is a good one");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).expect("it is signed").pem();
        Authority {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// A certificate for 127.0.0.1, and its key.
    fn sign(&self) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("it is an address");
        let certificate = params.signed_by(&key, &self.issuer).expect("it is signed");
        (certificate.pem(), key.serialize_pem())
    }
}
