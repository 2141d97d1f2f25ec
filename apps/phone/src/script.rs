//! Scripts: sequences of steps in TOML. The steps are documented in docs/phone.md.

use crate::audio::{MAX_HERTZ, Source};
use crate::config;
use crate::impression;
use crate::position;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use sip_ua::Account;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::time::Duration;
use toml::{Spanned, Value};

/// The default time limit of a step.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The status of a call that is declined with another URI for the caller.
const REDIRECTION: u16 = 302;

/// A parsed script.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) accounts: Vec<Account>,
    pub(crate) steps: Vec<Step>,
}

/// A step.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// The line in the file.
    pub(crate) line: usize,
    /// The name of the call; `None`: the call used last.
    pub(crate) call: Option<String>,
    /// The time limit.
    pub(crate) limit: Duration,
    pub(crate) action: Action,
}

/// The state of a dialled call that completes the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Until {
    Placed,
    Ringing,
    Answered,
}

/// The expected end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Any,
    Peer,
    Here,
    /// The call is rejected with this SIP status.
    Status(u16),
}

/// The action of a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Dial {
        to: String,
        until: Until,
        account: Option<String>,
    },
    Wait(Duration),
    ExpectCall(String),
    Answer,
    Decline(u16),
    /// The caller is redirected to this URI (302).
    Redirect(String),
    Press(String),
    ExpectKeys(String),
    ExpectTone(f64),
    ExpectAudio,
    ExpectSilence,
    Play(String),
    Hold,
    Resume,
    Transfer(String),
    TransferTo(String),
    HangUp,
    ExpectEnd(Ending),
    Message {
        to: String,
        text: String,
        account: Option<String>,
    },
    ExpectMessage(String),
    /// An account, or the first one.
    Register(Option<String>),
    Unregister(Option<String>),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let account = |account: &Option<String>| account.clone().unwrap_or_else(|| "true".into());
        match self {
            Self::Dial { to, .. } => write!(f, "dial {to}"),
            Self::Wait(time) => write!(f, "wait {}", humantime::format_duration(*time)),
            Self::ExpectCall(from) => write!(f, "expect_call {from}"),
            Self::Answer => f.write_str("answer"),
            Self::Decline(status) => write!(f, "decline {status}"),
            Self::Redirect(to) => write!(f, "decline {REDIRECTION}, to {to}"),
            Self::Press(keys) => write!(f, "press {keys}"),
            Self::ExpectKeys(keys) => write!(f, "expect_keys {keys}"),
            Self::ExpectTone(hertz) => write!(f, "expect_tone {hertz}"),
            Self::ExpectAudio => f.write_str("expect_audio"),
            Self::ExpectSilence => f.write_str("expect_silence"),
            Self::Play(what) => write!(f, "play {what}"),
            Self::Hold => f.write_str("hold"),
            Self::Resume => f.write_str("resume"),
            Self::Transfer(to) => write!(f, "transfer {to}"),
            Self::TransferTo(call) => write!(f, "transfer_to {call}"),
            Self::HangUp => f.write_str("hang_up"),
            Self::ExpectEnd(Ending::Any) => f.write_str("expect_end any"),
            Self::ExpectEnd(Ending::Peer) => f.write_str("expect_end peer"),
            Self::ExpectEnd(Ending::Here) => f.write_str("expect_end here"),
            Self::ExpectEnd(Ending::Status(status)) => write!(f, "expect_end {status}"),
            Self::Message { to, .. } => write!(f, "message {to}"),
            Self::ExpectMessage(text) => write!(f, "expect_message {text}"),
            Self::Register(name) => write!(f, "register {}", account(name)),
            Self::Unregister(name) => write!(f, "unregister {}", account(name)),
        }
    }
}

/// Types of values in scripts, parsed from simpler types. The error names the expectation.
macro_rules! values {
    ($($(#[$meta:meta])* $name:ident($inner:ty) from $from:ty: $value:ident => $read:expr;)+) => {$(
        $(#[$meta])*
        #[derive(Debug)]
        struct $name($inner);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let $value = <$from>::deserialize(deserializer)?;
                let read: Result<$inner, String> = $read;
                read.map(Self).map_err(D::Error::custom)
            }
        }
    )+};
}

values! {
    /// A time such as `1m 30s`.
    #[derive(Clone, Copy)]
    Time(Duration) from String: text => humantime::parse_duration(&text)
        .map_err(|error| format!("{error}; expected a time such as \"5s\""));

    #[derive(Clone)]
    Keys(String) from String: text => impression::keys(&text)
        .ok_or("expected keys: 0 to 9, *, #, A to D".into());

    #[derive(Clone, Copy)]
    Hertz(f64) from f64: hertz => Some(hertz).filter(|hertz| (1.0..MAX_HERTZ).contains(hertz))
        .ok_or("expected 1 to 7999 hertz".into());

    /// Only `true`: an unwanted step is left out.
    #[derive(Clone, Copy)]
    Yes(()) from bool: yes => yes.then_some(())
        .ok_or("expected true; otherwise leave the step out".into());

    #[derive(Clone, Copy)]
    Refusal(u16) from u16: status => Some(status)
        .filter(|status| matches!(status, &REDIRECTION | 400..700))
        .ok_or("expected a status from 400 to 699, or 302 with `to`".into());

    #[derive(Clone, Copy)]
    Ends(Ending) from Value: value => {
        let status = value.as_integer().and_then(|status| u16::try_from(status).ok());
        match (value.as_str(), status) {
            (Some("any"), _) => Ok(Ending::Any),
            (Some("peer"), _) => Ok(Ending::Peer),
            (Some("here"), _) => Ok(Ending::Here),
            (_, Some(status @ 300..700)) => Ok(Ending::Status(status)),
            _ => Err("expected \"peer\", \"here\", \"any\", or a status such as 486".into()),
        }
    };

    /// An account by its URI, or `true` for the first.
    #[derive(Clone)]
    Named(Option<String>) from Value: value => match value {
        Value::Boolean(true) => Ok(None),
        Value::String(name) => Ok(Some(name)),
        _ => Err("expected the URI of an account, or true for the first".into()),
    };
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    account: Vec<config::Entry>,
    timeout: Option<Time>,
    steps: Vec<Spanned<Raw>>,
}

/// A step as written in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    call: Option<Spanned<String>>,
    timeout: Option<Time>,
    within: Option<Spanned<Time>>,
    until: Option<Spanned<Until>>,
    account: Option<Spanned<String>>,
    text: Option<Spanned<String>>,
    to: Option<Spanned<String>>,
    dial: Option<String>,
    wait: Option<Time>,
    expect_call: Option<String>,
    answer: Option<Yes>,
    decline: Option<Refusal>,
    press: Option<Keys>,
    expect_keys: Option<Keys>,
    expect_tone: Option<Hertz>,
    expect_audio: Option<Yes>,
    expect_silence: Option<Yes>,
    play: Option<Spanned<String>>,
    hold: Option<Yes>,
    resume: Option<Yes>,
    transfer: Option<String>,
    transfer_to: Option<Spanned<String>>,
    hang_up: Option<Yes>,
    expect_end: Option<Ends>,
    message: Option<String>,
    expect_message: Option<String>,
    register: Option<Named>,
    unregister: Option<Named>,
}

/// The position and the description of a fault.
type Wrong = (usize, String);

impl Raw {
    /// All actions that the step names.
    fn actions(&self) -> Vec<Action> {
        let account = self.account.as_ref().map(|account| account.get_ref().clone());
        let until = self.until.as_ref().map_or(Until::Answered, |until| *until.get_ref());
        let text = self.text.as_ref().map(|text| text.get_ref().clone()).unwrap_or_default();
        let dialled =
            self.dial.clone().map(|to| Action::Dial { to, until, account: account.clone() });
        let written = self.message.clone().map(|to| Action::Message { to, text, account });
        let all = [
            dialled,
            written,
            self.wait.map(|time| Action::Wait(time.0)),
            self.expect_call.clone().map(Action::ExpectCall),
            self.answer.map(|_| Action::Answer),
            self.decline.map(|status| match &self.to {
                Some(to) if status.0 == REDIRECTION => Action::Redirect(to.get_ref().clone()),
                _ => Action::Decline(status.0),
            }),
            self.press.clone().map(|keys| Action::Press(keys.0)),
            self.expect_keys.clone().map(|keys| Action::ExpectKeys(keys.0)),
            self.expect_tone.map(|hertz| Action::ExpectTone(hertz.0)),
            self.expect_audio.map(|_| Action::ExpectAudio),
            self.expect_silence.map(|_| Action::ExpectSilence),
            self.play.as_ref().map(|what| Action::Play(what.get_ref().clone())),
            self.hold.map(|_| Action::Hold),
            self.resume.map(|_| Action::Resume),
            self.transfer.clone().map(Action::Transfer),
            self.transfer_to.as_ref().map(|call| Action::TransferTo(call.get_ref().clone())),
            self.hang_up.map(|_| Action::HangUp),
            self.expect_end.map(|ends| Action::ExpectEnd(ends.0)),
            self.expect_message.clone().map(Action::ExpectMessage),
            self.register.clone().map(|name| Action::Register(name.0)),
            self.unregister.clone().map(|name| Action::Unregister(name.0)),
        ];
        all.into_iter().flatten().collect()
    }

    /// The single action of the step.
    fn action(&self, at: usize) -> Result<Action, Wrong> {
        let mut actions = self.actions();
        if actions.len() > 1 {
            let names: Vec<String> = actions.iter().map(|action| format!("`{action}`")).collect();
            return Err((at, format!("a step does one thing, this one {}", names.join(" and "))));
        }
        actions.pop().ok_or((at, "a step does something, such as dial = \"sip:...\"".into()))
    }

    /// Rejects keys that have no meaning for `action`.
    fn check(&self, at: usize, action: &Action) -> Result<(), Wrong> {
        let name = action.to_string();
        let name = name.split(' ').next().unwrap_or_default();
        let is_dial = matches!(action, Action::Dial { .. });
        let is_message = matches!(action, Action::Message { .. });
        let is_redirection = matches!(action, Action::Redirect(_));
        let is_of_call = !matches!(
            action,
            Action::Wait(_)
                | Action::Message { .. }
                | Action::ExpectMessage(_)
                | Action::Register(_)
                | Action::Unregister(_)
        );
        let start = |span: std::ops::Range<usize>| span.start;
        let options = [
            ("within", self.within.as_ref().map(|s| start(s.span())), name.starts_with("expect_")),
            ("until", self.until.as_ref().map(|s| start(s.span())), is_dial),
            ("account", self.account.as_ref().map(|s| start(s.span())), is_dial || is_message),
            ("text", self.text.as_ref().map(|s| start(s.span())), is_message),
            ("to", self.to.as_ref().map(|s| start(s.span())), is_redirection),
            ("call", self.call.as_ref().map(|s| start(s.span())), is_of_call),
        ];
        for (option, place, has_meaning) in options {
            if let (Some(place), false) = (place, has_meaning) {
                return Err((place, format!("`{option}` does not apply to `{name}`")));
            }
        }
        if is_message && self.text.is_none() {
            return Err((at, "`message` needs `text`".into()));
        }
        if *action == Action::Decline(REDIRECTION) {
            return Err((at, "`decline = 302` needs `to`, the URI for the caller".into()));
        }
        Ok(())
    }
}

fn steps(raw: &[Spanned<Raw>], text: &str, timeout: Duration) -> Result<Vec<Step>, Wrong> {
    let mut names = BTreeSet::new();
    let mut has_call = false;
    let mut steps = Vec::new();
    for spanned in raw {
        let (at, raw) = (spanned.span().start, spanned.get_ref());
        let action = raw.action(at)?;
        raw.check(at, &action)?;
        let begins = matches!(action, Action::Dial { .. } | Action::ExpectCall(_));
        let known = raw.transfer_to.iter().chain(raw.call.as_ref().filter(|_| !begins));
        for name in known {
            if !names.contains(name.get_ref()) {
                let text = format!(
                    "no step before this one dials or expects a call = \"{}\"",
                    name.get_ref()
                );
                return Err((name.span().start, text));
            }
        }
        let is_of_call = !matches!(
            action,
            Action::Wait(_)
                | Action::Message { .. }
                | Action::ExpectMessage(_)
                | Action::Register(_)
                | Action::Unregister(_)
        );
        if begins {
            has_call = true;
            names.extend(raw.call.as_ref().map(|name| name.get_ref().clone()));
        } else if is_of_call && !has_call {
            return Err((at, "there is no call yet: dial or expect_call comes first".into()));
        }
        if let Some(what) = &raw.play {
            Source::named(what.get_ref()).map_err(|error| (what.span().start, error))?;
        }
        let within = raw.within.as_ref().map(|within| within.get_ref().0);
        steps.push(Step {
            line: position::place(text, at).0,
            call: raw.call.as_ref().map(|name| name.get_ref().clone()),
            limit: within.or(raw.timeout.map(|time| time.0)).unwrap_or(timeout),
            action,
        });
    }
    if steps.is_empty() {
        return Err((0, "a script has steps: steps = [ { dial = \"sip:...\" }, ... ]".into()));
    }
    Ok(steps)
}

fn parse(text: &str, path: &Path) -> Result<Script, String> {
    let wrong = |(at, message): Wrong| {
        let (line, column) = position::place(text, at);
        format!("{line}:{column}: {message}")
    };
    let file: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        wrong((at, error.message().replace('\n', ", ")))
    })?;
    let timeout = file.timeout.map_or(TIMEOUT, |time| time.0);
    let steps = steps(&file.steps, text, timeout).map_err(wrong)?;
    let accounts = config::resolve(file.account, path)?;
    Ok(Script { accounts, steps })
}

/// Reads the script at `path`.
///
/// # Errors
/// A description of the fault with line, column and expectation.
pub(crate) fn read(path: &Path) -> Result<Script, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read the script {}: {error}", path.display()))?;
    parse(&text, path).map_err(|problem| format!("{}:{problem}", path.display()))
}

/// Returns true if `text` matches `pattern`; a `*` matches any text.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_in_both_forms() {
        let text = "timeout = \"9s\"\n\n[[steps]]\ndial = \"sip:bob@example.org\"\ncall = \"one\"\n\n\
                    [[steps]]\nexpect_tone = 440\nwithin = \"2s\"\n";
        let script = parse(text, Path::new("/no/such")).unwrap();
        assert_eq!(script.steps[0].action.to_string(), "dial sip:bob@example.org");
        assert_eq!((script.steps[0].line, script.steps[0].limit.as_secs()), (3, 9));
        assert_eq!((script.steps[1].line, script.steps[1].limit.as_secs()), (7, 2));
        let text = "steps = [\n  { expect_call = \"*\" },\n  { answer = true, timeout = \"3s\" },\n  { expect_end = 486 },\n]";
        let script = parse(text, Path::new("/no/such")).unwrap();
        let lines: Vec<usize> = script.steps.iter().map(|step| step.line).collect();
        assert_eq!(lines, [2, 3, 4]);
        assert_eq!(script.steps[1].limit, Duration::from_secs(3));
        assert_eq!(script.steps[2].action, Action::ExpectEnd(Ending::Status(486)));
    }

    #[test]
    fn mistakes_are_told_with_line_and_column() {
        let dial = "{ dial = \"sip:a@b\" }";
        for (steps, expected) in [
            ("{ dail = \"sip:a@b\" }".to_owned(), "2:3: unknown field `dail`"),
            ("{ dial = \"sip:a@b\", wait = \"1s\" }".to_owned(), "2:1: a step does one thing"),
            ("{ timeout = \"1s\" }".to_owned(), "2:1: a step does something"),
            ("{ wait = \"soon\" }".to_owned(), "2:10: "),
            ("{ answer = true }".to_owned(), "2:1: there is no call yet"),
            (format!("{dial}, {{ answer = false }}"), "2:34: expected true"),
            (format!("{dial},\n{{ press = \"x\" }}"), "3:11: expected keys"),
            (format!("{dial},\n{{ expect_tone = 9000 }}"), "3:17: expected 1 to 7999 hertz"),
            (format!("{dial},\n{{ decline = 200 }}"), "3:13: expected a status"),
            (format!("{dial},\n{{ decline = 302 }}"), "3:1: `decline = 302` needs `to`"),
            (format!("{dial},\n{{ decline = 301, to = \"sip:c@d\" }}"), "3:13: expected a status"),
            (
                format!("{dial},\n{{ decline = 486, to = \"sip:c@d\" }}"),
                "3:23: `to` does not apply to `decline`",
            ),
            (format!("{dial},\n{{ expect_end = \"bob\" }}"), "3:16: expected \"peer\""),
            (
                format!("{dial},\n{{ hold = true, within = \"1s\" }}"),
                "3:25: `within` does not apply to `hold`",
            ),
            (format!("{dial},\n{{ hold = true, call = \"x\" }}"), "3:23: no step before this one"),
            (format!("{dial},\n{{ play = \"/no/such.wav\" }}"), "3:10: /no/such.wav"),
            ("{ message = \"sip:a@b\" }".to_owned(), "2:1: `message` needs `text`"),
            (String::new(), "1:1: a script has steps"),
        ] {
            let error = parse(&format!("steps = [\n{steps}]"), Path::new("/no/such")).unwrap_err();
            assert!(error.starts_with(expected), "{steps}: {error}");
        }
        assert!(
            parse("[[account]]\nuri = \"b\"\n[[steps]]\nwait = \"1s\"", Path::new("/no/such"))
                .is_err()
        );
    }

    #[test]
    fn a_star_is_anything() {
        for (pattern, text, is_so) in [
            ("*", "", true),
            ("sip:*@b", "sip:alice@b", true),
            ("sip:*@b", "sip:alice@c", false),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("ab", "abc", false),
            ("*aa", "a", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, text), is_so, "{pattern} {text}");
        }
    }
}
