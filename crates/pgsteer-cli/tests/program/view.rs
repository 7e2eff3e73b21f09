//! The demo's live view, drawn in memory.

use std::time::Duration;

use pgsteer_cli::demo::board::{Condition, Event, Kind};
use pgsteer_cli::demo::scene::{Scene, ServerScene};
use pgsteer_cli::demo::view;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Color;

/// Zone a is lost, b and c share its connections.
fn fallen() -> Scene {
    let server = |name: &str, level, connections| ServerScene {
        name: name.to_owned(),
        zone: name[..1].to_owned(),
        level: Some(level),
        connections,
        per_second: f64::from(connections) * 100.0,
        ..ServerScene::default()
    };
    let killed = ServerScene {
        condition: Condition::Killed,
        left_out_for: Some(Duration::from_millis(800)),
        ..server("a1", 1, 0)
    };
    let frozen = ServerScene {
        condition: Condition::Frozen,
        ..server("c1", 2, 4)
    };
    let event = |kind, text: &str| Event {
        at: Duration::from_millis(5200),
        kind,
        text: text.to_owned(),
    };
    Scene {
        elapsed: Duration::from_millis(5400),
        stage: "zone a is lost".to_owned(),
        servers: vec![
            killed,
            ServerScene {
                opening: 2,
                ..server("b1", 2, 6)
            },
            frozen,
        ],
        pool_size: 12,
        idle: 1,
        leased: 9,
        opening: 2,
        waiting: 20,
        answered: 4321,
        failed: 11,
        samples: vec![
            (1000.0, Duration::from_millis(12)),
            (500.0, Duration::from_millis(48)),
        ],
        events: vec![
            event(Kind::Act, "server a1 killed"),
            event(Kind::Wrong, "a check failed"),
        ],
    }
}

fn drawn(scene: &Scene, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("memory does not fail");
    terminal
        .draw(|frame| view::draw(frame, scene))
        .expect("memory does not fail");
    terminal.backend().buffer().clone()
}

fn lines(buffer: &Buffer) -> Vec<String> {
    let line = |y| {
        (0..buffer.area.width)
            .map(|x| buffer[(x, y)].symbol())
            .collect::<String>()
    };
    (0..buffer.area.height).map(line).collect()
}

fn line<'a>(lines: &'a [String], part: &str) -> &'a str {
    lines
        .iter()
        .find(|line| line.contains(part))
        .unwrap_or_else(|| panic!("no {part:?} in {lines:#?}"))
}

#[test]
fn each_server_has_its_state_and_a_bar_of_its_connections() {
    let lines = lines(&drawn(&fallen(), 104, 30));

    let (a1, b1, c1) = (line(&lines, " a1 "), line(&lines, " b1 "), line(&lines, " c1 "));
    assert!(
        a1.contains("killed") && a1.contains("left out for 0.8 s") && !a1.contains('▆'),
        "{a1}"
    );
    assert!(
        b1.contains(" up ") && b1.contains("6 +2") && b1.contains(" 600 "),
        "{b1}"
    );
    assert!(c1.contains("frozen"), "{c1}");
    let bar = |line: &str, cell| line.chars().filter(|symbol| *symbol == cell).count();
    assert_eq!((bar(b1, '▆'), bar(b1, '▂'), bar(c1, '▆')), (12, 4, 8));
}

#[test]
fn the_head_tells_stage_pool_and_failures() {
    let lines = lines(&drawn(&fallen(), 104, 30));

    assert!(
        lines[0].contains("5.4 s") && lines[0].contains("zone a is lost"),
        "{}",
        lines[0]
    );
    for part in [
        "pool of 12: 9 leased, 1 idle, 2 opening, 20 callers waiting",
        "4321 answered",
        "11 failed",
    ] {
        assert!(lines[1].contains(part), "{}", lines[1]);
    }
    assert!(
        line(&lines, "queries/s: 500").contains("p99: 48.0 ms"),
        "{lines:#?}"
    );
}

#[test]
fn what_went_wrong_is_marked_and_red() {
    let buffer = drawn(&fallen(), 104, 30);
    let lines = lines(&buffer);

    assert!(line(&lines, "server a1 killed").contains("5.2 "), "{lines:#?}");
    let y = lines
        .iter()
        .position(|line| line.contains("WRONG: a check failed"))
        .expect("it is shown");
    let x = lines[y].chars().take_while(|symbol| *symbol != 'W').count();
    assert_eq!(buffer[(x as u16, y as u16)].fg, Color::Red);
}

#[test]
fn only_the_newest_events_are_shown_where_room_is_short() {
    let mut scene = fallen();
    let event = |at: u32| Event {
        at: Duration::ZERO,
        kind: Kind::Log,
        text: format!("event number {at:02}"),
    };
    scene.events = (0..40).map(event).collect();

    let lines = lines(&drawn(&scene, 104, 24));

    assert!(
        lines.iter().any(|line| line.contains("event number 39")),
        "{lines:#?}"
    );
    assert!(
        !lines.iter().any(|line| line.contains("event number 00")),
        "{lines:#?}"
    );
}

#[test]
fn a_tiny_terminal_is_no_reason_to_fail() {
    for (width, height) in [(1, 1), (10, 4), (40, 8), (300, 100)] {
        let buffer = drawn(&fallen(), width, height);
        assert_eq!((buffer.area.width, buffer.area.height), (width, height));
    }
}
