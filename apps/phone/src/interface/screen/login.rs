//! The login view: log in to a server, or call a peer directly.

use super::text::Field;
use super::theme::{Theme, Tone};
use crate::config::{self, Entry, with_scheme};
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use std::path::Path;

/// Width of the labels in columns.
const LABELS: u16 = 11;

/// The fields, from top to bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Server,
    User,
    Password,
    Transport,
    Save,
    Peer,
}

const PLACES: [Place; 6] =
    [Place::Server, Place::User, Place::Password, Place::Transport, Place::Save, Place::Peer];

/// The transports, by their names in a URI; the first is the default.
const TRANSPORTS: [&str; 3] = ["udp", "tcp", "tls"];

/// The state of the form.
#[derive(Debug, Default)]
pub(super) struct Login {
    /// Index into [`PLACES`].
    at: usize,
    server: Field,
    user: Field,
    password: Field,
    /// Index into [`TRANSPORTS`].
    transport: usize,
    pub(super) saves: bool,
    peer: Field,
}

impl Login {
    pub(super) const fn place(&self) -> Place {
        PLACES[self.at]
    }

    /// Moves to the next or the previous field.
    pub(super) const fn go(&mut self, is_next: bool) {
        let step = if is_next { 1 } else { PLACES.len() - 1 };
        self.at = (self.at + step) % PLACES.len();
    }

    /// Handles a key in the current field. Returns false if the field does not use it.
    pub(super) fn edit(&mut self, key: KeyEvent) -> bool {
        let turns = matches!(key.code, KeyCode::Char(' ') | KeyCode::Left | KeyCode::Right);
        match self.place() {
            Place::Server => self.server.edit(key),
            Place::User => self.user.edit(key),
            Place::Password => self.password.edit(key),
            Place::Peer => self.peer.edit(key),
            Place::Transport => {
                let back = key.code == KeyCode::Left;
                let step = if back { TRANSPORTS.len() - 1 } else { usize::from(turns) };
                self.transport = (self.transport + step) % TRANSPORTS.len();
                turns
            }
            Place::Save => {
                self.saves ^= turns;
                turns
            }
        }
    }

    /// The URI to call directly.
    pub(super) fn peer(&self) -> &str {
        self.peer.text().trim()
    }

    /// The account entered. A user with a domain gets that domain, with the server as proxy.
    ///
    /// # Errors
    /// A description of the missing or invalid field.
    pub(super) fn entry(&self) -> Result<Entry, String> {
        let server = self.server.text().trim();
        let server = server.strip_prefix("sip:").unwrap_or(server);
        let user = self.user.text().trim();
        let user = user.strip_prefix("sip:").unwrap_or(user);
        if server.is_empty() || user.is_empty() {
            return Err("enter server and user, such as example.org and alice".into());
        }
        let named = (self.transport > 0).then(|| TRANSPORTS[self.transport]);
        let (uri, proxy) = match user.contains('@') {
            true => (with_scheme(user), Some(server.to_owned())),
            false => (format!("sip:{user}@{server}"), None),
        };
        let password = self.password.text();
        let password = (!password.is_empty()).then(|| password.to_owned());
        let entry = Entry::new(uri, password, proxy).by(named);
        config::account(entry.clone()).map_err(|_| {
            format!(
                "{} is no address: expected a server such as example.org and a user such as alice",
                entry.uri
            )
        })?;
        Ok(entry)
    }

    /// Clears the password and the peer.
    pub(super) fn clear(&mut self) {
        self.password.clear();
        self.peer.clear();
    }

    /// Draws the form; `path` is the file for saving.
    pub(super) fn draw(
        &self,
        frame: &mut Frame<'_>,
        area: Rect,
        theme: Theme,
        path: Option<&Path>,
    ) {
        let columns = usize::from(area.width.saturating_sub(LABELS + 1));
        let choice = |is_chosen: bool| if is_chosen { "(x)" } else { "( )" };
        let mut lines = Vec::new();
        let has_room = area.height >= 10;
        let title = |text: &'static str| Line::styled(text, theme.style(Tone::Strong));
        lines.push(title("Log in to a server"));
        let mut cursor = None;
        for (number, place) in PLACES.into_iter().enumerate() {
            if place == Place::Peer {
                lines.extend(has_room.then(Line::default));
                lines.push(title("Or call a peer directly"));
            }
            let (label, field, secret) = match place {
                Place::Server => ("Server", Some(&self.server), false),
                Place::User => ("User", Some(&self.user), false),
                Place::Password => ("Password", Some(&self.password), true),
                Place::Transport => ("Transport", None, false),
                Place::Save => ("Save", None, false),
                Place::Peer => ("Peer", Some(&self.peer), false),
            };
            let is_here = number == self.at;
            let (text, at) = match (field, place) {
                (Some(field), _) => field.shown(columns, secret),
                (None, Place::Transport) => {
                    let shown = TRANSPORTS.iter().enumerate().map(|(number, name)| {
                        format!("{} {}", choice(number == self.transport), name.to_uppercase())
                    });
                    (shown.collect::<Vec<_>>().join("  "), 1)
                }
                (None, _) => {
                    let path = path.map_or("nowhere".into(), |path| path.display().to_string());
                    let (no, yes) = (choice(!self.saves), choice(self.saves));
                    (format!("{no} no  {yes} yes, in {path}"), 1)
                }
            };
            if is_here {
                cursor = Some((lines.len(), at));
            }
            let mark = if is_here { "> " } else { "  " };
            let label = format!("{mark}{label:<9}");
            let tone = if is_here { Tone::Strong } else { Tone::Label };
            lines.push(Line::from(vec![Span::styled(label, theme.style(tone)), Span::raw(text)]));
        }
        frame.render_widget(Paragraph::new(lines), area);
        if let Some((row, column)) = cursor.filter(|(row, _)| *row < usize::from(area.height)) {
            let column = u16::try_from(column).unwrap_or_default();
            frame.set_cursor_position(Position::new(area.x + LABELS + column, area.y + row as u16));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(server: &str, user: &str, turns: &str) -> Result<Entry, String> {
        let mut login = Login::default();
        let fill = |login: &mut Login, text: &str| {
            text.chars().for_each(|char| assert!(login.edit(KeyCode::Char(char).into())));
            login.go(true);
        };
        fill(&mut login, server);
        fill(&mut login, user);
        fill(&mut login, "secret");
        fill(&mut login, turns);
        login.entry()
    }

    #[test]
    fn the_form_makes_an_account() {
        for (server, user, turns, uri, proxy) in [
            ("example.org", "alice", "", "sip:alice@example.org", None),
            (
                "example.org",
                "alice",
                "  ",
                "sip:alice@example.org",
                Some("sip:example.org;transport=tls;lr"),
            ),
            (
                "sip:192.0.2.1:5070",
                "alice",
                " ",
                "sip:alice@192.0.2.1:5070",
                Some("sip:192.0.2.1:5070;transport=tcp;lr"),
            ),
            (
                "192.0.2.1",
                "alice@example.org",
                "   ",
                "sip:alice@example.org",
                Some("sip:192.0.2.1;lr"),
            ),
        ] {
            let account = config::account(filled(server, user, turns).unwrap()).unwrap();
            assert_eq!((account.uri.as_str(), account.proxy.as_deref()), (uri, proxy));
            assert_eq!(account.password, Some(sip_ua::Password::new("secret")));
        }
    }

    #[test]
    fn missing_and_wrong_fields_are_named() {
        assert!(filled("", "alice", "").unwrap_err().contains("enter server"));
        assert!(filled("a b", "alice", "").unwrap_err().contains("no address"));
        assert!(filled("a", "alice\"\n".trim(), "").unwrap_err().contains("no address"));
    }
}
