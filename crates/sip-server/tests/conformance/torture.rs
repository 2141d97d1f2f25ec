//! The expected results for torture messages, checked against parser, framer and server, and
//! printed for the documentation.

use crate::rig::{Reaction, Rig, Sent, text, udp};
use sip::message::{ParseError, RequestFault};
use sip::stream::{Frame, FrameError, Framer};
use sip::{HeaderName, Message};
use std::net::SocketAddr;

/// The result of the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// A request without a fault.
    Sound,
    /// A request with this fault, which can be answered.
    Faulty(RequestFault),
    /// A response.
    Response,
    /// Not a message.
    Nothing(ParseError),
}

/// The result of the server for a message in a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Forwarded to the user's contact, with only the changes of a proxy.
    Forwarded,
    /// Forwarded to another domain, so that only the routing fields change.
    PassedOn,
    /// Forwarded after the DNS lookup of this host.
    Located(&'static str),
    /// Answered 200.
    Answered,
    /// Answered 200, with this number of bindings.
    Registered(usize),
    /// Rejected with this status.
    Refused(u16),
    /// Dropped without a response.
    Dropped,
}

/// The result of the framer for the message on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framed {
    /// Exactly the message.
    Whole,
    /// The message, followed by another one.
    Two,
    /// An incomplete message.
    Waits,
    /// The length cannot be determined. The stream is closed.
    Lost,
}

/// One torture message and its expected results.
pub(crate) struct Case {
    pub(crate) file: &'static str,
    pub(crate) section: &'static str,
    pub(crate) title: &'static str,
    pub(crate) parsed: Parsed,
    pub(crate) outcome: Outcome,
    pub(crate) framed: Framed,
    /// Notes, including the choices that the RFC leaves open.
    pub(crate) remark: &'static str,
}

/// The source and the destination of a torture message.
#[derive(Clone, Copy)]
pub(crate) struct Ends {
    /// The source address.
    pub(crate) sender: &'static str,
    /// The contact of the called user.
    pub(crate) contact: &'static str,
}

/// Creates the case of one message.
pub(crate) const fn case(
    file: &'static str,
    section: &'static str,
    title: &'static str,
    parsed: Parsed,
    outcome: Outcome,
    framed: Framed,
    remark: &'static str,
) -> Case {
    Case { file, section, title, parsed, outcome, framed, remark }
}

impl Case {
    /// Passes the message to parser, framer and server, and returns the differences from the
    /// expected results.
    pub(crate) fn differences(&self, bytes: &[u8], rig: &mut Rig, ends: Ends) -> Vec<String> {
        let contact = ends.contact.parse().unwrap();
        let reaction = rig.receive(&udp(ends.sender), bytes);
        let outcome = outcome(&reaction, contact);
        if matches!(outcome, Outcome::Forwarded | Outcome::PassedOn) {
            assert_carried_over(bytes, reaction.forwarded());
        }
        let mut differences = Vec::new();
        let mut compare = |what: &str, found: String, expected: String| {
            if found != expected {
                differences.push(format!("{}: {what}: {found}, not {expected}", self.file));
            }
        };
        compare("parsed", format!("{:?}", parsed(bytes)), format!("{:?}", self.parsed));
        compare("framed", format!("{:?}", framed(bytes)), format!("{:?}", self.framed));
        compare("server", format!("{outcome:?}"), format!("{:?}", self.outcome));
        differences
    }
}

fn parsed(bytes: &[u8]) -> Parsed {
    match Message::parse(bytes) {
        Err(error) => Parsed::Nothing(error),
        Ok(message) if message.status().is_some() => {
            assert_eq!(message.framing_fault(), None);
            Parsed::Response
        }
        Ok(message) => message.validate_request().map_or_else(Parsed::Faulty, |_| Parsed::Sound),
    }
}

fn framed(bytes: &[u8]) -> Framed {
    let mut framer = Framer::default();
    match framer.next(bytes) {
        Err(FrameError::ContentLength(_) | FrameError::TooLong) => Framed::Lost,
        Ok(Frame::Incomplete) => Framed::Waits,
        Ok(Frame::Message(length)) if length == bytes.len() => Framed::Whole,
        Ok(Frame::Message(length)) => {
            let rest = after_line_ends(&bytes[length..]);
            match framer.next(rest) {
                Ok(Frame::Message(_)) => Framed::Two,
                other => panic!("after the first message: {other:?}"),
            }
        }
        Ok(Frame::LineEnds(_)) => panic!("the message begins with line ends"),
        Err(other) => panic!("{other}"),
    }
}

fn after_line_ends(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
    &bytes[start.unwrap_or(bytes.len())..]
}

fn outcome(reaction: &Reaction, contact: SocketAddr) -> Outcome {
    if reaction.is_silent() {
        return Outcome::Dropped;
    }
    if !reaction.events.is_empty() {
        let (destination, _) = reaction.wants_location();
        let sip::locate::Host::Name(name) = destination.host else { panic!("{reaction:?}") };
        return Outcome::Located(String::leak(name));
    }
    if reaction.responses().next().is_none() {
        let is_for_user = reaction.forwarded().flow.remote == contact;
        return if is_for_user { Outcome::Forwarded } else { Outcome::PassedOn };
    }
    let response = reaction.response();
    match response.status() {
        200 if response.value(HeaderName::CSeq).ends_with(" REGISTER") => {
            Outcome::Registered(response.values(HeaderName::Contact).len())
        }
        200 => Outcome::Answered,
        status => Outcome::Refused(status),
    }
}

/// Checks that `forwarded` has all fields of `original`, in the same order and byte for byte,
/// except those that a proxy changes (RFC 3261 section 16.6).
pub(crate) fn assert_carried_over(original: &[u8], forwarded: &Sent) {
    let original = Message::parse(original).unwrap();
    let forwarded = forwarded.message();
    let is_kept = |name| {
        !matches!(
            name,
            HeaderName::Via
                | HeaderName::MaxForwards
                | HeaderName::MaxBreadth
                | HeaderName::Route
                | HeaderName::RecordRoute
                | HeaderName::ContentLength
        )
    };
    let kept = |message: &Message<'_>| -> Vec<String> {
        let fields = message.fields().filter(|field| is_kept(field.name));
        fields.map(|field| text(field.line)).collect()
    };
    assert_eq!(kept(&forwarded), kept(&original));
    assert_eq!(forwarded.body(), original.body());
    assert_eq!(forwarded.method(), original.method());

    let vias = |message: &Message<'_>| -> Vec<Vec<u8>> {
        message.elements(HeaderName::Via).map(<[u8]>::to_vec).collect()
    };
    let (old, new) = (vias(&original), vias(&forwarded));
    assert_eq!(new.len(), old.len() + 1, "one Via is added");
    assert_eq!(new[2..], old[1..], "the lower Vias are as they were");

    let hops = |message: &Message<'_>| {
        let value = message.value(HeaderName::MaxForwards)?;
        text(value).parse::<u32>().ok()
    };
    let expected = hops(&original).map_or(70, |hops| hops - 1);
    assert_eq!(hops(&forwarded), Some(expected), "Max-Forwards");
    let record_routes =
        |message: &Message<'_>| message.values(HeaderName::RecordRoute).map(text).collect();
    let (old, new): (Vec<_>, Vec<_>) = (record_routes(&original), record_routes(&forwarded));
    assert!(new.ends_with(&old), "the lower Record-Routes are as they were");
    let lengths = forwarded.values(HeaderName::ContentLength).map(text);
    let lengths: Vec<usize> = lengths.map(|length| length.parse().unwrap()).collect();
    assert_eq!(lengths, [original.body().len()]);
}

/// The cases as a table for the documentation.
pub(crate) fn table(cases: &[Case]) -> String {
    let mut table = String::from(
        "| message | section | subject | parser | server | on a stream | remark |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for case in cases {
        let Case { file, section, title, remark, .. } = case;
        let parsed = match case.parsed {
            Parsed::Sound => "request".to_owned(),
            Parsed::Response => "response".to_owned(),
            Parsed::Faulty(fault) => format!("fault: {fault}"),
            Parsed::Nothing(error) => format!("no message: {error}"),
        };
        let outcome = match case.outcome {
            Outcome::Forwarded => "forwarded to the user's contact".to_owned(),
            Outcome::PassedOn => "forwarded".to_owned(),
            Outcome::Located(host) => format!("forwarded to {host}"),
            Outcome::Answered => "200".to_owned(),
            Outcome::Registered(1) => "200, 1 binding".to_owned(),
            Outcome::Registered(bindings) => format!("200, {bindings} bindings"),
            Outcome::Refused(status) => status.to_string(),
            Outcome::Dropped => "dropped".to_owned(),
        };
        let framed = match case.framed {
            Framed::Whole => "whole",
            Framed::Two => "two messages",
            Framed::Waits => "waits for more",
            Framed::Lost => "closed",
        };
        table += &format!(
            "| {file} | {section} | {title} | {parsed} | {outcome} | {framed} | {remark} |\n"
        );
    }
    table
}
