//! The state of the screen: the user's position and the events shown.

use super::history::History;
use super::login::Login;
use super::model::{CallShown, Model};
use super::text::{Field, time_of_day};
use super::theme::Tone;
use crate::call::Stage;
use crate::config::Dial;
use crate::outcome::Outcome;
use crate::report::PhoneEvent;
use crate::system::Network;
use sip_ua::AccountId;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// The views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Login,
    Menu,
    Call,
    Network,
    Trace,
    /// One message of the trace.
    Message,
}

/// The purpose of the input line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Typing {
    Dial,
    Transfer,
}

/// The state of the screen.
pub(super) struct Ui {
    pub(super) view: View,
    pub(super) typing: Option<Typing>,
    pub(super) line: Field,
    pub(super) login: Login,
    /// The selected one of the current calls.
    pub(super) chosen: Option<u64>,
    /// The selected call of the history.
    pub(super) record: usize,
    /// The number of the selected trace message; `None`: always the last one.
    pub(super) traced: Option<u64>,
    /// Columns of the terminal.
    pub(super) columns: u16,
    /// Scroll offset of a message in lines.
    pub(super) scroll: u16,
    /// The last note.
    pub(super) note: Option<(String, Tone)>,
    pub(super) history: History,
    pub(super) dials: Vec<Dial>,
    /// The configuration file, which need not exist.
    pub(super) path: Option<PathBuf>,
    /// The account for calls; `None`: calls without an account.
    pub(super) account: Option<AccountId>,
    /// The registration states of accounts, by their URIs.
    pub(super) registrations: BTreeMap<String, (String, Tone)>,
    pub(super) network: Network,
}

impl Ui {
    pub(super) fn new(dials: Vec<Dial>, path: Option<PathBuf>) -> Self {
        Self {
            view: if dials.is_empty() { View::Login } else { View::Menu },
            typing: None,
            line: Field::default(),
            login: Login::default(),
            chosen: None,
            record: 0,
            traced: None,
            columns: 80,
            scroll: 0,
            note: None,
            history: History::default(),
            dials,
            path,
            account: None,
            registrations: BTreeMap::new(),
            network: Network::default(),
        }
    }

    /// Returns true if keys are text input.
    pub(super) const fn is_editing(&self) -> bool {
        self.typing.is_some() || matches!(self.view, View::Login)
    }

    /// The call that keys act on: the selected one, else the ringing one, else the last one.
    pub(super) fn call<'a>(&self, model: &'a Model<'_>) -> Option<&'a CallShown> {
        let chosen = model.calls.iter().find(|call| Some(call.number) == self.chosen);
        let ringing = model.calls.iter().find(|call| call.stage == Stage::RingingHere);
        chosen.or(ringing).or(model.calls.last())
    }

    pub(super) fn note(&mut self, text: impl Into<String>, tone: Tone) {
        self.note = Some((text.into(), tone));
    }

    /// Handles an event; `calls` is the number of remaining calls.
    pub(super) fn hear(&mut self, told: &PhoneEvent, calls: usize) {
        self.history.hear(told);
        let after = |seconds: u64| time_of_day(SystemTime::now() + Duration::from_secs(seconds));
        let (text, tone) = match told {
            PhoneEvent::Listening { .. }
            | PhoneEvent::Media(_)
            | PhoneEvent::Done { .. }
            | PhoneEvent::State(_) => return,
            PhoneEvent::Registered { account, seconds } => {
                let state = format!("registered until {} ({seconds} s)", after(*seconds));
                let before = self.registrations.insert(account.clone(), (state, Tone::Good));
                // A refreshed registration is not shown.
                if before.is_some_and(|(_, tone)| tone == Tone::Good) {
                    return;
                }
                (told.to_string(), Tone::Good)
            }
            PhoneEvent::RegistrationFailed { account, cause, retry_seconds, .. } => {
                let again = retry_seconds.map(after);
                let again = again
                    .map_or_else(|| "; log in again".to_owned(), |at| format!("; again at {at}"));
                let state = format!("not registered: {cause}{again}");
                self.registrations.insert(account.clone(), (state.clone(), Tone::Bad));
                (format!("{account} is {state}"), Tone::Bad)
            }
            PhoneEvent::Unregistered { account } => {
                let state = ("not registered any more".to_owned(), Tone::Caution);
                self.registrations.insert(account.clone(), state);
                (told.to_string(), Tone::Caution)
            }
            PhoneEvent::Calling { call, .. } | PhoneEvent::Following { by: call, .. } => {
                self.chosen = Some(*call);
                if !self.is_editing() {
                    self.view = View::Call;
                }
                (told.to_string(), Tone::Plain)
            }
            PhoneEvent::Incoming { call, .. } => {
                let shows = !self.is_editing() && calls <= 1;
                if shows {
                    (self.view, self.chosen) = (View::Call, Some(*call));
                }
                let party = self.history.of(*call).map_or("", |record| &record.party);
                (format!("{party} calls"), Tone::Strong)
            }
            PhoneEvent::Ended { call, cause, outcome, .. } => {
                self.chosen = self.chosen.filter(|chosen| chosen != call);
                if calls == 0 {
                    self.view = if self.view == View::Call { View::Menu } else { self.view };
                    self.typing = self.typing.filter(|typing| *typing != Typing::Transfer);
                }
                let tone = if *outcome == Outcome::Done { Tone::Plain } else { Tone::Bad };
                let record = self.history.of(*call);
                let story = record.map(|record| format!("{}: {}", record.party, record.story()));
                (story.unwrap_or_else(|| cause.clone()), tone)
            }
            PhoneEvent::Answered(_) => ("answered".to_owned(), Tone::Plain),
            PhoneEvent::Dtmf { digit, .. } => {
                (format!("the other end presses {digit}"), Tone::Plain)
            }
            PhoneEvent::Unchanged { .. }
            | PhoneEvent::Refused { .. }
            | PhoneEvent::Failed { .. } => (told.to_string(), Tone::Bad),
            _ => (told.to_string(), Tone::Plain),
        };
        self.note(text, tone);
    }
}
