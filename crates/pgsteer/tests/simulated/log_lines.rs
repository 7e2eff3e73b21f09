//! Captures what is told through `tracing` on this thread, as lines of level and text.
//!
//! One subscriber hears everything of the whole program, from before the first pool of any test: with a subscriber a
//! thread, a place that is told from by another test in the moment a subscriber comes may never be heard again. What is
//! heard is kept by the thread it is told on, if that thread listens.

use std::cell::RefCell;
use std::fmt::{self, Write};
use std::sync::OnceLock;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, set_global_default};
use tracing::{Event, Level, Metadata, Subscriber};

thread_local! {
    /// What this thread has told, while it listens.
    static TOLD: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Installs the subscriber. Every test does so before it starts anything.
pub fn install() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| set_global_default(Listener).expect("nobody else listens"));
}

/// The lines told since it was made or last read. Listens until dropped.
pub struct Lines(());

impl Lines {
    /// Hears everything on this thread from now on, debugging included.
    pub fn listen() -> Self {
        install();
        TOLD.set(Some(Vec::new()));
        Lines(())
    }

    /// All lines since the last call, whatever their level.
    pub fn all(&self) -> Vec<String> {
        TOLD.replace(Some(Vec::new())).unwrap_or_default()
    }

    /// The lines that people see by default: information and warnings.
    pub fn seen(&self) -> Vec<String> {
        let mut lines = self.all();
        lines
            .retain(|line| line.starts_with("WARN") || line.starts_with("INFO") || line.starts_with("ERROR"));
        lines
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        TOLD.set(None);
    }
}

struct Listener;

impl Subscriber for Listener {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("pgsteer")
            && *metadata.level() <= Level::DEBUG
            && TOLD.with_borrow(Option::is_some)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        TOLD.with_borrow_mut(|told| told.iter_mut().for_each(|told| told.push(line.0.clone())));
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
