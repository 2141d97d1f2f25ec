//! The main menu: accounts, quick dial and call history.

use super::model::Model;
use super::rows::{first_shown, row};
use super::text::{time_of_day, width};
use super::theme::{Theme, Tone};
use super::ui::Ui;
use crate::terminal::printable;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, ui: &Ui, model: &Model<'_>, theme: Theme) {
    let mut lines = accounts(ui, model, area.width, theme);
    // At most half of the area, so that the history has room.
    lines.truncate(usize::from(area.height / 2).max(1));
    if !ui.dials.is_empty() {
        let entries = ui.dials.iter().take(9).enumerate();
        let entries =
            entries.map(|(place, dial)| format!("{} {}", place + 1, printable(&dial.name)));
        let text = entries.collect::<Vec<String>>().join("  ");
        lines.push(row("Quick dial", format!(" {text}"), Tone::Plain, theme));
    }
    let records = ui.history.records();
    let title = if records.is_empty() { "No calls yet" } else { "Calls" };
    lines.push(Line::styled(title, theme.style(Tone::Strong)));
    let rows = usize::from(area.height).saturating_sub(lines.len());
    let first = first_shown(ui.record, records.len(), rows);
    for (place, record) in records.iter().enumerate().skip(first).take(rows) {
        let direction = if record.is_incoming { "from" } else { "to" };
        let mark = if place == ui.record { ">" } else { " " };
        let at =
            if area.width >= 60 { format!("{}  ", time_of_day(record.at)) } else { String::new() };
        let text = format!("{mark} {at}{direction} {}  {}", record.party, record.story());
        let tone = if place == ui.record { Tone::Strong } else { Tone::Plain };
        lines.push(Line::styled(printable(&text), theme.style(tone)));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn accounts(ui: &Ui, model: &Model<'_>, columns: u16, theme: Theme) -> Vec<Line<'static>> {
    let mark = |is_used: bool| if is_used { "(x) " } else { "( ) " };
    let mut lines = Vec::new();
    for (id, uri, registers) in &model.accounts {
        let (state, tone) = match ui.registrations.get(uri) {
            Some((state, tone)) => (state.as_str(), *tone),
            None if *registers => ("registering", Tone::Caution),
            None => ("does not register", Tone::Plain),
        };
        let name = format!("{}{}: ", mark(ui.account == Some(*id)), printable(uri));
        let state = printable(state);
        let fits = width(&name) + width(&state) <= usize::from(columns);
        let state = Span::styled(state, theme.style(tone));
        match fits {
            true => lines.push(Line::from(vec![Span::raw(name), state])),
            // The start of the name matters most.
            false => lines.extend([Line::raw(name), Line::from(vec![Span::raw("    "), state])]),
        }
    }
    let text = format!("{}no account: calls go to peers directly", mark(ui.account.is_none()));
    lines.push(Line::raw(text));
    lines
}
