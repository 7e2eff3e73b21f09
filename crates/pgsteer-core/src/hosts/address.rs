//! Whether discovered servers are used by their host or by their public IP.
//!
//! Decided by comparing resolved addresses, never text, as YugabyteDB's JDBC driver decides it: whichever column names
//! the address that discovery was answered from is the one this side of the network can use. A decision stands for the
//! cluster's life; a guess is made anew at each discovery.

use std::net::IpAddr;

use crate::host::{HostKey, NodeType};
use crate::topology::Placement;

/// A row of the list of servers, as a server sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredRow {
    /// The host column. Never empty.
    pub host: String,
    /// The port column. Never zero.
    pub port: u16,
    /// Primary or read replica.
    pub node_type: NodeType,
    /// Where the server runs; empty names where the row had none.
    pub placement: Placement,
    /// The public IP column; `None` or empty where the row had none.
    pub public_ip: Option<String>,
}

impl DiscoveredRow {
    /// The public IP, where there is one.
    fn public(&self) -> Option<&str> {
        self.public_ip.as_deref().filter(|text| !text.is_empty())
    }
}

/// What the names of one discovery resolved to. `None` is a name that did not resolve; it equals nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// The address of the name that was dialled for the answer.
    pub answered: Option<IpAddr>,
    /// The address of each row's host, in row order.
    pub host: Vec<Option<IpAddr>>,
    /// The address of each row's public IP, in row order; `None` too where the row has none.
    pub public_ip: Vec<Option<IpAddr>>,
}

/// Which column servers are connected to by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Column {
    /// The host column.
    Host,
    /// The public IP column, where a row has one.
    PublicIp,
}

/// Why a column is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A server's address settled it for good.
    Decided,
    /// Nothing settled it; every server has a public IP that resolves.
    Guess,
    /// Nothing settled it, and some server has no public IP.
    Unknown,
    /// Nothing settled it, and some server's public IP does not resolve.
    UnresolvedPublicIp,
}

/// Which column is in use, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressChoice {
    /// The column servers are connected to by.
    pub column: Column,
    /// Why that one.
    pub reason: Reason,
}

/// The choice after a discovery, from the choice before it.
pub fn choose(before: Option<AddressChoice>, rows: &[DiscoveredRow], addresses: &Addresses) -> AddressChoice {
    match before {
        Some(choice) if choice.reason == Reason::Decided => choice,
        _ => match decide(rows, addresses) {
            Some(column) => AddressChoice {
                column,
                reason: Reason::Decided,
            },
            None => guess(rows, addresses),
        },
    }
}

/// The first thing that holds, for the first server it holds for.
fn decide(rows: &[DiscoveredRow], addresses: &Addresses) -> Option<Column> {
    let answered = addresses.answered.map(|address| address.to_canonical());
    rows.iter().enumerate().find_map(|(position, row)| {
        let host = resolved(&addresses.host, position);
        let public = row
            .public()
            .and_then(|_| resolved(&addresses.public_ip, position));
        if host.is_some() && host == answered {
            Some(Column::Host)
        } else if public.is_some() && public == answered {
            Some(Column::PublicIp)
        } else if host.is_some() && host == public {
            Some(Column::Host)
        } else {
            None
        }
    })
}

fn guess(rows: &[DiscoveredRow], addresses: &Addresses) -> AddressChoice {
    let every_row_has_one = !rows.is_empty() && rows.iter().all(|row| row.public().is_some());
    let all_resolve = (0..rows.len()).all(|position| resolved(&addresses.public_ip, position).is_some());
    match (every_row_has_one, all_resolve) {
        (true, true) => AddressChoice {
            column: Column::PublicIp,
            reason: Reason::Guess,
        },
        (true, false) => AddressChoice {
            column: Column::Host,
            reason: Reason::UnresolvedPublicIp,
        },
        (false, _) => AddressChoice {
            column: Column::Host,
            reason: Reason::Unknown,
        },
    }
}

/// An IPv4 address mapped into IPv6 counts as the IPv4 one.
fn resolved(column: &[Option<IpAddr>], position: usize) -> Option<IpAddr> {
    column
        .get(position)
        .copied()
        .flatten()
        .map(|address| address.to_canonical())
}

/// What connections to a row's server are keyed by.
pub fn key_of(row: &DiscoveredRow, column: Column) -> HostKey {
    let name = match column {
        Column::Host => row.host.as_str(),
        Column::PublicIp => row.public().unwrap_or(&row.host),
    };
    HostKey::new(name, row.port)
}
