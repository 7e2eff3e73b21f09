//! What must hold at every moment of a history, whatever breaks.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pgsteer::Pool;
use pgsteer_sim::{Breakage, Fault, Schedule, Sim};
use tokio::time::Instant;

use super::plan::Plan;

/// What workers tell the watch.
#[derive(Default)]
pub struct Ledger {
    detached: AtomicUsize,
    most: AtomicUsize,
}

impl Ledger {
    /// A connection was taken out of the pool for good.
    pub fn detached(&self) {
        let now = self.detached.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
    }

    /// It was dropped by its holder.
    pub fn dropped(&self) {
        self.detached.fetch_sub(1, Ordering::Relaxed);
    }

    /// The most there were at one moment since this was last asked.
    fn most(&self) -> usize {
        self.most
            .swap(self.detached.load(Ordering::Relaxed), Ordering::Relaxed)
    }
}

/// Looks at a pool and its servers from outside.
pub struct Watch {
    plan: Plan,
    sim: Sim,
    pool: Pool,
    ledger: Arc<Ledger>,
    recent: Mutex<VecDeque<Look>>,
    /// When servers do not notice what their clients do.
    absences: Mutex<Vec<(Instant, Instant)>>,
}

/// What was seen of trouble at one look.
struct Look {
    at: Instant,
    failing: usize,
    cut: u64,
    detached: usize,
}

/// For this long after trouble, servers may have sessions whose clients have gone.
const LINGER: Duration = Duration::from_secs(15);

impl Watch {
    pub fn new(plan: &Plan, sim: &Sim, pool: &Pool) -> Self {
        Watch {
            plan: plan.clone(),
            sim: sim.clone(),
            pool: pool.clone(),
            ledger: Arc::default(),
            recent: Mutex::default(),
            absences: Mutex::default(),
        }
    }

    /// These faults begin now. A server that is stopped, slow or cut off keeps sessions that nobody has any more.
    pub fn expect(&self, faults: &Schedule) {
        let now = Instant::now();
        let absent = |kind| matches!(kind, Breakage::Freeze | Breakage::Partition | Breakage::Slow);
        let mut absences = Vec::new();
        let mut began: BTreeMap<&str, Instant> = BTreeMap::new();
        for step in &faults.steps {
            match step.fault {
                Fault::Break(kind) if absent(kind) => drop(began.insert(&step.server, now + step.at)),
                Fault::Mend(kind) if absent(kind) => {
                    let since = began.remove(step.server.as_str()).unwrap_or(now);
                    absences.push((since, now + step.at + LINGER));
                }
                _ => {}
            }
        }
        *self.absences.lock().unwrap() = absences;
    }

    pub fn ledger(&self) -> Arc<Ledger> {
        self.ledger.clone()
    }

    /// What holds at all times.
    pub fn check(&self) {
        let status = self.pool.status();
        let slots = status.idle + status.leased + status.opening + status.settling + status.closing;
        assert!(
            slots <= self.plan.size,
            "more slots in use than there are: {status:?}"
        );
        assert!(u64::from(status.waiting) <= self.plan.workers, "{status:?}");
        let open = status.idle + status.leased + status.settling + status.closing;
        assert_eq!(
            status.totals.opened,
            status.totals.closes.total() + u64::from(open),
            "every connection that was opened is open or is counted as gone, once: {status:?}"
        );

        let snapshot = self.pool.cluster().snapshot();
        let detached = self.ledger.most();
        let mut recent = self.recent.lock().unwrap();
        let now = Instant::now();
        recent.retain(|look| look.at + LINGER > now);
        recent.push_back(Look {
            at: now,
            failing: snapshot.failures.len(),
            cut: status.totals.cut,
            detached,
        });
        if self
            .absences
            .lock()
            .unwrap()
            .iter()
            .any(|(from, until)| (*from..*until).contains(&now))
        {
            return;
        }
        let cut = status.totals.cut - recent.front().map_or(0, |look| look.cut);
        let detached = recent.iter().map(|look| look.detached).max().unwrap_or(0);
        let failing = recent.iter().map(|look| look.failing).max().unwrap_or(0);
        // One discovery, a probe for each failed host, and sessions whose client was cut and that still run.
        let most = self.plan.size as usize + detached + 1 + failing + cut as usize;
        let live = self.sim.live();
        assert!(
            live <= most,
            "{live} sessions, {most} accounted for: {status:?} {:#?}",
            self.sim.sessions()
        );
        let counted: u32 = snapshot.counts.values().sum();
        assert!(
            counted as usize <= self.plan.size as usize + detached,
            "{snapshot:?}"
        );
    }

    /// What holds when nothing has been wrong for a while and nobody works.
    pub fn check_calm(&self) {
        let status = self.pool.status();
        assert_eq!(
            (status.leased, status.waiting, status.settling),
            (0, 0, 0),
            "{status:?}"
        );
        let snapshot = self.pool.cluster().snapshot();
        assert!(snapshot.failures.is_empty(), "{snapshot:?}");
        let present = status.idle + status.opening + status.closing;
        assert!(present >= self.plan.floor(), "{status:?}");
        let most = self.plan.size as usize + usize::from(snapshot.discovery.running);
        assert!(self.sim.live() <= most, "{status:?} {:#?}", self.sim.sessions());
        assert_eq!(
            snapshot.pending.values().sum::<u32>(),
            status.opening,
            "{snapshot:?} {status:?}"
        );
    }

    /// Whether all connections are where they belong, and as even as can be.
    pub fn is_placed_well(&self) -> Result<(), String> {
        let status = self.pool.status();
        let snapshot = self.pool.cluster().snapshot();
        let wrong = |what: &str| Err(format!("{what}: {status:?} {snapshot:?}"));
        if !snapshot.failures.is_empty() {
            return wrong("a host is not found back");
        }
        if status.idle < self.plan.floor() || status.opening + status.settling + status.closing > 0 {
            return wrong("the pool is not full");
        }
        let home = self.plan.home();
        let mut counts: BTreeMap<&str, u32> = home.iter().map(|name| (*name, 0)).collect();
        for (host, count) in &status.by_host {
            match counts.get_mut(host.name()) {
                Some(known) => *known += count,
                None => return wrong("a connection is where it does not belong"),
            }
        }
        let (least, most) = (counts.values().min(), counts.values().max());
        if most > least.map(|least| least + 1).as_ref() {
            return wrong("the spread is uneven");
        }
        let live = self.sim.live();
        let discovery = usize::from(snapshot.discovery.running);
        if live > status.idle as usize + discovery {
            return wrong(&format!("{live} sessions on the servers"));
        }
        Ok(())
    }
}
