//! The message handling of a peer: an ideal registrar and stateless proxy with a fault script,
//! without I/O or clock.

use super::counts::PeerCounts;
use super::script::{Authentication, Kind, Script, What};
use super::streams::StreamId;
use super::write::{Incoming, Output, Request, TAG, Way, Writer, is_ours};
use sip::digest::{Algorithm, Challenge, Credentials, Ha1Set, QopOptions};
use sip::header::{self, NameAddr};
use sip::write_decimal;
use sip::{HeaderName, Host, Message, Method, SipUri, StartLine, Uri};
use std::collections::HashMap;
use std::io::Write as _;
use std::net::SocketAddr;

/// The realm of challenges.
const REALM: &str = "barebell-bench";
/// The default expiry of a binding in seconds.
const EXPIRES: u32 = 3600;

#[derive(Debug)]
struct Binding {
    contact: Vec<u8>,
    way: Way,
    /// The source of the REGISTER.
    source: Way,
}

pub(super) struct Engine {
    is_redirecting: bool,
    authentication: Authentication,
    writer: Writer,
    nonce: Vec<u8>,
    challenge: Vec<u8>,
    bindings: HashMap<Vec<u8>, Binding>,
    /// The open connections, by the address of the other end.
    pub(super) streams: HashMap<SocketAddr, StreamId>,
}

impl Engine {
    /// Returns the counts.
    pub(super) const fn counts(&mut self) -> &mut PeerCounts {
        &mut self.writer.counts
    }

    pub(super) fn new(script: &Script, local: SocketAddr, nonce: u64) -> Self {
        let nonce = format!("{nonce:016x}").into_bytes();
        let mut challenge = Vec::new();
        Challenge {
            realm: REALM.as_bytes(),
            nonce: &nonce,
            opaque: None,
            stale: false,
            algorithm: Algorithm::Md5,
            session: false,
            qop: QopOptions::AUTH,
            domain: None,
        }
        .write(&mut challenge);
        Self {
            is_redirecting: script.is_redirecting,
            authentication: script.authentication.clone(),
            writer: Writer::new(script, local),
            nonce,
            challenge,
            bindings: HashMap::new(),
            streams: HashMap::new(),
        }
    }

    /// Handles a message, and appends the resulting messages to `out`.
    pub(super) fn take(&mut self, incoming: Incoming<'_>, out: &mut Output) {
        let Ok(message) = Message::parse(incoming.bytes) else {
            self.writer.counts.malformed += 1;
            return;
        };
        match message.start_line() {
            StartLine::Request { method, uri, .. } => {
                let request = Request { incoming, message: &message, method, uri };
                self.take_request(&request, out);
            }
            StartLine::Response { status, .. } => {
                self.writer.counts.responses += 1;
                if self.writer.relay_response(&incoming, &message, status, out).is_none() {
                    self.writer.counts.malformed += 1;
                }
            }
        }
    }

    fn take_request(&mut self, request: &Request<'_>, out: &mut Output) {
        match request.method {
            Method::Register => self.writer.counts.registers += 1,
            Method::Invite => self.writer.counts.invites += 1,
            Method::Ack => self.writer.counts.acks += 1,
            Method::Bye => self.writer.counts.byes += 1,
            Method::Options => self.writer.counts.options += 1,
            _ => self.writer.counts.others += 1,
        }
        let kind = Kind { method: request.method, status: None };
        let mut is_lost = false;
        if !self.writer.rules.is_empty() {
            self.writer.rules.apply(&kind, |what| *what == What::Lose, |_| is_lost = true);
        }
        if is_lost {
            self.writer.counts.lost += 1;
            return;
        }
        if request.method == Method::Ack {
            if request.to_tag() != Some(TAG) {
                self.route(request, out);
            }
            return;
        }
        if self.authentication != Authentication::None && self.challenges(request, out) {
            return;
        }
        if let Some((status, retry_after)) = self.failure(&kind) {
            self.writer.counts.failed += 1;
            self.writer.answer(request, status, out, |fields| {
                if let Some(seconds) = retry_after {
                    let _ = write!(fields, "Retry-After: {seconds}\r\n");
                }
            });
            return;
        }
        match request.method {
            Method::Register => self.register(request, out),
            Method::Options => self.writer.answer(request, 200, out, |_| ()),
            _ => self.route(request, out),
        }
    }

    /// Returns the scripted status and Retry-After for a request, if a rule matches.
    fn failure(&mut self, kind: &Kind<'_>) -> Option<(u16, Option<u32>)> {
        let mut failure = None;
        if !self.writer.rules.is_empty() {
            self.writer.rules.apply(
                kind,
                |what| matches!(what, What::Answer { .. }),
                |what| {
                    if let What::Answer { status, retry_after } = what {
                        failure = Some((status, retry_after));
                    }
                },
            );
        }
        failure
    }

    /// Returns true if the request lacked valid credentials; then it is answered.
    fn challenges(&mut self, request: &Request<'_>, out: &mut Output) -> bool {
        let (status, asks, answers) = match request.method {
            Method::Register => (401, "WWW-Authenticate: ", HeaderName::Authorization),
            Method::Invite if request.to_tag().is_none() => {
                (407, "Proxy-Authenticate: ", HeaderName::ProxyAuthorization)
            }
            _ => return false,
        };
        let credentials = request.message.value(answers).map(Credentials::parse);
        let Some(Ok(Some(credentials))) = credentials.filter(
            |credentials| matches!(credentials, Ok(Some(given)) if given.nonce == self.nonce),
        ) else {
            self.writer.counts.challenged += 1;
            self.writer.answer(request, status, out, |fields| {
                fields.extend_from_slice(asks.as_bytes());
                fields.extend_from_slice(&self.challenge);
                fields.extend_from_slice(b"\r\n");
            });
            return true;
        };
        let Authentication::Passwords(passwords) = &self.authentication else { return false };
        let is_right = passwords.get(&*credentials.username).is_some_and(|password| {
            let user = &credentials.username;
            let ha1 = Ha1Set::new(user, REALM.as_bytes(), password.as_bytes());
            credentials.uri == request.uri
                && credentials.verify(&ha1, request.method.as_bytes(), request.message.body())
        });
        if !is_right {
            self.writer.counts.denied += 1;
            self.writer.answer(request, 403, out, |_| ());
        }
        !is_right
    }

    fn register(&mut self, request: &Request<'_>, out: &mut Output) {
        let to = request.message.value(HeaderName::To);
        let address = to.and_then(|to| NameAddr::parse(HeaderName::To, to).ok());
        let user = address.and_then(|address| match address.uri() {
            Ok(Uri::Sip(uri)) => uri.user,
            _ => None,
        });
        let Some(user) = user else {
            self.writer.answer(request, 400, out, |_| ());
            return;
        };
        let expires = request.message.value(HeaderName::Expires);
        let expires =
            expires.and_then(|value| header::delta_seconds(HeaderName::Expires, value).ok());
        let contact = request.message.elements(HeaderName::Contact).next();
        match contact.map(|contact| (contact, NameAddr::parse(HeaderName::Contact, contact))) {
            Some((b"*", _)) => {
                self.unbind(user);
                self.writer.answer(request, 200, out, |_| ());
            }
            Some((_, Ok(contact))) => {
                let own = contact.params.value("expires");
                let own =
                    own.and_then(|value| header::delta_seconds(HeaderName::Expires, value).ok());
                let expires = own.or(expires).unwrap_or(EXPIRES);
                if expires == 0 {
                    self.unbind(user);
                    self.writer.answer(request, 200, out, |_| ());
                    return;
                }
                self.bind(user, contact.uri_bytes, request);
                self.writer.answer(request, 200, out, |fields| {
                    write_contact(fields, contact.uri_bytes, Some(expires));
                });
            }
            Some((_, Err(_))) => self.writer.answer(request, 400, out, |_| ()),
            None => self.writer.answer(request, 200, out, |fields| {
                if let Some(binding) = self.bindings.get(user) {
                    write_contact(fields, &binding.contact, Some(EXPIRES));
                }
            }),
        }
    }

    fn unbind(&mut self, user: &[u8]) {
        self.bindings.remove(user);
        self.writer.counts.bindings = self.bindings.len() as u64;
    }

    fn bind(&mut self, user: &[u8], contact: &[u8], request: &Request<'_>) {
        let way = |contact| match request.incoming.way {
            Way::Datagram(source) => Way::Datagram(address_in(contact).unwrap_or(source)),
            stream @ Way::Stream(_) => stream,
        };
        match self.bindings.get_mut(user) {
            // A refresh from the same source does not change the binding.
            Some(binding)
                if binding.contact == contact && binding.source == request.incoming.way => {}
            Some(binding) => {
                binding.way = way(contact);
                binding.source = request.incoming.way;
                binding.contact.clear();
                binding.contact.extend_from_slice(contact);
            }
            None => {
                let binding = Binding {
                    contact: contact.to_vec(),
                    way: way(contact),
                    source: request.incoming.way,
                };
                self.bindings.insert(user.to_vec(), binding);
            }
        }
        self.writer.counts.bindings = self.bindings.len() as u64;
    }

    /// Relays a request for another destination, or answers with an error.
    fn route(&mut self, request: &Request<'_>, out: &mut Output) {
        let local = request.incoming.local;
        let Ok(Uri::Sip(uri)) = Uri::parse(request.uri) else {
            return self.writer.reject(request, 416, out);
        };
        let is_for_us = is_ours(&uri, local);
        let binding = uri.user.and_then(|user| self.bindings.get(user));
        if !is_for_us {
            // Within a dialog, the Request-URI is the contact of one end.
            let way = match request.incoming.way {
                Way::Datagram(_) => socket_address(&uri).map(Way::Datagram),
                Way::Stream(_) => {
                    let of_user = binding.filter(|binding| binding.contact == request.uri);
                    let open = || self.streams.get(&socket_address(&uri)?).copied();
                    of_user.map(|binding| binding.way).or_else(|| open().map(Way::Stream))
                }
            };
            match way {
                Some(way) => self.writer.relay(request, request.uri, way, out),
                None => self.writer.reject(request, 404, out),
            }
            return;
        }
        let Some(binding) = binding else { return self.writer.reject(request, 404, out) };
        let Binding { contact, way, .. } = binding;
        if self.is_redirecting && request.method != Method::Ack {
            self.writer.answer(request, 302, out, |fields| write_contact(fields, contact, None));
            return;
        }
        self.writer.relay(request, contact, *way, out);
    }
}

fn socket_address(uri: &SipUri<'_>) -> Option<SocketAddr> {
    match uri.host {
        Host::Ip(ip) => Some(SocketAddr::new(ip, uri.port.unwrap_or(5060))),
        Host::Name(_) => None,
    }
}

fn address_in(uri: &[u8]) -> Option<SocketAddr> {
    match Uri::parse(uri) {
        Ok(Uri::Sip(uri)) => socket_address(&uri),
        _ => None,
    }
}

fn write_contact(fields: &mut Vec<u8>, uri: &[u8], expires: Option<u32>) {
    fields.extend_from_slice(b"Contact: <");
    fields.extend_from_slice(uri);
    fields.push(b'>');
    if let Some(expires) = expires {
        fields.extend_from_slice(b";expires=");
        write_decimal(fields, expires.into());
    }
    fields.extend_from_slice(b"\r\n");
}
