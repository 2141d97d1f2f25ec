//! A small user agent on UDP that does, step by step, what no phone can be told to do: tells of
//! early dialogs, moves in a call, refreshes at a time of the test's choosing.
//!
//! It sends nothing a second time unless it is told to, for on loopback nothing is lost, and takes
//! no notice of what comes a second time.

use crate::ports::free_ports;
use sip::dialog::Dialog;
use sip::digest::{Challenge, Ha1Set, Request};
use sip::header::{CSeq, NameAddr};
use sip::message::{Response, reason_phrase};
use sip::{Emit, HeaderName, Message, Method};
use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// The session that it describes in every offer and answer.
pub const SESSION: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\n\
                           t=0 0\r\nm=audio 40000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n";

/// How long it waits for a message.
const DEADLINE: Duration = Duration::from_secs(60);

/// A message as it came.
#[derive(Clone, Debug)]
pub struct Received {
    bytes: Vec<u8>,
    /// Where it came from.
    pub source: SocketAddr,
}

impl Received {
    /// What it says.
    ///
    /// # Panics
    /// When it is no SIP message.
    #[must_use]
    pub fn message(&self) -> Message<'_> {
        Message::parse(&self.bytes).unwrap_or_else(|error| panic!("{error} {self}"))
    }

    /// The status code of a response.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.message().status()
    }

    /// The value of the first header field of this name.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn value(&self, name: HeaderName) -> &str {
        match self.message().value(name) {
            Some(value) => std::str::from_utf8(value).expect("text"),
            None => panic!("no {name} {self}"),
        }
    }

    /// The dialog that this response to a request of one's own makes.
    ///
    /// # Panics
    /// When it makes none.
    #[must_use]
    pub fn dialog(&self) -> Dialog {
        Dialog::of_response(&self.message()).unwrap_or_else(|error| panic!("{error} {self}"))
    }

    fn is(&self, method: &str) -> bool {
        self.message().method() == Some(Method::new(method.as_bytes()))
    }

    fn cseq(&self) -> CSeq<'_> {
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
    /// What it takes for its own host and port, where a NAT changes them.
    pub hidden_behind: Option<String>,
    socket: UdpSocket,
    registration: Option<Dialog>,
    /// The last INVITE.
    invite: Vec<u8>,
    sent: u32,
    seen: HashSet<Vec<u8>>,
    waiting: Vec<Received>,
    /// What had come before.
    repeated: Vec<Received>,
}

impl Agent {
    /// The user agent of a user of `domain`, with a password, that sends to `proxy` what is not
    /// within a dialog.
    ///
    /// # Panics
    /// When it finds no port.
    #[must_use]
    pub fn new(user: &str, password: &str, domain: &str, proxy: SocketAddr) -> Self {
        let stranger = Self::stranger(user, domain, proxy);
        Self { password: Some(password.to_owned()), ..stranger }
    }

    /// The user agent of somebody whom no password is asked for.
    ///
    /// # Panics
    /// When it finds no port.
    #[must_use]
    pub fn stranger(user: &str, domain: &str, proxy: SocketAddr) -> Self {
        Self {
            user: user.to_owned(),
            password: None,
            domain: domain.to_owned(),
            proxy,
            hidden_behind: None,
            socket: bind(),
            registration: None,
            invite: Vec::new(),
            sent: 0,
            seen: HashSet::new(),
            waiting: Vec::new(),
            repeated: Vec::new(),
        }
    }

    /// Where it is.
    ///
    /// # Panics
    /// Never, its socket is bound.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("a bound socket")
    }

    /// The URI in its Contact.
    #[must_use]
    pub fn contact(&self) -> String {
        let at = self.address().to_string();
        format!("sip:{}@{}", self.user, self.hidden_behind.as_ref().unwrap_or(&at))
    }

    /// Its address of record.
    #[must_use]
    pub fn address_of_record(&self) -> String {
        format!("sip:{}@{}", self.user, self.domain)
    }

    /// Moves to another port, without telling anybody. Nothing comes to the old one any more.
    ///
    /// # Panics
    /// When it finds none.
    pub fn move_away(&mut self) {
        self.socket = bind();
    }

    /// Registers its contact for ten minutes.
    ///
    /// # Panics
    /// Unless it is let.
    pub fn register(&mut self) {
        let answer = self.register_for(600);
        assert_eq!(answer.status(), Some(200), "{} gets {answer}", self.user);
    }

    /// Asks for its contact to be registered for so many seconds, 0 to remove it. Gives the final
    /// response.
    ///
    /// # Panics
    /// When there is none, or it is not challenged though it has a password.
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

    /// What may become a dialog with `uri`.
    #[must_use]
    pub fn dialog(&mut self, uri: &str) -> Dialog {
        let token = self.token();
        let local = format!("<{}>", self.address_of_record());
        Dialog::new((&token, "@", self.address()), local, &token, ("<", uri, ">"), uri)
    }

    /// The dialog that `request` begins.
    ///
    /// # Panics
    /// When it begins none.
    #[must_use]
    pub fn dialog_with(&mut self, request: &Received) -> Dialog {
        let dialog = Dialog::of_request(&request.message(), self.token().as_bytes());
        dialog.unwrap_or_else(|error| panic!("{error} {request}"))
    }

    /// Sends a request that begins something; one who has a password must be challenged then, and
    /// sends it once more.
    ///
    /// # Panics
    /// When it is not challenged.
    pub fn ask(&mut self, dialog: &mut Dialog, method: &str, fields: &str, body: &str) {
        self.send(dialog, method, fields, body);
        let Some(password) = self.password.clone() else { return };
        let status = if method == "REGISTER" { 401 } else { 407 };
        let challenged = self.response(method, status);
        let request =
            Request { method: method.as_bytes(), uri: dialog.request_uri(), body: body.as_bytes() };
        let credentials =
            credentials(&challenged.message(), &self.user, &password, &request, b"cnonce");
        self.send(dialog, method, &format!("{fields}{credentials}"), body);
    }

    /// Sends a request along the dialog's route set, with further header field lines and a body.
    ///
    /// # Panics
    /// When it cannot be sent.
    pub fn send(&mut self, dialog: &mut Dialog, method: &str, fields: &str, body: &str) {
        let cseq = dialog.next_cseq();
        let text = self.write(dialog, method, cseq, fields, body);
        self.transmit(&text, self.way(dialog));
        if method == "INVITE" {
            self.invite = text;
        }
    }

    /// Sends the ACK for `answer`, a 2xx to the INVITE that began `dialog` or is within it.
    ///
    /// # Panics
    /// When it cannot be sent.
    pub fn acknowledge(&mut self, dialog: &Dialog, answer: &Received) {
        let text = self.write(dialog, "ACK", answer.cseq().number, "", "");
        self.transmit(&text, self.way(dialog));
    }

    /// Sends the last INVITE once more, as if the first response were late.
    ///
    /// # Panics
    /// When it cannot be sent.
    pub fn send_invite_again(&self) {
        self.transmit(&self.invite, self.proxy);
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
            .body("application/sdp", body.as_bytes());
        out
    }

    /// Where requests within the dialog go, and those that may begin it.
    fn way(&self, dialog: &Dialog) -> SocketAddr {
        if dialog.id().remote_tag.is_empty() {
            return self.proxy;
        }
        let next = sip::Uri::parse(dialog.next_hop()).ok();
        let next = next.as_ref().and_then(sip::Uri::as_sip);
        let place = next.and_then(|uri| Some(SocketAddr::new(uri.host.ip()?, uri.port?)));
        place.unwrap_or_else(|| panic!("no address and port in {dialog:?}"))
    }

    /// Answers `request`, which is of `dialog` or begins it.
    ///
    /// # Panics
    /// When the answer cannot be sent.
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
            ("Contact: <", self.contact(), ">\r\n", fields).emit(out);
            if !body.is_empty() {
                "Content-Type: application/sdp\r\n".emit(out);
            }
        };
        response.write_with_body(&mut out, fields, body.as_bytes());
        self.transmit(&out, request.source);
    }

    /// The next request of this method.
    ///
    /// # Panics
    /// When there is none.
    pub fn request(&mut self, method: &str) -> Received {
        self.next(method, |message| message.is(method).then_some(Ok(())))
    }

    /// Waits until a request of this method comes that has come before.
    ///
    /// # Panics
    /// When there is none.
    pub fn repeated_request(&mut self, method: &str) {
        let end = Instant::now() + DEADLINE;
        while !self.repeated.iter().any(|message| message.is(method)) {
            assert!(Instant::now() < end, "{} gets no {method} again", self.user);
            self.receive();
        }
    }

    /// The next response to this method, which is to have this status; other provisional ones are
    /// passed over. What refuses an INVITE is acknowledged.
    ///
    /// # Panics
    /// When there is none, or a final response with another status.
    pub fn response(&mut self, method: &str, status: u16) -> Received {
        self.response_from(method, status, b"")
    }

    /// The next [response](Self::response) with this tag in To, where several may answer.
    ///
    /// # Panics
    /// When there is none, or a final response with another status.
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
        self.acknowledge_refusal(response)
    }

    /// The next final response to this method, whatever it says. What refuses an INVITE is
    /// acknowledged.
    ///
    /// # Panics
    /// When there is none.
    pub fn final_response(&mut self, method: &str) -> Received {
        let response = self.next(&format!("an answer to {method}"), |message| {
            (status_to(message, method)? >= 200).then_some(Ok(()))
        });
        self.acknowledge_refusal(response)
    }

    fn acknowledge_refusal(&self, response: Received) -> Received {
        if response.status() >= Some(300) && response.cseq().method == Method::Invite {
            let invite = Message::parse(&self.invite).expect("an INVITE");
            let mut ack = Vec::new();
            invite.write_ack(&response.message(), &mut ack);
            self.transmit(&ack, response.source);
        }
        response
    }

    /// The next message that `is_wanted` says is good; one that is bad is the end.
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
                "{} waited {} s in vain for {what}, and got {:?}",
                self.user,
                DEADLINE.as_secs(),
                self.waiting.iter().map(ToString::to_string).collect::<Vec<_>>(),
            );
            self.receive();
        }
    }

    /// Takes the next message, if one comes soon.
    fn receive(&mut self) {
        let mut bytes = [0; 65_536];
        let Ok((size, source)) = self.socket.recv_from(&mut bytes) else { return };
        let bytes = bytes[..size].to_vec();
        let is_new = self.seen.insert(bytes.clone());
        let messages = if is_new { &mut self.waiting } else { &mut self.repeated };
        messages.push(Received { bytes, source });
    }

    fn transmit(&self, bytes: &[u8], to: SocketAddr) {
        let sent = self.socket.send_to(bytes, to);
        sent.unwrap_or_else(|error| panic!("{} cannot send to {to}: {error}", self.user));
    }

    /// What this agent, and no other one, has not used yet.
    fn token(&mut self) -> String {
        self.sent += 1;
        format!("{}-{}-{}", self.user, self.address().port(), self.sent)
    }
}

/// An OPTIONS request from `from`, to see whether `to` answers: the `attempt`th.
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

/// The status of a response to this method.
fn status_to(message: &Received, method: &str) -> Option<u16> {
    message.status().filter(|_| message.cseq().method == Method::new(method.as_bytes()))
}

fn tag_of_callee(message: &Received) -> Option<&[u8]> {
    NameAddr::parse(HeaderName::To, message.value(HeaderName::To).as_bytes()).ok()?.tag()
}

fn bind() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, free_ports(1))).expect("a free port");
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a socket that can wait");
    socket
}

/// The header field line by which `user` answers the first challenge of the response `challenged`
/// to `request`.
///
/// # Panics
/// When there is no challenge of Digest.
#[must_use]
pub fn credentials(
    challenged: &Message<'_>,
    user: &str,
    password: &str,
    request: &Request<'_>,
    cnonce: &[u8],
) -> String {
    let (asks, answers) = match challenged.status() {
        Some(401) => (HeaderName::WwwAuthenticate, HeaderName::Authorization),
        _ => (HeaderName::ProxyAuthenticate, HeaderName::ProxyAuthorization),
    };
    let value = challenged.value(asks).unwrap_or_else(|| panic!("no {asks}: {challenged:?}"));
    let Ok(Some(challenge)) = Challenge::parse(value) else {
        panic!("no challenge of Digest: {}", value.escape_ascii())
    };
    let ha1 = Ha1Set::new(user.as_bytes(), challenge.realm, password.as_bytes());
    let ha1 = ha1.get(challenge.algorithm);
    let mut line = Vec::new();
    (answers.as_str(), ": ", challenge.answer(user.as_bytes(), ha1, request, cnonce, 1), "\r\n")
        .emit(&mut line);
    String::from_utf8(line).expect("text")
}
