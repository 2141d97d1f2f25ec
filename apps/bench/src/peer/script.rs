//! The script of a peer: deviations from the ideal behaviour.

use sip::Method;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The behaviour of a peer. The default is ideal: every request is answered at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    /// True if calls to registered users are redirected (302) and not relayed.
    pub(crate) is_redirecting: bool,
    /// The authentication of requests.
    pub(crate) authentication: Authentication,
    /// The faults and delays. All rules that match a message are applied.
    pub(crate) rules: Vec<Rule>,
    /// The periods after the first message without reading or sending. Messages of that time stay
    /// in the kernel and are answered afterwards.
    pub(crate) stalls: Vec<(Duration, Duration)>,
    /// The seed of the choices of [`When::Share`].
    pub(crate) seed: u64,
}

/// The authentication: REGISTER is challenged with 401, INVITE outside of a dialog with 407.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Authentication {
    /// No challenges.
    #[default]
    None,
    /// Challenges, and any credentials for this peer's nonce are accepted, at almost no cost.
    Nonce,
    /// Challenges, and credentials are verified with the passwords of these users. Wrong ones get
    /// 403.
    Passwords(HashMap<Vec<u8>, String>),
}

/// A rule for some messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rule {
    /// The class of messages.
    pub(crate) which: Which,
    /// The selection within the class.
    pub(crate) when: When,
    /// The action.
    pub(crate) what: What,
}

/// The class of messages of a [`Rule`]. Losses apply to received requests and to outgoing
/// responses. Scripted answers apply to received requests. All other actions apply to relayed
/// requests and to responses, relayed or not. So each message counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Which {
    /// Only requests, or only responses.
    pub(crate) is_request: Option<bool>,
    /// Requests with this method, and responses to them.
    pub(crate) method: Option<Method<'static>>,
    /// Responses with this status.
    pub(crate) status: Option<u16>,
}

/// The selection within the class of messages of a [`Rule`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum When {
    /// All messages.
    #[default]
    Always,
    /// Every message whose number, from 1, is divisible by this.
    Every(u64),
    /// The first messages, of this number.
    First(u64),
    /// Each message with this probability.
    Share(f64),
}

/// The action for a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum What {
    /// The message is lost.
    Lose,
    /// The message is sent or relayed after this delay.
    Delay(Duration),
    /// The message is sent or relayed in this number of further copies.
    Repeat(u32),
    /// A datagram that is not SIP is sent before the message.
    Garbage,
    /// A request other than ACK gets this status and is not processed further. With authentication,
    /// the rule applies to requests with accepted credentials.
    Answer {
        /// The status code, 200 to 699.
        status: u16,
        /// Seconds in Retry-After.
        retry_after: Option<u32>,
    },
}

/// The properties of a message for the matching of rules.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind<'a> {
    pub(super) method: Method<'a>,
    /// The status of a response.
    pub(super) status: Option<u16>,
}

impl Which {
    pub(super) fn takes(&self, kind: &Kind<'_>) -> bool {
        self.is_request.is_none_or(|is_request| is_request == kind.status.is_none())
            && self.method.is_none_or(|method| method == kind.method)
            && self.status.is_none_or(|status| Some(status) == kind.status)
    }
}

/// An error in the text of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScriptError {
    /// The class of messages is unknown.
    Which(String),
    /// The selection is invalid.
    When(String),
    /// The text after the `=` is invalid.
    Argument(String, &'static str),
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Which(text) => write!(
                f,
                "'{text}' names no messages: expected any, requests, responses, a method such as \
                 register, or a method and a status such as invite/200"
            ),
            Self::When(text) => write!(
                f,
                "'{text}' does not say which of the messages: expected 10 for every tenth, 5% for \
                 one in twenty at random, or first3"
            ),
            Self::Argument(text, expected) => write!(f, "'{text}': expected {expected}"),
        }
    }
}

impl std::error::Error for ScriptError {}

impl FromStr for Which {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let wrong = || ScriptError::Which(text.to_owned());
        let (method, status) = match text.split_once('/') {
            Some((method, status)) => (method, Some(status.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let is_request = match method {
            "any" => None,
            "requests" => Some(true),
            "responses" => Some(false),
            _ => {
                let method = match method {
                    "register" => Method::Register,
                    "invite" => Method::Invite,
                    "ack" => Method::Ack,
                    "bye" => Method::Bye,
                    "cancel" => Method::Cancel,
                    "options" => Method::Options,
                    _ => return Err(wrong()),
                };
                return Ok(Self { is_request: None, method: Some(method), status });
            }
        };
        let is_contradiction = status.is_some() && is_request == Some(true);
        if is_contradiction {
            return Err(wrong());
        }
        Ok(Self { is_request, method: None, status })
    }
}

impl FromStr for When {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let when = if let Some(percent) = text.strip_suffix('%') {
            percent
                .parse()
                .ok()
                .filter(|p| (0.0..=100.0).contains(p))
                .map(|p| Self::Share(p / 100.0))
        } else if let Some(count) = text.strip_prefix("first") {
            count.parse().ok().map(Self::First)
        } else {
            text.parse().ok().filter(|&count| count > 0).map(Self::Every)
        };
        when.ok_or_else(|| ScriptError::When(text.to_owned()))
    }
}

impl Rule {
    /// Parses a rule of the form `[WHICH][:WHEN]`, such as `register:10`. The default is any
    /// message, always.
    fn parse(text: &str, what: What) -> Result<Self, ScriptError> {
        let (which, when) = match text.split_once(':') {
            Some((which, when)) => (which, when.parse()?),
            None => (text, When::Always),
        };
        let which = if which.is_empty() { Which::default() } else { which.parse()? };
        Ok(Self { which, when, what })
    }

    /// Parses a loss rule, such as `requests:10` or `invite/200:5%`.
    ///
    /// # Errors
    /// [`ScriptError`] if the text is invalid; likewise for the others.
    pub(crate) fn lose(text: &str) -> Result<Self, ScriptError> {
        Self::parse(text, What::Lose)
    }

    /// Parses a garbage rule.
    pub(crate) fn garbage(text: &str) -> Result<Self, ScriptError> {
        Self::parse(text, What::Garbage)
    }

    /// Parses a rule that sends messages twice.
    pub(crate) fn repeat(text: &str) -> Result<Self, ScriptError> {
        Self::parse(text, What::Repeat(1))
    }

    /// Parses a delay rule, such as `5ms` or `register/200:10=5ms`.
    pub(crate) fn delay(text: &str) -> Result<Self, ScriptError> {
        let (which, delay) = text.split_once('=').unwrap_or(("", text));
        let delay = humantime::parse_duration(delay).map_err(|_| {
            ScriptError::Argument(text.to_owned(), "a time such as 5ms, or register/200:10=5ms")
        })?;
        Self::parse(which, What::Delay(delay))
    }

    /// Parses an answer rule with an error (or any other) status, such as `invite:10=503`, or
    /// `register=503/30` with a Retry-After of 30 seconds.
    pub(crate) fn fail(text: &str) -> Result<Self, ScriptError> {
        let answer = |text: &str| {
            let (status, retry_after) = match text.split_once('/') {
                Some((status, seconds)) => (status, Some(seconds.parse().ok()?)),
                None => (text, None),
            };
            let status = status.parse().ok().filter(|status| (200..700).contains(status))?;
            Some(What::Answer { status, retry_after })
        };
        let (which, argument) = text.split_once('=').unwrap_or(("", text));
        let what = answer(argument).ok_or_else(|| {
            ScriptError::Argument(
                text.to_owned(),
                "a status from 200 to 699, with a Retry-After of 30 s as 503/30, of some requests as \
                 invite:10=503",
            )
        })?;
        let mut rule = Self::parse(which, what)?;
        rule.which.is_request = Some(true);
        Ok(rule)
    }
}

/// Parses a stall period, such as `2s..3s`.
///
/// # Errors
/// [`ScriptError`] if the text is invalid.
pub(crate) fn stall(text: &str) -> Result<(Duration, Duration), ScriptError> {
    let times = text.split_once("..").and_then(|(from, to)| {
        Some((humantime::parse_duration(from).ok()?, humantime::parse_duration(to).ok()?))
    });
    times.filter(|(from, to)| from < to).ok_or_else(|| {
        ScriptError::Argument(text.to_owned(), "two times after the first message, such as 2s..3s")
    })
}

/// The rules with their state: the number of messages that each has matched.
#[derive(Debug)]
pub(super) struct Rules {
    rules: Vec<(Rule, u64)>,
    random: u64,
}

impl Rules {
    pub(super) fn new(rules: &[Rule], seed: u64) -> Self {
        let rules = rules.iter().map(|&rule| (rule, 0)).collect();
        // Zero is the only state that the generator does not leave.
        Self { rules, random: seed ^ 0x9e37_79b9_7f4a_7c15 | 1 }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Calls `each` with the actions for the next message of `kind`, by the rules for which
    /// `concern` is true.
    pub(super) fn apply(
        &mut self,
        kind: &Kind<'_>,
        concern: impl Fn(&What) -> bool,
        mut each: impl FnMut(What),
    ) {
        for (rule, seen) in &mut self.rules {
            if !concern(&rule.what) || !rule.which.takes(kind) {
                continue;
            }
            *seen += 1;
            let is_taken = match rule.when {
                When::Always => true,
                When::Every(count) => *seen % count == 0,
                When::First(count) => *seen <= count,
                When::Share(share) => next_share(&mut self.random) < share,
            };
            if is_taken {
                each(rule.what);
            }
        }
    }
}

/// Returns a number from 0 to less than 1 (xorshift64*).
fn next_share(state: &mut u64) -> f64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGISTER: Kind<'_> = Kind { method: Method::Register, status: None };
    const OK: Kind<'_> = Kind { method: Method::Invite, status: Some(200) };

    fn taken(rule: Rule, kind: Kind<'_>, count: usize) -> Vec<usize> {
        let mut rules = Rules::new(&[rule], 7);
        let mut taken = Vec::new();
        for number in 1..=count {
            rules.apply(&kind, |_| true, |_| taken.push(number));
        }
        taken
    }

    #[test]
    fn rules_select_their_messages() {
        assert_eq!(taken(Rule::lose("register:3").unwrap(), REGISTER, 9), [3, 6, 9]);
        assert_eq!(taken(Rule::lose("register:first2").unwrap(), REGISTER, 9), [1, 2]);
        assert_eq!(taken(Rule::lose("").unwrap(), REGISTER, 2), [1, 2]);
        assert_eq!(taken(Rule::lose("any:2").unwrap(), OK, 4), [2, 4]);
        assert_eq!(taken(Rule::lose("invite/200").unwrap(), OK, 1), [1]);
        assert_eq!(taken(Rule::lose("responses/200").unwrap(), OK, 1), [1]);
        for text in ["invite/180", "requests", "bye", "register/200"] {
            assert!(taken(Rule::lose(text).unwrap(), OK, 3).is_empty(), "{text}");
        }
        let share = taken(Rule::lose("responses:25%").unwrap(), OK, 10_000).len();
        assert!((2300..2700).contains(&share), "{share}");
    }

    #[test]
    fn rules_are_read_with_their_action() {
        let delay = Rule::delay("register/200:10=5ms").unwrap();
        assert_eq!(delay.what, What::Delay(Duration::from_millis(5)));
        assert_eq!((delay.which.status, delay.when), (Some(200), When::Every(10)));
        assert_eq!(Rule::delay("2s").unwrap().which, Which::default());
        let fail = Rule::fail("invite:4=503/30").unwrap();
        assert_eq!(fail.what, What::Answer { status: 503, retry_after: Some(30) });
        assert_eq!(fail.which.is_request, Some(true));
        assert_eq!(stall("2s..2500ms"), Ok((Duration::from_secs(2), Duration::from_millis(2500))));
    }

    #[test]
    fn invalid_rules_are_refused() {
        for text in ["foo", "invite/x", "requests/200", "register:0", "any:x%", "any:101%"] {
            assert!(Rule::lose(text).is_err(), "{text}");
        }
        for text in ["", "5", "register=", "foo=5ms"] {
            assert!(Rule::delay(text).is_err(), "{text}");
        }
        for text in ["", "100", "700", "invite=", "503/x"] {
            assert!(Rule::fail(text).is_err(), "{text}");
        }
        for text in ["", "3s", "3s..2s", "a..b"] {
            assert!(stall(text).is_err(), "{text}");
        }
    }
}
