//! Key bindings: one list defines the keys shown at the bottom of the screen and their actions.

use super::login::Place;
use super::model::Model;
use super::ui::{Typing, Ui, View};
use crate::call::Stage;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Quit,
    Show(View),
    /// Opens the input line.
    Type(Typing),
    /// Executes the typed line.
    Enter,
    /// Closes the input line.
    Leave,
    Next,
    Previous,
    LogIn,
    CallPeer,
    QuickDial(usize),
    /// Calls the remote end of the chosen call in the history.
    Again,
    /// Chooses the next account for calls.
    Account,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Answer,
    Decline,
    HangUp,
    Hold(bool),
    Mute(bool),
    /// The short authentication strings are the same.
    Verify,
    Swap,
    /// Connects the remote ends of two calls.
    Join,
    Follow,
    RefuseTransfer,
    Press(char),
}

/// A key binding.
#[derive(Clone, Debug)]
pub(super) struct Binding {
    /// The key's name on the screen; empty if it is not shown.
    pub(super) name: String,
    /// The action as text.
    pub(super) does: &'static str,
    codes: Vec<(KeyCode, Act)>,
}

fn one(name: &str, code: KeyCode, does: &'static str, act: Act) -> Binding {
    Binding { name: name.into(), does, codes: vec![(code, act)] }
}

fn letter(key: char, does: &'static str, act: Act) -> Binding {
    one(&key.to_string(), KeyCode::Char(key), does, act)
}

fn arrows(does: &'static str, more: &[(KeyCode, Act)]) -> Binding {
    let mut codes = vec![(KeyCode::Up, Act::Up), (KeyCode::Down, Act::Down)];
    codes.extend(more);
    Binding { name: "Up/Down".into(), does, codes }
}

/// The key bindings of the current state.
pub(super) fn bindings(ui: &Ui, model: &Model<'_>) -> Vec<Binding> {
    let mut keys = match (ui.typing, ui.view) {
        (Some(typing), _) => {
            let does = if typing == Typing::Transfer { "Transfer" } else { "Call" };
            vec![
                one("Enter", KeyCode::Enter, does, Act::Enter),
                one("Esc", KeyCode::Esc, "Back", Act::Leave),
            ]
        }
        (None, View::Login) => login(ui),
        (None, View::Menu) => menu(ui, model),
        (None, View::Call) => call(ui, model),
        (None, View::Network) => vec![letter('r', "Read again", Act::Show(View::Network))],
        (None, View::Trace) => trace(model),
        (None, View::Message) => {
            let pages = [(KeyCode::PageUp, Act::PageUp), (KeyCode::PageDown, Act::PageDown)];
            vec![
                arrows("Scroll", &pages),
                one("Esc", KeyCode::Esc, "Messages", Act::Show(View::Trace)),
            ]
        }
    };
    if !model.calls.is_empty() && ui.view != View::Call {
        match ui.is_editing() {
            true => keys.push(one("F2", KeyCode::F(2), "Calls", Act::Show(View::Call))),
            false => keys.push(letter('c', "Calls", Act::Show(View::Call))),
        }
    }
    if ui.typing.is_none() && !matches!(ui.view, View::Menu | View::Message) {
        keys.push(one("Esc", KeyCode::Esc, "Menu", Act::Show(View::Menu)));
    }
    match ui.view == View::Menu && ui.typing.is_none() {
        true => keys.push(letter('q', "Quit", Act::Quit)),
        false if ui.view == View::Login => {
            keys.push(Binding { name: "Ctrl-C".into(), does: "Quit", codes: Vec::new() });
        }
        false => {}
    }
    keys
}

fn login(ui: &Ui) -> Vec<Binding> {
    let (act, does) = match ui.login.place() {
        Place::Peer => (Act::CallPeer, "Call"),
        _ => (Act::LogIn, "Log in"),
    };
    let mut keys = vec![
        one("Enter", KeyCode::Enter, does, act),
        Binding {
            name: "Tab".into(),
            does: "Next",
            codes: vec![
                (KeyCode::Tab, Act::Next),
                (KeyCode::Down, Act::Next),
                (KeyCode::BackTab, Act::Previous),
                (KeyCode::Up, Act::Previous),
            ],
        },
    ];
    if matches!(ui.login.place(), Place::Transport | Place::Save) {
        keys.push(Binding { name: "Space".into(), does: "Change", codes: Vec::new() });
    }
    keys
}

fn menu(ui: &Ui, model: &Model<'_>) -> Vec<Binding> {
    let mut keys = vec![letter('d', "Dial", Act::Type(Typing::Dial))];
    let count = ui.dials.len().min(9);
    if count > 0 {
        let code = |place: usize| KeyCode::Char((b'1' + place as u8) as char);
        let codes = (0..count).map(|place| (code(place), Act::QuickDial(place))).collect();
        let name = if count == 1 { "1".into() } else { format!("1-{count}") };
        keys.push(Binding { name, does: "Quick dial", codes });
    }
    if !ui.history.records().is_empty() {
        keys.push(arrows("Choose", &[]));
        keys.push(one("Enter", KeyCode::Enter, "Call again", Act::Again));
    }
    if !model.accounts.is_empty() {
        keys.push(letter('w', "Call as", Act::Account));
    }
    keys.push(letter('l', "Log in", Act::Show(View::Login)));
    keys.push(letter('n', "Network", Act::Show(View::Network)));
    keys.push(letter('s', "SIP trace", Act::Show(View::Trace)));
    keys
}

fn call(ui: &Ui, model: &Model<'_>) -> Vec<Binding> {
    let mut keys = Vec::new();
    if let Some(call) = ui.call(model) {
        match call.stage {
            Stage::RingingHere => {
                keys.push(letter('a', "Answer", Act::Answer));
                keys.push(letter('d', "Decline", Act::Decline));
            }
            _ => keys.push(letter('x', "Hang up", Act::HangUp)),
        }
        if call.is_asked {
            keys.push(letter('f', "Follow the transfer", Act::Follow));
            keys.push(letter('r', "Refuse it", Act::RefuseTransfer));
        }
        let others = model.calls.iter().filter(|other| other.number != call.number);
        let others = others.filter(|other| other.is_talking()).count();
        if call.is_talking() {
            let does = if call.held_here { "Resume" } else { "Hold" };
            keys.push(letter('h', does, Act::Hold(!call.held_here)));
            if others > 0 {
                keys.push(letter('s', "Swap", Act::Swap));
                keys.push(letter('j', "Join others", Act::Join));
            }
            keys.push(letter('t', "Transfer", Act::Type(Typing::Transfer)));
        }
        if call.media.is_some() {
            let does = if call.mutes { "Unmute" } else { "Mute" };
            keys.push(letter('m', does, Act::Mute(!call.mutes)));
            let security = call.media.as_ref().map(|(answered, _)| &answered.security);
            if security.is_some_and(|it| it.sas.is_some() && it.verified_by != Some("sas")) {
                keys.push(letter('v', "Same string", Act::Verify));
            }
            let digits = "0123456789*#ABCD".chars();
            let codes = digits.map(|digit| (KeyCode::Char(digit), Act::Press(digit))).collect();
            keys.push(Binding { name: "0-9*#A-D".into(), does: "Tones", codes });
        }
    }
    if model.calls.len() > 1 {
        keys.push(arrows("Choose", &[]));
    }
    keys.push(letter('n', "New call", Act::Type(Typing::Dial)));
    keys
}

fn trace(model: &Model<'_>) -> Vec<Binding> {
    if model.trace.is_empty() {
        return Vec::new();
    }
    let more = [
        (KeyCode::PageUp, Act::PageUp),
        (KeyCode::PageDown, Act::PageDown),
        (KeyCode::Home, Act::First),
        (KeyCode::End, Act::Last),
    ];
    vec![arrows("Choose", &more), one("Enter", KeyCode::Enter, "Show", Act::Show(View::Message))]
}

/// The action of `key` in `bindings`.
pub(super) fn find(bindings: &[Binding], key: KeyEvent) -> Option<Act> {
    if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
        let is_end =
            key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        return is_end.then_some(Act::Quit);
    }
    let mut codes = bindings.iter().flat_map(|binding| &binding.codes);
    codes.find(|(code, _)| *code == key.code).map(|(_, act)| *act)
}
