//! Statements that the pool keeps prepared: `query_one_cached` beside deadpool-postgres' `prepare_cached`, from the checkout
//! to the row.

use std::time::Duration;

use crate::options::Options;
use crate::pooled::{Deadpool, PgsteerCached, Selects};
use crate::report::{Bound, Report};
use crate::select_one::{self, COLUMNS, CPU, THROUGHPUT};
use crate::server::{Route, Server};
use crate::table::Table;

fn over(route: &Route, options: &Options, report: &mut Report) {
    let title = format!(
        "8. SELECT 1, kept prepared by the pool, 16 tasks on 8 connections, {}",
        route.name()
    );
    let mut table = Table::new(title, COLUMNS);
    let length = Duration::from_millis(if options.quick { 300 } else { 1_000 });
    for round in 0..options.rounds(15) {
        if round % 2 == 0 {
            select_one::round::<PgsteerCached>(route, length, &mut table);
            select_one::round::<Deadpool>(route, length, &mut table);
        } else {
            select_one::round::<Deadpool>(route, length, &mut table);
            select_one::round::<PgsteerCached>(route, length, &mut table);
        }
    }
    let ratio = |column| table.ratio(PgsteerCached::NAME, Deadpool::NAME, column);
    for (what, bound, column) in [
        ("throughput", Bound::AtLeast(1.0), THROUGHPUT),
        ("client CPU a query", Bound::AtMost(1.0), CPU),
    ] {
        report.demand(
            format!(
                "query_one_cached, {}: {what}, times deadpool-postgres' prepare_cached",
                route.name()
            ),
            bound,
            ratio(column),
            "x",
        );
    }
    report.table(
        table,
        "A query's time counts from asking for the connection. Each keeps the statement by its text on the connection.",
    );
}

pub fn measure(server: &Server, options: &Options, report: &mut Report) {
    over(&server.unix(), options, report);
    over(&server.tcp(), options, report);
}
