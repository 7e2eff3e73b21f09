//! The live view on a real terminal: draws the scene ten times a second and listens for keys. The terminal is given back
//! as it was found, also after a panic.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use tokio::time::{MissedTickBehavior, interval};

use super::show::Show;
use super::view;
use crate::interrupt::Interrupt;

/// Time between two frames.
const FRAME: Duration = Duration::from_millis(100);

/// A terminal in the view's hands.
pub(super) struct Live {
    terminal: DefaultTerminal,
}

impl Live {
    /// Takes the terminal over.
    pub(super) fn start() -> io::Result<Self> {
        Ok(Live {
            terminal: ratatui::try_init()?,
        })
    }

    /// Draws and listens, for ever. Cancel safe.
    pub(super) async fn run(&mut self, show: &Show, interrupt: &Interrupt) -> io::Result<Infallible> {
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            frames.tick().await;
            if wants_to_end()? {
                interrupt.ask();
            }
            let scene = show.scene();
            self.terminal.draw(|frame| view::draw(frame, &scene))?;
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Whether one of the keys pressed since the last frame ends the demo. In raw mode Ctrl-C is a key like any other.
fn wants_to_end() -> io::Result<bool> {
    let mut end = false;
    while event::poll(Duration::ZERO)? {
        if let Event::Key(key) = event::read()? {
            let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            let quit = matches!(key.code, KeyCode::Char('q') | KeyCode::Esc);
            end |= key.kind == KeyEventKind::Press && (control_c || quit);
        }
    }
    Ok(end)
}
