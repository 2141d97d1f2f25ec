//! Text on the screen: width, times, and input lines.

use crate::terminal::printable;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::text::Span;
use std::time::SystemTime;

/// The maximum length of an input line in octets.
const MAX_TYPED: usize = 512;

/// The width of `text` in columns.
pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// The local time of day.
pub(super) fn time_of_day(at: SystemTime) -> String {
    jiff::Timestamp::try_from(at).map_or_else(
        |_| "--:--:--".to_owned(),
        |at| at.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M:%S").to_string(),
    )
}

/// `seconds` as minutes and seconds, with hours if there are any.
pub(super) fn duration(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes:02}:{seconds:02}"),
        hours => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// An input line.
#[derive(Clone, Debug, Default)]
pub(super) struct Field {
    text: String,
    /// The cursor, in octets of `text`.
    at: usize,
}

impl Field {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Handles a key. Returns false if the line does not use it.
    pub(super) fn edit(&mut self, key: KeyEvent) -> bool {
        let controls = key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        let (before, after) = self.text.split_at(self.at);
        let previous = before.char_indices().next_back().map_or(0, |(at, _)| at);
        let next = after.chars().next().map_or(self.at, |char| self.at + char.len_utf8());
        match key.code {
            KeyCode::Char('u') if controls => {
                self.text.drain(..self.at);
                self.at = 0;
            }
            KeyCode::Char(char) if !controls && !char.is_control() => {
                if self.text.chars().count() < MAX_TYPED {
                    self.text.insert(self.at, char);
                    self.at += char.len_utf8();
                }
            }
            KeyCode::Backspace => {
                self.text.drain(previous..self.at);
                self.at = previous;
            }
            KeyCode::Delete => drop(self.text.drain(self.at..next)),
            KeyCode::Left => self.at = previous,
            KeyCode::Right => self.at = next,
            KeyCode::Home => self.at = 0,
            KeyCode::End => self.at = self.text.len(),
            _ => return false,
        }
        true
    }

    /// The visible part within `columns`, and the column of the cursor. A `secret` shows only its
    /// length.
    pub(super) fn shown(&self, columns: usize, secret: bool) -> (String, usize) {
        let (before, after) = self.text.split_at(self.at);
        let mut parts = [before, after].map(|part| match secret {
            true => "*".repeat(part.chars().count()),
            false => printable(part),
        });
        while width(&parts[0]) + 1 > columns && !parts[0].is_empty() {
            parts[0].remove(0);
        }
        let cursor = width(&parts[0]);
        (parts.concat(), cursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_typed_and_mended() {
        let mut field = Field::default();
        let keys = |field: &mut Field, codes: &[KeyCode]| {
            codes.iter().for_each(|code| assert!(field.edit(KeyEvent::from(*code))));
        };
        "aé日".chars().for_each(|char| keys(&mut field, &[KeyCode::Char(char)]));
        keys(&mut field, &[KeyCode::Left, KeyCode::Backspace, KeyCode::Char('b'), KeyCode::Delete]);
        assert_eq!((field.text(), field.shown(10, false)), ("ab", ("ab".to_owned(), 2)));
        keys(&mut field, &[KeyCode::Home, KeyCode::Left, KeyCode::Backspace, KeyCode::Char('日')]);
        assert_eq!(field.shown(10, false), ("日ab".to_owned(), 2));
        assert_eq!(field.shown(10, true), ("***".to_owned(), 1));
        keys(&mut field, &[KeyCode::End, KeyCode::Right]);
        assert_eq!(field.shown(3, false), ("ab".to_owned(), 2));
        assert!(!field.edit(KeyEvent::from(KeyCode::Enter)));
        field.edit(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL));
        assert_eq!(field.text(), "");
        (0..2 * MAX_TYPED).for_each(|_| keys(&mut field, &[KeyCode::Char('x')]));
        assert_eq!(field.text().len(), MAX_TYPED);
    }

    #[test]
    fn durations_have_hours_where_they_are_long() {
        assert_eq!([59, 61, 3661].map(duration), ["00:59", "01:01", "1:01:01"]);
    }
}
