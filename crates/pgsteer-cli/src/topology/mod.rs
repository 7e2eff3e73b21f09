//! `pgsteer topology`: the servers of a cluster as a pool would see them. It discovers, connects to each server once by
//! itself for the times, then opens connections through the cluster until the picture is what a pool would have.

mod probe;
mod report;
mod table;

use std::time::Duration;

use pgsteer::config::Config;
use pgsteer::{Cluster, ClusterConnection, Error, HostKey};
use tokio::time::{Instant, sleep, timeout_at};

use crate::arguments::TopologyArguments;
use crate::exit::{Failure, hint};
use crate::interrupt::Interrupt;
use crate::output::{Output, complain};
use probe::Probe;
use report::Look;

/// How long the connections through the cluster may take altogether.
const WALK_LIMIT: Duration = Duration::from_secs(30);
/// How long a refresh between two looks may take before the look goes on with what is known.
const REFRESH_LIMIT: Duration = Duration::from_secs(5);
/// How often the end of a refresh is looked for; there is nothing to wait on.
const GLANCE: Duration = Duration::from_millis(20);

/// Looks once, or again and again with `--watch`, and prints what there is.
///
/// # Errors
///
/// A bad connection string; no server that could be reached (with `--watch`: in the last look); output that cannot be
/// written.
pub async fn run(
    arguments: &TopologyArguments,
    output: &mut Output,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let config: Config = arguments.url.parse()?;
    let cluster = Cluster::start(config.clone())?;
    // Kept open between looks, so that the counts of --watch move as a pool's would.
    let mut held: Vec<ClusterConnection> = Vec::new();
    let mut reached = true;
    let mut first = true;
    while !interrupt.is_asked() {
        let look = tokio::select! {
            look = look(&cluster, &config, &mut held, first) => look?,
            () = interrupt.asked() => break,
        };
        reached = look.reached();
        print(&look, arguments, output)?;
        first = false;
        if !arguments.watch {
            break;
        }
        tokio::select! {
            () = sleep(arguments.interval) => {}
            () = interrupt.asked() => {}
        }
    }
    if reached {
        Ok(())
    } else {
        Err(Failure::Work("no server could be reached".to_owned()))
    }
}

fn print(look: &Look, arguments: &TopologyArguments, output: &mut Output) -> Result<(), Failure> {
    if arguments.json {
        output.json(look)?;
    } else {
        output.text(&table::table(look))?;
        if arguments.watch {
            output.line("")?;
        }
    }
    for complaint in look.complaints() {
        complain(&complaint);
    }
    Ok(())
}

/// One look at the cluster.
async fn look(
    cluster: &Cluster,
    config: &Config,
    held: &mut Vec<ClusterConnection>,
    first: bool,
) -> Result<Look, Failure> {
    cluster.ready().await?;
    if !first {
        held.retain(|connection| !connection.is_closed());
        refresh(cluster).await;
    }
    let servers = hosts(cluster);
    let probes = probe::all(config, &servers).await;
    let refused = walk(cluster, held, servers.len()).await;
    Ok(Look::new(
        &cluster.snapshot(),
        cluster.breaker().as_ref(),
        &probes,
        refused,
    ))
}

/// Every host there is: servers as discovery lists them, then configured hosts that are none of them.
fn hosts(cluster: &Cluster) -> Vec<HostKey> {
    let snapshot = cluster.snapshot();
    let mut hosts: Vec<HostKey> = snapshot.servers.iter().map(|server| server.key.clone()).collect();
    let seeds = snapshot
        .seeds
        .iter()
        .filter(|seed| !hosts.contains(seed))
        .cloned();
    let seeds: Vec<HostKey> = seeds.collect();
    hosts.extend(seeds);
    hosts
}

/// Asks for a refresh, and waits for its discovery.
async fn refresh(cluster: &Cluster) {
    let until = Instant::now() + REFRESH_LIMIT;
    cluster.refresh();
    while cluster.snapshot().discovery.running && Instant::now() < until {
        sleep(GLANCE).await;
    }
}

/// Opens connections until each host that new ones go to has one, or nothing more can be opened; the error that ended
/// it. Failures met on the way are the cluster's to keep.
async fn walk(cluster: &Cluster, held: &mut Vec<ClusterConnection>, hosts: usize) -> Option<Refusal> {
    let until = Instant::now() + WALK_LIMIT;
    for _ in 0..=hosts {
        let snapshot = cluster.snapshot();
        if snapshot
            .placement
            .iter()
            .all(|host| snapshot.counts.contains_key(host))
        {
            return None;
        }
        match timeout_at(until, cluster.connect()).await {
            Ok(Ok(connection)) => held.push(connection),
            Ok(Err(error)) => return Some(Refusal::of(&error)),
            Err(_) => return None,
        }
    }
    None
}

/// Why the cluster gave no connection.
#[derive(Clone, Debug)]
struct Refusal {
    reason: String,
    hint: Option<&'static str>,
}

impl Refusal {
    fn of(error: &Error) -> Self {
        Refusal {
            reason: error.to_string(),
            hint: hint(error),
        }
    }
}

/// What connecting to each host by itself gave, by host.
type Probes = std::collections::BTreeMap<HostKey, Probe>;
