//! The scripts of a primary and two standbys: the primary dies, freezes or is stopped, a standby is promoted, the old
//! primary comes back as a standby.

use std::thread::sleep;
use std::time::{Duration, Instant};

use pgsteer_testkit::HaSet;

use super::contender::{Contender, Hosts};
use super::load::{GIVEN_UP_AFTER, Load};
use super::summary::Calls;
use super::table::{Table, errors, seconds};
use super::{LEAD, runtime};

/// Nobody is promoted earlier than this after the primary is gone.
const UNTIL_PROMOTION: Duration = Duration::from_secs(2);
/// The run after the promotion, until the old primary comes back.
const AFTER_PROMOTION: Duration = Duration::from_secs(15);
/// The run after that.
const AFTER_RETURN: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    Kill,
    Freeze,
    Switchover,
}

impl Scenario {
    pub const ALL: [Scenario; 3] = [Scenario::Kill, Scenario::Freeze, Scenario::Switchover];

    pub fn word(self) -> &'static str {
        match self {
            Scenario::Kill => "kill",
            Scenario::Freeze => "freeze",
            Scenario::Switchover => "switchover",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Scenario::Kill => "The primary is killed",
            Scenario::Freeze => "The primary freezes",
            Scenario::Switchover => "A planned switchover",
        }
    }

    pub fn steps(self) -> &'static str {
        match self {
            Scenario::Kill => {
                "5 s of writes; every process of the primary is killed; 2 s later the first standby is promoted and \
                 the second follows it; 15 s later the old primary rejoins as a standby; 5 s more."
            }
            Scenario::Freeze => {
                "5 s of writes; every process of the primary is stopped with SIGSTOP, so that its sockets stay open, \
                 new connections to it are accepted by the kernel, and nothing is ever answered; 2 s later the first \
                 standby is promoted and the second follows it; 30 s later the old primary is killed and rejoins as a \
                 standby; 5 s more. A first write just after 30 s means that there was none for as long as the frozen \
                 server held its sockets open."
            }
            Scenario::Switchover => {
                "5 s of writes; the primary is stopped in fast mode (its sessions are told 57P01); the first standby \
                 is promoted at once, the second follows it, and the old primary rejoins as a standby; 15 s more."
            }
        }
    }
}

pub fn table(scenario: Scenario) -> Table {
    Table::new(
        scenario.title(),
        scenario.steps(),
        &[
            "",
            "writes before",
            "first write on the new primary after its promotion, s",
            "all 32 tasks write there, s",
            "longest time without any write, s",
            "calls given up after 10 s",
            "25006 seen",
            "other errors",
            "connections at the end, by node",
        ],
    )
}

/// Puts a contender through a scenario; a row of its table.
pub fn run(scenario: Scenario, contender: &Contender) -> Vec<String> {
    let set = HaSet::start();
    set.node(0).sql(
        "CREATE TABLE writes (id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp())",
    );
    set.node(0)
        .sql(&format!("ALTER TABLE writes OWNER TO {}", pgsteer_testkit::USER));
    set.wait_caught_up(1, 0);
    set.wait_caught_up(2, 0);
    let hosts = Hosts {
        addresses: set.addresses(),
        application: "failover".to_owned(),
    };
    let runtime = runtime();
    let load = runtime.block_on(async { Load::start((contender.build)(&hosts)) });
    sleep(LEAD);
    let broken = Instant::now();
    match scenario {
        Scenario::Kill => set.node(0).kill(),
        Scenario::Freeze => set.node(0).freeze(),
        Scenario::Switchover => set.node(0).stop_fast(),
    }
    if scenario != Scenario::Switchover {
        sleep(UNTIL_PROMOTION.saturating_sub(broken.elapsed()));
    }
    let asked = Instant::now();
    set.promote(1);
    let promoted = Instant::now();
    set.follow(2, 1);
    match scenario {
        Scenario::Kill => {
            sleep(AFTER_PROMOTION.saturating_sub(promoted.elapsed()));
            set.rejoin(0, 1);
            sleep(AFTER_RETURN);
        }
        // Time for a call that is given up, for a reconnect that is given up, and for what comes then.
        Scenario::Freeze => {
            sleep((3 * GIVEN_UP_AFTER).saturating_sub(promoted.elapsed()));
            set.node(0).kill();
            set.rejoin(0, 1);
            sleep(AFTER_RETURN);
        }
        Scenario::Switchover => {
            set.rejoin(0, 1);
            sleep(AFTER_PROMOTION.saturating_sub(promoted.elapsed()));
        }
    }
    let end = Instant::now();
    let connections = set.spread(&hosts.application);
    let calls = Calls::new(load.end());
    runtime.shutdown_background();

    let primary = set.node(1).host();
    let (mut kinds, hung) = calls.errors_since(broken);
    let read_only = kinds.remove("25006").unwrap_or(0);
    // A write may be done before the one who promoted has looked.
    let after = |at: Instant| seconds(at.saturating_duration_since(promoted));
    vec![
        contender.name.to_owned(),
        calls.writes_between(broken - LEAD, broken).to_string(),
        calls
            .first_write(primary, asked)
            .map_or("never".to_owned(), after),
        match calls.all_tasks_wrote(primary, asked) {
            Ok(at) => after(at),
            Err(left) => format!("never ({left} tasks did not)"),
        },
        seconds(calls.longest_gap(broken, end)),
        hung.to_string(),
        read_only.to_string(),
        errors(&kinds),
        connections
            .iter()
            .map(usize::to_string)
            .collect::<Vec<_>>()
            .join(" / "),
    ]
}
