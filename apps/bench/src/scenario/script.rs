//! A scenario: its steps, as read from the elements of the file.

use super::action::{self, Action, truth, variables};
use super::chance::{self, Distribution, number};
use super::fault::{Fault, Place};
use super::names::Names;
use super::pattern;
use super::template::{Keyword, Piece, Template};
use super::value::{Scope, Variable};
use super::xml::{self, Element};
use regex::bytes::Regex;
use sip::Duration;
use std::sync::Arc;

/// A scenario.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) name: String,
    pub(super) steps: Vec<Arc<Step>>,
    /// The steps before the first call.
    pub(super) init: Vec<Step>,
    pub(super) names: Names,
    /// True if calls begin with a received request.
    pub(super) is_server: bool,
}

/// A step of a scenario.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) kind: Kind,
    pub(super) actions: Vec<Action>,
    /// The next step, if it is not the following one.
    pub(super) next: Option<usize>,
    /// The variable that has to be set for it.
    pub(super) test: Option<Variable>,
    /// The probability of it.
    pub(super) chance: f64,
    /// The step is skipped unless this variable is set, or is not set.
    pub(super) condition: Option<(Variable, bool)>,
    pub(super) start_timer: Option<usize>,
    pub(super) stop_timer: Option<usize>,
    /// True if the response time is taken each time.
    pub(super) repeats_timer: bool,
    pub(super) counter: Option<usize>,
    /// The share of messages that are dropped.
    pub(super) lost: f64,
    /// True if an empty line follows in the table.
    pub(super) is_spaced: bool,
    /// The text in the table; hidden steps have none.
    pub(super) label: Option<String>,
}

/// The kind of a step.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Send(Send),
    Receive(Receive),
    /// A pause of this length, or of the length of `--pause`.
    Pause(Pause),
    /// The call has succeeded. It answers retransmissions for this time.
    TimeWait(Duration),
    Nothing,
}

/// The length of a pause.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pause {
    Default,
    Random(Distribution),
    Variable(Variable),
}

/// A message that is sent.
#[derive(Clone, Debug)]
pub(super) struct Send {
    pub(super) message: Template,
    /// The time until the first retransmission.
    pub(super) retransmission: Option<Duration>,
    pub(super) begins: Option<usize>,
}

/// A message that is expected.
#[derive(Clone, Debug)]
pub(super) struct Receive {
    pub(super) expected: Expected,
    pub(super) optional: Need,
    pub(super) timeout: Option<Duration>,
    pub(super) on_timeout: Option<usize>,
    /// Record-Route and Contact are stored.
    pub(super) stores_routes: bool,
    /// The challenge is stored.
    pub(super) stores_challenge: bool,
    /// The transaction of a response.
    pub(super) transaction: Option<usize>,
    pub(super) ignores_sdp: bool,
}

/// The expected message.
#[derive(Clone, Debug)]
pub(super) enum Expected {
    Response(u16),
    Request(Vec<u8>),
    Pattern(Regex),
}

/// The need for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Required,
    Optional,
    /// It may also come at any later step.
    Global,
}

/// The attributes of all steps.
const COMMON: [&str; 13] = [
    "next",
    "test",
    "chance",
    "condexec",
    "condexec_inverse",
    "start_rtd",
    "rtd",
    "repeat_rtd",
    "counter",
    "crlf",
    "hide",
    "display",
    "lost",
];

/// Parses a scenario file with the given `names`, which have keys and files.
///
/// # Errors
/// [`Fault`] at an element, attribute or keyword that is not known, or has an invalid value.
pub(super) fn parse(text: &str, names: Names) -> Result<Script, Fault> {
    let root = xml::parse(text)?;
    if root.name != "scenario" {
        return Err(root.fault(format!("<{}> is no <scenario>", root.name)));
    }
    root.only(&[&["name"]])?;
    let mut reading = Reading { names, ..Reading::default() };
    for element in &root.children {
        reading.element(element)?;
    }
    let steps = reading.main.finish()?;
    let init = reading.init.finish()?;
    let is_server = steps
        .iter()
        .find_map(|step| match step.kind {
            Kind::Send(_) => Some(false),
            Kind::Receive(_) => Some(true),
            _ => None,
        })
        .ok_or_else(|| root.fault("the scenario neither sends nor receives a message"))?;
    let name = root.get("name").unwrap_or_default().to_owned();
    let steps = steps.into_iter().map(Arc::new).collect();
    Ok(Script { name, steps, init, names: reading.names, is_server })
}

#[derive(Default)]
struct Reading {
    names: Names,
    main: Section,
    init: Section,
}

/// A sequence of steps with its labels.
#[derive(Default)]
struct Section {
    steps: Vec<Step>,
    labels: Vec<(String, usize)>,
    /// The steps with `next`, then those with `ontimeout`.
    jumps: Vec<(usize, String, Place)>,
    on_timeout: Vec<(usize, String, Place)>,
    /// The last step, if it is an optional message.
    optional: Option<Place>,
}

impl Section {
    fn label_of(&self, name: &str, place: Place) -> Result<usize, Fault> {
        self.labels.iter().find(|(known, _)| known == name).map(|&(_, step)| step).ok_or_else(
            || {
                let known: Vec<_> = self.labels.iter().map(|(name, _)| &**name).collect();
                let known = match known.is_empty() {
                    true => "the scenario has no <label>".to_owned(),
                    false => format!("known are {}", known.join(", ")),
                };
                Fault::new(place, format!("the label {name} is not known; {known}"))
            },
        )
    }

    fn finish(mut self) -> Result<Vec<Step>, Fault> {
        self.end_optional()?;
        for (step, name, place) in std::mem::take(&mut self.jumps) {
            self.steps[step].next = Some(self.label_of(&name, place)?);
        }
        for (step, name, place) in std::mem::take(&mut self.on_timeout) {
            let target = self.label_of(&name, place)?;
            if let Kind::Receive(receive) = &mut self.steps[step].kind {
                receive.on_timeout = Some(target);
            }
        }
        Ok(self.steps)
    }

    /// Rejects a step that follows optional messages and is no message to receive.
    fn end_optional(&mut self) -> Result<(), Fault> {
        match self.optional.take() {
            None => Ok(()),
            Some(place) => Err(Fault::new(
                place,
                "an optional message has to be followed by one that is not optional: remove \
                 optional=\"true\" of the last one",
            )),
        }
    }
}

impl Reading {
    fn element(&mut self, element: &Element) -> Result<(), Fault> {
        match &*element.name {
            "ResponseTimeRepartition" | "CallLengthRepartition" => element.only(&[&["value"]]),
            "label" => {
                let id = label(element)?;
                self.main.labels.push((id, self.main.steps.len()));
                Ok(())
            }
            "init" => {
                element.only(&[])?;
                for child in &element.children {
                    match &*child.name {
                        "label" => {
                            let id = label(child)?;
                            self.init.labels.push((id, self.init.steps.len()));
                        }
                        "nop" | "pause" => step(child, &mut self.init, &mut self.names)?,
                        name => {
                            return Err(child.fault(format!(
                                "<{name}> in <init> is not known; known are nop, pause and label"
                            )));
                        }
                    }
                }
                Ok(())
            }
            "Global" => self.declare(element, Some(Scope::Global)),
            "User" => self.declare(element, Some(Scope::User)),
            "Reference" => self.declare(element, None),
            "send" | "recv" | "pause" | "timewait" | "nop" => {
                step(element, &mut self.main, &mut self.names)
            }
            name @ ("sendCmd" | "recvCmd") => Err(element.fault(format!(
                "<{name}> (third party call control by two programs) is not supported; write each \
                 side as a scenario of its own"
            ))),
            name => Err(element.fault(format!(
                "<{name}> is not known; known are send, recv, pause, timewait, nop, label, init, \
                 Global, User, Reference, ResponseTimeRepartition and CallLengthRepartition"
            ))),
        }
    }

    fn declare(&mut self, element: &Element, scope: Option<Scope>) -> Result<(), Fault> {
        element.only(&[&["variables"]])?;
        let list = element.require("variables")?;
        variables(list, &mut self.names);
        if let Some(scope) = scope {
            for name in list.split(',') {
                self.names.declare(name.trim(), scope);
            }
        }
        Ok(())
    }
}

fn label(element: &Element) -> Result<String, Fault> {
    element.only(&[&["id"]])?;
    element.require("id").map(str::to_owned)
}

fn step(element: &Element, section: &mut Section, names: &mut Names) -> Result<(), Fault> {
    let is_receive = element.name == "recv";
    if !is_receive {
        section.end_optional()?;
    }
    let number_of = section.steps.len();
    let (kind, label) = match &*element.name {
        "send" => send(element, names)?,
        "recv" => {
            let (receive, label) = receive(element, names)?;
            if let Some(name) = element.get("ontimeout") {
                section.on_timeout.push((number_of, name.to_owned(), element.place));
            }
            section.optional = (receive.optional != Need::Required).then_some(element.place);
            (Kind::Receive(receive), label)
        }
        "pause" => {
            element.only(&[&COMMON, &chance::ATTRIBUTES, &["variable"]])?;
            let pause = match (element.get("variable"), Distribution::of(element)?) {
                (Some(name), _) => Pause::Variable(names.variable(name)),
                (None, Some(distribution)) => Pause::Random(distribution),
                (None, None) => Pause::Default,
            };
            (Kind::Pause(pause), "pause".to_owned())
        }
        "timewait" => {
            element.only(&[&COMMON, &["milliseconds"]])?;
            (
                Kind::TimeWait(millis(element, "milliseconds")?.unwrap_or_default()),
                "timewait".to_owned(),
            )
        }
        _ => {
            element.only(&[&COMMON])?;
            (Kind::Nothing, "nop".to_owned())
        }
    };
    let actions = action::actions(element, names)?;
    let place = element.place;
    if let Some(name) = element.get("next") {
        section.jumps.push((number_of, name.to_owned(), place));
    }
    let is_hidden = truth(element, "hide")?
        || (matches!(kind, Kind::Nothing) && element.get("display").is_none());
    let share = |name: &str, default: f64| match element.get(name) {
        None => Ok(default),
        Some(_) => number(element, name),
    };
    let inverse = truth(element, "condexec_inverse")?;
    section.steps.push(Step {
        kind,
        actions,
        next: None,
        test: element.get("test").map(|name| names.variable(name)),
        chance: share("chance", 1.0)?,
        condition: element.get("condexec").map(|name| (names.variable(name), !inverse)),
        start_timer: timer(element, "start_rtd", names),
        stop_timer: timer(element, "rtd", names),
        repeats_timer: truth(element, "repeat_rtd")?,
        counter: element.get("counter").map(|name| names.counter(name)),
        lost: share("lost", 0.0)? / 100.0,
        is_spaced: truth(element, "crlf")?,
        label: (!is_hidden).then(|| element.get("display").unwrap_or(&label).to_owned()),
    });
    Ok(())
}

/// Returns the number of a response time; `true` names the first.
fn timer(element: &Element, attribute: &str, names: &mut Names) -> Option<usize> {
    match element.get(attribute)? {
        "false" => None,
        "true" => Some(names.timer("1")),
        name => Some(names.timer(name)),
    }
}

fn send(element: &Element, names: &mut Names) -> Result<(Kind, String), Fault> {
    element.only(&[&COMMON, &["retrans", "start_txn", "ack_txn"]])?;
    let message = Template::message(&element.text, element.text_place, names)?;
    let first = match message.pieces.first() {
        Some(Piece::Text(text)) => String::from_utf8_lossy(text).into_owned(),
        Some(Piece::Keyword(_)) => String::new(),
        _ => return Err(element.fault("<send> has no message: write it in <![CDATA[ ... ]]>")),
    };
    let mut words = first.split(' ');
    let label = match words.next().unwrap_or_default() {
        "SIP/2.0" => words.next().unwrap_or("response").to_owned(),
        "" => "message".to_owned(),
        method => method.to_owned(),
    };
    let is_ack = element.get("ack_txn").is_some();
    if is_ack && label != "ACK" {
        return Err(element.fault("ack_txn is for ACK"));
    }
    if message.has(|keyword| matches!(keyword, Keyword::Len(_)))
        && message.pieces.iter().filter(|piece| matches!(piece, Piece::End)).count() < 2
    {
        return Err(element.fault("[len] is for messages"));
    }
    let kind = Kind::Send(Send {
        message,
        retransmission: millis(element, "retrans")?.filter(|&time| time > Duration::ZERO),
        begins: element.get("start_txn").map(|name| names.transaction(name)),
    });
    Ok((kind, format!("{label} -->")))
}

fn receive(element: &Element, names: &mut Names) -> Result<(Receive, String), Fault> {
    element.only(&[
        &COMMON,
        &[
            "response",
            "request",
            "optional",
            "timeout",
            "ontimeout",
            "rrs",
            "auth",
            "regexp_match",
            "response_txn",
            "ignoresdp",
        ],
    ])?;
    let is_pattern = truth(element, "regexp_match")?;
    let expected = match (element.get("response"), element.get("request")) {
        (Some(text), None) => match text.trim().parse::<u16>() {
            Ok(status @ 100..=699) => Expected::Response(status),
            _ => {
                return Err(element
                    .fault(format!("response=\"{text}\": expected a status from 100 to 699")));
            }
        },
        (None, Some(text)) if is_pattern => {
            Expected::Pattern(pattern::compile(text).map_err(|text| element.fault(text))?)
        }
        (None, Some(text)) => Expected::Request(text.as_bytes().to_vec()),
        _ => return Err(element.fault("<recv> needs response=\"...\" or request=\"...\"")),
    };
    let optional = match element.get("optional") {
        Some("global") => Need::Global,
        _ if truth(element, "optional")? => Need::Optional,
        _ => Need::Required,
    };
    let what = element.get("response").or_else(|| element.get("request")).unwrap_or_default();
    let mark = if optional == Need::Required { "" } else { " (optional)" };
    let receive = Receive {
        expected,
        optional,
        timeout: millis(element, "timeout")?.filter(|&time| time > Duration::ZERO),
        on_timeout: None,
        stores_routes: truth(element, "rrs")?,
        stores_challenge: truth(element, "auth")?,
        transaction: element.get("response_txn").map(|name| names.transaction(name)),
        ignores_sdp: truth(element, "ignoresdp")?,
    };
    Ok((receive, format!("{what} <--{mark}")))
}

fn millis(element: &Element, name: &str) -> Result<Option<Duration>, Fault> {
    if element.get(name).is_none() {
        return Ok(None);
    }
    let time = number(element, name)?;
    match (0.0..=1e12).contains(&time) {
        true => Ok(Some(Duration::from_micros((time * 1000.0) as u64))),
        false => Err(element.fault(format!("{name}=\"{time}\": expected milliseconds from 0"))),
    }
}

#[cfg(test)]
mod tests;
