//! Actions of a step, and how they are read.

use super::chance::{self, Distribution, number};
use super::fault::{Fault, ScenarioError};
use super::names::Names;
use super::pattern;
use super::recording::Recording;
use super::template::Template;
use super::value::Variable;
use super::xml::Element;
use regex::bytes::Regex;
use std::sync::Arc;

/// An action.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// A regular expression is matched. `check` is the expected result, and otherwise the call
    /// fails.
    Match {
        regex: Regex,
        area: Area,
        check: Option<bool>,
        to: Vec<Variable>,
    },
    Assign(Variable, Operand),
    AssignText(Variable, Template),
    /// The value of the first variable changes.
    Calculate(Operator, Variable, Operand),
    ToDouble(Variable, Variable),
    /// The result of the comparison of a variable is assigned to the first one.
    Test(Variable, Variable, Comparison, Operand),
    /// As a test, of texts: the result is negative, 0 or positive.
    CompareText(Variable, Variable, Template),
    Sample(Variable, Distribution),
    Trim(Variable),
    /// Seconds and microseconds of the wall clock.
    Time(Variable, Variable),
    /// Writes a text to the log, or also to standard error.
    Log {
        text: Template,
        is_warning: bool,
    },
    Jump(Operand),
    /// The result, then user and password.
    VerifyCredentials(Variable, Template, Template),
    /// Host and port of later messages of the call.
    SetDestination(Template, Template),
    Stop(Stop),
    /// Sends a recording to the address of the peer for audio, or for video.
    Play {
        recording: Arc<Recording>,
        rounds: Option<u32>,
        is_video: bool,
    },
    /// Sends digits as telephone events.
    Digits(Template),
    /// Pauses the recordings of the call, or resumes them.
    Pause(bool),
}

/// The text that a regular expression has to match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Area {
    Message,
    Body,
    Variable(Variable),
    /// The rest of a line after a text, mostly a name of a header field and a colon.
    Header {
        name: String,
        ignores_case: bool,
        occurrence: usize,
        is_start: bool,
    },
}

/// The second operand of an action.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operand {
    Number(f64),
    Variable(Variable),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
}

impl Comparison {
    /// Returns the result of the comparison.
    pub(super) fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Greater => left > right,
            Self::Less => left < right,
            Self::GreaterOrEqual => left >= right,
            Self::LessOrEqual => left <= right,
        }
    }
}

/// The reach of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Call,
    /// No call is started any more.
    Gracefully,
    /// All calls end.
    Now,
}

/// Reads the actions of a step.
///
/// # Errors
/// [`Fault`] if an action, or an attribute of it, is not known.
pub(super) fn actions(step: &Element, names: &mut Names) -> Result<Vec<Action>, Fault> {
    let mut actions = Vec::new();
    for child in &step.children {
        if child.name != "action" {
            return Err(child.fault(format!(
                "<{}> in <{}> is not known; expected <action>",
                child.name, step.name
            )));
        }
        child.only(&[])?;
        for element in &child.children {
            actions.push(action(element, names)?);
        }
    }
    Ok(actions)
}

/// The known actions, for messages.
const KNOWN: &str = "ereg, assign, assignstr, add, subtract, multiply, divide, todouble, test, \
    strcmp, sample, trim, gettimeofday, log, warning, jump, verifyauth, setdest, exec";

fn action(element: &Element, names: &mut Names) -> Result<Action, Fault> {
    let to = |names: &mut Names| Ok(names.variable(element.require("assign_to")?));
    let from = |names: &mut Names| Ok(names.variable(element.require("variable")?));
    let text = |name: &str, names: &mut Names| {
        Template::parse(element.require(name)?, element.place, names)
    };
    let calculate = |operator, names: &mut Names| {
        element.only(&[&["assign_to", "value", "variable"]])?;
        Ok(Action::Calculate(operator, to(names)?, operand(element, names)?))
    };
    match &*element.name {
        "ereg" => ereg(element, names),
        "assign" => {
            element.only(&[&["assign_to", "value", "variable"]])?;
            Ok(Action::Assign(to(names)?, operand(element, names)?))
        }
        "assignstr" => {
            element.only(&[&["assign_to", "value"]])?;
            Ok(Action::AssignText(to(names)?, text("value", names)?))
        }
        "add" => calculate(Operator::Add, names),
        "subtract" => calculate(Operator::Subtract, names),
        "multiply" => calculate(Operator::Multiply, names),
        "divide" => {
            if element.get("value").and_then(|value| value.parse().ok()) == Some(0.0) {
                return Err(element.fault("<divide> by 0"));
            }
            calculate(Operator::Divide, names)
        }
        "todouble" => {
            element.only(&[&["assign_to", "variable"]])?;
            Ok(Action::ToDouble(to(names)?, from(names)?))
        }
        "test" => {
            element.only(&[&["assign_to", "variable", "compare", "value", "variable2"]])?;
            let comparison = comparison(element)?;
            let operand = match element.get("variable2") {
                Some(name) => Operand::Variable(names.variable(name)),
                None => Operand::Number(number(element, "value")?),
            };
            Ok(Action::Test(to(names)?, from(names)?, comparison, operand))
        }
        "strcmp" => {
            element.only(&[&["assign_to", "variable", "value", "variable2"]])?;
            let other = match element.get("variable2") {
                Some(name) => Template::parse(&format!("[${name}]"), element.place, names)?,
                None => text("value", names)?,
            };
            Ok(Action::CompareText(to(names)?, from(names)?, other))
        }
        "sample" => {
            element.only(&[&["assign_to"], &chance::ATTRIBUTES])?;
            element.require("distribution")?;
            let distribution = Distribution::of(element)?;
            Ok(Action::Sample(to(names)?, distribution.unwrap_or(Distribution::Fixed(0.0))))
        }
        "trim" => {
            element.only(&[&["assign_to"]])?;
            Ok(Action::Trim(to(names)?))
        }
        "gettimeofday" => {
            element.only(&[&["assign_to"]])?;
            match variables(element.require("assign_to")?, names)[..] {
                [seconds, micros] => Ok(Action::Time(seconds, micros)),
                _ => Err(element.fault("<gettimeofday> assigns to two variables, \"a,b\"")),
            }
        }
        name @ ("log" | "warning") => {
            element.only(&[&["message"]])?;
            let text = text("message", names)?;
            Ok(Action::Log { text, is_warning: name == "warning" })
        }
        "jump" => {
            element.only(&[&["value", "variable"]])?;
            Ok(Action::Jump(operand(element, names)?))
        }
        "verifyauth" => {
            element.only(&[&["assign_to", "username", "password"]])?;
            let user = text("username", names)?;
            Ok(Action::VerifyCredentials(to(names)?, user, text("password", names)?))
        }
        "setdest" => {
            element.only(&[&["host", "port", "protocol"]])?;
            Ok(Action::SetDestination(text("host", names)?, text("port", names)?))
        }
        "exec" => exec(element, names),
        name @ ("lookup" | "insert" | "replace" | "closecon") => {
            Err(element.fault(format!("<{name}> is not supported; actions are {KNOWN}")))
        }
        name => Err(element.fault(format!("<{name}> is not known; actions are {KNOWN}"))),
    }
}

fn exec(element: &Element, names: &mut Names) -> Result<Action, Fault> {
    if element.get("command").is_some() {
        return Err(element.fault(
            "<exec command> is left out on purpose: a scenario file runs no programs; remove it, \
             or write its text with <log message=\"...\"/> to the file of --log",
        ));
    }
    if let Some(stop) = element.get("int_cmd") {
        element.only(&[&["int_cmd"]])?;
        return match stop {
            "stop_call" => Ok(Action::Stop(Stop::Call)),
            "stop_gracefully" => Ok(Action::Stop(Stop::Gracefully)),
            "stop_now" => Ok(Action::Stop(Stop::Now)),
            _ => Err(element.fault(format!(
                "int_cmd=\"{stop}\" is not known; known are stop_call, stop_gracefully, stop_now"
            ))),
        };
    }
    element.only(&[&["play_pcap_audio", "play_pcap_video", "rtp_stream", "play_dtmf"]])?;
    for (attribute, is_video) in [("play_pcap_audio", false), ("play_pcap_video", true)] {
        if let Some(file) = element.get(attribute) {
            let recording = names.recording(file, None).map_err(|error| fault(element, &error))?;
            return Ok(Action::Play { recording, rounds: Some(1), is_video });
        }
    }
    if let Some(digits) = element.get("play_dtmf") {
        return Ok(Action::Digits(Template::parse(digits, element.place, names)?));
    }
    match element.require("rtp_stream")? {
        "pause" => Ok(Action::Pause(true)),
        "resume" => Ok(Action::Pause(false)),
        stream => self::stream(stream, element, names),
    }
}

/// Reads `FILE`, `FILE,ROUNDS` or `FILE,ROUNDS,TYPE`; -1 rounds have no end.
fn stream(text: &str, element: &Element, names: &mut Names) -> Result<Action, Fault> {
    let mut parts = text.split(',').map(str::trim);
    let file = parts.next().unwrap_or_default();
    let wrong = || {
        element
            .fault(format!("rtp_stream=\"{text}\": expected FILE, FILE,ROUNDS or FILE,ROUNDS,TYPE"))
    };
    let rounds: i64 = parts.next().map_or(Ok(1), str::parse).map_err(|_| wrong())?;
    let payload_type: u8 = parts.next().map_or(Ok(8), str::parse).map_err(|_| wrong())?;
    let recording =
        names.recording(file, Some(payload_type)).map_err(|error| fault(element, &error))?;
    let rounds = (rounds >= 0).then(|| u32::try_from(rounds).unwrap_or(u32::MAX));
    Ok(Action::Play { recording, rounds, is_video: false })
}

fn fault(element: &Element, error: &ScenarioError) -> Fault {
    element.fault(error.to_string())
}

fn ereg(element: &Element, names: &mut Names) -> Result<Action, Fault> {
    element.only(&[&[
        "regexp",
        "search_in",
        "header",
        "variable",
        "case_indep",
        "occurrence",
        "occurence",
        "start_line",
        "check_it",
        "check_it_inverse",
        "assign_to",
    ]])?;
    let regex = pattern::compile(element.require("regexp")?).map_err(|text| element.fault(text))?;
    let occurrence = element.get("occurrence").or_else(|| element.get("occurence"));
    let area = match element.get("search_in").unwrap_or("msg") {
        "msg" => Area::Message,
        "body" => Area::Body,
        "var" => Area::Variable(names.variable(element.require("variable")?)),
        "hdr" => Area::Header {
            name: element.require("header")?.trim_start().to_owned(),
            ignores_case: truth(element, "case_indep")?,
            occurrence: match occurrence {
                None => 1,
                Some(text) => text.parse().ok().filter(|&count| count > 0).ok_or_else(|| {
                    element.fault(format!("occurrence=\"{text}\": expected a number from 1"))
                })?,
            },
            is_start: truth(element, "start_line")?,
        },
        other => {
            return Err(element.fault(format!(
                "search_in=\"{other}\" is not known; known are msg, hdr, body, var"
            )));
        }
    };
    let check = match (truth(element, "check_it")?, truth(element, "check_it_inverse")?) {
        (true, true) => {
            return Err(element.fault("check_it and check_it_inverse exclude each other"));
        }
        (true, false) => Some(true),
        (false, true) => Some(false),
        (false, false) => None,
    };
    let to = element.get("assign_to").map(|list| variables(list, names)).unwrap_or_default();
    Ok(Action::Match { regex, area, check, to })
}

fn operand(element: &Element, names: &mut Names) -> Result<Operand, Fault> {
    match element.get("variable") {
        Some(name) => Ok(Operand::Variable(names.variable(name))),
        None => Ok(Operand::Number(number(element, "value")?)),
    }
}

fn comparison(element: &Element) -> Result<Comparison, Fault> {
    match element.require("compare")? {
        "equal" => Ok(Comparison::Equal),
        "not_equal" => Ok(Comparison::NotEqual),
        "greater_than" => Ok(Comparison::Greater),
        "less_than" => Ok(Comparison::Less),
        "greater_than_equal" => Ok(Comparison::GreaterOrEqual),
        "less_than_equal" => Ok(Comparison::LessOrEqual),
        other => Err(element.fault(format!(
            "compare=\"{other}\" is not known; known are equal, not_equal, greater_than, \
             less_than, greater_than_equal, less_than_equal"
        ))),
    }
}

/// Returns the variables of a list with commas.
pub(super) fn variables(list: &str, names: &mut Names) -> Vec<Variable> {
    let list = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    list.map(|name| names.variable(name)).collect()
}

/// Returns the truth value of an attribute; an absent one is false.
///
/// # Errors
/// [`Fault`] if it is neither `true` nor `false`.
pub(super) fn truth(element: &Element, name: &str) -> Result<bool, Fault> {
    match element.get(name) {
        None | Some("false" | "0" | "no") => Ok(false),
        Some("true" | "1" | "yes") => Ok(true),
        Some(other) => Err(element.fault(format!("{name}=\"{other}\": expected true or false"))),
    }
}
