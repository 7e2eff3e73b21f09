//! The command line: what can be asked for, and how a bad one is reported. A connection string may hold a password, so
//! nothing here ever prints an argument that looks like one.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::echo::arguments::EchoArguments;
use crate::load::arguments::LoadArguments;
use crate::parser::parse;
use crate::route::arguments::RouteArguments;

const EXAMPLES: &str = "\
Examples:
  pgsteer demo
  pgsteer topology 'yugabytedb://app@yb-1,yb-2/app?load_balance=any'
  pgsteer bench 'postgresql://app@db1/app' --pool-size 16 --tasks 64 --seconds 30
  pgsteer url 'postgresql://app:secret@db1,db2/app?pool_size=20'
  pgsteer echo --listen 127.0.0.1:9090
  pgsteer load --target 127.0.0.1:8080 --clients 64 --seconds 10

Exit codes: 0 good, 1 the work failed, 2 bad usage or a bad connection string.
Data goes to standard output, everything else to standard error. RUST_LOG sets what is logged (default: warn).";

/// See and drive connection pools on a PostgreSQL or YugabyteDB cluster.
#[derive(Debug, Parser)]
#[command(name = "pgsteer", version, after_help = EXAMPLES)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Watch a pool ride out a zone failure, on simulated servers; nothing else has to be installed.
    Demo(DemoArguments),
    /// Show the servers of a cluster: where they run, which are used, which have failed, how far away they are.
    Topology(TopologyArguments),
    /// Put load on a cluster through a pool, and measure it.
    Bench(BenchArguments),
    /// Show what a connection string means, as JSON, without its secrets.
    Url(UrlArguments),
    /// Route requests from many clients to backends that speak length-prefixed frames, over warm connections.
    Route(RouteArguments),
    /// Be a backend that sends every length-prefixed frame back, or fails to in a way that is asked for.
    Echo(EchoArguments),
    /// Send length-prefixed requests to a router or a backend, and account for every answer.
    Load(LoadArguments),
}

const DEMO_HELP: &str = "\
Four simulated servers in three zones listen on loopback TCP and speak the real protocol. A pool that prefers zone a is
put under load; zone a is killed and comes back; then one of its servers is frozen and thawed. The summary at the end is
measured, not told: the exit code is 1 if any query was lost for another reason than being in flight on a killed server,
or if the connections did not end up where they belong.

In the live view, q or Ctrl-C ends the demo early.

Examples:
  pgsteer demo
  pgsteer demo --plain --seconds 20";

/// Arguments of `demo`.
#[derive(Args, Clone, Debug)]
#[command(after_help = DEMO_HELP)]
pub struct DemoArguments {
    /// Plain lines instead of the live view; the default when standard output is no terminal.
    #[arg(long)]
    pub plain: bool,
    /// Seed of the simulated servers.
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub seed: u64,
    /// About how long the whole story takes.
    #[arg(long, value_name = "SECONDS", default_value_t = 35, value_parser = clap::value_parser!(u64).range(8..=50))]
    pub seconds: u64,
    /// Write the live view, at its most telling moment, to this file as a picture (SVG).
    #[arg(long, value_name = "FILE", hide = true)]
    pub svg: Option<PathBuf>,
}

const TOPOLOGY_HELP: &str = "\
Servers come from discovery (with load_balance in the connection string) and from the string itself. Each is connected
to once on its own, which gives the times; then connections are opened through the cluster until every server that new
connections would go to has one, which shows the failures a pool would see. All of them are closed again.

Columns: level is the preference of the topology key the server matches; use says what a pool does with it: `new` takes
new connections, `stay` keeps the ones it has, `-` is left. Exit code 1 if no server could be reached.

Examples:
  pgsteer topology 'yugabytedb://app@yb-1/app?load_balance=any&topology_keys=gcp.us-east1.us-east1-b:1'
  pgsteer topology 'postgresql://app@db1,db2/app' --json
  pgsteer topology 'postgresql://app@db1,db2/app' --watch";

/// Arguments of `topology`.
#[derive(Args, Clone, Debug)]
#[command(after_help = TOPOLOGY_HELP)]
pub struct TopologyArguments {
    /// Connection string: postgresql://user@host:port/database?option=value, yugabytedb://, host=… user=…, or a JDBC URL.
    #[arg(value_name = "URL")]
    pub url: String,
    /// Look again and again until interrupted.
    #[arg(long)]
    pub watch: bool,
    /// Time between two looks of --watch, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds_above_zero, requires = "watch")]
    pub interval: Duration,
    /// One JSON object per look.
    #[arg(long)]
    pub json: bool,
}

const BENCH_HELP: &str = "\
Each task checks a connection out, runs the query and gives the connection back, again and again. The query is sent as
one simple-protocol message, so it costs one round trip and cannot have parameters; it may hold several statements.

Latency is what a caller sees: checkout and query together. checkout is the checkout alone. Both count successful
operations. An operation that fails is counted under errors by its class: a failed checkout (checkout_timeout, connect,
login, no_node), connection_lost, or sqlstate_NNNNN for what the server said.

To see a failover, break the cluster meanwhile: each second shows its errors, a host that is gone shows no operations,
and the end says when nothing succeeded, from the last success to the next, by the wall clock, and what failed then.

With --json there is one object per second (\"type\": \"second\", figures of that second) and a last one
(\"type\": \"total\", figures of the whole measured time). Exit code 1 if no operation succeeded.

Examples:
  pgsteer bench 'postgresql://app@db1/app'
  pgsteer bench 'yugabytedb://app@yb-1/app?load_balance=any' --pool-size 32 --tasks 128 --seconds 60 --json
  pgsteer bench 'postgresql://app@db1/app' --query 'SELECT count(*) FROM accounts' --hold-ms 5
  pgsteer bench 'postgresql://app@db1,db2/app?target_session_attrs=read-write' --query 'INSERT INTO t DEFAULT VALUES'";

/// Arguments of `bench`.
#[derive(Args, Clone, Debug)]
#[command(after_help = BENCH_HELP)]
pub struct BenchArguments {
    /// Connection string: postgresql://user@host:port/database?option=value, yugabytedb://, host=… user=…, or a JDBC URL.
    #[arg(value_name = "URL")]
    pub url: String,
    /// Connections of the pool; overrides the connection string's pool_size.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65535))]
    pub pool_size: Option<u32>,
    /// Tasks that run queries at the same time.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub tasks: u32,
    /// How long to measure, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds_above_zero)]
    pub seconds: Duration,
    /// How long to run before measuring, in seconds; may be 0.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub warmup: Duration,
    /// SQL to run, without parameters.
    #[arg(long, value_name = "SQL", default_value = "SELECT 1")]
    pub query: String,
    /// How long each task keeps the connection after the query, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub hold_ms: u64,
    /// The shortest time without any success that is told of as an outage, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    pub outage_ms: u64,
    /// JSON lines instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `url`.
#[derive(Args, Clone, Debug)]
pub struct UrlArguments {
    /// Connection string: postgresql://user@host:port/database?option=value, yugabytedb://, host=… user=…, or a JDBC URL.
    #[arg(value_name = "STRING")]
    pub url: String,
    /// Take what the string does not say from PGHOST, PGUSER, PGPASSWORD and the like.
    #[arg(long)]
    pub environment: bool,
    /// Take the password from a password file if there is none yet: FILE, or ~/.pgpass.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub pgpass: Option<Option<PathBuf>>,
}

/// A day; more is a slip of the finger.
const MOST_SECONDS: f64 = 86_400.0;

/// Seconds, possibly with a fraction.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=MOST_SECONDS).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("it takes seconds, from 0 to 86400".to_owned()),
    }
}

/// The same, but not none.
pub(crate) fn seconds_above_zero(text: &str) -> Result<Duration, String> {
    match seconds(text) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err("it takes seconds, more than 0 and at most 86400".to_owned()),
    }
}

/// Milliseconds, possibly with a fraction.
pub(crate) fn milliseconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(millis) if (0.0..=MOST_SECONDS * 1000.0).contains(&millis) => {
            Ok(Duration::from_secs_f64(millis / 1000.0))
        }
        _ => Err("it takes milliseconds, from 0 to 86400000".to_owned()),
    }
}

/// Reads a command line.
///
/// # Errors
///
/// What is wrong with it or, with `--help` and `--version`, the text asked for.
pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Arguments, BadUsage> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    parse(&arguments).map_err(|error| BadUsage {
        text: without_secrets(&error.render().to_string(), &arguments),
        asked_for: !error.use_stderr(),
    })
}

/// Why there is no command to run.
#[derive(Debug)]
pub struct BadUsage {
    /// What to print.
    pub text: String,
    /// Whether the text is what was asked for (`--help`), rather than a complaint.
    pub asked_for: bool,
}

/// Takes out of clap's message every argument that may hold a password: clap repeats what it does not understand.
fn without_secrets(message: &str, arguments: &[OsString]) -> String {
    let mut suspects: Vec<String> = Vec::new();
    for argument in arguments.iter().skip(1) {
        let argument = argument.to_string_lossy();
        if let Some((_, value)) = argument.split_once('=') {
            suspects.push(value.to_owned());
        }
        suspects.push(argument.into_owned());
    }
    suspects.retain(|text| {
        ["://", "@", "password"]
            .iter()
            .any(|sign| text.to_lowercase().contains(sign))
    });
    // The longest first, so that no part of one is left behind.
    suspects.sort_by_key(|text| std::cmp::Reverse(text.len()));
    let shown = suspects.iter().fold(message.to_owned(), |shown, suspect| {
        shown.replace(suspect, "(not shown)")
    });
    // clap may have escaped or shortened one. Better to say little than to show a part of it.
    let logins = suspects
        .iter()
        .filter_map(|suspect| suspect.rsplit_once('@'))
        .map(|(login, _)| login);
    let passwords = logins
        .filter_map(|login| login.rsplit_once(':'))
        .map(|(_, password)| password);
    if passwords
        .filter(|password| !password.is_empty())
        .any(|password| shown.contains(password))
    {
        return "error: the command line is not understood\n\nFor more information, try '--help'.\n"
            .to_owned();
    }
    shown
}
