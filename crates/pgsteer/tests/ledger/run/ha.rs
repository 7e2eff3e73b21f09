//! A primary with two standbys that takes part in every fault a failover can be made of. Every commit waits until a
//! standby has it, so that none that was told is lost at a promotion: otherwise it would be the servers that do not tell
//! the truth.
//!
//! Before a promotion the standbys stop following, whatever became of the primary: from then on it can have no commit
//! confirmed, so it need not be fenced off. Promoted is the standby that has got further, which therefore has all that was
//! ever confirmed. Standbys are named, since to `*` a base backup would be a standby as good as any.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use pgsteer_testkit::{Blackhole, HaSet, Server};

use super::faults::{Fault, Step};
use super::site::{APPLICATION, Frozen, Site, crash_a_backend, is_soon, number, wait_until};
use super::transfer::TABLES;

/// A primary and two standbys.
pub(crate) struct Ha {
    set: HaSet,
    primary: AtomicUsize,
    frozen: Frozen,
}

impl Ha {
    pub(crate) fn start() -> Self {
        let set = HaSet::builder()
            .standbys(2)
            .configure_all(|spec| {
                spec.setting("synchronous_standby_names", "ANY 1 (node0, node1, node2)")
                    .setting("synchronous_commit", "on")
                    .setting("deadlock_timeout", "50ms")
                    .setting("max_wal_size", "64MB")
            })
            .start();
        set.node(0).sql(TABLES);
        (1..set.nodes().len()).for_each(|standby| set.wait_caught_up(standby, 0));
        Ha {
            set,
            primary: AtomicUsize::new(0),
            frozen: Frozen::default(),
        }
    }

    fn primary(&self) -> &Server {
        self.set.node(self.primary.load(Ordering::SeqCst))
    }

    fn standbys(&self) -> Vec<usize> {
        let primary = self.primary.load(Ordering::SeqCst);
        (0..self.set.nodes().len())
            .filter(|node| *node != primary)
            .collect()
    }

    /// Both standbys follow the primary.
    fn wait_whole(&self) {
        wait_until("both standbys follow the primary", || {
            let following = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
            number(self.primary(), following) == Some(2)
        });
    }

    /// No standby follows any more, and what each has got is all that it will get.
    fn detach_standbys(&self) {
        for standby in self.standbys() {
            let node = self.set.node(standby);
            node.reload_settings(&[("primary_conninfo", "")]);
            wait_until("the standby has stopped following", || {
                number(node, "SELECT count(*) FROM pg_stat_wal_receiver") == Some(0)
            });
        }
    }

    /// How far into the log a standby that does not follow has come.
    fn position(&self, standby: usize) -> u64 {
        let sql = "SELECT greatest(coalesce(pg_last_wal_receive_lsn(), '0/0'), \
                                   coalesce(pg_last_wal_replay_lsn(), '0/0')) - '0/0'::pg_lsn";
        number(self.set.node(standby), sql).expect("a standby tells how far it has come")
    }

    /// Promotes the standby that has got further, has the other one follow it, and after a while, in which the old
    /// primary may be up again, brings that one back as a standby. The standbys follow nobody.
    fn fail_over(&self, beside: Duration, release: impl FnOnce()) {
        let old = self.primary.load(Ordering::SeqCst);
        let mut standbys = self.standbys();
        standbys.sort_by_key(|standby| std::cmp::Reverse(self.position(*standby)));
        let [new, other] = standbys[..] else {
            unreachable!("there are two standbys");
        };
        self.set.promote(new);
        self.primary.store(new, Ordering::SeqCst);
        self.set.follow(other, new);
        release();
        sleep(beside);
        self.set.rejoin(old, new);
    }

    /// Waits until a commit waits for standbys that do not come; a moment at most, for one whose callers are all
    /// elsewhere.
    fn await_waiting_commits(&self) {
        let waiting = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = '{APPLICATION}'"
        );
        let _ = is_soon(Duration::from_secs(5), || {
            number(self.primary(), &waiting).is_some_and(|waiting| waiting > 0)
        });
    }
}

impl Site for Ha {
    fn name(&self) -> &'static str {
        "HA set"
    }

    fn url(&self) -> String {
        format!(
            "{}?application_name={APPLICATION}&target_session_attrs=read-write\
             &failed_host_reconnect_delay_secs=1&yb_servers_refresh_interval=1&role_ttl=1s&rebalance_interval=100ms\
             &connect_timeout=2",
            self.set.url()
        )
    }

    fn faults(&self) -> &'static [Fault] {
        Fault::TO_A_SET
    }

    fn suffer(&self, step: &Step) {
        let primary = self.primary();
        let nothing = || ();
        match step.fault {
            Fault::CrashBackend => crash_a_backend(primary, step),
            Fault::Kill => {
                primary.kill();
                sleep(step.lasts);
                primary.start();
            }
            Fault::FastStop => {
                primary.stop_fast();
                sleep(step.lasts);
                primary.start();
            }
            Fault::ImmediateStop => {
                primary.stop_immediate();
                sleep(step.lasts);
                primary.start();
            }
            Fault::Freeze => {
                self.frozen.freeze(primary);
                sleep(step.lasts);
                self.frozen.thaw(primary);
            }
            Fault::Blackhole => {
                let hole = Blackhole::over(&[&primary.address()]);
                sleep(step.lasts);
                drop(hole);
            }
            Fault::StandbysLost => {
                self.detach_standbys();
                sleep(step.lasts);
                let primary = self.primary.load(Ordering::SeqCst);
                for standby in self.standbys() {
                    self.set.follow(standby, primary);
                }
            }
            Fault::PromoteAfterKill => {
                primary.kill();
                self.detach_standbys();
                self.fail_over(step.lasts, nothing);
            }
            Fault::PromoteAfterStop => {
                primary.stop_fast();
                self.detach_standbys();
                self.fail_over(step.lasts, nothing);
            }
            Fault::PromoteBesideFrozen => {
                self.frozen.freeze(primary);
                self.detach_standbys();
                self.fail_over(step.lasts, || self.frozen.thaw(primary));
            }
            Fault::PromoteBesideCutOff => {
                let hole = Blackhole::over(&[&primary.address()]);
                self.detach_standbys();
                self.fail_over(step.lasts, || drop(hole));
            }
            Fault::PromoteBesideLiving => {
                self.detach_standbys();
                self.fail_over(step.lasts, nothing);
            }
            Fault::PromoteAfterCancel => {
                self.detach_standbys();
                self.await_waiting_commits();
                primary
                    .sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
                sleep(step.lasts);
                self.fail_over(step.lasts, nothing);
            }
            Fault::PromoteAfterCrash => {
                self.detach_standbys();
                self.await_waiting_commits();
                crash_a_backend(primary, step);
                sleep(step.lasts);
                self.fail_over(step.lasts, nothing);
            }
            Fault::Outage => unreachable!("a fault of servers that share nothing"),
        }
        self.wait_whole();
    }

    fn within_reach(&self) -> Vec<&Server> {
        let nodes = self.set.nodes().iter();
        nodes.filter(|node| !self.frozen.holds(node)).collect()
    }

    fn ledgers(&self) -> Vec<&Server> {
        vec![self.primary()]
    }
}
