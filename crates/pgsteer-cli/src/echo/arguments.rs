//! The command line of `echo`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::fault::Fault;
use crate::arguments::milliseconds;

const HELP: &str = "\
Every frame (a length of 4 bytes, most significant first, and that many bytes) is sent back as it is, of any length and
while it still arrives; nothing is stored. The first line of standard output is `listening on ADDRESS`, with the port that
the system chose if it was 0. An interrupt or SIGTERM ends it at once, with a line of what it did.

Faults, for testing what is in front of it; several may be given, each with a share of the requests it befalls (@0.01: one
in a hundred; all of them if left out), and the first that does befall a request counts:
  refuse           nobody listens, so connects are refused; the address stays taken
  close-at-accept  connections are closed as soon as they are accepted
  hang             the request is read, and nothing is answered any more on its connection
  close            the request is read and the connection closed without an answer
  cut=N            the answer ends after N bytes, header included, and the connection is closed
  corrupt          one byte of the payload is another one
  garbage          the answer is bytes that are no frame
  oversize         the answer announces 4294967295 bytes
  trickle=MS       the answer comes a byte at a time, MS milliseconds apart
  twice            the answer comes twice

Examples:
  pgsteer echo --listen 127.0.0.1:9090
  pgsteer echo --listen 127.0.0.1:0 --delay-ms 5 --jitter-ms 20
  pgsteer echo --listen '[::1]:9090' --fault hang@0.001 --fault cut=6@0.01 --seed 7
  pgsteer echo --listen 127.0.0.1:9090 --tls-cert cert.pem --tls-key key.pem --tls-client-ca ca.pem";

/// Arguments of `echo`.
#[derive(Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct EchoArguments {
    /// Where to listen: HOST:PORT, an IPv6 address in brackets; port 0 lets the system choose.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9090")]
    pub listen: String,
    /// How long every answer is held back, in milliseconds.
    #[arg(long, value_name = "MS", default_value = "0", value_parser = milliseconds)]
    pub delay_ms: Duration,
    /// A random time up to this is added to each answer's delay, in milliseconds.
    #[arg(long, value_name = "MS", default_value = "0", value_parser = milliseconds)]
    pub jitter_ms: Duration,
    /// Something to do wrong: KIND, KIND=N, either with @SHARE; see below. May be given several times.
    #[arg(long = "fault", value_name = "FAULT")]
    pub faults: Vec<Fault>,
    /// Faults and delays leave empty frames, which a health check sends, alone.
    #[arg(long)]
    pub spare_pings: bool,
    /// Closes each connection after this many answers.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub answers_per_connection: Option<u64>,
    /// Speak TLS: the certificate and its chain (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's key (PEM, not encrypted).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Authorities (PEM) one of which must have signed each client's certificate; without it none is asked for.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,
    /// Seed of everything random; one is drawn and printed if it matters and none is given.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}
