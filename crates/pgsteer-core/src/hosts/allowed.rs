//! Where existing connections may stay.
//!
//! Wider than where new ones go: a host that merely failed keeps its place, and so does a fallback while what is preferred
//! to it is down. Otherwise every failure would move connections twice.

use super::picker::{Facts, Policy};

/// The places of discovered servers that may keep connections, and whether one of them works.
pub(super) fn servers(
    policy: &Policy,
    servers: &[Facts],
    works: impl Fn(usize) -> bool,
) -> (Vec<usize>, bool) {
    let working = || servers.iter().filter(|server| works(server.place));
    let healthy = policy.filter(servers.iter());
    let now = policy.filter(working());
    let now_serves = working().any(|server| now.admits(server));
    let allowed = servers
        .iter()
        .filter(|server| healthy.admits(server) || (now_serves && now.admits(server)))
        .map(|server| server.place)
        .collect();
    (allowed, now_serves)
}

/// The places of seeds that may keep connections: all while none works, else the first and the first that works.
pub(super) fn seeds(seeds: &[usize], works: impl Fn(usize) -> bool) -> Vec<usize> {
    match seeds.iter().position(|place| works(*place)) {
        None => seeds.to_vec(),
        Some(0) => seeds[..1].to_vec(),
        Some(first_working) => vec![seeds[0], seeds[first_working]],
    }
}
