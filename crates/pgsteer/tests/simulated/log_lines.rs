//! Captures what is told through `tracing` on this thread, as lines of level and text.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

/// The lines told since it was made or last read. Listens until dropped.
pub struct Lines {
    told: Arc<Mutex<Vec<String>>>,
    _listening: DefaultGuard,
}

impl Lines {
    /// Hears everything on this thread from now on, debugging included.
    pub fn listen() -> Self {
        let told = Arc::new(Mutex::new(Vec::new()));
        let _listening = tracing::subscriber::set_default(Listener(told.clone()));
        Lines { told, _listening }
    }

    /// All lines since the last call, whatever their level.
    pub fn all(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.lock().unwrap())
    }

    /// The lines that people see by default: information and warnings.
    pub fn seen(&self) -> Vec<String> {
        let mut lines = self.all();
        lines
            .retain(|line| line.starts_with("WARN") || line.starts_with("INFO") || line.starts_with("ERROR"));
        lines
    }
}

struct Listener(Arc<Mutex<Vec<String>>>);

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("pgsteer") && *metadata.level() <= Level::DEBUG
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let written = if field.name() == "message" {
            write!(self.0, " {value:?}")
        } else {
            write!(self.0, " {}={value:?}", field.name())
        };
        written.expect("text can be written to");
    }
}
