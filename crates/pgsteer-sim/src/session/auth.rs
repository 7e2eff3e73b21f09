//! Checks passwords: clear text, MD5 and SCRAM-SHA-256 on the server's side. The hashes come from libraries; only the
//! SCRAM exchange itself is here. Nothing in here sends or reads.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// The server's part of one SCRAM-SHA-256 exchange.
pub(crate) struct Scram {
    verifier: Verifier,
    gs2_header: String,
    client_first_bare: String,
    nonce: String,
    server_first: String,
}

/// What a server stores of a password.
struct Verifier {
    iterations: String,
    salt: String,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl Verifier {
    /// Reads `SCRAM-SHA-256$iterations:salt$stored:server`.
    fn parse(text: &str) -> Option<Self> {
        let (iterations, rest) = text.strip_prefix("SCRAM-SHA-256$")?.split_once(':')?;
        let (salt, keys) = rest.split_once('$')?;
        let (stored, server) = keys.split_once(':')?;
        Some(Verifier {
            iterations: iterations.to_owned(),
            salt: salt.to_owned(),
            stored_key: STANDARD.decode(stored).ok()?,
            server_key: STANDARD.decode(server).ok()?,
        })
    }
}

impl Scram {
    /// Takes the client's first message; `None` if it makes no sense.
    pub(crate) fn start(verifier: &str, client_first: &[u8], server_nonce: &str) -> Option<Self> {
        let verifier = Verifier::parse(verifier)?;
        let text = std::str::from_utf8(client_first).ok()?;
        // The header is a channel binding flag and an authorization identity, each ended by a comma.
        let header = text.match_indices(',').nth(1)?.0 + 1;
        let (gs2_header, bare) = text.split_at(header);
        if !(gs2_header.starts_with("n,") || gs2_header.starts_with("y,")) {
            return None;
        }
        let client_nonce = attribute(bare, "r=")?;
        let nonce = format!("{client_nonce}{server_nonce}");
        let server_first = format!("r={nonce},s={},i={}", verifier.salt, verifier.iterations);
        Some(Scram {
            gs2_header: gs2_header.to_owned(),
            client_first_bare: bare.to_owned(),
            verifier,
            nonce,
            server_first,
        })
    }

    /// The server's first message.
    pub(crate) fn server_first(&self) -> &[u8] {
        self.server_first.as_bytes()
    }

    /// Takes the client's last message. The server's last message if the password was right.
    pub(crate) fn finish(&self, client_final: &[u8]) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(client_final).ok()?;
        let (without_proof, proof) = text.rsplit_once(",p=")?;
        if attribute(without_proof, "c=")? != STANDARD.encode(&self.gs2_header)
            || attribute(without_proof, "r=")? != self.nonce
        {
            return None;
        }
        let message = format!("{},{},{without_proof}", self.client_first_bare, self.server_first);
        let signature = hmac(&self.verifier.stored_key, message.as_bytes())?;
        let proof = STANDARD.decode(proof).ok()?;
        if proof.len() != signature.len() {
            return None;
        }
        let client_key: Vec<u8> = proof
            .iter()
            .zip(&signature)
            .map(|(proof, sign)| proof ^ sign)
            .collect();
        if Sha256::digest(&client_key).as_slice() != self.verifier.stored_key {
            return None;
        }
        let answer = hmac(&self.verifier.server_key, message.as_bytes())?;
        Some(format!("v={}", STANDARD.encode(answer)).into_bytes())
    }
}

fn attribute<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    message.split(',').find_map(|part| part.strip_prefix(name))
}

fn hmac(key: &[u8], message: &[u8]) -> Option<Vec<u8>> {
    let mut hmac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    hmac.update(message);
    Some(hmac.finalize().into_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};

    use super::*;

    fn exchange(stored: &str, given: &str) -> Option<Vec<u8>> {
        let verifier = postgres_protocol::password::scram_sha_256(stored.as_bytes());
        let mut client = ScramSha256::new(given.as_bytes(), ChannelBinding::unsupported());
        let server = Scram::start(&verifier, client.message(), "servernonce").unwrap();
        client.update(server.server_first()).unwrap();
        let answer = server.finish(client.message())?;
        client.finish(&answer).unwrap();
        Some(answer)
    }

    #[test]
    fn the_right_password_passes_and_a_wrong_one_does_not() {
        assert!(exchange("secret", "secret").is_some());
        assert!(exchange("secret", "Secret").is_none());
    }

    #[test]
    fn messages_that_make_no_sense_are_refused() {
        let verifier = postgres_protocol::password::scram_sha_256(b"secret");
        for first in ["", "n", "n,,", "n,,n=", "p=tls-unique,,n=,r=abc"] {
            assert!(
                Scram::start(&verifier, first.as_bytes(), "x").is_none(),
                "{first}"
            );
        }
        let server = Scram::start(&verifier, b"n,,n=,r=abc", "x").unwrap();
        for last in [
            "",
            "c=biws,r=abcx",
            "c=biws,r=abcx,p=",
            "c=biws,r=abcx,p=AAAA",
            "c=biws,r=other,p=AAAA",
        ] {
            assert!(server.finish(last.as_bytes()).is_none(), "{last}");
        }
    }
}
