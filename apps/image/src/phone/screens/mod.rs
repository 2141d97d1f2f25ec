//! The screens of the phone and their keys: login, main menu, call, network and log.

mod form;
mod pages;
mod state;
#[cfg(test)]
mod tests;

use super::{Login, Phone, Stage};
use crate::log::Log;
use crate::screen;
use crate::screen::Grid;
use crate::screen::console::Consoles;
use crate::screen::keys::Key;
use sip::{Duration, Instant};
use state::Page;

pub use state::View;

/// The screens of the phone.
pub type Screens = Consoles<View>;

/// Minimum and maximum interval of redrawing a page.
const SOONEST: Duration = Duration::from_millis(200);
const LATEST: Duration = Duration::from_secs(1);

impl View {
    /// Chooses the page: an incoming call replaces the page shown.
    fn follow(&mut self, phone: &Phone) {
        let has_call = phone.call().is_some();
        if has_call != self.had_call {
            self.page = if has_call { Page::Call } else { Page::Menu };
            self.had_call = has_call;
            self.is_stale = true;
        }
        let is_known = !matches!(phone.login(), Login::None);
        let has_come = is_known && !self.was_known;
        if has_come && self.page == Page::Login && !self.login.is_touched() {
            self.page = Page::Menu;
        }
        self.was_known = is_known;
    }

    /// Handles a key in a form. Returns false if the form does not use it.
    fn on_key_in_form(&mut self, key: Key, phone: &mut Phone, now: Instant) -> bool {
        let is_login = self.page == Page::Login;
        let is_done = if is_login { self.login.on_key(key) } else { self.dial.on_key(key) };
        match is_done {
            Some(true) if is_login => {
                let [address, password, server] = self.login.take();
                let server = (!server.is_empty()).then_some(server);
                phone.log_in(now, &address, &password, server.as_deref());
                self.page = Page::Menu;
                true
            }
            Some(true) => {
                let [address] = self.dial.take();
                if self.page == Page::Transfer {
                    phone.transfer(now, &address);
                    self.page = Page::Call;
                } else {
                    phone.place(now, &address);
                }
                true
            }
            Some(false) => true,
            None => false,
        }
    }

    fn on_call_key(&mut self, letter: char, key: Key, phone: &mut Phone, now: Instant) {
        let rings = phone.call().is_some_and(|call| call.stage == Stage::RingingHere);
        match (key, letter) {
            (Key::Enter, _) if rings => phone.answer(now),
            (Key::Backspace, _) | (_, 'h') => phone.hang_up(now),
            (_, 'm') => phone.mute(),
            (_, 'x') => self.page = Page::Transfer,
            (_, '0'..='9' | '*' | '#') => phone.press(now, letter),
            (_, 'q') => self.page = Page::Menu,
            _ => {}
        }
    }

    fn on_menu_key(&mut self, letter: char, key: Key, phone: &mut Phone, now: Instant) {
        match (key, letter) {
            (_, 'c') => self.page = Page::Dial,
            (_, 'n') => self.page = Page::Network,
            (_, 'l') => self.page = Page::Log,
            (_, 'a') => self.page = Page::Login,
            (_, 't') if phone.call().is_some() => self.page = Page::Call,
            (_, '1'..='9') => {
                let place = letter as usize - '1' as usize;
                let uri = phone.options().dials.get(place).cloned();
                if let Some(uri) = uri {
                    phone.place(now, &uri);
                }
            }
            (Key::Help, _) | (_, '?') => self.page = Page::Keys,
            (_, 'b') => self.is_asking = true,
            _ => self.page = Page::Menu,
        }
    }
}

impl screen::console::View for View {
    type Program = Phone;
    type Shared = ();

    fn log(phone: &Phone) -> &Log {
        &phone.log
    }

    fn share((): &mut (), _: &Phone, _: Instant) {}

    fn turn(&mut self, phone: &Phone, _: &Grid, _: Instant) {
        self.follow(phone);
    }

    fn is_due(&self, phone: &Phone, now: Instant) -> bool {
        let is_old = self.is_stale || phone.log.said() != self.seen;
        now >= self.drawn + if is_old { SOONEST } else { LATEST }
    }

    fn draw(&mut self, grid: &mut Grid, phone: &mut Phone, (): &(), now: Instant) {
        (self.is_stale, self.drawn, self.seen) = (false, now, phone.log.said());
        pages::draw(self, grid, phone, now);
    }

    fn on_key(&mut self, key: Key, phone: &mut Phone, now: Instant) -> bool {
        // The serial line shows no page before the first key.
        self.follow(phone);
        self.is_stale = true;
        let letter = match key {
            Key::Character(letter) => letter.to_ascii_lowercase(),
            _ => '\0',
        };
        if core::mem::take(&mut self.is_asking) {
            return letter == 'b' || key == Key::Enter;
        }
        match self.page {
            Page::Login | Page::Dial | Page::Transfer => {
                if !self.on_key_in_form(key, phone, now) {
                    self.page = Page::Menu;
                }
            }
            Page::Call => self.on_call_key(letter, key, phone, now),
            Page::Menu | Page::Network | Page::Log | Page::Keys => {
                self.on_menu_key(letter, key, phone, now);
            }
        }
        false
    }
}
