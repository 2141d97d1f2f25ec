//! A picture of a terminal.

use std::fmt::Write;
use vt100::{Cell, Color, Screen};

/// The size of a cell, and the margin.
const CELL: (u16, u16) = (9, 19);
const MARGIN: u16 = 12;
const FOREGROUND: &str = "#d8dee9";
const BACKGROUND: &str = "#1d2330";

/// `screen` as SVG.
pub(crate) fn picture(screen: &Screen) -> String {
    let (rows, columns) = screen.size();
    let [width, height] = [columns * CELL.0, rows * CELL.1].map(|length| length + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"15\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n"
    );
    for row in 0..rows {
        let mut column = 0;
        while column < columns {
            let Some(first) = screen.cell(row, column) else { break };
            let end = (column..columns).find(|column| {
                screen.cell(row, *column).is_none_or(|cell| look(cell) != look(first))
            });
            let end = end.unwrap_or(columns);
            run(&mut svg, screen, row, column..end);
            column = end;
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// A run of cells with the same look.
fn run(svg: &mut String, screen: &Screen, row: u16, columns: std::ops::Range<u16>) {
    let cells = columns.clone().filter_map(|column| screen.cell(row, column));
    let text: String =
        cells.map(|cell| if cell.has_contents() { cell.contents() } else { " " }).collect();
    let Some((colour, is_bold, is_inverse)) = screen.cell(row, columns.start).map(look) else {
        return;
    };
    let (x, y) = (MARGIN + columns.start * CELL.0, MARGIN + row * CELL.1);
    let width = (columns.end - columns.start) * CELL.0;
    let (foreground, background) =
        if is_inverse { (BACKGROUND, FOREGROUND) } else { (colour, BACKGROUND) };
    if is_inverse {
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{}\" fill=\"{background}\"/>",
            CELL.1
        );
    }
    if text.trim().is_empty() {
        return;
    }
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let weight = if is_bold { " font-weight=\"bold\"" } else { "" };
    let y = y + CELL.1 - 5;
    let _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{y}\" textLength=\"{width}\" fill=\"{foreground}\"{weight} xml:space=\"preserve\">{text}</text>"
    );
}

/// The colour, true for bold, and true for inverse.
fn look(cell: &Cell) -> (&'static str, bool, bool) {
    let colour = match cell.fgcolor() {
        Color::Idx(1) => "#ff7b72",
        Color::Idx(2) => "#7ee787",
        Color::Idx(3) => "#e3b341",
        Color::Idx(6) => "#76d9e6",
        _ => FOREGROUND,
    };
    (colour, cell.bold(), cell.inverse())
}
