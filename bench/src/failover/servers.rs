//! The script of a YugabyteDB-like cluster: three servers that all take writes, one is killed and comes back.

use std::thread::sleep;
use std::time::{Duration, Instant};

use pgsteer_testkit::{USER, Universe};

use super::contender::{Contender, Hosts};
use super::load::Load;
use super::summary::Calls;
use super::table::{Table, errors, seconds};
use super::{LEAD, runtime};

const DOWN: Duration = Duration::from_secs(10);
const AFTER_RETURN: Duration = Duration::from_secs(30);

/// Not the first, which discovery asks first.
const VICTIM: usize = 1;

pub fn table() -> Table {
    Table::new(
        "One of three YugabyteDB-like servers is killed and comes back",
        "Three independent servers, each with a `yb_servers()` that lists all three. 5 s of writes; every process of \
         the second server is killed; 10 s later it is started again; 30 s more.",
        &[
            "",
            "writes before",
            "longest time without any write, s",
            "longest time that one task went without, s",
            "calls given up after 10 s",
            "errors",
            "first write on the restarted server, s",
            "connections before, by server",
            "while it was down",
            "at the end",
        ],
    )
}

/// Puts a contender through it; a row of the table.
pub fn run(contender: &Contender) -> Vec<String> {
    let universe = Universe::builder().servers(3).start();
    for server in universe.servers() {
        server.sql("CREATE TABLE writes (id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp())");
        server.sql(&format!("ALTER TABLE writes OWNER TO {USER}"));
    }
    let hosts = Hosts {
        addresses: universe.addresses(),
        application: "failover".to_owned(),
    };
    let spread = || {
        let connections = universe.spread(&hosts.application);
        connections
            .iter()
            .map(usize::to_string)
            .collect::<Vec<_>>()
            .join(" / ")
    };
    let runtime = runtime();
    let load = runtime.block_on(async { Load::start((contender.build)(&hosts)) });
    sleep(LEAD);
    let before = spread();
    let killed = Instant::now();
    universe.server(VICTIM).kill();
    sleep(DOWN.saturating_sub(killed.elapsed()));
    let while_down = spread();
    universe.server(VICTIM).start();
    let restarted = Instant::now();
    sleep(AFTER_RETURN);
    let end = Instant::now();
    let at_the_end = spread();
    let calls = Calls::new(load.end());
    runtime.shutdown_background();

    let (kinds, hung) = calls.errors_since(killed);
    let first = calls.first_write(universe.server(VICTIM).host(), restarted);
    vec![
        contender.name.to_owned(),
        calls.writes_between(killed - LEAD, killed).to_string(),
        seconds(calls.longest_gap(killed, end)),
        seconds(calls.longest_gap_of_a_task(killed, end)),
        hung.to_string(),
        errors(&kinds),
        first.map_or("never".to_owned(), |at| seconds(at - restarted)),
        before,
        while_down,
        at_the_end,
    ]
}
