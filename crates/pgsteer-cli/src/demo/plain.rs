//! The demo as plain lines: what happens as it happens, and once a second where the connections are.

use std::fmt::Write;
use std::time::Duration;

use super::board::{Condition, Event, Kind};
use super::scene::Scene;

/// One event.
pub fn event(event: &Event) -> String {
    let mark = match event.kind {
        Kind::Act => "! ",
        Kind::Seen => "",
        Kind::Wrong => "WRONG: ",
        Kind::Log => "log: ",
    };
    format!("{} {mark}{}", clock(event.at), event.text)
}

/// Where the connections are, and how the load does.
pub fn line(scene: &Scene) -> String {
    let mut line = format!("{}   ", clock(scene.elapsed));
    let mut zone = "";
    for server in &scene.servers {
        if !zone.is_empty() && zone != server.zone {
            line.push_str(" |");
        }
        zone = &server.zone;
        let mark = match server.condition {
            Condition::Up => "",
            Condition::Killed => " killed",
            Condition::Frozen => " frozen",
        };
        // Writing to a string cannot fail.
        let _ = write!(line, " {} {:>2}{mark}", server.name, server.connections);
    }
    let (per_second, p99) = scene.newest();
    let _ = write!(
        line,
        "   {per_second:>6.0} queries/s  p99 {:>7.1} ms  {} failed",
        p99.as_secs_f64() * 1000.0,
        scene.failed
    );
    line
}

fn clock(at: Duration) -> String {
    format!("[{:>5.1} s]", at.as_secs_f64())
}
