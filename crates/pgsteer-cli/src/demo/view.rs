//! The demo's live view: one frame of it, drawn from a scene. It knows no terminal; anything ratatui can draw on will do.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Sparkline, Table};

use super::board::{Condition, Event, Kind};
use super::scene::{Scene, ServerScene};

/// Rows of the charts, their frames included.
const CHART_ROWS: u16 = 7;
/// Widest bar of connections.
const BAR: u16 = 24;
/// What bars are made of: less than the whole line, so that those of two servers do not run together.
const CONNECTION: &str = "▆";
const OPENING: &str = "▂";

/// Draws the scene over the whole frame.
pub fn draw(frame: &mut Frame<'_>, scene: &Scene) {
    // A header, a gap between zones, a frame around.
    let table_rows = scene.servers.len() as u16 + 3;
    let [title, servers, charts, events] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(table_rows),
        Constraint::Length(CHART_ROWS),
        Constraint::Min(3),
    ])
    .areas(frame.area());
    draw_title(frame, title, scene);
    draw_servers(frame, servers, scene);
    draw_charts(frame, charts, scene);
    draw_events(frame, events, scene);
}

fn draw_title(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let first = Line::from(vec![
        Span::styled("pgsteer demo ", bold.fg(Color::Cyan)),
        Span::raw(format!("{:>5.1} s   ", scene.elapsed.as_secs_f64())),
        Span::styled(scene.stage.clone(), bold.fg(Color::Yellow)),
    ]);
    let second = Line::from(vec![
        Span::raw(format!(
            "pool of {}: {} leased, {} idle, {} opening, {} callers waiting   {} answered   ",
            scene.pool_size, scene.leased, scene.idle, scene.opening, scene.waiting, scene.answered
        )),
        Span::styled(
            format!("{} failed", scene.failed),
            if scene.failed == 0 { Style::new() } else { bad() },
        ),
        Span::styled("   q: end", quiet()),
    ]);
    frame.render_widget(Paragraph::new(vec![first, second]), area);
}

fn draw_servers(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let header = Row::new([
        "zone",
        "level",
        "server",
        "state",
        "the pool sees",
        "connections",
        "",
        "queries/s",
    ]);
    let mut zone = "";
    let rows: Vec<Row<'_>> = scene
        .servers
        .iter()
        .map(|server| {
            let first_of_zone = zone != server.zone;
            zone = &server.zone;
            row(server, first_of_zone, scene.pool_size)
        })
        .collect();
    let widths = [
        Constraint::Length(5),
        Constraint::Length(5),
        Constraint::Length(6),
        Constraint::Length(7),
        Constraint::Length(20),
        Constraint::Length(BAR),
        Constraint::Length(8),
        Constraint::Length(9),
    ];
    let table = Table::new(rows, widths).header(header.style(quiet())).block(
        Block::new()
            .borders(Borders::ALL)
            .border_style(quiet())
            .title("servers"),
    );
    frame.render_widget(table, area);
}

fn row(server: &ServerScene, first_of_zone: bool, pool_size: u32) -> Row<'static> {
    let (state, style) = match server.condition {
        Condition::Up => ("up", good()),
        Condition::Killed => ("killed", bad()),
        Condition::Frozen => ("frozen", Style::new().fg(Color::Blue)),
    };
    let seen = match server.left_out_for {
        None => Span::raw("ok"),
        Some(Duration::ZERO) => Span::styled("left out, probing", bad()),
        Some(left) => Span::styled(format!("left out for {:.1} s", left.as_secs_f64()), bad()),
    };
    let bar_style = if server.condition == Condition::Frozen {
        style
    } else {
        good()
    };
    let opening = if server.opening > 0 {
        format!("{} +{}", server.connections, server.opening)
    } else {
        server.connections.to_string()
    };
    Row::new([
        Cell::new(if first_of_zone {
            server.zone.clone()
        } else {
            String::new()
        }),
        Cell::new(
            server
                .level
                .map_or_else(|| "-".to_owned(), |level| level.to_string()),
        ),
        Cell::new(server.name.clone()),
        Cell::new(Span::styled(state, style)),
        Cell::new(seen),
        Cell::new(Line::from(vec![
            Span::styled(CONNECTION.repeat(cells(server.connections, pool_size)), bar_style),
            Span::styled(OPENING.repeat(cells(server.opening, pool_size)), quiet()),
        ])),
        Cell::new(opening),
        Cell::new(format!("{:.0}", server.per_second)),
    ])
}

/// Cells of a bar for this many connections; at least one if there is any.
fn cells(connections: u32, pool_size: u32) -> usize {
    let cells = connections as usize * BAR as usize / pool_size.max(1) as usize;
    if connections > 0 {
        cells.clamp(1, BAR as usize)
    } else {
        0
    }
}

fn draw_charts(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(area);
    let (per_second, p99) = scene.newest();
    let throughput = scene
        .samples
        .iter()
        .map(|(per_second, _)| per_second.round() as u64);
    let slowness = scene.samples.iter().map(|(_, p99)| p99.as_micros() as u64);
    let millis = p99.as_secs_f64() * 1000.0;
    chart(
        frame,
        left,
        format!("queries/s: {per_second:.0}"),
        throughput.collect(),
        Color::Green,
    );
    chart(
        frame,
        right,
        format!("p99: {millis:.1} ms"),
        slowness.collect(),
        Color::Magenta,
    );
}

/// The newest values that fit, the newest at the right.
fn chart(frame: &mut Frame<'_>, area: Rect, title: String, values: Vec<u64>, color: Color) {
    let block = Block::new()
        .borders(Borders::ALL)
        .border_style(quiet())
        .title(title);
    let fitting = usize::from(block.inner(area).width);
    let newest = values.len().saturating_sub(fitting);
    let chart = Sparkline::default()
        .block(block)
        .data(&values[newest..])
        .style(Style::new().fg(color));
    frame.render_widget(chart, area);
}

fn draw_events(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let block = Block::new()
        .borders(Borders::ALL)
        .border_style(quiet())
        .title("events");
    let fitting = usize::from(block.inner(area).height);
    let newest = scene.events.len().saturating_sub(fitting);
    let lines: Vec<Line<'_>> = scene.events[newest..].iter().map(event).collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn event(event: &Event) -> Line<'_> {
    let style = match event.kind {
        Kind::Act => Style::new().fg(Color::Yellow),
        Kind::Seen => good(),
        Kind::Wrong => bad().add_modifier(Modifier::BOLD),
        Kind::Log => quiet(),
    };
    let mark = if event.kind == Kind::Wrong { "WRONG: " } else { "" };
    Line::from(vec![
        Span::styled(format!("{:>5.1} ", event.at.as_secs_f64()), quiet()),
        Span::styled(format!("{mark}{}", event.text), style),
    ])
}

fn good() -> Style {
    Style::new().fg(Color::Green)
}

fn bad() -> Style {
    Style::new().fg(Color::Red)
}

fn quiet() -> Style {
    Style::new().fg(Color::DarkGray)
}
