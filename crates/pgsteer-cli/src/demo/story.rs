//! The story of the demo, from filling to thawing: what is done to the servers, what is waited for, and what is checked.
//! Nothing is taken for granted: every claim is measured on the running pool.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::batches::Batches;
use super::board::{Condition, Kind};
use super::losses::{self, Kill};
use super::outcome::{Outcome, StageEnd};
use super::plan::{FREEZES, HOME};
use super::show::Show;
use super::spread::Expected;
use crate::interrupt::Interrupt;

/// How often the pool is looked at while something is waited for.
const GLANCE: Duration = Duration::from_millis(5);
/// How long a spread that was right may be seen wrong for a moment, as while a connection is replaced.
const PATIENCE: Duration = Duration::from_secs(2);

/// Plays the story. An interrupt ends it early; what has been measured by then is the outcome.
pub(super) async fn play(show: &Show, interrupt: &Interrupt) -> Outcome {
    let mut story = Story {
        show,
        stages: Vec::new(),
        kills: Vec::new(),
        kill_to_full: None,
        wrong: Vec::new(),
    };
    let load = show.load();
    let interrupted = tokio::select! {
        () = story.tell() => false,
        () = interrupt.asked() => true,
        never = show.sample() => match never {},
    };
    show.board.set_stage("ending");
    // A frozen or dead server must not hold up the end.
    for server in show.set.servers() {
        if show.board.condition(&server.host) == Condition::Frozen {
            show.act(server.name, Condition::Up);
        }
    }
    if !show.close(load).await {
        story.went_wrong("the pool did not end in good order".to_owned());
    }
    story.outcome(interrupted)
}

struct Story<'a> {
    show: &'a Show,
    stages: Vec<StageEnd>,
    kills: Vec<Kill>,
    kill_to_full: Option<Duration>,
    wrong: Vec<String>,
}

impl Story<'_> {
    async fn tell(&mut self) {
        self.fill().await;
        self.lose_home().await;
        self.come_home().await;
        self.freeze_one().await;
        self.last_look().await;
    }

    async fn fill(&mut self) {
        let plan = &self.show.plan;
        self.begin(
            "filling the pool",
            &format!("{} connections wanted, zone {HOME} preferred", plan.pool_size),
        );
        let expected = plan.at_home.clone();
        let took = self
            .wait_for(&expected)
            .await
            .map(|_| self.show.pool_started.elapsed());
        self.show_calm().await;
        self.end("filled", &expected, took, String::new()).await;
    }

    async fn lose_home(&mut self) {
        self.begin(
            &format!("zone {HOME} is lost"),
            "both its servers are killed, under load",
        );
        let killed = Instant::now();
        for server in self
            .show
            .set
            .servers()
            .iter()
            .filter(|server| server.zone == HOME)
        {
            // Noted first: a query may fail before the call returns.
            self.kills.push(Kill {
                host: server.host.clone(),
                at: Instant::now(),
            });
            self.show.act(server.name, Condition::Killed);
        }
        let expected = self.show.plan.away.clone();
        let took = self.wait_for(&expected).await;
        if took.is_some() {
            self.kill_to_full = Some(killed.elapsed());
        }
        self.show_calm().await;
        let lost = self
            .show
            .ledger
            .losses()
            .iter()
            .filter(|loss| loss.is_in_flight(&self.kills))
            .count();
        let note = format!("{lost} queries lost in flight");
        self.end(&format!("zone {HOME} lost"), &expected, took, note)
            .await;
    }

    async fn come_home(&mut self) {
        self.begin(
            &format!("zone {HOME} is back"),
            "its servers run again; connections move home in batches",
        );
        for server in self
            .show
            .set
            .servers()
            .iter()
            .filter(|server| server.zone == HOME)
        {
            self.show.act(server.name, Condition::Up);
        }
        let moved_before = self.show.pool.status().totals.moved;
        let expected = self.show.plan.at_home.clone();
        let batches = Batches::of(self.show);
        let took = tokio::select! {
            took = self.wait_for(&expected) => took,
            never = batches.watch() => match never {},
        };
        let largest = batches.largest();
        let moved = self.show.pool.status().totals.moved - moved_before;
        let batch = u64::from(self.show.plan.rebalance_batch);
        if largest > batch {
            self.went_wrong(format!(
                "{largest} connections were moved at one time, more than {batch}"
            ));
        }
        self.show_calm().await;
        let note = format!("{moved} connections moved, at most {largest} at a time");
        self.end(&format!("zone {HOME} back"), &expected, took, note)
            .await;
    }

    async fn freeze_one(&mut self) {
        let show = self.show;
        self.begin(
            &format!("server {FREEZES} is frozen"),
            "its queries wait; the rest of the pool must not",
        );
        let (totals, failed) = (show.pool.status().totals, show.ledger.failed());
        let before = self.answered();
        show.act(FREEZES, Condition::Frozen);
        sleep(show.plan.frozen).await;
        let during: Vec<(&str, u64)> = difference(&before, &self.answered());
        let on_others: u64 = during
            .iter()
            .filter(|(name, _)| *name != FREEZES)
            .map(|(_, count)| count)
            .sum();
        if on_others == 0 {
            self.went_wrong(format!("no query was answered while {FREEZES} was frozen"));
        }
        let expected = show.plan.at_home.clone();
        let note = format!("{on_others} queries answered by the other servers meanwhile");
        self.end(
            &format!("{FREEZES} frozen"),
            &expected,
            Some(show.plan.frozen),
            note,
        )
        .await;

        self.begin(
            &format!("server {FREEZES} is thawed"),
            "the queries that waited are answered, none is lost",
        );
        let before = self.answered();
        let thawed = Instant::now();
        show.act(FREEZES, Condition::Up);
        let mut back = None;
        while back.is_none() && thawed.elapsed() < show.plan.limit {
            sleep(GLANCE).await;
            let answers = difference(&before, &self.answered());
            let answered = answers.iter().any(|(name, count)| *name == FREEZES && *count > 0);
            back = answered.then(|| thawed.elapsed());
        }
        self.show_calm().await;
        let after = show.pool.status().totals;
        let (lost, moved) = (after.lost - totals.lost, after.moved - totals.moved);
        let failed = show.ledger.failed() - failed;
        let cost =
            format!("{lost} connections lost, {moved} moved, {failed} queries failed since the freeze");
        if lost + moved + failed > 0 {
            self.went_wrong(format!("the freeze cost too much: {cost}"));
        }
        if back.is_none() {
            self.went_wrong(format!("{FREEZES} answered no query after it was thawed"));
        }
        self.end(&format!("{FREEZES} thawed"), &expected, back, cost)
            .await;
    }

    async fn last_look(&mut self) {
        let expected = self.show.plan.at_the_end.clone();
        self.end("at the end", &expected, None, String::new()).await;
    }

    fn begin(&self, stage: &str, words: &str) {
        self.show.board.set_stage(stage);
        self.show.board.tell(Kind::Seen, format!("{stage}: {words}"));
    }

    /// Notes how a stage ended, and whether the connections are where they should be.
    async fn end(&mut self, name: &str, expected: &Expected, took: Option<Duration>, note: String) {
        let verdict = self.settled(expected, PATIENCE).await;
        let spread = self.show.spread();
        match &verdict {
            Ok(()) => self
                .show
                .board
                .tell(Kind::Seen, format!("{name}: {spread}{}", after(took))),
            Err(reason) => self.went_wrong(format!("{name}: {reason}")),
        }
        self.stages.push(StageEnd {
            name: name.to_owned(),
            spread,
            took,
            right: verdict.is_ok(),
            note,
        });
    }

    fn went_wrong(&mut self, reason: String) {
        self.show.board.tell(Kind::Wrong, reason.clone());
        self.wrong.push(reason);
    }

    /// Waits until the connections are where they should be; how long that took, or `None` after the plan's limit.
    async fn wait_for(&self, expected: &Expected) -> Option<Duration> {
        let started = Instant::now();
        self.settled(expected, self.show.plan.limit)
            .await
            .ok()
            .map(|()| started.elapsed())
    }

    /// Waits, for `limit` at most, until the connections are where they should be.
    async fn settled(&self, expected: &Expected, limit: Duration) -> Result<(), String> {
        let until = Instant::now() + limit;
        loop {
            let verdict = expected.check(&self.show.spread(), self.show.plan.pool_size);
            if verdict.is_ok() || Instant::now() >= until {
                return verdict;
            }
            sleep(GLANCE).await;
        }
    }

    async fn show_calm(&self) {
        sleep(self.show.plan.calm).await;
    }

    /// Queries answered so far, by server.
    fn answered(&self) -> Vec<(&'static str, u64)> {
        let servers = self.show.set.servers().iter();
        servers
            .map(|server| (server.name, self.show.ledger.answered_by(&server.host)))
            .collect()
    }

    fn outcome(self, interrupted: bool) -> Outcome {
        let losses = self.show.ledger.losses();
        let excused = losses
            .iter()
            .filter(|loss| loss.is_in_flight(&self.kills))
            .count() as u64;
        let unexplained = self.show.ledger.failed().saturating_sub(excused);
        let mut wrong = self.wrong;
        if unexplained > 0 {
            wrong.push(format!(
                "{unexplained} operations failed for another reason than a killed server"
            ));
        }
        Outcome {
            took: self.show.board.elapsed(),
            stages: self.stages,
            answered: self.show.ledger.answered(),
            failed: self.show.ledger.failed(),
            causes: losses::by_cause(&losses, &self.kills),
            kill_to_full: self.kill_to_full,
            wrong,
            interrupted,
        }
    }
}

fn after(took: Option<Duration>) -> String {
    took.map(|took| format!(" after {:.2} s", took.as_secs_f64()))
        .unwrap_or_default()
}

fn difference<'a>(before: &[(&'a str, u64)], after: &[(&'a str, u64)]) -> Vec<(&'a str, u64)> {
    before
        .iter()
        .zip(after)
        .map(|((name, before), (_, after))| (*name, after - before))
        .collect()
}
