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

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::tls_server_end_point;

    /// Certificates made by OpenSSL, and what `openssl dgst` says of them.
    #[test]
    fn the_hash_is_the_one_of_the_certificates_signature() {
        macro_rules! case {
            ($name:literal) => {
                (
                    $name,
                    &include_bytes!(concat!("data/", $name, ".pem"))[..],
                    None,
                )
            };
            ($name:literal, $hash:literal) => {
                (
                    $name,
                    &include_bytes!(concat!("data/", $name, ".pem"))[..],
                    Some($hash),
                )
            };
        }
        let cases = [
            case!(
                "rsa_sha1",
                "44587c623e1ea7e469bdb1de89099259458a2abaca9fcd9d29e7e33e88bb4974"
            ),
            case!(
                "rsa_sha256",
                "e8bced0bc24e7fb610023d910970c40f252ee76365d7375233ed1bea92ffbdab"
            ),
            case!(
                "rsa_sha384",
                "e40ab9d1234a8db03a64771d9aac3f11bae399b35302b93053735011dd816e379a8281c8475d43db8ffd8ef446be0d57"
            ),
            case!(
                "rsa_sha512",
                "4ef350143dd5b0d07e5d87303827cd285f51f2b57ef348c021ddee6bd44b66d15a0b0205120e859b3fe28fae3eab193ff9c62576b4506b2aeb2d82f08d843258"
            ),
            case!(
                "rsa_pss_sha1",
                "affcceb38d62d42d64d4dac2e03d734145319b5a501b391cc1d040c836974e0f"
            ),
            case!(
                "rsa_pss_sha256",
                "56d0d20fc8af48943634e0a6fb4e21a879b64eb3b9fc49b866a39e240934b750"
            ),
            case!(
                "rsa_pss_sha512",
                "09de9f0d733496828a8cfa53381b906e69e260d7fe7b76eb29cf5f62c79b0120380ea504a67f6d3e61e755d8206e9ffb770f70658f6de21f34f6dfa63c0cd592"
            ),
            case!(
                "ecdsa_sha256",
                "1536371715eb5ab56096ad1fba3f4e849622ecdf0f1c54facd06b6b6b30c10db"
            ),
            case!(
                "ecdsa_sha384",
                "42855985a24932bdac231f9477274d7a5367a2fd938df22088e4fabecb2af8a2aa66fa3b6991baed47716a6b00ec5344"
            ),
            case!(
                "ecdsa_sha512",
                "caf4a98490c88f4d5a3ee8eb72799c26cb3bfdac831652cb4c757d1be665e7c7e961d469a8072f4bb422ddbada4a6017e1fca158f392911921596150abef434b"
            ),
            case!("ed25519"),
        ];
        for (name, pem, expected) in cases {
            let certificate = CertificateDer::from_pem_slice(pem).unwrap();
            let hash = tls_server_end_point(&certificate)
                .map(|hash| hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
            assert_eq!(hash.as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn what_is_no_certificate_has_no_hash() {
        assert_eq!(tls_server_end_point(b""), None);
        assert_eq!(tls_server_end_point(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
