//! What the library logs: to standard error at `warn` or as RUST_LOG says, or, in the demo, into its own event log.

use std::io::{self, Write};
use std::sync::mpsc::Sender;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Logs to standard error. Does nothing if a log is already set up.
pub fn to_stderr() {
    to_stderr_at("warn");
}

/// Logs to standard error what these directives say, unless RUST_LOG says otherwise. Does nothing if a log is already set
/// up.
pub fn to_stderr_at(directives: &str) {
    let filter = filter(directives);
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(io::stderr)
        .try_init();
}

/// Sends each line of the log to `lines`, without times. Does nothing if a log is already set up.
pub fn to_channel(lines: Sender<String>) {
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter("pgsteer=info,warn"))
        .with_ansi(false)
        .without_time()
        .with_level(false)
        .with_target(false)
        .with_writer(Lines(lines));
    let _ = log.try_init();
}

fn filter(default: &str) -> EnvFilter {
    EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default))
}

/// Makes a writer per event.
struct Lines(Sender<String>);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line {
            lines: &self.0,
            text: Vec::new(),
        }
    }
}

/// Collects one event and sends it when it is complete.
struct Line<'a> {
    lines: &'a Sender<String>,
    text: Vec<u8>,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.text);
        let text = text.trim();
        if !text.is_empty() {
            // The reader has gone when the demo is over; then nobody wants the line.
            let _ = self.lines.send(text.to_owned());
        }
    }
}
