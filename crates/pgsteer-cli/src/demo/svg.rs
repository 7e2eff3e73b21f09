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
    let (width, height) = (f32::from(area.width) * CELL.0 + 2.0 * MARGIN, f32::from(area.height) * CELL.1 + 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n"
    );
    for y in 0..area.height {
        let cells: Vec<&Cell> = (0..area.width).filter_map(|x| buffer.cell((x, y))).collect();
        let mut from = 0;
        while from < cells.len() {
            let alike = |cell: &&&Cell| cell.fg == cells[from].fg && cell.modifier == cells[from].modifier;
            let length = cells[from..].iter().take_while(alike).count();
            run(&mut svg, from, y, &cells[from..from + length]);
            from += length;
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// One stretch of cells of one style.
fn run(svg: &mut String, x: usize, y: u16, cells: &[&Cell]) {
    let text: String = cells.iter().map(|cell| cell.symbol()).collect();
    if text.trim().is_empty() {
        return;
    }
    let bold = if cells[0].modifier.contains(Modifier::BOLD) { " font-weight=\"bold\"" } else { "" };
    // Writing to a string cannot fail.
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" textLength=\"{:.1}\" fill=\"{}\"{bold} xml:space=\"preserve\">{}</text>",
        MARGIN + x as f32 * CELL.0,
        MARGIN + (f32::from(y) + 0.8) * CELL.1,
        cells.len() as f32 * CELL.0,
        color(cells[0].fg),
        escaped(&text)
    );
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
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_holds_the_text_of_the_view_escaped() {
        let scene = Scene { stage: "a < b & c".to_owned(), ..Scene::default() };

        let picture = picture(&scene);

        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{picture}");
        assert!(picture.contains(">a &lt; b &amp; c</text>"), "{picture}");
    }
}
