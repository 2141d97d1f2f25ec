//! Serialization of forwarded messages: slices of the received message, and the few lines that a
//! proxy adds (RFC 3261 sections 16.6 and 16.7).

use super::record_route::{RecordRoute, address_in};
use super::retargeting::Retargeted;
use super::via_branch::ViaBranch;
use crate::core::flow::Flow;
use crate::core::lines::{write_address, write_line, write_number_line};
use crate::core::settings::Settings;
use alloc::vec::Vec;
use core::net::SocketAddr;
use sip::message::Field;
use sip::{HeaderName, Message, Method, Status, StatusLine, Transport, write_decimal};

/// The changes to a request that is forwarded.
pub(crate) struct Changes<'a> {
    /// The new request URI.
    pub(crate) uri: &'a [u8],
    /// The flow that the request is sent on.
    pub(crate) flow: &'a Flow,
    pub(crate) branch: ViaBranch,
    /// Appends complete Record-Route and Path lines, if any.
    pub(crate) ways: &'a dyn Fn(&mut Vec<u8>),
    /// Complete Route lines that replace the received ones. `None` leaves them unchanged.
    pub(crate) routes: Option<&'a [u8]>,
    /// A Path, to be written as the first Route. Empty for none.
    pub(crate) path: &'a [u8],
    /// The source address of the request.
    pub(crate) source: SocketAddr,
    /// The settings of the server. Credentials for its realms are not forwarded.
    pub(crate) settings: &'a Settings,
    pub(crate) sender_fields: &'a SenderFields,
    /// The new Max-Breadth. `None` leaves it unchanged.
    pub(crate) max_breadth: Option<u32>,
    /// The new body. `None` leaves it unchanged.
    pub(crate) body: Option<&'a [u8]>,
    /// The way to the target, if call services have led the call to it.
    pub(crate) retargeted: Option<&'a Retargeted>,
    /// True if credentials for the realms of the server are forwarded, too.
    pub(crate) keeps_credentials: bool,
    /// True if [`ALERTS`] are forwarded, unless `sender_fields` removes them.
    pub(crate) keeps_alerts: bool,
    /// The new value of Refer-To. `None` leaves it unchanged.
    pub(crate) refer_to: Option<&'a [u8]>,
}

/// The handling of the header fields that name the sender of a request or change how the phone
/// presents the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SenderFields {
    Kept,
    /// The fields are removed.
    Removed,
    /// The fields are removed, but for Referred-By: it names the sender.
    OnlyReferrer,
    /// This value of P-Asserted-Identity replaces the fields that name the sender.
    Replaced(Vec<u8>),
}

/// The header fields that ask for an automatic answer, or for another tone or picture.
pub(super) const ALERTS: [HeaderName; 4] = [
    HeaderName::AlertInfo,
    HeaderName::CallInfo,
    HeaderName::AnswerMode,
    HeaderName::PrivAnswerMode,
];

/// The header fields that name the sender.
const SENDER_NAMES: [HeaderName; 3] =
    [HeaderName::PAssertedIdentity, HeaderName::PPreferredIdentity, HeaderName::RemotePartyId];

impl SenderFields {
    /// True if the fields that describe the way of the call are removed.
    pub(crate) const fn are_removed(&self) -> bool {
        matches!(self, Self::Removed | Self::OnlyReferrer)
    }
}

/// The header fields that a proxy may change in a request.
const REWRITTEN: [HeaderName; 20] = [
    HeaderName::ContentLength,
    HeaderName::Via,
    HeaderName::To,
    HeaderName::MaxForwards,
    HeaderName::Route,
    HeaderName::MaxBreadth,
    HeaderName::Authorization,
    HeaderName::ProxyAuthorization,
    HeaderName::PAssertedIdentity,
    HeaderName::PPreferredIdentity,
    HeaderName::RemotePartyId,
    // A phone may answer a call automatically because of these fields, or fetch a URI in them.
    HeaderName::AlertInfo,
    HeaderName::CallInfo,
    HeaderName::AnswerMode,
    HeaderName::PrivAnswerMode,
    // These fields name the party that redirected or transferred the call.
    HeaderName::Diversion,
    HeaderName::HistoryInfo,
    HeaderName::ReferredBy,
    HeaderName::ReferTo,
    // A phone decides by it if a call is listed as missed.
    HeaderName::Reason,
];

/// The header fields that a proxy may change in a response.
const REWRITTEN_IN_RESPONSES: [HeaderName; 7] = [
    HeaderName::ContentLength,
    HeaderName::Via,
    HeaderName::RecordRoute,
    HeaderName::WwwAuthenticate,
    HeaderName::ProxyAuthenticate,
    HeaderName::PAssertedIdentity,
    HeaderName::RemotePartyId,
];

/// True if the server has the services of an office: without them it changes fewer fields.
const HAS_OFFICE: bool = cfg!(feature = "office");

/// The Max-Forwards that is added to a request without one.
const DEFAULT_MAX_FORWARDS: u8 = 70;

impl Changes<'_> {
    /// Appends `request` with the changes.
    pub(crate) fn write(&self, request: &Message<'_>, max_forwards: Option<u8>, out: &mut Vec<u8>) {
        let method = request.method().map_or(&b""[..], Method::as_bytes);
        out.reserve(request.as_bytes().len() + 256);
        out.extend_from_slice(method);
        out.push(b' ');
        out.extend_from_slice(self.uri);
        out.extend_from_slice(b" SIP/2.0\r\n");
        self.write_own_lines(request, max_forwards, out);
        let mut is_top_via = true;
        request.write_fields(
            &REWRITTEN,
            |field| match field.name {
                HeaderName::Via => core::mem::take(&mut is_top_via),
                _ => self.rewrites(field, request),
            },
            |field, out| self.rewrite(field, request, max_forwards, out),
            out,
        );
        if let Some(retargeted) = self.retargeted {
            let is_kept = !self.sender_fields.are_removed();
            retargeted.write_history(request, is_kept, out);
        }
        write_end(request, self.body, out);
    }

    /// Appends the lines that precede those of the request.
    fn write_own_lines(&self, request: &Message<'_>, max_forwards: Option<u8>, out: &mut Vec<u8>) {
        write_via(out, self.flow, self.uri, &self.branch, self.settings);
        (self.ways)(out);
        if !self.path.is_empty() {
            write_line(out, b"Route", self.path);
        }
        out.extend_from_slice(self.routes.unwrap_or_default());
        if max_forwards.is_none() {
            write_number_line(out, b"Max-Forwards", DEFAULT_MAX_FORWARDS.into());
        }
        if let Some(breadth) = self.max_breadth {
            write_number_line(out, b"Max-Breadth", breadth.into());
        }
        if let SenderFields::Replaced(proved) = self.sender_fields
            && self.may_name_sender(request)
        {
            write_line(out, b"P-Asserted-Identity", proved);
        }
        if let Some(retargeted) = self.retargeted {
            retargeted.write_diversions(out);
        }
    }

    /// True if `field`, which is not a Via, is changed or removed.
    fn rewrites(&self, field: &Field<'_>, request: &Message<'_>) -> bool {
        match field.name {
            HeaderName::MaxForwards => true,
            HeaderName::ContentLength => self.body.is_some(),
            // A user agent server would append `;tag=` after the trailing semicolon.
            HeaderName::To => field.value.ends_with(b";"),
            HeaderName::Reason => {
                self.sender_fields.are_removed() && request.method() == Some(Method::Cancel)
            }
            HeaderName::Route => self.routes.is_some(),
            HeaderName::ReferTo => HAS_OFFICE && self.refer_to.is_some(),
            HeaderName::MaxBreadth => self.max_breadth.is_some(),
            HeaderName::Authorization | HeaderName::ProxyAuthorization => {
                self.is_for_us(field.value)
            }
            name if HAS_OFFICE && !self.keeps_alerts && ALERTS.contains(&name) => true,
            name => match self.sender_fields {
                SenderFields::Kept => false,
                SenderFields::Removed => true,
                SenderFields::OnlyReferrer => name != HeaderName::ReferredBy,
                SenderFields::Replaced(_) => SENDER_NAMES.contains(&name),
            },
        }
    }

    /// Appends the replacement of `field`. Most fields have no replacement.
    fn rewrite(
        &self,
        field: &Field<'_>,
        request: &Message<'_>,
        max_forwards: Option<u8>,
        out: &mut Vec<u8>,
    ) {
        match field.name {
            HeaderName::Via => request.write_top_via(field, self.source, out),
            HeaderName::To => {
                let to = field.value.strip_suffix(b";").unwrap_or(field.value);
                write_line(out, b"To", to.trim_ascii_end());
            }
            HeaderName::MaxForwards => {
                let left = max_forwards.unwrap_or(DEFAULT_MAX_FORWARDS).saturating_sub(1);
                write_number_line(out, b"Max-Forwards", left.into());
            }
            HeaderName::ReferTo if HAS_OFFICE => {
                write_line(out, b"Refer-To", self.refer_to.unwrap_or_default());
            }
            _ => {}
        }
    }

    /// True if the sender may be named to the next hop. A sender may request privacy from elements
    /// that are not trusted (RFC 3325 section 7).
    fn may_name_sender(&self, request: &Message<'_>) -> bool {
        let wants = request.values(HeaderName::Privacy).any(|value| {
            let mut values = value.split(|&byte| byte == b';' || byte == b',');
            values.any(|value| value.trim_ascii().eq_ignore_ascii_case(b"id"))
        });
        !wants || self.settings.is_trusted(self.flow)
    }

    /// True if the credentials are for this server. If this server does not authenticate, they are
    /// for an element behind it.
    fn is_for_us(&self, credentials: &[u8]) -> bool {
        !self.keeps_credentials
            && self.settings.config.authentication.required
            && self.settings.has_own_realm(credentials)
    }
}

/// The status line that replaces a 401 or 407 without any challenge left. No client could answer
/// it.
pub(crate) const NO_CHALLENGE: StatusLine<'_> =
    Status::FORBIDDEN.with_reason("No Challenge Passed On");

/// The changes to a response that is forwarded upstream.
#[derive(Clone, Copy, Default)]
pub(crate) struct ResponseChanges<'a> {
    /// The new status and reason phrase, if they change.
    pub(crate) status: Option<StatusLine<'a>>,
    /// Challenge lines that replace the received ones (RFC 3261 section 16.7 step 7).
    pub(crate) challenges: Option<&'a [u8]>,
    /// Set if the sender of the response is not trusted. Its challenges for the realms of these
    /// settings and its asserted identity are removed.
    pub(crate) distrusts: Option<&'a Settings>,
    /// The handling of Record-Route.
    pub(crate) record_route: RecordRoute<'a>,
    /// The new body. `None` leaves it unchanged.
    pub(crate) body: Option<&'a [u8]>,
}

impl ResponseChanges<'_> {
    /// Appends `response` without its topmost Via and with the changes.
    pub(crate) fn write(&self, response: &Message<'_>, out: &mut Vec<u8>) {
        out.reserve(response.as_bytes().len());
        match self.status {
            None => out.extend_from_slice(response.start_line_bytes()),
            Some(StatusLine { status, reason }) => {
                out.extend_from_slice(b"SIP/2.0 ");
                write_decimal(out, status.code().into());
                out.push(b' ');
                out.extend_from_slice(reason.as_bytes());
                out.extend_from_slice(b"\r\n");
            }
        }
        let mut is_top_via = true;
        response.write_fields(
            &REWRITTEN_IN_RESPONSES,
            |field| match field.name {
                HeaderName::Via => core::mem::take(&mut is_top_via),
                _ => self.rewrites(field),
            },
            |field, out| self.rewrite(field, out),
            out,
        );
        out.extend_from_slice(self.challenges.unwrap_or_default());
        write_end(response, self.body, out);
    }

    /// True if `field`, which is not a Via, is changed or removed.
    fn rewrites(&self, field: &Field<'_>) -> bool {
        match field.name {
            HeaderName::ContentLength => self.body.is_some(),
            HeaderName::RecordRoute => !matches!(self.record_route, RecordRoute::Kept),
            HeaderName::PAssertedIdentity | HeaderName::RemotePartyId => self.distrusts.is_some(),
            _ => {
                self.challenges.is_some()
                    || self.distrusts.is_some_and(|settings| settings.has_own_realm(field.value))
            }
        }
    }

    /// Appends the replacement of `field`. Most fields have no replacement.
    fn rewrite(&self, field: &Field<'_>, out: &mut Vec<u8>) {
        match (field.name, self.record_route) {
            (HeaderName::Via, _) => {
                if let Some(rest) = after_first_element(field.value) {
                    write_line(out, b"Via", rest);
                }
            }
            (HeaderName::RecordRoute, RecordRoute::With(token)) => token.write(field.line, out),
            _ => {}
        }
    }
}

/// Appends the end of `message`: a Content-Length if the message has none or gets a new body, the
/// empty line and the body.
fn write_end(message: &Message<'_>, new_body: Option<&[u8]>, out: &mut Vec<u8>) {
    let body = new_body.unwrap_or(message.body());
    if new_body.is_some() || !message.has(HeaderName::ContentLength) {
        write_number_line(out, b"Content-Length", body.len() as u64);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
}

/// Returns the part of `value` after its first element and the comma.
fn after_first_element(value: &[u8]) -> Option<&[u8]> {
    let mut elements = sip::header::elements(value);
    elements.next()?;
    let next = elements.next()?;
    let start = next.as_ptr() as usize - value.as_ptr() as usize;
    Some(&value[start..])
}

/// Appends our Via for a request to `uri` on `flow`.
pub(crate) fn write_via(
    out: &mut Vec<u8>,
    flow: &Flow,
    uri: &[u8],
    branch: &ViaBranch,
    settings: &Settings,
) {
    write_via_without_branch(out, flow, uri, settings);
    branch.write(out);
    out.extend_from_slice(b"\r\n");
}

/// Appends the Via of a request to `uri` on `flow`, up to the value of its branch parameter.
pub(super) fn write_via_without_branch(
    out: &mut Vec<u8>,
    flow: &Flow,
    uri: &[u8],
    settings: &Settings,
) {
    out.extend_from_slice(b"Via: SIP/2.0/");
    out.extend_from_slice(flow.transport.via_name().as_bytes());
    out.push(b' ');
    let called = settings.called_by(flow, || address_in(uri));
    write_address(out, called);
    if called != flow.local && !flow.transport.is_stream() {
        // A peer on this side of the address translation responds to the source address only if
        // asked for `rport`. Otherwise it would use the external port (RFC 3581 section 3).
        out.extend_from_slice(b";rport");
    }
    if flow.transport == Transport::Tls && flow.connection.is_none() {
        // The peer may send its requests to this server on the connection that this request opens
        // (RFC 5923 section 5).
        out.extend_from_slice(b";alias");
    }
    out.extend_from_slice(b";branch=");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::config::{Config, Domain};

    const INVITE: &[u8] = b"INVITE sip:bob@example.com SIP/2.0\r\n\
        Via: SIP/2.0/UDP 192.0.2.9:5060;rport;branch=z9hG4bKa, SIP/2.0/UDP h;branch=z9hG4bKb\r\n\
        Max-Forwards: 070\r\n\
        Route: <sip:192.0.2.1;lr>, <sip:next;lr>\r\n\
        X-Odd :  value\r\n  folded\r\n\
        Proxy-Authorization: Digest username=\"a\",realm=\"example.com\",nonce=\"n\",uri=\"u\",\
        response=\"0\"\r\n\
        Proxy-Authorization: Digest username=\"a\",realm=\"other\",nonce=\"n\",uri=\"u\",\
        response=\"0\"\r\n\
        Authorization: Digest username=\"a\", REALM = Example.COM,nonce=\"n\"\r\n\
        Authorization: Digest realm=\"other\", Digest username=\"a\", realm=\"ex\\ample.com\"\r\n\
        From: <sip:a@example.com>;tag=1\r\nTo: <sip:bob@example.com>\r\nCall-ID: c\r\n\
        CSeq: 8 INVITE\r\n\r\nbody";

    fn flow() -> Flow {
        Flow {
            transport: Transport::Tcp,
            local: "[2001:db8::1]:5060".parse().unwrap(),
            remote: "[2001:db8::2]:5060".parse().unwrap(),
            connection: None,
        }
    }

    fn forwarded() -> Vec<u8> {
        let flow = flow();
        let domain = Domain { name: "example.com".into(), aliases: Vec::new() };
        let settings = Settings::new(Config { domains: alloc::vec![domain], ..Config::default() });
        let changes = Changes {
            uri: b"sip:bob@[2001:db8::2]",
            flow: &flow,
            branch: ViaBranch::Stateful { shard: 1, slot: 2, index: 0, seal: 3, loop_hash: 4 },
            ways: &|lines| lines.extend_from_slice(b"Record-Route: <sip:x;lr>\r\n"),
            routes: Some(b"Route: <sip:next;lr>\r\n"),
            path: b"<sip:edge;lr>",
            source: "192.0.2.9:4000".parse().unwrap(),
            settings: &settings,
            sender_fields: &SenderFields::Kept,
            max_breadth: Some(30),
            body: None,
            retargeted: None,
            keeps_credentials: false,
            keeps_alerts: true,
            refer_to: None,
        };
        let mut out = Vec::new();
        changes.write(&Message::parse(INVITE).unwrap(), Some(70), &mut out);
        out
    }

    #[test]
    fn only_what_must_change_changes() {
        let expected = "INVITE sip:bob@[2001:db8::2] SIP/2.0\r\n\
            Via: SIP/2.0/TCP [2001:db8::1]:5060;branch=z9hG4bKbb00000002010000000000000300000004\r\n\
            Record-Route: <sip:x;lr>\r\n\
            Route: <sip:edge;lr>\r\n\
            Route: <sip:next;lr>\r\n\
            Max-Breadth: 30\r\n\
            Via: SIP/2.0/UDP 192.0.2.9:5060;received=192.0.2.9;rport=4000;branch=z9hG4bKa, \
            SIP/2.0/UDP h;branch=z9hG4bKb\r\n\
            Max-Forwards: 69\r\n\
            X-Odd :  value\r\n  folded\r\n\
            Proxy-Authorization: Digest username=\"a\",realm=\"other\",nonce=\"n\",uri=\"u\",\
            response=\"0\"\r\n\
            From: <sip:a@example.com>;tag=1\r\nTo: <sip:bob@example.com>\r\nCall-ID: c\r\n\
            CSeq: 8 INVITE\r\nContent-Length: 4\r\n\r\nbody";
        assert_eq!(core::str::from_utf8(&forwarded()), Ok(expected));
    }

    #[test]
    fn a_response_goes_back_without_our_via() {
        let response = |vias: &str| {
            alloc::format!(
                "SIP/2.0 401 No\r\n{vias}From: x\r\nWWW-Authenticate: A\r\nl: 2\r\n\r\nok"
            )
        };
        let back = |changes: ResponseChanges<'_>, vias: &str| {
            let bytes = response(vias).into_bytes();
            let mut out = Vec::new();
            changes.write(&Message::parse(&bytes).unwrap(), &mut out);
            alloc::string::String::from_utf8(out).unwrap()
        };
        let plain = ResponseChanges::default();
        assert_eq!(back(plain, "Via: us\r\nVia: a, b\r\n"), response("Via: a, b\r\n"));
        assert_eq!(back(plain, "Via: us , a, b\r\n"), response("Via: a, b\r\n"));
        let changed = ResponseChanges {
            status: Some(Status::SERVER_INTERNAL_ERROR.into()),
            challenges: Some(b"WWW-Authenticate: B\r\n"),
            ..plain
        };
        assert_eq!(
            back(changed, "Via: us\r\n"),
            "SIP/2.0 500 Server Internal Error\r\nFrom: x\r\nl: 2\r\nWWW-Authenticate: B\r\n\r\nok"
        );
    }
}
