//! The layout of the screen: title, view, typed line, last note and keys.

use super::keys::{Binding, bindings};
use super::model::Model;
use super::text::width;
use super::theme::{Theme, Tone};
use super::ui::{Typing, Ui, View};
use super::{call, menu, messages, network};
use crate::terminal::printable;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

/// Draws the screen.
pub(super) fn draw(frame: &mut Frame<'_>, ui: &Ui, model: &Model<'_>, theme: Theme) {
    let area = frame.area();
    let keys = key_lines(&bindings(ui, model), usize::from(area.width), theme);
    let note = ui.note.as_ref().map(|(text, tone)| (printable(text), *tone));
    let columns = usize::from(area.width.max(1));
    let note_rows = note.as_ref().map_or(0, |(text, _)| width(text).div_ceil(columns).clamp(1, 3));
    let lengths = [1, usize::from(ui.typing.is_some()), note_rows, keys.len()];
    let [title, typed, told, bottom] = lengths.map(|length| u16::try_from(length).unwrap_or(1));
    let rows = [
        Constraint::Length(title),
        Constraint::Fill(1),
        Constraint::Length(typed),
        Constraint::Length(told),
        Constraint::Length(bottom),
    ];
    let [title, body, typed, told, bottom] = Layout::vertical(rows).areas(area);
    draw_title(frame, title, ui, model, theme);
    match ui.view {
        View::Login => ui.login.draw(frame, body, theme, ui.path.as_deref()),
        View::Menu => menu::draw(frame, body, ui, model, theme),
        View::Call => call::draw(frame, body, ui, model, theme),
        View::Network => network::draw(frame, body, ui, model, theme),
        View::Trace => messages::draw_list(frame, body, ui, model, theme),
        View::Message => messages::draw_message(frame, body, ui, model),
    }
    if let Some(typing) = ui.typing {
        draw_typed(frame, typed, ui, typing, theme);
    }
    if let Some((text, tone)) = note {
        let line = Line::styled(text, theme.style(tone));
        frame.render_widget(Paragraph::new(line).wrap(Wrap { trim: true }), told);
    }
    frame.render_widget(Paragraph::new(keys), bottom);
}

fn draw_title(frame: &mut Frame<'_>, area: Rect, ui: &Ui, model: &Model<'_>, theme: Theme) {
    let title = match ui.view {
        View::Login => "Log in or call",
        View::Menu => "Main menu",
        View::Call => "Call",
        View::Network => "Network",
        View::Trace => "SIP trace",
        View::Message => "SIP message",
    };
    let title = format!(" Barebell phone: {title}");
    let calls = match model.calls.len() {
        0 => String::new(),
        1 => "1 call ".to_owned(),
        count => format!("{count} calls "),
    };
    let gap = usize::from(area.width).saturating_sub(width(&title) + width(&calls));
    let line = format!("{title}{}{calls}", " ".repeat(gap));
    frame.render_widget(Line::styled(line, theme.style(Tone::Chosen)), area);
}

fn draw_typed(frame: &mut Frame<'_>, area: Rect, ui: &Ui, typing: Typing, theme: Theme) {
    let label = match typing {
        Typing::Dial => "Call: ",
        Typing::Transfer => "Transfer to: ",
    };
    let columns = usize::from(area.width).saturating_sub(label.len() + 1);
    let (text, cursor) = ui.line.shown(columns, false);
    let line = Line::from(vec![Span::styled(label, theme.style(Tone::Strong)), Span::raw(text)]);
    frame.render_widget(line, area);
    let column = u16::try_from(label.len() + cursor).unwrap_or_default();
    frame.set_cursor_position(Position::new(area.x + column, area.y));
}

/// The keys, on as many lines as necessary.
fn key_lines(bindings: &[Binding], columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = vec![Line::default()];
    let mut used = 0;
    for binding in bindings {
        let name = format!(" {} ", binding.name);
        let does = format!(" {}", binding.does);
        let length = width(&name) + width(&does);
        if used > 0 && used + 1 + length > columns {
            lines.push(Line::default());
            used = 0;
        }
        let Some(line) = lines.last_mut() else { return lines };
        if used > 0 {
            line.push_span(Span::raw(" "));
            used += 1;
        }
        line.push_span(Span::styled(name, theme.style(Tone::Chosen)));
        line.push_span(Span::raw(does));
        used += length;
    }
    lines
}
