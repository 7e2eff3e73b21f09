//! Ctrl-C and SIGTERM: the first asks the command to end in good order, a second ends the process at once.

use tokio::sync::watch;

/// What a shell reports for a process that Ctrl-C ended.
const KILLED_BY_INTERRUPT: i32 = 130;

/// Whether somebody wants the command to end. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Interrupt {
    asked: watch::Sender<bool>,
}

impl Interrupt {
    /// Listens for the signals from now on. Must be called inside a tokio runtime.
    pub fn on_signals() -> Self {
        let interrupt = Interrupt::never();
        let listener = interrupt.clone();
        tokio::spawn(async move {
            while signalled().await {
                if listener.is_asked() {
                    std::process::exit(KILLED_BY_INTERRUPT);
                }
                listener.ask();
            }
        });
        interrupt
    }

    /// One that no signal asks; [`ask`](Self::ask) still does.
    pub fn never() -> Self {
        Interrupt {
            asked: watch::Sender::new(false),
        }
    }

    /// Asks the command to end.
    pub fn ask(&self) {
        self.asked.send_replace(true);
    }

    /// Whether it has been asked to end.
    pub fn is_asked(&self) -> bool {
        *self.asked.borrow()
    }

    /// Ready once the command has been asked to end. Cancel safe.
    pub async fn asked(&self) {
        // The sender lives in `self`, so this ends only by the value.
        let _ = self.asked.subscribe().wait_for(|asked| *asked).await;
    }
}

/// Waits for one signal; `false` if there can be none.
async fn signalled() -> bool {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let Ok(mut terminate) = signal(SignalKind::terminate()) else {
            return false;
        };
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted.is_ok(),
            terminated = terminate.recv() => terminated.is_some(),
        }
    }
    #[cfg(not(unix))]
    {
        tokio::signal::ctrl_c().await.is_ok()
    }
}
