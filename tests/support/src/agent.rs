//! A scripted user agent on UDP for behaviour that phones cannot be told to show: early dialogs, a
//! changed address within a call, a refresh at a time of the test's choosing.
//!
//! It retransmits nothing unless told to, because loopback loses nothing, and ignores
//! retransmissions.

use crate::ports::free_ports;
use sip::dialog::Dialog;
use sip::digest::{Challenge, DigestInput, Ha1Set};
use sip::header::{CSeq, NameAddr};
use sip::message::{Response, reason_phrase};
use sip::{Encode, HeaderName, Message, Method};
use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// The session description of every offer and answer.
pub const SESSION: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\n\
                           t=0 0\r\nm=audio 40000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n";

/// The time limit of waiting for a message.
const DEADLINE: Duration = Duration::from_secs(60);

/// A received message.
#[derive(Clone, Debug)]
pub struct Received {
    bytes: Vec<u8>,
    /// The source address.
    pub source: SocketAddr,
}

impl Received {
    /// The parsed message.
    ///
    /// # Panics
    /// The bytes are not a SIP message.
    #[must_use]
    pub fn message(&self) -> Message<'_> {
        Message::parse(&self.bytes).unwrap_or_else(|error| panic!("{error} {self}"))
    }

    /// The status code of a response.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.message().status()
    }

    /// The value of the first header field with this name.
    ///
    /// # Panics
    /// The header field is missing.
    #[must_use]
    pub fn value(&self, name: HeaderName) -> &str {
        match self.message().value(name) {
            Some(value) => std::str::from_utf8(value).expect("the value is UTF-8"),
            None => panic!("no {name} {self}"),
        }
    }

    /// The body as text.
    #[must_use]
    pub fn body(&self) -> String {
        String::from_utf8_lossy(self.message().body()).into_owned()
    }

    /// The dialog that this response to an own request creates.
    ///
    /// # Panics
    /// It creates no dialog.
    #[must_use]
    pub fn dialog(&self) -> Dialog {
        Dialog::from_response(&self.message()).unwrap_or_else(|error| panic!("{error} {self}"))
    }

    fn is(&self, method: &str) -> bool {
        self.message().method() == Some(Method::new(method.as_bytes()))
    }

    /// The CSeq.
    ///
    /// # Panics
    /// There is none, or it is malformed.
    #[must_use]
    pub fn cseq(&self) -> CSeq<'_> {
        let cseq = CSeq::parse(self.value(HeaderName::CSeq).as_bytes());
        cseq.unwrap_or_else(|error| panic!("{error} {self}"))
    }
}

impl Display for Received {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "from {}: {}", self.source, String::from_utf8_lossy(&self.bytes))
    }
}

/// A user agent.
#[derive(Debug)]
pub struct Agent {
    /// The user part of its URIs.
    pub user: String,
    password: Option<String>,
    domain: String,
    proxy: SocketAddr,
    /// The host and port that it believes to have behind a NAT.
    pub hidden_behind: Option<String>,
    /// The media type of the bodies of its requests.
    pub body_type: &'static str,
    socket: UdpSocket,
    registration: Option<Dialog>,
    /// The last INVITE.
    invite: Vec<u8>,
    sent: u32,
    seen: HashSet<Vec<u8>>,
    waiting: Vec<Received>,
    /// Retransmissions.
    repeated: Vec<Received>,
}

impl Agent {
    /// Creates the user agent of a user of `domain` with a password. Requests outside a dialog are
    /// sent to `proxy`.
    ///
    /// # Panics
    /// No port is free.
    #[must_use]
    pub fn new(user: &str, password: &str, domain: &str, proxy: SocketAddr) -> Self {
        let agent = Self::stranger(user, domain, proxy);
        Self { password: Some(password.to_owned()), ..agent }
    }

    /// Creates a user agent without credentials.
    ///
    /// # Panics
    /// No port is free.
    #[must_use]
    pub fn stranger(user: &str, domain: &str, proxy: SocketAddr) -> Self {
        Self {
            user: user.to_owned(),
            password: None,
            domain: domain.to_owned(),
            proxy,
            hidden_behind: None,
            body_type: "application/sdp",
            socket: bind(),
            registration: None,
            invite: Vec::new(),
            sent: 0,
            seen: HashSet::new(),
            waiting: Vec::new(),
            repeated: Vec::new(),
        }
    }

    /// The local address.
    ///
    /// # Panics
    /// Never: the socket is bound.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("the socket is bound")
    }

    /// The URI of its Contact.
    #[must_use]
    pub fn contact(&self) -> String {
        let at = self.address().to_string();
        format!("sip:{}@{}", self.user, self.hidden_behind.as_ref().unwrap_or(&at))
    }

    /// The address-of-record.
    #[must_use]
    pub fn address_of_record(&self) -> String {
        format!("sip:{}@{}", self.user, self.domain)
    }

    /// Moves to another port without a registration. The old port receives nothing any more.
    ///
    /// # Panics
    /// No port is free.
    pub fn move_away(&mut self) {
        self.socket = bind();
    }

    /// Registers its contact for ten minutes.
    ///
    /// # Panics
    /// The registration is rejected.
    pub fn register(&mut self) {
        let answer = self.register_for(600);
        assert_eq!(answer.status(), Some(200), "{} gets {answer}", self.user);
    }

    /// Requests a registration of its contact for this number of seconds, 0 to remove it. Returns
    /// the final response.
    ///
    /// # Panics
    /// There is no response, or a user agent with a password is not challenged.
    pub fn register_for(&mut self, seconds: u32) -> Received {
        let mut dialog = match self.registration.take() {
            Some(dialog) => dialog,
            None => self.dialog(&self.address_of_record()),
        };
        dialog.set_target(("sip:", &self.domain));
        self.ask(&mut dialog, "REGISTER", &format!("Expires: {seconds}\r\n"), "");
        self.registration = Some(dialog);
        self.final_response("REGISTER")
    }

    /// The state of a request that may create a dialog with `uri`.
    #[must_use]
    pub fn dialog(&mut self, uri: &str) -> Dialog {
        let token = self.token();
        let local = format!("<{}>", self.address_of_record());
        Dialog::new((&token, "@", self.address()), local, &token, ("<", uri, ">"), uri)
    }

    /// The dialog that `request` creates.
    ///
    /// # Panics
    /// It creates no dialog.
    #[must_use]
    pub fn dialog_with(&mut self, request: &Received) -> Dialog {
        let dialog = Dialog::from_request(&request.message(), self.token().as_bytes());
        dialog.unwrap_or_else(|error| panic!("{error} {request}"))
    }

    /// Sends an initial request. A user agent with a password expects a challenge and repeats the
    /// request with credentials.
    ///
    /// # Panics
    /// There is no challenge.
    pub fn ask(&mut self, dialog: &mut Dialog, method: &str, fields: &str, body: &str) {
        self.send(dialog, method, fields, body);
        let Some(password) = self.password.clone() else { return };
        let status = if method == "REGISTER" { 401 } else { 407 };
        let challenged = self.response(method, status);
        let request = DigestInput {
            method: method.as_bytes(),
            uri: dialog.request_uri(),
            body: body.as_bytes(),
        };
        let credentials =
            credentials(&challenged.message(), &self.user, &password, &request, b"cnonce", 1);
        self.send(dialog, method, &format!("{fields}{credentials}"), body);
    }

    /// Sends a request along the dialog's route set, with additional header field lines and a body.
    ///
    /// # Panics
    /// The request cannot be sent.
    pub fn send(&mut self, dialog: &mut Dialog, method: &str, fields: &str, body: &str) {
        let cseq = dialog.next_cseq();
        let text = self.write(dialog, method, cseq, fields, body);
        self.transmit(&text, self.way(dialog));
        if method == "INVITE" {
            self.invite = text;
        }
    }

    /// Sends the ACK of `answer`, a 2xx to an INVITE that creates `dialog` or is within it.
    ///
    /// # Panics
    /// The request cannot be sent.
    pub fn acknowledge(&mut self, dialog: &Dialog, answer: &Received) {
        let text = self.write(dialog, "ACK", answer.cseq().number, "", "");
        self.transmit(&text, self.way(dialog));
    }

    /// Retransmits the last INVITE, as if the first response were late.
    ///
    /// # Panics
    /// The request cannot be sent.
    pub fn send_invite_again(&self) {
        self.transmit(&self.invite, self.proxy);
    }

    /// Cancels the last INVITE.
    ///
    /// # Panics
    /// There is none, or the request cannot be sent.
    pub fn cancel(&self) {
        let invite = Message::parse(&self.invite).expect("the last INVITE is a message");
        let mut cancel = Vec::new();
        invite.write_cancel(b"", &mut cancel);
        self.transmit(&cancel, self.proxy);
    }

    fn write(
        &mut self,
        dialog: &Dialog,
        method: &str,
        cseq: u32,
        fields: &str,
        body: &str,
    ) -> Vec<u8> {
        let (token, mut out) = (self.token(), Vec::new());
        let via = ("SIP/2.0/UDP ", self.address(), ";branch=z9hG4bK", token, ";rport");
        dialog
            .request(Method::new(method.as_bytes()), cseq, via, &mut out)
            .field(HeaderName::Contact, ("<", self.contact(), ">"))
            .lines(fields)
            .body(self.body_type, body.as_bytes());
        out
    }

    /// The destination of a request within a dialog, or of an initial request.
    fn way(&self, dialog: &Dialog) -> SocketAddr {
        if dialog.id().remote_tag.is_empty() {
            return self.proxy;
        }
        let next = sip::Uri::parse(dialog.next_hop()).ok();
        let next = next.as_ref().and_then(sip::Uri::as_sip);
        let place = next.and_then(|uri| Some(SocketAddr::new(uri.host.ip()?, uri.port?)));
        place.unwrap_or_else(|| panic!("no address and port in {dialog:?}"))
    }

    /// Answers `request`, which belongs to `dialog` or creates it.
    ///
    /// # Panics
    /// The response cannot be sent.
    pub fn answer(
        &mut self,
        request: &Received,
        dialog: &Dialog,
        status: u16,
        fields: &str,
        body: &str,
    ) {
        let (message, mut out) = (request.message(), Vec::new());
        let response = Response {
            request: &message,
            source: request.source,
            status,
            reason: reason_phrase(status),
            to_tag: Some(dialog.id().local_tag),
        };
        let fields = |out: &mut Vec<u8>| {
            message.write_record_routes(out);
            ("Contact: <", self.contact(), ">\r\n", fields).encode(out);
            if !body.is_empty() {
                "Content-Type: application/sdp\r\n".encode(out);
            }
        };
        response.write_with_body(&mut out, fields, body.as_bytes());
        self.transmit(&out, request.source);
    }

    /// Redirects the INVITE `request`, which belongs to `dialog`, to `uri` by a 302.
    ///
    /// # Panics
    /// The response cannot be sent.
    pub fn redirect(&mut self, request: &Received, dialog: &Dialog, uri: &str) {
        let (message, mut out) = (request.message(), Vec::new());
        let response = Response {
            request: &message,
            source: request.source,
            status: 302,
            reason: reason_phrase(302),
            to_tag: Some(dialog.id().local_tag),
        };
        response.write(&mut out, |out| ("Contact: <", uri, ">\r\n").encode(out));
        self.transmit(&out, request.source);
    }

    /// The next request with this method.
    ///
    /// # Panics
    /// No such request arrives.
    pub fn request(&mut self, method: &str) -> Received {
        self.next(method, |message| message.is(method).then_some(Ok(())))
    }

    /// Waits for a retransmission of a request with this method.
    ///
    /// # Panics
    /// No retransmission arrives.
    pub fn repeated_request(&mut self, method: &str) {
        let end = Instant::now() + DEADLINE;
        while !self.repeated.iter().any(|message| message.is(method)) {
            assert!(Instant::now() < end, "{} receives no retransmission of {method}", self.user);
            self.receive();
        }
    }

    /// The next response to this method, which must have this status code. Other provisional
    /// responses are skipped. A non-2xx response to an INVITE is acknowledged.
    ///
    /// # Panics
    /// No response arrives, or a final response with another status code.
    pub fn response(&mut self, method: &str, status: u16) -> Received {
        self.response_from(method, status, b"")
    }

    /// The next [response](Self::response) with this To tag, if several user agents may answer.
    ///
    /// # Panics
    /// No response arrives, or a final response with another status code.
    pub fn response_from(&mut self, method: &str, status: u16, tag: &[u8]) -> Received {
        let response = self.next(&format!("{status} to {method}"), |message| {
            let found = status_to(message, method)?;
            let is_from = tag.is_empty() || tag_of_callee(message) == Some(tag);
            match found {
                _ if found == status && is_from => Some(Ok(())),
                300.. => Some(Err(())),
                _ => None,
            }
        });
        self.acknowledge_failure(response)
    }

    /// The next final response to this method, with any status code. A non-2xx response to an
    /// INVITE is acknowledged.
    ///
    /// # Panics
    /// No response arrives.
    pub fn final_response(&mut self, method: &str) -> Received {
        let response = self.next(&format!("an answer to {method}"), |message| {
            (status_to(message, method)? >= 200).then_some(Ok(()))
        });
        self.acknowledge_failure(response)
    }

    /// The next request with this method, if one arrives soon.
    pub fn request_if_any(&mut self, method: &str) -> Option<Received> {
        self.next_if_any(|message| message.is(method))
    }

    /// The next final response to this method, if one arrives soon. It is acknowledged as by
    /// [`Agent::final_response`].
    pub fn final_response_if_any(&mut self, method: &str) -> Option<Received> {
        let is_final = |message: &Received| status_to(message, method) >= Some(200);
        let response = self.next_if_any(is_final)?;
        Some(self.acknowledge_failure(response))
    }

    fn next_if_any(&mut self, is_wanted: impl Fn(&Received) -> bool) -> Option<Received> {
        self.receive();
        let at = self.waiting.iter().position(is_wanted)?;
        Some(self.waiting.remove(at))
    }

    fn acknowledge_failure(&self, response: Received) -> Received {
        if response.status() >= Some(300) && response.cseq().method == Method::Invite {
            let invite = Message::parse(&self.invite).expect("the last INVITE is a message");
            let mut ack = Vec::new();
            invite.write_ack(&response.message(), &mut ack);
            self.transmit(&ack, response.source);
        }
        response
    }

    /// The next message for which `is_wanted` returns `Ok`. Panics for `Err`.
    fn next(
        &mut self,
        what: &str,
        is_wanted: impl Fn(&Received) -> Option<Result<(), ()>>,
    ) -> Received {
        let end = Instant::now() + DEADLINE;
        loop {
            let found = self.waiting.iter().position(|message| is_wanted(message).is_some());
            if let Some(at) = found {
                let message = self.waiting.remove(at);
                let is_good = is_wanted(&message) == Some(Ok(()));
                assert!(is_good, "{} waits for {what}, and gets\n{message}", self.user);
                return message;
            }
            assert!(
                Instant::now() < end,
                "{} received no {what} in {} s, but {:?}",
                self.user,
                DEADLINE.as_secs(),
                self.waiting.iter().map(ToString::to_string).collect::<Vec<_>>(),
            );
            self.receive();
        }
    }

    /// Receives the next message, if one arrives soon.
    /// Reads all messages that have arrived, so that later ones find room in the socket.
    pub fn read_all(&mut self) {
        while self.receive() {}
    }

    /// Reads a message. Returns false if none arrives soon.
    fn receive(&mut self) -> bool {
        let mut bytes = [0; 65_536];
        let Ok((size, source)) = self.socket.recv_from(&mut bytes) else { return false };
        let bytes = bytes[..size].to_vec();
        let is_new = self.seen.insert(bytes.clone());
        let messages = if is_new { &mut self.waiting } else { &mut self.repeated };
        messages.push(Received { bytes, source });
        true
    }

    fn transmit(&self, bytes: &[u8], to: SocketAddr) {
        let sent = self.socket.send_to(bytes, to);
        sent.unwrap_or_else(|error| panic!("{} cannot send to {to}: {error}", self.user));
    }

    /// A token that was not used before by any user agent.
    fn token(&mut self) -> String {
        self.sent += 1;
        format!("{}-{}-{}", self.user, self.address().port(), self.sent)
    }
}

/// An OPTIONS request from `from`, which checks that `to` responds. `attempt` counts from the
/// first.
#[must_use]
pub fn ping(from: SocketAddr, to: SocketAddr, attempt: u32) -> Vec<u8> {
    let (id, mut out) = (("ready", attempt), Vec::new());
    let via = ("SIP/2.0/UDP ", from, ";branch=z9hG4bK", id, ";rport");
    let local = ("<sip:ready@", from, ">");
    Dialog::new((id, "@", from), local, "ready", ("<sip:", to, ">"), ("sip:", to))
        .request(Method::Options, attempt, via, &mut out)
        .end();
    out
}

/// The status code of a response to this method.
fn status_to(message: &Received, method: &str) -> Option<u16> {
    message.status().filter(|_| message.cseq().method == Method::new(method.as_bytes()))
}

fn tag_of_callee(message: &Received) -> Option<&[u8]> {
    NameAddr::parse(HeaderName::To, message.value(HeaderName::To).as_bytes()).ok()?.tag()
}

fn bind() -> UdpSocket {
    let socket =
        UdpSocket::bind((Ipv4Addr::LOCALHOST, free_ports(1))).expect("a free port can be bound");
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("the read timeout can be set");
    socket
}

/// The header field line with the credentials of `user` for the first challenge of the response
/// `challenged` to `request`. `count` is the number of uses of the nonce, with this one.
///
/// # Panics
/// There is no Digest challenge.
#[must_use]
pub fn credentials(
    challenged: &Message<'_>,
    user: &str,
    password: &str,
    request: &DigestInput<'_>,
    cnonce: &[u8],
    count: u32,
) -> String {
    let (asks, answers) = match challenged.status() {
        Some(401) => (HeaderName::WwwAuthenticate, HeaderName::Authorization),
        _ => (HeaderName::ProxyAuthenticate, HeaderName::ProxyAuthorization),
    };
    let value = challenged.value(asks).unwrap_or_else(|| panic!("no {asks}: {challenged:?}"));
    let Ok(Some(challenge)) = Challenge::parse(value) else {
        panic!("not a Digest challenge: {}", value.escape_ascii())
    };
    let ha1 = Ha1Set::new(user.as_bytes(), challenge.realm, password.as_bytes());
    let ha1 = ha1.get(challenge.algorithm);
    let mut line = Vec::new();
    (
        answers.as_str(),
        ": ",
        challenge.credentials_for(user.as_bytes(), ha1, request, cnonce, count),
        "\r\n",
    )
        .encode(&mut line);
    String::from_utf8(line).expect("the header field is UTF-8")
}
