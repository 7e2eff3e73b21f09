//! Asking a server for its cluster: `yb_servers()`, and the addresses of the names it lists.
//!
//! The answer is taken column by column, by name, as text: a column that is missing, unknown or of another type than
//! expected costs no more than itself. A row that makes no sense is reported and left out.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::join_all;
use pgsteer_core::host::{HostKey, NodeType};
use pgsteer_core::hosts::{Addresses, DiscoveredRow};
use pgsteer_core::topology::Placement;
use pgsteer_core::verdict::is_undefined_function;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};

use super::endpoint::comparable_address;
use super::{Dialled, Dialler};

/// The port of a row that gives none: what YugabyteDB listens on unless told otherwise.
const DEFAULT_PORT: u16 = 5433;

/// What a server answered to the question for its cluster.
#[derive(Debug)]
pub(crate) enum Discovered {
    /// Its servers, in its order, and what their names resolve to.
    Servers {
        /// Rows that make sense. May be empty.
        rows: Vec<DiscoveredRow>,
        /// Addresses of the name that was dialled and of the rows' names.
        addresses: Addresses,
        /// Rows that make no sense, each in words.
        oddities: Vec<String>,
    },
    /// It has no such function: it is not YugabyteDB.
    NoFunction,
    /// It could not be asked, or the name it was dialled by no longer resolves.
    Failed(String),
}

impl Dialler {
    /// Asks the server behind `dialled` for its cluster, then looks up the names of its answer and the name that was
    /// dialled, all at once and within `connect_timeout`. The connection is closed in the background.
    ///
    /// The query itself has no limit of its own. Cancel safe: dropping the future cuts the connection.
    pub(crate) async fn discover(&self, host: &HostKey, dialled: Dialled) -> Discovered {
        let Dialled {
            client,
            mut driver,
            handle,
            ..
        } = dialled;
        let answer = driver
            .drive_while(client.simple_query("SELECT * FROM yb_servers()"))
            .await;
        drop(client);
        handle.close_within(CLOSE_WITHIN);
        tokio::spawn(driver);
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                return match error.as_db_error() {
                    Some(said) if is_undefined_function(said.code().code()) => Discovered::NoFunction,
                    Some(said) => {
                        Discovered::Failed(format!("{} (SQLSTATE {})", said.message(), said.code().code()))
                    }
                    None => Discovered::Failed(handle.end_reason().map_or_else(
                        || error.to_string(),
                        |reason| format!("the connection ended: {reason}"),
                    )),
                };
            }
        };
        let (rows, oddities) = read(&answer);
        match self.look_up(host, &rows).await {
            Some(addresses) => Discovered::Servers {
                rows,
                addresses,
                oddities,
            },
            None => Discovered::Failed("the name it was reached by no longer resolves".to_owned()),
        }
    }

    /// `None`: the dialled name does not resolve. A socket directory has no address to compare by, and needs none.
    async fn look_up(&self, host: &HostKey, rows: &[DiscoveredRow]) -> Option<Addresses> {
        let deadline = Instant::now() + self.settings.connect_timeout;
        let address_of = |name: Option<String>| async move {
            let name = name.filter(|name| !name.is_empty())?;
            timeout_at(deadline, comparable_address(&self.world, &name))
                .await
                .ok()
                .flatten()
        };
        let dialled_name = (!host.is_unix_socket()).then(|| host.name().to_owned());
        let hosts = join_all(rows.iter().map(|row| address_of(Some(row.host.clone()))));
        let public_ips = join_all(rows.iter().map(|row| address_of(row.public_ip.clone())));
        let (answered, host_addresses, public_ip): (Option<IpAddr>, _, _) =
            tokio::join!(address_of(dialled_name), hosts, public_ips);
        (answered.is_some() || host.is_unix_socket()).then_some(Addresses {
            answered,
            host: host_addresses,
            public_ip,
        })
    }
}

/// How long the connection may take to close after the answer.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

fn read(answer: &[SimpleQueryMessage]) -> (Vec<DiscoveredRow>, Vec<String>) {
    let (mut rows, mut oddities) = (Vec::new(), Vec::new());
    for message in answer {
        if let SimpleQueryMessage::Row(row) = message {
            match read_row(&|name| text(row, name)) {
                Ok(row) => rows.push(row),
                Err(oddity) => oddities.push(oddity),
            }
        }
    }
    (rows, oddities)
}

/// The column's text; `None` if it is NULL, missing, or not text.
fn text<'a>(row: &'a SimpleQueryRow, name: &str) -> Option<&'a str> {
    let position = row.columns().iter().position(|column| column.name() == name)?;
    row.try_get(position).ok().flatten()
}

fn read_row<'a>(column: &dyn Fn(&str) -> Option<&'a str>) -> Result<DiscoveredRow, String> {
    let host = column("host").unwrap_or_default();
    if host.is_empty() {
        return Err("a row without a host".to_owned());
    }
    let port = match column("port").map(str::trim) {
        None | Some("") => DEFAULT_PORT,
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => port,
            _ => {
                return Err(format!(
                    "host {host:?} with port {port:?}, which is none from 1 to 65535"
                ));
            }
        },
    };
    let placement = |name| column(name).unwrap_or_default();
    Ok(DiscoveredRow {
        host: host.to_owned(),
        port,
        node_type: match column("node_type") {
            Some("read_replica") => NodeType::ReadReplica,
            _ => NodeType::Primary,
        },
        placement: Placement::new(placement("cloud"), placement("region"), placement("zone")),
        public_ip: column("public_ip")
            .filter(|address| !address.is_empty())
            .map(str::to_owned),
    })
}
