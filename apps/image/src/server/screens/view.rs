//! The changes of one screen by keys and time.

use super::list::Place;
use super::state::{Cover, Move, View};
use super::{Rates, Server, pages};
use crate::log::Log;
use crate::options::server::Page;
use crate::screen;
use crate::screen::Grid;
use crate::screen::keys::Key;
use crate::server::media::RelayedMedia;
use sip::{Duration, Instant};

/// Minimum and maximum interval of redrawing a page.
const SOONEST: Duration = Duration::from_millis(200);
const LATEST: Duration = Duration::from_secs(1);

/// An action requested by the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Fetches the users again.
    Fetch,
    /// Reboots.
    Reboot,
}

impl screen::console::View for View {
    type Program = Server;
    type Shared = Rates;

    fn log(server: &Server) -> &Log {
        &server.log
    }

    fn share(rates: &mut Rates, server: &Server, now: Instant) {
        rates.turn(server, now);
    }

    fn turn(&mut self, server: &Server, grid: &Grid, now: Instant) {
        self.move_within(server, grid, now);
    }

    fn is_due(&self, server: &Server, now: Instant) -> bool {
        let is_old = self.is_stale || self.page == Page::Log && server.log.said() != self.seen;
        now >= self.drawn + if is_old { SOONEST } else { LATEST }
    }

    fn draw(&mut self, grid: &mut Grid, server: &mut Server, rates: &Rates, now: Instant) {
        self.is_stale = false;
        self.drawn = now;
        self.seen = server.log.said();
        pages::draw(self, grid, server, rates, now);
    }

    fn on_key(&mut self, key: Key, server: &mut Server, now: Instant) -> bool {
        match self.action(key) {
            Some(Action::Fetch) => {
                server.fetch_users(now);
                false
            }
            Some(Action::Reboot) => true,
            None => false,
        }
    }
}

impl View {
    /// Shows `page` from its beginning.
    pub fn set_page(&mut self, page: Page) {
        self.page = page;
        self.newer = 0;
        self.skipped = 0;
        self.wanted = (page == Page::Users).then_some(Move::First);
        self.is_stale = true;
    }

    /// Handles a key. Returns the action it requests.
    pub(super) fn action(&mut self, key: Key) -> Option<Action> {
        self.is_stale = true;
        let letter = match key {
            Key::Character(letter) => letter.to_ascii_lowercase(),
            _ => '\0',
        };
        match self.cover.take() {
            Some(Cover::Question) => {
                let is_yes = key == Key::Enter || letter == 'b';
                return is_yes.then_some(Action::Reboot);
            }
            Some(Cover::Keys) if matches!(letter, '?' | 'h') || key == Key::Help => return None,
            Some(Cover::Keys) | None => {}
        }
        match (key, letter) {
            (_, '1' | 'l') => self.set_page(Page::Log),
            (_, '2' | 's') => self.set_page(Page::State),
            (_, '3' | 'u') => self.set_page(Page::Users),
            (_, '4' | 'c') => self.set_page(Page::Calls),
            (_, 'w') => self.is_live = !self.is_live,
            (_, 'b') => self.cover = Some(Cover::Question),
            (Key::Help, _) | (_, '?' | 'h') => self.cover = Some(Cover::Keys),
            (_, 'r') => {
                // The log page shows the result.
                self.set_page(Page::Log);
                return Some(Action::Fetch);
            }
            (Key::Down | Key::Right | Key::PageDown | Key::Enter, _) | (_, ' ') => {
                self.wanted = Some(Move::On);
            }
            (Key::Up | Key::Left | Key::PageUp, _) => self.wanted = Some(Move::Back),
            (Key::Home, _) => self.wanted = Some(Move::First),
            (Key::End, _) => self.wanted = Some(Move::Last),
            _ => {}
        }
        None
    }

    /// Performs the requested move within the page, and continues the search for registered users.
    fn move_within(&mut self, server: &Server, grid: &Grid, now: Instant) {
        let rows = pages::rows(self.page, grid);
        if self.page == Page::Users {
            let changes = server.changes;
            let list = &mut self.list;
            match self.wanted.take() {
                Some(Move::On) => list.look_on(rows, changes),
                Some(Move::Back) => list.look_back(rows, changes),
                Some(Move::First) => list.look(Place::First, rows, changes),
                Some(Move::Last) => list.look(Place::Last, rows, changes),
                None if self.is_live && list.is_old(changes) && now >= self.drawn + SOONEST => {
                    list.look_again(rows, changes);
                }
                None => {}
            }
            self.is_stale |= list.turn(&server.engine, now);
        } else if let Some(wanted) = self.wanted.take() {
            let (at, most) = match self.page {
                Page::Log => (&mut self.newer, server.log.lines.len()),
                Page::Calls => {
                    let count = server.media.as_ref().map_or(0, RelayedMedia::count);
                    (&mut self.skipped, count)
                }
                _ => (&mut self.skipped, pages::counters(server).len()),
            };
            // The log starts at its end.
            let is_towards_zero =
                (wanted == Move::On || wanted == Move::Last) == (self.page == Page::Log);
            let step = if matches!(wanted, Move::On | Move::Back) { rows } else { most };
            let last = most.saturating_sub(rows);
            *at = if is_towards_zero { at.saturating_sub(step) } else { (*at + step).min(last) };
        }
    }
}
