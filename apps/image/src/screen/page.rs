//! Common parts of all pages: the first and the last row, and log lines between.

use super::{Grid, Style};
use crate::log::{Log, Time};
use alloc::string::String;
use core::fmt;

/// Draws the log before a program runs.
pub(crate) fn boot_log(grid: &mut Grid, log: &Log) {
    bars(grid);
    lines(grid, log, 0);
}

/// Draws the first and the last row. Returns the column behind the text of the first one.
pub(crate) fn bars(grid: &mut Grid) -> usize {
    grid.fill(0, Style::Bar);
    grid.fill(grid.height() - 1, Style::Bar);
    grid.print(0, 1, Style::Bar, format_args!("Barebell {}", env!("CARGO_PKG_VERSION")))
}

/// Prints a hint in the last row.
pub(crate) fn hint(grid: &mut Grid, text: fmt::Arguments<'_>) {
    grid.print(grid.height() - 1, 1, Style::Bar, text);
}

/// Draws the last lines except the `newer` last ones, each in as many rows as necessary.
pub(crate) fn lines(grid: &mut Grid, log: &Log, newer: usize) {
    let (width, body) = (grid.width(), grid.height() - 2);
    let text = |(time, line): &(Time, String)| alloc::format!("{time}{line}");
    let height = |line: &(Time, String)| text(line).chars().count().div_ceil(width).max(1);
    let end = log.lines.len().saturating_sub(newer);
    let mut used = 0;
    let fits = |line: &&(Time, String)| {
        used += height(line);
        used <= body
    };
    let count = log.lines.range(..end).rev().take_while(fits).count();
    let mut row = 1;
    for line in log.lines.range(end - count..end) {
        for part in 0..height(line) {
            let shown: String = text(line).chars().skip(part * width).take(width).collect();
            grid.print(row, 0, Style::Plain, format_args!("{shown}"));
            row += 1;
        }
    }
    if newer > 0 {
        hint(grid, format_args!("{newer} newer lines: Page Down"));
    } else if count < log.lines.len() {
        hint(grid, format_args!("{} older lines: Page Up", log.lines.len() - count));
    }
}
