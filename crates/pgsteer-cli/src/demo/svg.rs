//! A frame of the live view as a picture: an SVG with one text run per stretch of cells of one style. For documents;
//! it shows what the terminal would show and adds nothing.

use std::fmt::Write;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

use super::scene::Scene;
use super::view;

/// Size of the frame in cells.
const SIZE: (u16, u16) = (104, 32);
/// Size of a cell in pixels.
const CELL: (f32, f32) = (8.4, 17.0);
const MARGIN: f32 = 12.0;
const BACKGROUND: &str = "#16181d";

/// Draws the scene and gives the picture's text.
pub fn picture(scene: &Scene) -> String {
    let backend = TestBackend::new(SIZE.0, SIZE.1);
    // A backend in memory cannot fail, and its error type says so.
    let Ok(mut terminal) = Terminal::new(backend);
    let Ok(_) = terminal.draw(|frame| view::draw(frame, scene));
    of_buffer(terminal.backend().buffer())
}

fn of_buffer(buffer: &Buffer) -> String {
    let area = buffer.area;
    let (width, height) = (
        f32::from(area.width) * CELL.0 + 2.0 * MARGIN,
        f32::from(area.height) * CELL.1 + 2.0 * MARGIN,
    );
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"14\" \
         shape-rendering=\"crispEdges\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n"
    );
    for y in 0..area.height {
        let cells: Vec<&Cell> = (0..area.width).filter_map(|x| buffer.cell((x, y))).collect();
        let mut from = 0;
        while from < cells.len() {
            let look = |cell: &Cell| (cell.fg, cell.modifier, shape(cell.symbol()));
            let alike = cells[from..]
                .iter()
                .take_while(|cell| look(cell) == look(cells[from]));
            // Lines that run down stand each for themselves.
            let single =
                matches!(shape(cells[from].symbol()), Shape::Lines([.., top, bottom]) if top || bottom);
            let length = if single { 1 } else { alike.count() };
            run(&mut svg, from, y, &cells[from..from + length]);
            from += length;
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// How a cell is drawn. Fonts leave gaps between blocks and between lines, so these are not left to a font.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Text,
    /// The lower part of the cell, in eighths.
    Block {
        eighths: f32,
    },
    /// Lines from the middle of the cell: to the left, right, top, bottom.
    Lines([bool; 4]),
}

fn shape(symbol: &str) -> Shape {
    let lines = |left, right, top, bottom| Shape::Lines([left, right, top, bottom]);
    match symbol.chars().next() {
        Some(block @ '▁'..='█') => Shape::Block {
            eighths: (block as u32 - '▁' as u32 + 1) as f32,
        },
        Some('─') => lines(true, true, false, false),
        Some('│') => lines(false, false, true, true),
        Some('┌') => lines(false, true, false, true),
        Some('┐') => lines(true, false, false, true),
        Some('└') => lines(false, true, true, false),
        Some('┘') => lines(true, false, true, false),
        _ => Shape::Text,
    }
}

/// One stretch of cells that look alike.
fn run(svg: &mut String, x: usize, y: u16, cells: &[&Cell]) {
    let (left, top) = (MARGIN + x as f32 * CELL.0, MARGIN + f32::from(y) * CELL.1);
    let width = cells.len() as f32 * CELL.0;
    let color = color(cells[0].fg);
    // Writing to a string cannot fail.
    let _ = match shape(cells[0].symbol()) {
        Shape::Block { eighths } => {
            let height = CELL.1 * eighths / 8.0;
            let top = top + CELL.1 - height;
            writeln!(
                svg,
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{color}\"/>"
            )
        }
        Shape::Lines([to_left, to_right, to_top, to_bottom]) => {
            let (middle, level) = (left + CELL.0 / 2.0, top + CELL.1 / 2.0);
            let start = if to_left { left } else { middle };
            let end = if to_right {
                left + width
            } else {
                left + width - CELL.0 / 2.0
            };
            let high = if to_top { top } else { level };
            let low = if to_bottom { top + CELL.1 } else { level };
            writeln!(
                svg,
                "<path d=\"M{start:.1} {level:.1}H{end:.1}M{middle:.1} {high:.1}V{low:.1}\" stroke=\"{color}\"/>"
            )
        }
        Shape::Text => text(svg, (left, top), width, cells),
    };
}

fn text(svg: &mut String, (left, top): (f32, f32), width: f32, cells: &[&Cell]) -> std::fmt::Result {
    let text: String = cells.iter().map(|cell| cell.symbol()).collect();
    if text.trim().is_empty() {
        return Ok(());
    }
    let bold = if cells[0].modifier.contains(Modifier::BOLD) {
        " font-weight=\"bold\""
    } else {
        ""
    };
    let (base, color) = (top + 0.77 * CELL.1, color(cells[0].fg));
    writeln!(
        svg,
        "<text x=\"{left:.1}\" y=\"{base:.1}\" textLength=\"{width:.1}\" fill=\"{color}\"{bold} \
         xml:space=\"preserve\">{}</text>",
        escaped(&text)
    )
}

fn color(color: Color) -> &'static str {
    match color {
        Color::Green => "#7ec97e",
        Color::Red => "#ef6b73",
        Color::Yellow => "#e5c07b",
        Color::Blue => "#61afef",
        Color::Cyan => "#56c8d8",
        Color::Magenta => "#c678dd",
        Color::DarkGray => "#7d8590",
        _ => "#dcdfe4",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_holds_the_text_of_the_view_escaped() {
        let scene = Scene {
            stage: "a < b & c".to_owned(),
            ..Scene::default()
        };

        let picture = picture(&scene);

        assert!(
            picture.starts_with("<svg ") && picture.ends_with("</svg>\n"),
            "{picture}"
        );
        assert!(picture.contains(">a &lt; b &amp; c</text>"), "{picture}");
    }
}
