//! A look as a table for people: a header, a row per server, columns as wide as they need to be.

use super::report::{Look, ServerRow};

const HEADER: [&str; 9] = [
    "SERVER",
    "NODE",
    "PLACEMENT",
    "LEVEL",
    "USE",
    "CONNS",
    "CONNECT",
    "ROUND TRIP",
    "STATE",
];
const GAP: &str = "  ";

/// The table, its last line ended.
pub(super) fn table(look: &Look) -> String {
    let mut rows = vec![HEADER.map(str::to_owned)];
    rows.extend(look.servers.iter().map(cells));
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEADER.len()).map(width).collect();
    let mut table = String::new();
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        table.push_str(cells.join(GAP).trim_end());
        table.push('\n');
    }
    table
}

fn cells(server: &ServerRow) -> [String; HEADER.len()] {
    let dash = || "-".to_owned();
    let placement = server
        .placement
        .as_ref()
        .map(|place| format!("{}.{}.{}", place.cloud, place.region, place.zone));
    let usage = match (server.chosen, server.allowed) {
        (true, _) => "new",
        (false, true) => "stay",
        (false, false) => "-",
    };
    [
        server.name(),
        node(server),
        placement.unwrap_or_else(dash),
        server.level.map_or_else(dash, |level| level.to_string()),
        usage.to_owned(),
        server.connections.to_string(),
        server.connect_us.map_or_else(dash, millis),
        server.round_trip_us.map_or_else(dash, millis),
        state(server),
    ]
}

/// What discovery says it is, and what it says of itself where that differs.
fn node(server: &ServerRow) -> String {
    match (server.node_type, server.in_recovery) {
        (Some("primary") | None, Some(true)) => "standby".to_owned(),
        (Some(listed), _) => listed.replace('_', " "),
        (None, Some(false)) => "primary".to_owned(),
        (None, None) => "-".to_owned(),
    }
}

fn state(server: &ServerRow) -> String {
    match (&server.failure, &server.error) {
        (Some(failure), _) => format!(
            "{} for {:.1} s ({}), probed by the first refresh after {:.1} s",
            failure.kind.replace('_', "-"),
            failure.seconds_ago,
            failure.reason,
            failure.probe_due_in_seconds
        ),
        (None, Some(error)) => format!("unreachable ({error})"),
        (None, None) => "ok".to_owned(),
    }
}

fn millis(micros: u64) -> String {
    format!("{:.2} ms", micros as f64 / 1000.0)
}
