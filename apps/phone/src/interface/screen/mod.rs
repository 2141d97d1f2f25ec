//! The full-screen interface.

mod call;
mod draw;
mod history;
mod keys;
mod login;
mod menu;
mod messages;
mod model;
mod network;
mod rows;
mod terminal;
#[cfg(test)]
mod tests;
mod text;
mod theme;
mod ui;

use super::Interface;
use crate::call::Stage;
use crate::config::{Dial, Entry, account};
use crate::outcome::Outcome;
use crate::phone::Phone;
use crate::report::PhoneEvent;
use crate::system::Network;
use crate::{saved, warnings};
use keys::{Act, bindings, find};
use model::Model;
use ratatui::crossterm::event::{Event, KeyEvent, KeyEventKind};
use sip_ua::AccountId;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use terminal::Terminal;
use theme::{Theme, Tone};
use ui::{Typing, Ui, View};

/// Interval at which the statistics of a call are redrawn.
const REFRESH: Duration = Duration::from_secs(1);
/// Lines that a page key scrolls.
const PAGE: usize = 10;

/// The front end with the full screen.
pub(crate) struct Screen {
    ui: Ui,
    theme: Theme,
    terminal: Terminal,
    /// True if the screen has to be redrawn.
    is_stale: bool,
    drawn: Instant,
    /// The number of the newest drawn trace message.
    traced: u64,
    /// An account that is saved once its registration has succeeded.
    unsaved: Option<Entry>,
    outcome: Option<Outcome>,
}

impl Screen {
    /// Checks that there is a terminal.
    ///
    /// # Errors
    /// Advice if there is no terminal.
    pub(crate) fn check() -> Result<(), String> {
        if Terminal::is_there() {
            return Ok(());
        }
        let text = "the screen needs a terminal for its input and output; without one use a command: call, answer or control";
        Err(text.into())
    }

    /// Takes over the terminal. `path` is the configuration file, which need not exist.
    ///
    /// # Errors
    /// If there is no terminal.
    pub(crate) fn open(dials: Vec<Dial>, path: Option<PathBuf>) -> Result<Self, String> {
        let terminal = Terminal::open().map_err(|error| format!("the terminal: {error}"))?;
        Ok(Self {
            ui: Ui::new(dials, path),
            theme: Theme::from_environment(),
            terminal,
            is_stale: true,
            drawn: Instant::now(),
            traced: 0,
            unsaved: None,
            outcome: None,
        })
    }

    fn draw(&mut self, phone: &Phone) {
        let model = Model::of(phone, &self.ui.history);
        let (ui, theme) = (&self.ui, self.theme);
        let mut columns = ui.columns;
        let drawn = self.terminal.draw(|frame| {
            columns = frame.area().width;
            draw::draw(frame, ui, &model, theme);
        });
        if let Err(error) = drawn {
            self.outcome = Some(Outcome::Failed(format!("the terminal: {error}")));
        }
        self.ui.columns = columns;
        self.traced = model.trace.back().map_or(0, |traced| traced.number);
        (self.is_stale, self.drawn) = (false, Instant::now());
    }

    fn on_key(&mut self, phone: &mut Phone, key: KeyEvent) {
        let model = Model::of(phone, &self.ui.history);
        let act = find(&bindings(&self.ui, &model), key);
        let call = self.ui.call(&model).map(|call| call.number);
        match (act, self.ui.typing) {
            (Some(act), _) => match self.act(phone, act, call) {
                Ok(()) => {}
                Err(text) => self.ui.note(text, Tone::Bad),
            },
            (None, Some(_)) => drop(self.ui.line.edit(key)),
            (None, None) if self.ui.view == View::Login => drop(self.ui.login.edit(key)),
            (None, None) => {}
        }
    }

    /// Executes the action of a key; `call` is the chosen one.
    fn act(&mut self, phone: &mut Phone, act: Act, call: Option<u64>) -> Result<(), String> {
        let call = || call.ok_or_else(|| "there is no call".to_owned());
        match act {
            Act::Quit => self.outcome = Some(Outcome::Done),
            Act::Show(view) => self.show(view),
            Act::Type(typing) => {
                self.ui.line.clear();
                self.ui.typing = Some(typing);
            }
            Act::Leave => self.ui.typing = None,
            Act::Enter => return self.enter(phone, call()),
            Act::Next => self.ui.login.go(true),
            Act::Previous => self.ui.login.go(false),
            Act::LogIn => return self.log_in(phone),
            Act::CallPeer => {
                let peer = self.ui.login.peer().to_owned();
                if peer.is_empty() {
                    return Err("enter an address to call, such as sip:bob@192.0.2.7".into());
                }
                self.ui.login.clear();
                self.ui.view = View::Menu;
                self.call(phone, &peer, None);
            }
            Act::QuickDial(place) => {
                let uri = self.ui.dials.get(place).map(|dial| dial.uri.clone());
                uri.into_iter().for_each(|uri| self.dial(phone, &uri));
            }
            Act::Again => {
                let record = self.ui.history.records().get(self.ui.record);
                let uri = record.map(|record| record.uri.clone());
                uri.into_iter().for_each(|uri| self.call(phone, &uri, self.ui.account));
            }
            Act::Account => self.next_account(phone),
            Act::Up => self.go(phone, -1),
            Act::Down => self.go(phone, 1),
            Act::PageUp => self.go(phone, -(PAGE as isize)),
            Act::PageDown => self.go(phone, PAGE as isize),
            Act::First => self.go(phone, isize::MIN),
            Act::Last => self.ui.traced = None,
            Act::Answer => {
                let call = call()?;
                hold_others(phone, call);
                self.ui.chosen = Some(call);
                return phone.answer(call);
            }
            Act::Decline => return phone.decline(call()?, 486),
            Act::HangUp => return phone.hang_up(call()?),
            Act::Hold(holds) => {
                let call = call()?;
                self.ui.chosen = Some(call);
                if !holds {
                    hold_others(phone, call);
                }
                return phone.hold(call, holds);
            }
            Act::Mute(mutes) => return phone.mute(call()?, mutes),
            Act::Verify => return phone.verify(call()?, true),
            Act::Swap => {
                if let Some(next) = next_talking(phone, call()?) {
                    hold_others(phone, next);
                    self.ui.chosen = Some(next);
                    return phone.hold(next, false);
                }
            }
            Act::Join => {
                let call = call()?;
                if let Some(other) = next_talking(phone, call) {
                    return phone.transfer_to(call, other);
                }
            }
            Act::Follow => return phone.follow(call()?).map(drop),
            Act::RefuseTransfer => return phone.refuse_transfer(call()?),
            Act::Press(digit) => {
                phone.press(call()?, &digit.to_string())?;
                self.ui.note(format!("key {digit} is sent"), Tone::Plain);
            }
        }
        Ok(())
    }

    fn show(&mut self, view: View) {
        self.ui.typing = None;
        match view {
            View::Network => self.ui.network = Network::now(),
            View::Message => self.ui.scroll = 0,
            _ => {}
        }
        self.ui.view = view;
    }

    /// Executes the typed line.
    fn enter(&mut self, phone: &mut Phone, call: Result<u64, String>) -> Result<(), String> {
        let text = self.ui.line.text().trim().to_owned();
        let typing = self.ui.typing.take();
        match typing {
            None => {}
            _ if text.is_empty() => {}
            Some(Typing::Dial) => self.dial(phone, &text),
            Some(Typing::Transfer) => {
                let to = self.address(phone, &text);
                return phone.transfer(call?, &to);
            }
        }
        Ok(())
    }

    /// The URI for `text`: a name or number alone is completed with the domain of the account.
    fn address(&self, phone: &Phone, text: &str) -> String {
        phone.dialled(text, self.ui.account)
    }

    fn dial(&mut self, phone: &mut Phone, text: &str) {
        let uri = self.address(phone, text);
        self.call(phone, &uri, self.ui.account);
    }

    fn call(&mut self, phone: &mut Phone, uri: &str, account: Option<AccountId>) {
        hold_others(phone, 0);
        phone.call(uri, account);
    }

    fn log_in(&mut self, phone: &mut Phone) -> Result<(), String> {
        let entry = self.ui.login.entry()?;
        let uri = entry.uri.clone();
        self.ui.account = Some(phone.add_account(account(entry.clone())?)?);
        self.ui.registrations.remove(&uri);
        self.unsaved = self.ui.login.saves.then_some(entry);
        self.ui.login.clear();
        self.ui.view = View::Menu;
        self.ui.note(format!("{uri} is registering"), Tone::Plain);
        Ok(())
    }

    /// Saves an account after its registration has succeeded.
    fn save(&mut self, registered: &str) {
        let Some(entry) = self.unsaved.take_if(|entry| entry.uri == registered) else { return };
        let Some(path) = &self.ui.path else {
            return self
                .ui
                .note("there is no folder to save in: name a file with --config", Tone::Bad);
        };
        match saved::add(path, &entry) {
            Ok(()) => {
                let text = format!("{registered} is registered, and saved in {}", path.display());
                self.ui.note(text, Tone::Good);
            }
            Err(text) => self.ui.note(text, Tone::Bad),
        }
    }

    /// Chooses the next account for calls; after the last one, no account.
    fn next_account(&mut self, phone: &Phone) {
        let model = Model::of(phone, &self.ui.history);
        let ids: Vec<AccountId> = model.accounts.iter().map(|(id, ..)| *id).collect();
        let place = ids.iter().position(|id| Some(*id) == self.ui.account);
        self.ui.account = ids.get(place.map_or(0, |place| place + 1)).copied();
    }

    /// Moves the selection by `step` lines.
    fn go(&mut self, phone: &Phone, step: isize) {
        let model = Model::of(phone, &self.ui.history);
        let to = |from: usize, count: usize| {
            from.saturating_add_signed(step).min(count.saturating_sub(1))
        };
        let ui = &mut self.ui;
        match ui.view {
            View::Menu => {
                ui.record = to(ui.record, ui.history.records().len());
                // The line of the list may be too narrow for it.
                let record = ui.history.records().get(ui.record);
                ui.note = record
                    .map(|record| (format!("{}: {}", record.party, record.story()), Tone::Plain));
            }
            View::Call => {
                let chosen = ui.call(&model).map(|call| call.number);
                let place = model.calls.iter().position(|call| Some(call.number) == chosen);
                let place = to(place.unwrap_or_default(), model.calls.len());
                ui.chosen = model.calls.get(place).map(|call| call.number);
            }
            View::Trace => {
                let place = to(messages::chosen(ui, &model), model.trace.len());
                let is_last = place + 1 == model.trace.len();
                let chosen = model.trace.get(place).filter(|_| !is_last);
                ui.traced = chosen.map(|traced| traced.number);
            }
            View::Message => {
                let lines = to(usize::from(ui.scroll), messages::length(ui, &model));
                ui.scroll = u16::try_from(lines).unwrap_or(u16::MAX);
            }
            View::Login | View::Network => {}
        }
    }
}

/// Holds all established calls except `call`.
fn hold_others(phone: &mut Phone, call: u64) {
    let others = phone.calls().iter().filter(|(number, other)| {
        **number != call && other.stage == Stage::Talking && !other.holds()
    });
    let others: Vec<u64> = others.map(|(number, _)| *number).collect();
    for other in others {
        let _ = phone.hold(other, true);
    }
}

/// The established call after `call`, cyclically.
fn next_talking(phone: &Phone, call: u64) -> Option<u64> {
    let after = phone.calls().range(call + 1..).chain(phone.calls().range(..call));
    let mut talking = after.filter(|(_, other)| other.stage == Stage::Talking);
    talking.next().map(|(number, _)| *number)
}

impl Interface for Screen {
    fn begin(&mut self, phone: &mut Phone) {
        self.ui.account = (!phone.lines().is_empty()).then_some(AccountId(0));
        if self.ui.account.is_some() {
            self.ui.view = View::Menu;
        }
        phone.register();
    }

    fn hear(&mut self, phone: &mut Phone, told: &PhoneEvent) {
        self.ui.hear(told, phone.calls().len());
        if let PhoneEvent::Registered { account, .. } = told {
            self.save(account);
        }
        self.is_stale = true;
    }

    fn turn(&mut self, phone: &mut Phone) -> Option<Outcome> {
        for text in warnings::take() {
            self.ui.note(text, Tone::Caution);
            self.is_stale = true;
        }
        match self.terminal.read() {
            Ok(events) => {
                for event in events {
                    self.is_stale = true;
                    if let Event::Key(key) = event
                        && key.kind != KeyEventKind::Release
                    {
                        self.on_key(phone, key);
                    }
                }
            }
            Err(error) => self.outcome = Some(Outcome::Failed(format!("the terminal: {error}"))),
        }
        if phone.was_interrupted() {
            self.outcome = Some(Outcome::Done);
        }
        let is_tracing = matches!(self.ui.view, View::Trace);
        let traced = phone.trace().back().map_or(0, |traced| traced.number);
        self.is_stale |= is_tracing && traced != self.traced;
        self.is_stale |= self.due(phone).is_some_and(|due| due <= Instant::now());
        if self.outcome == Some(Outcome::Done) {
            self.ui.note("hanging up and logging out", Tone::Plain);
        }
        if self.is_stale {
            self.draw(phone);
        }
        self.outcome.take()
    }

    fn inputs(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.terminal.bell()]
    }

    fn due(&self, phone: &Phone) -> Option<Instant> {
        (!phone.calls().is_empty()).then(|| self.drawn + REFRESH)
    }
}
