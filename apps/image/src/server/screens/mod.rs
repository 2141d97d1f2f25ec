//! What the screens of the server show, and what keys do there: the machine's own screen and
//! keyboard, and the serial line, each for itself.

mod list;
mod pages;
mod rates;
#[cfg(test)]
mod tests;
mod view;

use super::{Phase, Server};
use crate::log::Log;
use crate::machine::boot_info::Framebuffer;
use crate::machine::keyboard;
use crate::machine::serial::{self, Serial};
use crate::options::server::Page;
use crate::screen::keys::{Key, Keyboard, Sequences};
use crate::screen::last_words::{self, Local};
use crate::screen::pixels::Pixels;
use crate::screen::terminal::Terminal;
use crate::screen::vga::Text;
use crate::screen::{Display, Screen};
use core::fmt::Write as _;
use core::iter;
use rates::Rates;
use sip::{Duration, Instant};
use view::{Action, View};

/// From one look for keys to the next: a look takes longer than a message where the machine is
/// emulated.
const KEYS: Duration = Duration::from_millis(10);
/// Keys that are taken at a time.
const MOST_KEYS: usize = 16;
/// In which the serial line takes what fits into its queue.
const SEND: Duration = Duration::from_millis(1);

/// A page on a display.
#[derive(Debug)]
struct Console<D> {
    view: View,
    screen: Screen,
    display: D,
}

impl<D: Display> Console<D> {
    fn new(display: D) -> Self {
        Self { view: View::default(), screen: Screen::new(display.size()), display }
    }

    /// Does a little of what is to be done.
    fn turn(&mut self, server: &mut Server, rates: &Rates, now: Instant) {
        self.view.turn(server, self.screen.grid(), now);
        if self.view.is_due(server, now) {
            self.screen.draw(|grid| self.view.draw(grid, server, rates, now));
        }
        self.screen.turn(&mut self.display);
    }
}

/// The serial line: lines of the log, or pages once a key was pressed there.
#[derive(Debug)]
struct Line {
    console: Console<Terminal>,
    sequences: Sequences,
    has_pages: bool,
    /// Lines of the log that were sent.
    seen: u64,
}

impl Line {
    /// Takes in a key where pages are shown, or shows them.
    fn on_key(&mut self, key: Key) -> Option<Action> {
        let is_quit = matches!(key, Key::Character('q' | 'Q'));
        if is_quit == self.has_pages {
            self.has_pages = !is_quit;
            last_words::set_has_page(self.has_pages);
            self.console.display.clear(self.has_pages);
            self.console.screen.forget();
        } else if key == Key::Control('l') {
            self.console.display.clear(true);
            self.console.screen.forget();
        }
        if self.has_pages { self.console.view.on_key(key) } else { None }
    }

    /// Sends the lines of the log that were not sent, if nothing else waits.
    fn go_on(&mut self, log: &Log) {
        if !self.console.display.is_idle() || log.said() == self.seen {
            return;
        }
        let missed = log.said() - self.seen - log.since(self.seen).count() as u64;
        if missed > 0 {
            self.console.display.say(format_args!("({missed} lines are left out)"));
        }
        for line in log.since(self.seen) {
            self.console.display.say(format_args!("{line}"));
        }
        self.seen = log.said();
    }
}

/// All screens, and all keys.
#[derive(Debug)]
pub struct Screens {
    local: Option<Console<Local>>,
    keyboard: Keyboard,
    line: Line,
    rates: Rates,
    next_keys: Instant,
    next_send: Instant,
}

impl Screens {
    /// The screens that this machine has.
    #[must_use]
    pub fn open(framebuffer: Option<Framebuffer>) -> Self {
        let text = || Text::open().map(Local::Text);
        let local = framebuffer.and_then(Pixels::open).map(Local::Pixels).or_else(text);
        if let Some(local) = local {
            last_words::set_screen(local);
        }
        keyboard::init();
        Self {
            local: local.map(Console::new),
            keyboard: Keyboard::default(),
            line: Line {
                console: Console::new(Terminal::default()),
                sequences: Sequences::default(),
                has_pages: false,
                seen: 0,
            },
            rates: Rates::default(),
            next_keys: Instant::ZERO,
            next_send: Instant::ZERO,
        }
    }

    /// Shows `page` at first.
    pub fn set_page(&mut self, page: Page) {
        self.line.console.view.set_page(page);
        if let Some(local) = &mut self.local {
            local.view.set_page(page);
        }
    }

    /// Shows what was said while there is no server yet, all of it at once.
    pub fn show_log(&mut self, log: &Log) {
        self.line.go_on(log);
        while let Some(byte) = self.line.console.display.take() {
            let _ = Serial.write_char(byte.into());
        }
        if let Some(Console { screen, display, .. }) = &mut self.local {
            screen.draw(|grid| pages::boot_log(grid, log));
            while screen.turn(display) {}
        }
    }

    /// Whether a key was pressed, for who waits for nothing else.
    pub fn is_key_pressed(&mut self) -> bool {
        let typed = keyboard::read().and_then(|byte| self.keyboard.add(byte));
        let sent = serial::read().and_then(|byte| self.line.sequences.add(byte));
        typed.or(sent).is_some()
    }

    /// Does a little of what is to be done `now`. Returns whether the machine is to boot again.
    pub fn turn(&mut self, server: &mut Server, now: Instant) -> bool {
        self.rates.turn(server, now);
        if now >= self.next_keys {
            self.next_keys = now + KEYS;
            if self.take_keys(server, now) {
                return true;
            }
        }
        if let Some(local) = &mut self.local {
            local.turn(server, &self.rates, now);
        }
        if self.line.has_pages {
            self.line.console.turn(server, &self.rates, now);
        } else {
            self.line.go_on(&server.log);
        }
        let terminal = &mut self.line.console.display;
        if now >= self.next_send && !terminal.is_idle() {
            self.next_send = now + SEND;
            serial::send(iter::from_fn(|| terminal.take()));
        }
        false
    }

    fn take_keys(&mut self, server: &mut Server, now: Instant) -> bool {
        let mut act = |action| match action {
            Some(Action::Fetch) => {
                server.fetch_users(now);
                false
            }
            Some(Action::Reboot) => true,
            None => false,
        };
        for byte in iter::from_fn(keyboard::read).take(MOST_KEYS) {
            let Some(key) = self.keyboard.add(byte) else { continue };
            let view = self.local.as_mut().map(|local| &mut local.view);
            if act(view.and_then(|view| view.on_key(key))) {
                return true;
            }
        }
        for byte in iter::from_fn(serial::read).take(MOST_KEYS) {
            let Some(key) = self.line.sequences.add(byte) else { continue };
            if act(self.line.on_key(key)) {
                return true;
            }
        }
        false
    }
}

impl Server {
    /// Fetches the users again, if there is an address and they are not on their way.
    fn fetch_users(&mut self, now: Instant) {
        match self.phase {
            Phase::Users | Phase::Ready if !self.accounts.is_busy() => self.next_fetch = Some(now),
            Phase::Users | Phase::Ready => self.log.say(format_args!("the users are on their way")),
            Phase::Link | Phase::Address => {
                self.log.say(format_args!("no address yet to fetch the users by"));
            }
        }
    }
}
