//! One client: sends its requests, on one connection after the other, and accounts for each of them.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, sleep_until, timeout};

use super::answers::{Answers, Outcome, Oversize};
use super::pace::Pace;
use super::run::Run;
use super::stream::Stream;
use super::wire::Wire;

/// A client whose connect failed waits this long, so that a target that is down is not dialled in a tight loop.
const AFTER_FAILURE: Duration = Duration::from_millis(10);
/// How long, at the end, a client looks for answers that nobody asked for.
const LAST_LOOK: Duration = Duration::from_secs(2);

/// Why a connection is given up.
enum End {
    /// The client has no more to send.
    Done,
    /// The target said that it would send no more.
    Closed,
    Failed(io::Error),
    TimedOut,
    Oversize,
}

/// One client.
pub(super) struct Client {
    run: Arc<Run>,
    id: u32,
    pace: Option<Pace>,
    /// The number of its next request.
    next: u64,
    /// Since when it could have sent another request.
    free_since: Instant,
}

impl Client {
    /// One that sends at this pace or, without any, whenever it has an answer.
    pub(super) fn new(run: Arc<Run>, id: u32, pace: Option<Pace>) -> Self {
        Client {
            run,
            id,
            pace,
            next: 0,
            free_since: Instant::now(),
        }
    }

    /// Sends until the run is over. Requests whose future is dropped are accounted for nowhere.
    pub(super) async fn work(mut self) {
        loop {
            self.until_due().await;
            if !self.run.claim() {
                break;
            }
            let begun = Instant::now();
            match self.connect().await {
                Some(stream) => self.talk(stream, begun).await,
                None => {
                    if let Some(pace) = &mut self.pace {
                        pace.issue(begun, true);
                    }
                    sleep(AFTER_FAILURE).await;
                }
            }
        }
        if let Some((pace, stopped)) = self.pace.as_ref().zip(self.run.stopped_at()) {
            let behind = pace.behind(stopped);
            self.run.recorder.of(self.id).unsent += behind;
        }
    }

    /// Holds a connection until told to send one request on it, and ends with its answer.
    pub(super) async fn hold(mut self, dialling: &Semaphore, mut finale: watch::Receiver<bool>) {
        let stream = {
            // Never closed.
            let _permit = dialling.acquire().await;
            self.connect().await
        };
        let Some(stream) = stream else { return };
        // The sender outlives the clients.
        let _ = finale.wait_for(|begun| *begun).await;
        self.talk(stream, Instant::now()).await;
    }

    /// Counts what becomes of it; none if it failed.
    async fn connect(&self) -> Option<Stream> {
        let connected = timeout(self.run.timeout, self.run.dialler.connect(self.id)).await;
        let mut tally = self.run.recorder.of(self.id);
        let cause = match connected {
            Ok(Ok(stream)) => {
                tally.connects += 1;
                return Some(stream);
            }
            Ok(Err(error)) => failure(&error),
            Err(_) => "timeout",
        };
        *tally.connect_failures.entry(cause).or_default() += 1;
        None
    }

    /// Sends the request that has been claimed, and further ones where they may share a connection.
    async fn talk(&mut self, stream: Stream, begun: Instant) {
        let run = self.run.clone();
        let mut wire = Wire::new(stream, &run.payloads, run.pipeline);
        let mut answers = Answers::new(&run.payloads, self.id, self.next);
        self.issue(&mut wire, &mut answers, run.dial_per_request.then_some(begun));
        let end = self.converse(&mut wire, &mut answers).await;
        self.next = answers.next();
        self.free_since = Instant::now();
        self.account(&end, &answers);
        run.note_last();
        if matches!(end, End::Done) && !run.dial_per_request {
            self.look_for_more(&mut wire, &mut answers).await;
        }
        wire.close().await;
    }

    async fn converse(&mut self, wire: &mut Wire<'_>, answers: &mut Answers<'_>) -> End {
        let run = self.run.clone();
        let mut stopped = run.stopped.subscribe();
        // Set anew only when it has run out, since nearly all requests are done long before.
        let mut deadline = pin!(sleep(run.timeout));
        loop {
            let more = !run.dial_per_request && self.issue_more(wire, answers);
            if answers.waiting() == 0 && !more {
                return End::Done;
            }
            let due = self.pace.as_ref().map(Pace::due);
            let has_room = more && answers.waiting() < run.pipeline as usize;
            tokio::select! {
                biased;
                read = wire.read() => match read {
                    Ok([]) => return End::Closed,
                    Ok(bytes) => {
                        let was_full = answers.waiting() >= run.pipeline as usize;
                        if self.take(bytes, answers).is_err() {
                            return End::Oversize;
                        }
                        if was_full {
                            self.free_since = Instant::now();
                        }
                    }
                    Err(error) => return End::Failed(error),
                },
                () = deadline.as_mut() => {
                    let now = Instant::now();
                    let until = answers.oldest().unwrap_or(now) + run.timeout;
                    if until <= now {
                        return End::TimedOut;
                    }
                    deadline.as_mut().reset(until.into());
                }
                () = until(due), if has_room => {}
                _ = stopped.wait_for(|stopped| *stopped), if has_room => {}
            }
        }
    }

    /// Sends what may be sent now. Whether there may be more to send later.
    fn issue_more(&mut self, wire: &mut Wire<'_>, answers: &mut Answers<'_>) -> bool {
        while answers.waiting() < self.run.pipeline as usize {
            if self.pace.as_ref().is_some_and(|pace| Instant::now() < pace.due()) {
                return self.run.is_going_on();
            }
            if !self.run.claim() {
                return false;
            }
            self.issue(wire, answers, None);
        }
        true
    }

    /// Sends a request, whose time counts from `from`, if that is given.
    fn issue(&mut self, wire: &mut Wire<'_>, answers: &mut Answers<'_>, from: Option<Instant>) {
        let now = Instant::now();
        let own = match &mut self.pace {
            Some(pace) => pace.issue(now, pace.due() < self.free_since),
            None => now,
        };
        wire.send(answers.expect(from.unwrap_or(own).min(own), now));
        self.run.recorder.of(self.id).sent += 1;
    }

    fn take(&self, bytes: &[u8], answers: &mut Answers<'_>) -> Result<(), Oversize> {
        let now = Instant::now();
        let mut tally = self.run.recorder.of(self.id);
        answers.take(bytes, |outcome| match outcome {
            Outcome::Answered(from) => tally.latency.record(now.saturating_duration_since(from)),
            Outcome::Error(text) => tally.error(&text, 1),
            Outcome::Duplicated => tally.duplicated += 1,
            Outcome::Crossed => tally.crossed += 1,
            Outcome::Corrupted => tally.corrupted += 1,
        })
    }

    /// Accounts for the requests that will get no answer any more.
    fn account(&self, end: &End, answers: &Answers<'_>) {
        let mut tally = self.run.recorder.of(self.id);
        let unanswered = answers.waiting() as u64;
        match end {
            End::Done => {}
            End::Closed if answers.ends_well() => tally.turned_away += unanswered,
            End::Closed if answers.inside_one() => tally.lose("cut", unanswered),
            End::Closed => tally.lose("closed", unanswered),
            End::Failed(error) => tally.lose(failure(error), unanswered),
            End::TimedOut => tally.lose("timeout", unanswered),
            End::Oversize => tally.lose("oversize", unanswered),
        }
    }

    /// Says that nothing more will come, and looks for answers that nobody asked for until the target has ended as well.
    async fn look_for_more(&self, wire: &mut Wire<'_>, answers: &mut Answers<'_>) {
        let look = async {
            wire.finish().await;
            while let Ok(bytes) = wire.read().await {
                if bytes.is_empty() || self.take(bytes, answers).is_err() {
                    break;
                }
            }
        };
        // A target that keeps the connection open longer is not to be waited for.
        let _ = timeout(LAST_LOOK, look).await;
    }

    /// Waits until the next request is due, in an open loop, or the run is over.
    async fn until_due(&self) {
        if let Some(pace) = &self.pace {
            let mut stopped = self.run.stopped.subscribe();
            tokio::select! {
                () = until(Some(pace.due())) => {}
                _ = stopped.wait_for(|stopped| *stopped) => {}
            }
        }
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// An error by one word.
fn failure(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "refused",
        io::ErrorKind::ConnectionReset => "reset",
        io::ErrorKind::ConnectionAborted => "aborted",
        io::ErrorKind::BrokenPipe => "broken_pipe",
        io::ErrorKind::TimedOut => "timeout",
        io::ErrorKind::UnexpectedEof => "closed",
        io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable => "no_port_left",
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "unreachable",
        io::ErrorKind::InvalidData => "tls",
        _ => match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::MFILE.raw_os_error() => "no_descriptor_left",
            _ => "other",
        },
    }
}
