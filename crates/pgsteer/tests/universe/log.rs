//! Everything the library writes to the log in this process, kept for tests to look through. It formats nothing more
//! than it must.

use std::fmt::{self, Write as _};
use std::sync::{Mutex, Once, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static LOGGED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// What the library has logged so far that holds all these words, each line with its level in front.
pub(crate) fn logged(words: &[&str]) -> Vec<String> {
    let lines = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
    lines
        .iter()
        .filter(|line| words.iter().all(|word| line.contains(word)))
        .cloned()
        .collect()
}

/// Has everything recorded that the library logs, in all tests of the process.
pub(crate) fn record_log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Recorder).unwrap());
}

struct Recorder;

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("pgsteer") && *metadata.level() <= tracing::Level::INFO
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        LOGGED.lock().unwrap_or_else(PoisonError::into_inner).push(line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}
