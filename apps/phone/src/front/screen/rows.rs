//! Lines of a view: a label and a text, and which part of a list is shown.

use super::theme::{Theme, Tone};
use crate::terminal::printable;
use ratatui::text::{Line, Span};

/// A value with its name; `narrow`: without.
pub(super) fn row(label: &str, text: String, tone: Tone, theme: Theme) -> Line<'static> {
    let label = format!("{label:<10}");
    let label = Span::styled(label, theme.style(Tone::Label));
    Line::from(vec![label, Span::styled(printable(&text), theme.style(tone))])
}

/// The first of so many lines to show, so that the `chosen` one of `count` is seen.
pub(super) fn first_shown(chosen: usize, count: usize, rows: usize) -> usize {
    let last = count.saturating_sub(rows);
    chosen.saturating_sub(rows / 2).min(last)
}
