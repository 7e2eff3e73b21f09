//! The application: tasks that write, each in the same plain loop around whatever it is given.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::contender::{Writer, Writers};

/// After a write a task rests this long.
const PACE: Duration = Duration::from_millis(50);
/// After a failure it tries again after this.
const RETRY: Duration = Duration::from_millis(100);
/// A call that is not done by then is given up.
pub const GIVEN_UP_AFTER: Duration = Duration::from_secs(10);

/// One call of one task.
#[derive(Clone, Debug)]
pub struct Call {
    pub task: usize,
    pub ended: Instant,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// On this server.
    Wrote(String),
    /// With this kind of error.
    Failed(String),
    /// It was not done within [`GIVEN_UP_AFTER`].
    Hung,
}

/// The tasks at work.
pub struct Load {
    tasks: JoinSet<()>,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Load {
    /// To be called on a runtime.
    pub fn start(writers: Writers) -> Self {
        let calls: Arc<Mutex<Vec<Call>>> = Arc::default();
        let mut tasks = JoinSet::new();
        for (task, writer) in writers.into_iter().enumerate() {
            tasks.spawn(work(task, writer, calls.clone()));
        }
        Load { tasks, calls }
    }

    pub fn end(mut self) -> Vec<Call> {
        self.tasks.abort_all();
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn work(task: usize, mut writer: Box<dyn Writer>, calls: Arc<Mutex<Vec<Call>>>) {
    loop {
        let outcome = match timeout(GIVEN_UP_AFTER, writer.write()).await {
            Ok(Ok(server)) => Outcome::Wrote(server),
            Ok(Err(kind)) => Outcome::Failed(kind),
            Err(_) => {
                writer.given_up();
                Outcome::Hung
            }
        };
        let rest = match outcome {
            Outcome::Wrote(_) => PACE,
            _ => RETRY,
        };
        let call = Call {
            task,
            ended: Instant::now(),
            outcome,
        };
        calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        sleep(rest).await;
    }
}
