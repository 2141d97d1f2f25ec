//! The SIP trace: the list of messages, and one complete message.

use super::model::Model;
use super::rows::first_shown;
use super::text::{time_of_day, width};
use super::theme::{Theme, Tone};
use super::ui::Ui;
use crate::terminal::printable;
use crate::trace::Traced;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

/// The index of the chosen message: the last one, unless another one was chosen that is still kept.
pub(super) fn chosen(ui: &Ui, model: &Model<'_>) -> usize {
    let last = model.trace.len().saturating_sub(1);
    let Some(number) = ui.traced else { return last };
    model.trace.partition_point(|traced| traced.number < number).min(last)
}

/// The printable lines of a message, wrapped to `columns`.
fn lines(traced: &Traced, columns: u16) -> Vec<String> {
    let text = String::from_utf8_lossy(&traced.bytes);
    let mut lines = Vec::new();
    for line in text.lines().map(printable) {
        let mut part = String::new();
        for char in line.chars() {
            part.push(char);
            if width(&part) > usize::from(columns) && part.pop().is_some() {
                lines.push(std::mem::replace(&mut part, char.into()));
            }
        }
        lines.push(part);
    }
    lines
}

/// The number of lines of the chosen message.
pub(super) fn length(ui: &Ui, model: &Model<'_>) -> usize {
    model.trace.get(chosen(ui, model)).map_or(0, |traced| lines(traced, ui.columns).len())
}

pub(super) fn draw_list(
    frame: &mut Frame<'_>,
    area: Rect,
    ui: &Ui,
    model: &Model<'_>,
    theme: Theme,
) {
    if model.trace.is_empty() {
        return frame.render_widget(Line::raw("No message has been sent or received yet."), area);
    }
    let chosen = chosen(ui, model);
    let rows = usize::from(area.height);
    let first = first_shown(chosen, model.trace.len(), rows);
    let shown = model.trace.iter().enumerate().skip(first).take(rows).map(|(place, traced)| {
        let direction = if traced.sent { "to  " } else { "from" };
        let mark = if place == chosen { ">" } else { " " };
        let tone = if place == chosen { Tone::Strong } else { Tone::Plain };
        let (at, flow) = (time_of_day(traced.at), traced.flow);
        let first = traced.bytes.split(|byte| matches!(byte, b'\r' | b'\n')).next();
        let line = printable(&String::from_utf8_lossy(first.unwrap_or_default()));
        Line::styled(format!("{mark} {at} {direction} {flow} {line}"), theme.style(tone))
    });
    frame.render_widget(Paragraph::new(shown.collect::<Vec<Line<'_>>>()), area);
}

pub(super) fn draw_message(frame: &mut Frame<'_>, area: Rect, ui: &Ui, model: &Model<'_>) {
    let Some(traced) = model.trace.get(chosen(ui, model)) else { return };
    let text: Vec<Line<'_>> = lines(traced, area.width).into_iter().map(Line::raw).collect();
    frame.render_widget(Paragraph::new(text).scroll((ui.scroll, 0)), area);
}
