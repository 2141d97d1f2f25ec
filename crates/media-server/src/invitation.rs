//! The service of a call. The proxy in front of the media server has chosen it, and writes it as
//! the first Route of the INVITE, which no other party can do.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use sip::header::NameAddr;
use sip::uri::unescape;
use sip::{HeaderName, Message, Uri};

/// The host of the URI that names the service.
const HOST: &[u8] = b"media-server.invalid";

/// A service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// The sound of the caller returns.
    Echo,
    /// Music without an end.
    Music,
    /// The sound of this name is played.
    Announcement(String),
    /// The conference room of this name.
    Conference(String),
    /// A message is recorded for this mailbox.
    Deposit(String),
    /// The messages of this mailbox are played.
    Retrieval(String),
    /// The call waits in the slot with this name, or joins the call that waits there.
    Park(String),
    /// The call joins the other one with this name: one that rang, and the one that picks it up.
    Meet(String),
}

/// The service of a call, and the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// The service.
    pub service: Service,
    /// The address-of-record that the caller has proved.
    pub caller: Option<String>,
    /// The URI in From.
    pub from: String,
    /// The party that has transferred the caller: the URI in Referred-By, or that of the user that
    /// the proxy names.
    pub referrer: Option<String>,
}

/// The reason why an INVITE has no service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvitationError {
    /// The first Route is missing, or was not written by the proxy.
    Route,
    /// The user part of the first Route is no service.
    Service,
    /// The service needs a name, which the first Route does not have.
    Name,
    /// From is missing or malformed.
    From,
}

impl fmt::Display for InvitationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Route => "the first Route is not that of the proxy",
            Self::Service => "the first Route names no service of the media server",
            Self::Name => "the service in the first Route has no name parameter",
            Self::From => "From is missing or malformed",
        })
    }
}

impl core::error::Error for InvitationError {}

impl Invitation {
    /// Reads the service of `invite`.
    ///
    /// # Errors
    /// The request does not come from the proxy, or its first Route names no service.
    pub fn read(invite: &Message<'_>) -> Result<Self, InvitationError> {
        let route = invite.elements(HeaderName::Route).next();
        let route = route.and_then(|route| NameAddr::parse(HeaderName::Route, route).ok());
        let Some(Ok(Uri::Sip(uri))) = route.as_ref().map(NameAddr::uri) else {
            return Err(InvitationError::Route);
        };
        if !matches!(uri.host, sip::uri::Host::Name(name) if name == HOST) {
            return Err(InvitationError::Route);
        }
        let param = |name| {
            let value = unescape(uri.params.value(name)?);
            Some(String::from_utf8_lossy(&value).into_owned())
        };
        let name = || param("name").ok_or(InvitationError::Name);
        let service = match uri.user.unwrap_or_default() {
            b"echo" => Service::Echo,
            b"music" => Service::Music,
            b"announcement" => Service::Announcement(name()?),
            b"conference" => Service::Conference(name()?),
            b"deposit" => Service::Deposit(name()?),
            b"retrieval" => Service::Retrieval(name()?),
            b"park" => Service::Park(name()?),
            b"meet" => Service::Meet(name()?),
            _ => return Err(InvitationError::Service),
        };
        let address = |name| NameAddr::parse(name, invite.value(name)?).ok();
        let uri_of = |it: NameAddr<'_>| String::from_utf8_lossy(it.uri_bytes).into_owned();
        let from = address(HeaderName::From).map(uri_of).ok_or(InvitationError::From)?;
        let referrer = address(HeaderName::ReferredBy).map(uri_of);
        let referrer = referrer.or_else(|| param("referrer"));
        Ok(Self { service, caller: param("caller"), from, referrer })
    }

    /// The INVITE `bytes` without Replaces, if it is a call that meets another one: the proxy leads
    /// the call that it is to replace here, too. `None` for other messages, which stay as they are.
    pub(crate) fn without_replaces(bytes: &[u8]) -> Option<Vec<u8>> {
        let message = Message::parse(bytes).ok()?;
        let is_meeting =
            || matches!(Self::read(&message), Ok(Self { service: Service::Meet(_), .. }));
        if !message.has(HeaderName::Replaces) || !is_meeting() {
            return None;
        }
        let mut out = message.start_line_bytes().to_vec();
        message.write_fields(&[HeaderName::Replaces], |_| true, |_, _| {}, &mut out);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(message.body());
        Some(out)
    }

    /// The proved caller, or else the URI in From, and true if it is proved.
    pub(crate) fn party(&self) -> (&str, bool) {
        match &self.caller {
            Some(caller) => (caller, true),
            None => (&self.from, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    fn read(routes: &str) -> Result<Invitation, InvitationError> {
        let invite = format!(
            "INVITE sip:x@example.com SIP/2.0\r\n{routes}From: A <sip:a@b>;tag=1\r\n\
             Content-Length: 0\r\n\r\n"
        );
        Invitation::read(&Message::parse(invite.as_bytes()).expect("a message"))
    }

    #[test]
    fn the_first_route_names_the_service_and_the_caller() {
        let invitation = read(
            "Route: <sip:deposit@media-server.invalid;lr;name=b%40d%25;caller=alice%40example.com>\r\n\
             Route: <sip:retrieval@media-server.invalid;lr;name=x>\r\n",
        );
        let invitation = invitation.expect("an invitation");
        assert_eq!(invitation.service, Service::Deposit("b@d%".into()));
        assert_eq!(invitation.party(), ("alice@example.com", true));
        let parked = "<sip:park@media-server.invalid;lr;name=701%40a;referrer=sip%3Ab%40a>";
        let referrer = |lines: &str| read(&format!("Route: {parked}\r\n{lines}")).ok()?.referrer;
        assert_eq!(referrer("").as_deref(), Some("sip:b@a"));
        assert_eq!(referrer("Referred-By: <sip:c@a>\r\n").as_deref(), Some("sip:c@a"));
        let invitation = read("Route: <sip:echo@media-server.invalid;lr>\r\n");
        assert_eq!(invitation.as_ref().map(Invitation::party), Ok(("sip:a@b", false)));
    }

    #[test]
    fn a_call_that_meets_another_one_replaces_none() {
        let invite = |service: &str, lines: &str| {
            format!(
                "INVITE sip:x@example.com SIP/2.0\r\nFrom: A <sip:a@b>;tag=1\r\n\
                 Route: <sip:{service}@media-server.invalid;lr;name=7>\r\n{lines}\
                 Content-Length: 2\r\n\r\nab"
            )
        };
        let replaces = "Replaces: x;to-tag=a;from-tag=b\r\n";
        let without = |service: &str, lines: &str| {
            Invitation::without_replaces(invite(service, lines).as_bytes())
        };
        assert_eq!(without("meet", replaces), Some(invite("meet", "").into_bytes()));
        assert_eq!(without("meet", ""), None);
        // The party of a transfer takes the place of a call in a slot.
        assert_eq!(without("park", replaces), None);
    }

    #[test]
    fn other_routes_name_no_service() {
        for (routes, expected) in [
            ("", InvitationError::Route),
            ("Route: <sip:echo@example.com;lr>\r\n", InvitationError::Route),
            (
                "Route: <sip:example.com;lr>, <sip:echo@media-server.invalid;lr>\r\n",
                InvitationError::Route,
            ),
            ("Route: <sip:deposit@media-server.invalid;lr>\r\n", InvitationError::Name),
            ("Route: <sip:media-server.invalid;lr>\r\n", InvitationError::Service),
            ("Route: <sip:other@media-server.invalid;lr>\r\n", InvitationError::Service),
        ] {
            assert_eq!(read(routes), Err(expected), "{routes}");
        }
    }
}
