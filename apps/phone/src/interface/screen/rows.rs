//! Lines of a view: a label and a text, and the visible part of a list.

use super::theme::{Theme, Tone};
use crate::terminal::printable;
use ratatui::text::{Line, Span};

/// A line with a label and a value.
pub(super) fn row(label: &str, text: String, tone: Tone, theme: Theme) -> Line<'static> {
    let label = format!("{label:<10}");
    let label = Span::styled(label, theme.style(Tone::Label));
    Line::from(vec![label, Span::styled(printable(&text), theme.style(tone))])
}

/// The index of the first line shown, so that line `chosen` of `count` is within `rows`.
pub(super) fn first_shown(chosen: usize, count: usize, rows: usize) -> usize {
    let last = count.saturating_sub(rows);
    chosen.saturating_sub(rows / 2).min(last)
}
