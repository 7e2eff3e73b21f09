//! A large pool against a small one. No server takes ten thousand connections, so this measures the pool's slots
//! themselves, the part whose cost could depend on their number, with tenants that are nothing.

use std::convert::Infallible;
use std::time::Instant;

use cpu_time::ThreadTime;
use pgsteer_core::pool::{Keeper, Lease, Slots, Take, Tenant};

use crate::options::Options;
use crate::report::{Bound, Report};
use crate::table::{Column, Table};

const SMALL: u32 = 10;
const LARGE: u32 = 10_000;

const ALL_IDLE: &str = "all idle, CPU ns";
const ONE_IDLE: &str = "only the last idle, CPU ns";
const SHUFFLED: &str = "half in use, returned in random order, CPU ns";
const COLUMNS: &[Column] = &[
    Column::lower(ALL_IDLE),
    Column::lower(ONE_IDLE),
    Column::lower(SHUFFLED),
];

struct Nothing;

impl Tenant for Nothing {
    fn is_fit(&self) -> bool {
        true
    }
}

/// Nothing unfit comes and nobody waits.
struct NoKeeper;

impl Keeper for NoKeeper {
    fn receive(&self, lease: Lease) {
        unreachable!("every tenant is fit, and {lease:?} came")
    }
    fn due(&self, _: Instant) {}
}

struct Filled {
    slots: Slots<Nothing, Infallible>,
    size: u32,
}

impl Filled {
    fn new(size: u32) -> Self {
        let (slots, leases) = Slots::new(size, Box::new(NoKeeper));
        for mut lease in leases {
            slots.put(&mut lease, Nothing);
            slots.release(lease);
        }
        Filled { slots, size }
    }

    fn take(&self) -> Lease {
        match self.slots.try_take() {
            Take::Leased(lease) => lease,
            other => unreachable!("a slot is idle, and got {other:?}"),
        }
    }

    /// With so many slots taken, what a turn costs.
    fn time(&self, taken: u32, turns: u32, turn: impl Fn(&mut Vec<Lease>)) -> f64 {
        let mut leases: Vec<Lease> = (0..taken).map(|_| self.take()).collect();
        let started = ThreadTime::now();
        for _ in 0..turns {
            turn(&mut leases);
        }
        let took = started.elapsed();
        for lease in leases {
            self.slots.release(lease);
        }
        took.as_nanos() as f64 / f64::from(turns)
    }

    fn round(&self, turns: u32, table: &mut Table) {
        let get_and_return = |_: &mut Vec<Lease>| self.slots.release(self.take());
        let get_and_return_another = |leases: &mut Vec<Lease>| {
            let place = fastrand::usize(..leases.len());
            self.slots
                .release(std::mem::replace(&mut leases[place], self.take()));
        };
        let all_idle = self.time(0, turns, get_and_return);
        let one_idle = self.time(self.size - 1, turns, get_and_return);
        let shuffled = self.time(self.size / 2, turns, get_and_return_another);
        table.add(&format!("pool of {}", self.size), [all_idle, one_idle, shuffled]);
    }
}

pub fn measure(options: &Options, report: &mut Report) {
    let mut table = Table::new("4. Get and return in a small and a large pool", COLUMNS);
    let (small, large) = (Filled::new(SMALL), Filled::new(LARGE));
    let turns = if options.quick { 20_000 } else { 200_000 };
    for _ in 0..options.rounds(31) {
        small.round(turns, &mut table);
        large.round(turns, &mut table);
    }

    let ratio = |column| table.median("pool of 10000", column) / table.median("pool of 10", column);
    let worse = ratio(ALL_IDLE).max(ratio(ONE_IDLE));
    report.demand(
        "pool of 10 000: get and return, times a pool of 10's",
        Bound::AtMost(2.0),
        worse,
        "x",
    );
    report.table(
        table,
        "The pool's slots alone, one thread: no server takes ten thousand connections. The last column's turn \
         includes drawing a random number, and in the large pool the processor's cache misses.",
    );
}
