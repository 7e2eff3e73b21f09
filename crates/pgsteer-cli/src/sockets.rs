//! Addresses on the command line: HOST:PORT, an IPv6 address in brackets.

use std::net::SocketAddr;

use crate::exit::Failure;

/// The first address that a HOST:PORT stands for.
///
/// # Errors
///
/// Text that is no HOST:PORT is bad usage of that option; a name that does not resolve is a failure of the work.
pub async fn resolve(option: &str, text: &str) -> Result<SocketAddr, Failure> {
    let addresses = resolve_all(option, text).await?;
    addresses
        .first()
        .copied()
        .ok_or_else(|| Failure::work(format!("{option} {text}: the name has no address")))
}

/// Every address that a HOST:PORT stands for. Cancel safe.
///
/// # Errors
///
/// As for [`resolve`]; the list may be empty.
pub async fn resolve_all(option: &str, text: &str) -> Result<Vec<SocketAddr>, Failure> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(vec![address]);
    }
    // Somebody may have given a connection string, with a password in it.
    let shown = if text.contains('@') { "(not shown)" } else { text };
    let wrong = |why: &str| {
        Failure::Usage(format!(
            "{option} {shown}: {why}; it takes HOST:PORT, an IPv6 address in brackets"
        ))
    };
    let (host, port) = text
        .rsplit_once(':')
        .ok_or_else(|| wrong("the port is missing"))?;
    if host.is_empty() {
        return Err(wrong("the host is missing"));
    }
    if host.contains([':', '[', ']', '/', '@']) || host.contains(char::is_whitespace) {
        return Err(wrong("the host is not understood"));
    }
    let port: u16 = port
        .parse()
        .map_err(|_| wrong("the port is not a number from 0 to 65535"))?;
    let found = tokio::net::lookup_host((host, port)).await;
    let found = found.map_err(|error| Failure::work(format!("{option} {text}: {error}")))?;
    Ok(found.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_are_taken_as_they_are() {
        for (text, address) in [("127.0.0.1:80", "127.0.0.1:80"), ("[::1]:0", "[::1]:0")] {
            let found = resolve("--target", text).await.expect(text);

            assert_eq!(found.to_string(), address);
        }
    }

    #[tokio::test]
    async fn what_is_no_address_names_the_option_and_what_it_takes() {
        let cases = [
            ("127.0.0.1", "the port is missing"),
            (":80", "the host is missing"),
            ("::1:80", "the host is not understood"),
            ("tcp://a:80", "the host is not understood"),
            ("localhost:99999", "the port is not a number"),
            ("localhost:http", "the port is not a number"),
        ];

        for (text, why) in cases {
            let Err(Failure::Usage(told)) = resolve("--target", text).await else {
                panic!("{text} is taken for an address");
            };

            assert!(told.starts_with(&format!("--target {text}: {why}")), "{told}");
        }
    }
}
