//! A small user agent on UDP that does, step by step, what no phone can be told to do: tells of early
//! dialogs, moves in a call, refreshes at a time of the test's choosing.
//!
//! It sends nothing a second time, for on loopback nothing is lost, and takes no notice of what comes
//! a second time.

use crate::message::{Message, tag_of, uri_of};
use crate::ports::free_ports;
use crate::process::DEADLINE;
use sip::digest::{Challenge, Ha1Set, Request};
use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// The session that it describes in every offer and answer.
pub const SESSION: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\n\
                           t=0 0\r\nm=audio 40000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n";

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
    sent: u32,
    seen: HashSet<String>,
    waiting: Vec<Message>,
}

/// One end's view of a dialog (RFC 3261 section 12), or of what may become one.
#[derive(Clone, Debug)]
pub struct Dialog {
    call_id: String,
    local: String,
    remote: String,
    /// The request URI of requests to the other end.
    pub target: String,
    /// The Route elements of requests to the other end.
    pub routes: Vec<String>,
    cseq: u32,
}

impl Dialog {
    /// The dialog that `message` makes of what may become one: a response to the request that was to
    /// begin one, or the NOTIFY that came before it.
    #[must_use]
    pub fn with(&self, message: &Message) -> Self {
        let mut routes = message.elements("Record-Route");
        let remote = match message.status() {
            Some(_) => {
                routes.reverse();
                message.value("To")
            }
            None => message.value("From"),
        };
        Self {
            remote: remote.to_owned(),
            target: uri_of(message.value("Contact")).to_owned(),
            routes,
            ..self.clone()
        }
    }

    /// The tag of this end.
    #[must_use]
    pub fn local_tag(&self) -> &str {
        tag_of(&self.local).unwrap_or_default()
    }

    /// Takes the Contact of `message` for where the other end is from now on.
    pub fn refresh_target(&mut self, message: &Message) {
        uri_of(message.value("Contact")).clone_into(&mut self.target);
    }

    fn next_hop(&self) -> SocketAddr {
        let uri = self.routes.first().map_or(self.target.as_str(), |route| uri_of(route));
        let host = uri.split_once('@').or(uri.split_once(':')).map_or(uri, |(_, host)| host);
        let host = host.split(';').next().unwrap_or(host);
        host.parse().unwrap_or_else(|_| panic!("no address and port in {uri}"))
    }
}

impl Agent {
    /// The user agent of a user of `domain`, with a password, that sends to `proxy` what is not within
    /// a dialog.
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
            sent: 0,
            seen: HashSet::new(),
            waiting: Vec::new(),
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

    fn contact(&self) -> String {
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

    /// Registers its contact.
    ///
    /// # Panics
    /// Unless it is let.
    pub fn register(&mut self) {
        let registrar = format!("sip:{}", self.domain);
        let mut dialog = self.dialog(&self.address_of_record());
        dialog.target = registrar;
        self.ask(&mut dialog, "REGISTER", "Expires: 600\r\n", "");
        self.response("REGISTER", 200);
    }

    /// What may become a dialog with `uri`.
    #[must_use]
    pub fn dialog(&mut self, uri: &str) -> Dialog {
        let token = self.token();
        Dialog {
            call_id: format!("{token}@{}", self.address()),
            local: format!("<{}>;tag={token}", self.address_of_record()),
            remote: format!("<{uri}>"),
            target: uri.to_owned(),
            routes: Vec::new(),
            cseq: 0,
        }
    }

    /// The dialog that `request` begins.
    #[must_use]
    pub fn dialog_with(&mut self, request: &Message) -> Dialog {
        let token = self.token();
        Dialog {
            call_id: request.value("Call-ID").to_owned(),
            local: format!("{};tag={token}", request.value("To")),
            remote: request.value("From").to_owned(),
            target: uri_of(request.value("Contact")).to_owned(),
            routes: request.elements("Record-Route"),
            cseq: 0,
        }
    }

    /// Sends a request that begins something; one who has a password must be challenged then, and sends
    /// it once more.
    ///
    /// # Panics
    /// When it is not challenged.
    pub fn ask(&mut self, dialog: &mut Dialog, method: &str, fields: &str, body: &str) {
        self.send(dialog, method, fields, body);
        let Some(password) = self.password.clone() else { return };
        let status = if method == "REGISTER" { 401 } else { 407 };
        let challenged = self.response(method, status);
        let credentials = credentials(&challenged, &self.user, &password, method, &dialog.target);
        self.send(dialog, method, &format!("{fields}{credentials}"), body);
    }

    /// Sends a request along the dialog's route set, with further header fields and a body.
    ///
    /// # Panics
    /// When it cannot be sent.
    pub fn send(&mut self, dialog: &mut Dialog, method: &str, fields: &str, body: &str) {
        dialog.cseq += 1;
        let cseq = format!("{} {method}", dialog.cseq);
        self.send_numbered(dialog, &cseq, fields, body);
    }

    /// Sends the ACK for `answer`, a 2xx to the INVITE that began `dialog` or is within it.
    ///
    /// # Panics
    /// When it cannot be sent.
    pub fn acknowledge(&mut self, dialog: &Dialog, answer: &Message) {
        let cseq = answer.value("CSeq").replace("INVITE", "ACK");
        self.send_numbered(dialog, &cseq, "", "");
    }

    fn send_numbered(&mut self, dialog: &Dialog, cseq: &str, fields: &str, body: &str) {
        let (token, address) = (self.token(), self.address());
        let Dialog { call_id, local, remote, target, routes, .. } = dialog;
        let method = cseq.split(' ').nth(1).unwrap_or_default();
        let routes: String = routes.iter().map(|route| format!("Route: {route}\r\n")).collect();
        let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
        let text = format!(
            "{method} {target} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {address};branch=z9hG4bK{token};rport\r\n\
             Max-Forwards: 70\r\n\
             {routes}\
             From: {local}\r\n\
             To: {remote}\r\n\
             Call-ID: {call_id}\r\n\
             CSeq: {cseq}\r\n\
             Contact: <{contact}>\r\n\
             {fields}{kind}\
             Content-Length: {length}\r\n\r\n{body}",
            contact = self.contact(),
            length = body.len(),
        );
        let in_dialog = tag_of(remote).is_some();
        self.transmit(&text, if in_dialog { dialog.next_hop() } else { self.proxy });
    }

    /// Answers `request`, which is of `dialog` or begins it.
    ///
    /// # Panics
    /// When the answer cannot be sent.
    pub fn answer(
        &mut self,
        request: &Message,
        dialog: &Dialog,
        status: u16,
        fields: &str,
        body: &str,
    ) {
        let copied: String = ["Via", "Record-Route", "From", "Call-ID", "CSeq"]
            .iter()
            .flat_map(|name| request.values(name).map(move |value| format!("{name}: {value}\r\n")))
            .collect();
        let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
        let text = format!(
            "SIP/2.0 {status} Whatever\r\n\
             {copied}\
             To: {local}\r\n\
             Contact: <{contact}>\r\n\
             {fields}{kind}\
             Content-Length: {length}\r\n\r\n{body}",
            local = dialog.local,
            contact = self.contact(),
            length = body.len(),
        );
        self.transmit(&text, request.source);
    }

    /// The next request of this method.
    ///
    /// # Panics
    /// When there is none.
    pub fn request(&mut self, method: &str) -> Message {
        self.next(method, |message| {
            (message.status().is_none() && message.method() == method).then_some(Ok(()))
        })
    }

    /// The next response to this method, but for 100, which is to have this status. What refuses an
    /// INVITE is acknowledged.
    ///
    /// # Panics
    /// When there is none, or a final response with another status.
    pub fn response(&mut self, method: &str, status: u16) -> Message {
        self.response_from(method, status, "")
    }

    /// The next [response](Self::response) with this tag in To, where several may answer.
    ///
    /// # Panics
    /// When there is none, or a final response with another status.
    pub fn response_from(&mut self, method: &str, status: u16, tag: &str) -> Message {
        let response = self.next(&format!("{status} to {method}"), |message| {
            let found = message.status().filter(|_| message.cseq_method() == method)?;
            let is_from = tag.is_empty() || tag_of(message.value("To")) == Some(tag);
            match found {
                _ if found == status && is_from => Some(Ok(())),
                300.. => Some(Err(())),
                _ => None,
            }
        });
        if status >= 300 && method == "INVITE" {
            self.acknowledge_refusal(&response);
        }
        response
    }

    fn acknowledge_refusal(&mut self, response: &Message) {
        let via = response.value("Via").to_owned();
        let cseq = response.value("CSeq").replace("INVITE", "ACK");
        let target = uri_of(response.value("To"));
        let [from, to, call_id] = ["From", "To", "Call-ID"].map(|name| response.value(name));
        let text = format!(
            "ACK {target} SIP/2.0\r\nVia: {via}\r\nMax-Forwards: 70\r\nFrom: {from}\r\nTo: {to}\r\n\
             Call-ID: {call_id}\r\nCSeq: {cseq}\r\nContent-Length: 0\r\n\r\n"
        );
        self.transmit(&text, response.source);
    }

    /// The next message that `is_wanted` says is good; one that is bad is the end.
    fn next(
        &mut self,
        what: &str,
        is_wanted: impl Fn(&Message) -> Option<Result<(), ()>>,
    ) -> Message {
        let end = Instant::now() + DEADLINE;
        loop {
            let found = self.waiting.iter().position(|message| is_wanted(message).is_some());
            if let Some(at) = found {
                let message = self.waiting.remove(at);
                let is_good = is_wanted(&message) == Some(Ok(()));
                assert!(is_good, "{} waits for {what}, and gets\n{message}", self.user);
                return message;
            }
            let others: Vec<_> = self.waiting.iter().map(Message::start_line).collect();
            assert!(
                Instant::now() < end,
                "{} waited {} s in vain for {what}, and got {others:?}",
                self.user,
                DEADLINE.as_secs()
            );
            let received = self.receive();
            self.waiting.extend(received);
        }
    }

    /// The next message that it has not seen yet, if one comes soon.
    fn receive(&mut self) -> Option<Message> {
        let mut bytes = [0; 65_536];
        let (size, source) = self.socket.recv_from(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes[..size]).into_owned();
        self.seen.insert(text.clone()).then(|| Message::new(text, source))
    }

    fn transmit(&self, text: &str, to: SocketAddr) {
        let sent = self.socket.send_to(text.as_bytes(), to);
        sent.unwrap_or_else(|error| panic!("{} cannot send to {to}: {error}", self.user));
    }

    /// What this agent, and no other one, has not used yet.
    fn token(&mut self) -> String {
        self.sent += 1;
        format!("{}-{}-{}", self.user, self.address().port(), self.sent)
    }
}

fn bind() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, free_ports(1))).expect("a free port");
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a socket that can wait");
    socket
}

/// The header field with credentials for the request that was `challenged`.
fn credentials(
    challenged: &Message,
    user: &str,
    password: &str,
    method: &str,
    uri: &str,
) -> String {
    let (name, value) = match challenged.header("WWW-Authenticate") {
        Some(value) => ("Authorization", value),
        None => ("Proxy-Authorization", challenged.value("Proxy-Authenticate")),
    };
    let Ok(Some(challenge)) = Challenge::parse(value.as_bytes()) else {
        panic!("no challenge of Digest: {value}")
    };
    let ha1 = Ha1Set::new(user.as_bytes(), challenge.realm, password.as_bytes());
    let request = Request { method: method.as_bytes(), uri: uri.as_bytes(), body: b"" };
    let ha1 = ha1.get(challenge.algorithm);
    let mut credentials = Vec::new();
    challenge.answer(user.as_bytes(), ha1, &request, b"cnonce", 1).write(&mut credentials);
    format!("{name}: {}\r\n", String::from_utf8_lossy(&credentials))
}
