//! The way on which a call was led to the user of a target, for the target and for the record of
//! the call.

use crate::core::call_record::RETARGETED;
use crate::core::lines::write_line;
use alloc::string::String;
use alloc::vec::Vec;
use sip::header::NameAddr;
use sip::uri::escape_user;
use sip::{HeaderName, Message, write_decimal};

/// The reason for which a call comes to a user or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The request URI names it.
    Called,
    /// It is a member of the group before.
    Member,
    Always,
    Busy,
    DoNotDisturb,
    NoAnswer,
    Unreachable,
    /// A phone has redirected the call.
    Deflected,
}

impl Why {
    /// The cause of a forward (RFC 4458 section 2).
    pub(crate) const fn cause(self) -> Option<u16> {
        match self {
            Self::Called | Self::Member => None,
            Self::Always => Some(302),
            Self::Busy | Self::DoNotDisturb => Some(486),
            Self::NoAnswer => Some(408),
            Self::Unreachable => Some(503),
            Self::Deflected => Some(480),
        }
    }

    /// The reason of a forward in Diversion (RFC 5806 section 4).
    pub(crate) const fn diversion(self) -> Option<&'static str> {
        match self {
            Self::Called | Self::Member => None,
            Self::Always => Some("unconditional"),
            Self::Busy => Some("user-busy"),
            Self::DoNotDisturb => Some("do-not-disturb"),
            Self::NoAnswer => Some("no-answer"),
            Self::Unreachable => Some("unavailable"),
            Self::Deflected => Some("deflection"),
        }
    }

    /// The word for the record of the call.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Called => "called",
            Self::Member => "group",
            Self::Always => "always",
            Self::Busy => "busy",
            Self::DoNotDisturb => "do-not-disturb",
            Self::NoAnswer => "no-answer",
            Self::Unreachable => "unreachable",
            Self::Deflected => "deflected",
        }
    }
}

/// The users and groups on the way of a call to another one than that of the request URI.
#[derive(Clone, Debug)]
pub(crate) struct Retargeted {
    /// The called one is the first, the owner of the phones that ring the last.
    steps: Vec<Step>,
}

/// A user or a group on the way of a call.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) uri: Vec<u8>,
    /// `name@domain`.
    pub(crate) name: String,
    /// The reason for which the call came here from the step before.
    pub(crate) why: Why,
}

impl Retargeted {
    /// `None` if the last of `steps` is the called user itself.
    pub(crate) fn new(steps: Vec<Step>) -> Option<Self> {
        (steps.len() > 1).then_some(Self { steps })
    }

    /// The SIP URI of the last user, the owner of the phones that ring.
    pub(crate) fn uri(&self) -> &[u8] {
        self.steps.last().map_or(&[], |step| &step.uri)
    }

    /// The last user, `name@domain`.
    pub(crate) fn user(&self) -> Option<&str> {
        self.steps.last().map(|step| step.name.as_str())
    }

    /// The memory on the heap, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let texts = self.steps.iter().map(|step| step.uri.capacity() + step.name.capacity());
        self.steps.capacity() * size_of::<Step>() + texts.sum::<usize>()
    }

    /// The label of the called end in records: the last user, and the reason of the last forward or
    /// the membership in a group.
    pub(crate) fn label(&self) -> String {
        let forward = self.steps.iter().rev().find(|step| step.why.diversion().is_some());
        let last = self.steps.last();
        let why = forward.or(last).map_or("", |step| step.why.word());
        [RETARGETED, why, " ", last.map_or("", |step| &step.name)].concat()
    }

    /// Appends a Diversion line for each forward, the last one first (RFC 5806 section 4).
    pub(crate) fn write_diversions(&self, out: &mut Vec<u8>) {
        for pair in self.steps.windows(2).rev() {
            if let [from, to] = pair
                && let Some(reason) = to.why.diversion()
            {
                let value = [b"<", &from.uri[..], b">;reason=", reason.as_bytes(), b";counter=1"];
                write_line(out, b"Diversion", &value.concat());
            }
        }
    }

    /// Appends the History-Info lines of the way (RFC 7044 section 9.2), which continue those of
    /// `request` if they are `kept`.
    pub(crate) fn write_history(&self, request: &Message<'_>, kept: bool, out: &mut Vec<u8>) {
        let last = request.elements(HeaderName::HistoryInfo).last().filter(|_| kept);
        let last = last.and_then(|entry| NameAddr::parse(HeaderName::HistoryInfo, entry).ok());
        let mut index = match last.as_ref().and_then(|entry| entry.params.value("index")) {
            Some(index) => [index, b".1"].concat(),
            None => b"1".to_vec(),
        };
        let mut before: Option<Vec<u8>> = None;
        for step in &self.steps {
            let mut value = [b"<", &step.uri[..]].concat();
            if let Some(cause) = step.why.cause() {
                value.extend_from_slice(b";cause=");
                write_decimal(&mut value, cause.into());
            }
            value.extend_from_slice(b">;index=");
            value.extend_from_slice(&index);
            if let Some(before) = &before {
                value.extend_from_slice(b";mp=");
                value.extend_from_slice(before);
            }
            write_line(out, b"History-Info", &value);
            before = Some(index.clone());
            index.extend_from_slice(b".1");
        }
    }
}

/// The SIP URI of `name`, which is `user@domain` without escapes.
pub(crate) fn uri_of(name: &[u8]) -> Vec<u8> {
    let at = name.iter().rposition(|&byte| byte == b'@').unwrap_or(name.len());
    let (user, domain) = (escape_user(&name[..at]), name.get(at + 1..).unwrap_or_default());
    match domain.contains(&b':') {
        true => [b"sip:", &user[..], b"@[", domain, b"]"].concat(),
        false => [b"sip:", &user[..], b"@", domain].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    fn way(steps: &[(&str, Why)]) -> Retargeted {
        let step = |(name, why): &(&str, Why)| Step {
            uri: uri_of(name.as_bytes()),
            name: (*name).into(),
            why: *why,
        };
        Retargeted::new(steps.iter().map(step).collect()).unwrap()
    }

    fn request(lines: &str) -> Vec<u8> {
        alloc::format!("INVITE sip:bob@a SIP/2.0\r\n{lines}\r\n").into_bytes()
    }

    #[test]
    fn the_called_user_itself_is_no_way() {
        let step = Step { uri: Vec::new(), name: String::new(), why: Why::Called };
        assert!(Retargeted::new(alloc::vec![step]).is_none());
    }

    #[test]
    fn forwards_are_named_with_their_reasons() {
        let way =
            way(&[("bob@a", Why::Called), ("sales@a", Why::Busy), ("carol@a", Why::NoAnswer)]);
        assert_eq!(way.uri(), b"sip:carol@a");
        assert_eq!(way.label(), "retargeted no-answer carol@a");
        let mut out = Vec::new();
        way.write_diversions(&mut out);
        assert_eq!(
            text(out),
            "Diversion: <sip:sales@a>;reason=no-answer;counter=1\r\n\
             Diversion: <sip:bob@a>;reason=user-busy;counter=1\r\n"
        );
        let mut out = Vec::new();
        let bytes = request("");
        way.write_history(&Message::parse(&bytes).unwrap(), true, &mut out);
        assert_eq!(
            text(out),
            "History-Info: <sip:bob@a>;index=1\r\n\
             History-Info: <sip:sales@a;cause=486>;index=1.1;mp=1\r\n\
             History-Info: <sip:carol@a;cause=408>;index=1.1.1;mp=1.1\r\n"
        );
    }

    #[test]
    fn a_history_goes_on_unless_it_is_removed() {
        let way = way(&[("sales@a", Why::Called), ("carol@a", Why::Member)]);
        assert_eq!(way.label(), "retargeted group carol@a");
        let bytes = request("History-Info: <sip:x@b>;index=1, <sip:sales@a>;index=1.3\r\n");
        let request = Message::parse(&bytes).unwrap();
        for (kept, index) in [(true, "1.3.1"), (false, "1")] {
            let (mut out, mut diversions) = (Vec::new(), Vec::new());
            way.write_history(&request, kept, &mut out);
            let expected = alloc::format!(
                "History-Info: <sip:sales@a>;index={index}\r\n\
                 History-Info: <sip:carol@a>;index={index}.1;mp={index}\r\n"
            );
            assert_eq!(text(out), expected);
            way.write_diversions(&mut diversions);
            assert!(diversions.is_empty(), "the member of a group is no diversion");
        }
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(uri_of("J\u{fc}rgen@a".as_bytes()), b"sip:J%C3%BCrgen@a");
        assert_eq!(uri_of(b"a%b@::1"), b"sip:a%25b@[::1]");
    }
}
