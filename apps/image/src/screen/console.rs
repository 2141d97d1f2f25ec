//! Programs on the machine's screens: on its own screen and keyboard, and on the serial line,
//! independently.

use super::keys::{Key, Keyboard, Sequences};
use super::last_words::{self, Local};
use super::pixels::Pixels;
use super::terminal::Terminal;
use super::vga::Text;
use super::{Display, Grid, Screen, page};
use crate::log::Log;
use crate::machine::boot_info::Framebuffer;
use crate::machine::keyboard;
use crate::machine::serial::{self, Serial};
use core::fmt::{self, Write as _};
use core::iter;
use sip::{Duration, Instant};

/// Interval of polling keys: in an emulated machine a poll takes longer than a message.
const KEYS: Duration = Duration::from_millis(10);
/// Maximum number of keys per turn.
const MOST_KEYS: usize = 16;
/// Interval of sending to the serial line, about the time that it needs for a full FIFO.
const SEND: Duration = Duration::from_millis(1);

/// A program's view on one screen.
pub trait View: fmt::Debug + Default {
    /// The program.
    type Program;
    /// The state that the views of all screens share.
    type Shared: fmt::Debug + Default;

    /// The program's log.
    fn log(program: &Self::Program) -> &Log;

    /// Updates the shared state.
    fn share(shared: &mut Self::Shared, program: &Self::Program, now: Instant);

    /// Does a small part of the work for this grid.
    fn turn(&mut self, program: &Self::Program, grid: &Grid, now: Instant);

    /// Returns true if it is time to draw.
    fn is_due(&self, program: &Self::Program, now: Instant) -> bool;

    /// Draws on a blank grid.
    fn draw(
        &mut self,
        grid: &mut Grid,
        program: &mut Self::Program,
        shared: &Self::Shared,
        now: Instant,
    );

    /// Handles a key. Returns true if the machine is to reboot.
    fn on_key(&mut self, key: Key, program: &mut Self::Program, now: Instant) -> bool;
}

/// A view on a display.
#[derive(Debug)]
pub(crate) struct Console<V, D> {
    view: V,
    screen: Screen,
    pub(crate) display: D,
}

impl<V: View, D: Display> Console<V, D> {
    fn new(display: D) -> Self {
        Self { view: V::default(), screen: Screen::new(display.size()), display }
    }

    /// Does a small part of the work.
    fn turn(&mut self, program: &mut V::Program, shared: &V::Shared, now: Instant) {
        self.view.turn(program, self.screen.grid(), now);
        if self.view.is_due(program, now) {
            self.screen.draw(|grid| self.view.draw(grid, program, shared, now));
        }
        self.screen.turn(&mut self.display);
    }
}

/// The serial line: lines of the log, or pages after a key was pressed there.
#[derive(Debug)]
pub(crate) struct Line<V> {
    pub(crate) console: Console<V, Terminal>,
    sequences: Sequences,
    pub(crate) has_pages: bool,
    /// Number of log lines sent.
    seen: u64,
}

impl<V: View> Default for Line<V> {
    fn default() -> Self {
        let console = Console::new(Terminal::default());
        Self { console, sequences: Sequences::default(), has_pages: false, seen: 0 }
    }
}

impl<V: View> Line<V> {
    /// Handles a key on a page, or switches to pages. Enter and the space bar only switch: they
    /// are pressed to see whether the line answers, and would be entered in a form.
    pub(crate) fn on_key(&mut self, key: Key, program: &mut V::Program, now: Instant) -> bool {
        let is_quit = key == Key::Control('x');
        if is_quit == self.has_pages {
            self.has_pages = !is_quit;
            last_words::set_has_page(self.has_pages);
            self.console.display.clear(self.has_pages);
            self.console.screen.forget();
            if matches!(key, Key::Enter | Key::Character(' ')) {
                return false;
            }
        } else if key == Key::Control('l') {
            self.console.display.clear(true);
            self.console.screen.forget();
        }
        self.has_pages && self.console.view.on_key(key, program, now)
    }

    /// Sends the unsent lines of the log, if nothing else is pending.
    pub(crate) fn go_on(&mut self, log: &Log) {
        if !self.console.display.is_idle() || log.said() == self.seen {
            return;
        }
        let missed = log.said() - self.seen - log.since(self.seen).count() as u64;
        if missed > 0 {
            self.console.display.say(format_args!("({missed} lines are left out)"));
        }
        for (time, line) in log.timed_since(self.seen) {
            self.console.display.say(format_args!("{time}{line}"));
        }
        self.seen = log.said();
    }
}

/// All screens and keys of the machine.
#[derive(Debug)]
pub struct Consoles<V: View> {
    local: Option<Console<V, Local>>,
    keyboard: Keyboard,
    line: Line<V>,
    shared: V::Shared,
    next_keys: Instant,
    next_send: Instant,
}

impl<V: View> Consoles<V> {
    /// Opens the screens of this machine.
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
            line: Line::default(),
            shared: V::Shared::default(),
            next_keys: Instant::ZERO,
            next_send: Instant::ZERO,
        }
    }

    /// Changes the view of each screen.
    pub fn each(&mut self, mut change: impl FnMut(&mut V)) {
        change(&mut self.line.console.view);
        self.local.iter_mut().for_each(|local| change(&mut local.view));
    }

    /// Shows the log at once, while no program runs yet.
    pub fn show_log(&mut self, log: &Log) {
        self.line.go_on(log);
        while let Some(byte) = self.line.console.display.take() {
            let _ = Serial.write_char(byte.into());
        }
        if let Some(Console { screen, display, .. }) = &mut self.local {
            screen.draw(|grid| page::boot_log(grid, log));
            while screen.turn(display) {}
        }
    }

    /// Returns true if a key was pressed, for programs that wait only for that.
    pub fn is_key_pressed(&mut self) -> bool {
        let typed = keyboard::read().and_then(|byte| self.keyboard.add(byte));
        let sent = serial::read().and_then(|byte| self.line.sequences.add(byte));
        typed.or(sent).is_some()
    }

    /// Does a small part of the work at `now`. Returns true if the machine is to reboot.
    pub fn turn(&mut self, program: &mut V::Program, now: Instant) -> bool {
        V::share(&mut self.shared, program, now);
        if now >= self.next_keys {
            self.next_keys = now + KEYS;
            if self.take_keys(program, now) {
                return true;
            }
        }
        if let Some(local) = &mut self.local {
            local.turn(program, &self.shared, now);
        }
        if self.line.has_pages {
            self.line.console.turn(program, &self.shared, now);
        } else {
            self.line.go_on(V::log(program));
        }
        let terminal = &mut self.line.console.display;
        if now >= self.next_send && !terminal.is_idle() {
            self.next_send = now + SEND;
            serial::send(iter::from_fn(|| terminal.take()));
        }
        false
    }

    fn take_keys(&mut self, program: &mut V::Program, now: Instant) -> bool {
        for byte in iter::from_fn(keyboard::read).take(MOST_KEYS) {
            let Some(key) = self.keyboard.add(byte) else { continue };
            let view = self.local.as_mut().map(|local| &mut local.view);
            if view.is_some_and(|view| view.on_key(key, program, now)) {
                return true;
            }
        }
        for byte in iter::from_fn(serial::read).take(MOST_KEYS) {
            let Some(key) = self.line.sequences.add(byte) else { continue };
            if self.line.on_key(key, program, now) {
                return true;
            }
        }
        false
    }
}
