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
        // From here on, and not from when the task first runs: a signal before that would end the process.
        let Some(mut signals) = Signals::listen() else {
            return interrupt;
        };
        let listener = interrupt.clone();
        tokio::spawn(async move {
            while signals.next().await {
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

/// The signals, without a gap between one and the next.
struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Listens from now on; `None` if there can be none.
    #[cfg(unix)]
    fn listen() -> Option<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Some(Signals {
            interrupt: signal(SignalKind::interrupt()).ok()?,
            terminate: signal(SignalKind::terminate()).ok()?,
        })
    }

    #[cfg(not(unix))]
    fn listen() -> Option<Self> {
        Some(Signals {})
    }

    /// Waits for one; `false` if there can be none any more.
    async fn next(&mut self) -> bool {
        #[cfg(unix)]
        {
            tokio::select! {
                interrupted = self.interrupt.recv() => interrupted.is_some(),
                terminated = self.terminate.recv() => terminated.is_some(),
            }
        }
        #[cfg(not(unix))]
        {
            tokio::signal::ctrl_c().await.is_ok()
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use rustix::process::{Signal, getpid, kill_process};

    use super::Interrupt;

    /// Covers: S-55
    #[tokio::test]
    async fn a_signal_is_heard_from_the_first_moment_on_though_no_task_has_run_yet() {
        let interrupt = Interrupt::on_signals();

        // Not listened for, it would end this process.
        kill_process(getpid(), Signal::TERM).expect("it is sent");

        interrupt.asked().await;
    }
}
