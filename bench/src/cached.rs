//! Statements that the pool keeps prepared: `query_one_cached` beside deadpool-postgres' `prepare_cached`, from the checkout
//! to the row.

use crate::options::Options;
use crate::pooled::{Deadpool, PgsteerCached, Selects};
use crate::report::{Bound, Report};
use crate::select_one::{self, COLUMNS, CPU, THROUGHPUT, TURN};
use crate::server::{Route, Server};
use crate::table::Table;
use crate::turns::in_turn;

fn over(route: &Route, options: &Options, report: &mut Report) {
    let title = format!(
        "8. SELECT 1, kept prepared by the pool, 16 tasks on 8 connections, {}",
        route.name()
    );
    let mut table = Table::new(title, COLUMNS);
    let contenders = [select_one::round::<PgsteerCached>, select_one::round::<Deadpool>];
    for number in 0..options.rounds(51) {
        in_turn(number, &contenders, |round| round(route, TURN, &mut table));
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
