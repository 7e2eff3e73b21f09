//! The command line of `load`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::arguments::{seconds, seconds_above_zero};

const HELP: &str = "\
Each client has a connection of its own, sends a request, waits for its answer and sends the next; with --rate they are
sent at fixed times instead, whether answers come or not (open loop), and a request's time counts from when it was due
if its client was still busy then, so that a target that stalls cannot hide it by being asked less.

A request is a frame: a length of 4 bytes, most significant first, and a payload, which the target is to answer with
itself. From 16 bytes on the payload names its run, client and number, and the rest follows from these, so that each
answer is known for what it is:
  answered     the right answer, to its last byte
  errors       frames that begin with `ERR `, by their text
  lost         no answer: by what came instead (closed, cut, reset, timeout, oversize, ...)
  turned_away  the target ended a connection that it had answered on, cleanly and between two
               frames, and the request had been sent by then. A target that drains does this to
               requests it has not read, and so does one that is killed to those it has
  duplicated   an answer that came a second time, or that nobody waited for
  crossed      the answer to another request
  corrupted    anything else
Every request sent is in just one of these, save that duplicated ones come on top; with a warm-up, one sent before its
end and answered after it is answered in the measured part. A payload of 1 to 15 bytes is a hash of its request: a wrong
answer is seen unless the hashes agree by chance (1 in 256 to the power of the size), and is told to be duplicated or
crossed only within the same client. Of an empty one only the length is checked.

With --requests, a connect that fails uses up one request. At the end each client closes its side and looks for answers
that nobody asked for. With --idle, further connections are opened before, send nothing until the rest is over, and one
request then.

With --json there is one object a second (\"type\": \"second\") and a last one (\"type\": \"total\"), times in microseconds.

Exit code 1 if nothing was answered, or if anything was duplicated, crossed or corrupted.

Examples:
  pgsteer load --target 127.0.0.1:8080 --clients 64 --seconds 10
  pgsteer load --target router:8080 --clients 1000 --rate 5000 --seconds 30 --size 4096 --json
  pgsteer load --target 127.0.0.1:8080 --clients 50 --requests 100000 --dial-per-request --reset
  pgsteer load --target 127.0.0.1:8443 --tls --ca ca.pem --server-name router.example";

/// Arguments of `load`.
#[derive(Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct LoadArguments {
    /// What to send requests to: HOST:PORT, an IPv6 address in brackets.
    #[arg(long, value_name = "HOST:PORT")]
    pub target: String,
    /// Clients, each with a connection.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub clients: u32,
    /// How many requests to send in all, instead of for a time.
    #[arg(long, value_name = "N", conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: Option<u64>,
    /// How long to send, in seconds; 10 unless --requests is given.
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero)]
    pub seconds: Option<Duration>,
    /// Bytes of a payload.
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    pub size: u32,
    /// Requests a second, of all clients together; without it each client sends when it has its answer.
    #[arg(long, value_name = "N", value_parser = rate)]
    pub rate: Option<f64>,
    /// Requests that a client may have under way.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub pipeline: u32,
    /// A new connection for every request; its connect is part of the request's time.
    #[arg(long, conflicts_with = "pipeline")]
    pub dial_per_request: bool,
    /// Connections are closed by a reset, which leaves no port waiting; for many short ones.
    #[arg(long)]
    pub reset: bool,
    /// How long to send before anything is measured, in seconds; may be 0.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds, conflicts_with = "requests")]
    pub warmup: Duration,
    /// How long a connect, and each request, may take before it is lost, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds_above_zero)]
    pub timeout: Duration,
    /// Further connections that stay idle until the end.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub idle: u32,
    /// An address to connect from; several are taken in turn, where the ports of one do not suffice.
    #[arg(long = "source", value_name = "ADDRESS")]
    pub sources: Vec<IpAddr>,
    /// Speak TLS.
    #[arg(long, requires = "ca")]
    pub tls: bool,
    /// Certificates (PEM) of the authorities that may have signed the target's.
    #[arg(long, value_name = "FILE", requires = "tls")]
    pub ca: Option<PathBuf>,
    /// The name that the target's certificate is for, if it is not --target's host.
    #[arg(long, value_name = "NAME", requires = "tls")]
    pub server_name: Option<String>,
    /// A certificate (PEM) to show to the target.
    #[arg(long, value_name = "FILE", requires_all = ["tls", "key"])]
    pub cert: Option<PathBuf>,
    /// Its key (PEM).
    #[arg(long, value_name = "FILE", requires_all = ["tls", "cert"])]
    pub key: Option<PathBuf>,
    /// JSON lines instead of text.
    #[arg(long)]
    pub json: bool,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 1e9 => Ok(rate),
        _ => Err("it takes requests a second, more than 0 and at most 1000000000".to_owned()),
    }
}
