//! What a login is bound to: the hash of the server's certificate (`tls-server-end-point`, RFC 5929).

use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use x509_cert::Certificate;
use x509_cert::der::asn1::{ContextSpecific, ObjectIdentifier};
use x509_cert::der::{Decode, SliceReader, TagNumber};
use x509_cert::spki::{AlgorithmIdentifierOwned, AlgorithmIdentifierRef};

/// The hash of the certificate by the algorithm it is signed with, where MD5 and SHA-1 count as SHA-256. `None` for
/// signatures that have no single hash (Ed25519), or none that is known here.
pub(super) fn tls_server_end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let parsed = Certificate::from_der(certificate).ok()?;
    Some(match hash_of(&parsed.signature_algorithm)? {
        Hash::Sha224 => Sha224::digest(certificate).to_vec(),
        Hash::Sha256 => Sha256::digest(certificate).to_vec(),
        Hash::Sha384 => Sha384::digest(certificate).to_vec(),
        Hash::Sha512 => Sha512::digest(certificate).to_vec(),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hash {
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

const fn oid(text: &str) -> ObjectIdentifier {
    ObjectIdentifier::new_unwrap(text)
}

/// Hashes, and signatures with a hash fixed by their name.
const FIXED: &[(ObjectIdentifier, Hash)] = &[
    // MD5, SHA-1, SHA-224 to SHA-512
    (oid("1.2.840.113549.2.5"), Hash::Sha256),
    (oid("1.3.14.3.2.26"), Hash::Sha256),
    (oid("2.16.840.1.101.3.4.2.4"), Hash::Sha224),
    (oid("2.16.840.1.101.3.4.2.1"), Hash::Sha256),
    (oid("2.16.840.1.101.3.4.2.2"), Hash::Sha384),
    (oid("2.16.840.1.101.3.4.2.3"), Hash::Sha512),
    // RSA with MD5, SHA-1, SHA-224 to SHA-512
    (oid("1.2.840.113549.1.1.4"), Hash::Sha256),
    (oid("1.2.840.113549.1.1.5"), Hash::Sha256),
    (oid("1.2.840.113549.1.1.14"), Hash::Sha224),
    (oid("1.2.840.113549.1.1.11"), Hash::Sha256),
    (oid("1.2.840.113549.1.1.12"), Hash::Sha384),
    (oid("1.2.840.113549.1.1.13"), Hash::Sha512),
    // ECDSA with SHA-1, SHA-224 to SHA-512
    (oid("1.2.840.10045.4.1"), Hash::Sha256),
    (oid("1.2.840.10045.4.3.1"), Hash::Sha224),
    (oid("1.2.840.10045.4.3.2"), Hash::Sha256),
    (oid("1.2.840.10045.4.3.3"), Hash::Sha384),
    (oid("1.2.840.10045.4.3.4"), Hash::Sha512),
];

/// RSASSA-PSS names its hash in its parameters.
const RSASSA_PSS: ObjectIdentifier = oid("1.2.840.113549.1.1.10");

fn hash_of(signature: &AlgorithmIdentifierOwned) -> Option<Hash> {
    if signature.oid != RSASSA_PSS {
        return fixed(signature.oid);
    }
    match &signature.parameters {
        None => Some(Hash::Sha256),
        Some(parameters) => {
            let mut fields = SliceReader::new(parameters.value()).ok()?;
            let hash =
                ContextSpecific::<AlgorithmIdentifierRef<'_>>::decode_explicit(&mut fields, TagNumber::N0);
            // Left out it is SHA-1.
            hash.ok()?
                .map_or(Some(Hash::Sha256), |hash| fixed(hash.value.oid))
        }
    }
}

fn fixed(oid: ObjectIdentifier) -> Option<Hash> {
    FIXED
        .iter()
        .find_map(|(known, hash)| (*known == oid).then_some(*hash))
}
