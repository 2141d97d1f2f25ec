//! A small SIP phone for tests: one message at a time, over UDP, with nothing of the generator in it.

use sip::digest::{Challenge, Ha1Set, Request};
use std::cell::RefCell;
use std::collections::HashSet;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// A message as it came.
#[derive(Debug)]
pub(super) struct Message(pub(super) String);

impl Message {
    /// The values of the header fields of this name, in order.
    pub(super) fn all(&self, name: &str) -> Vec<&str> {
        let head = self.0.split("\r\n\r\n").next().unwrap_or("");
        let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let ours = fields.filter(|(field, _)| field.trim().eq_ignore_ascii_case(name));
        ours.map(|(_, value)| value.trim()).collect()
    }

    /// The value of the only one.
    pub(super) fn only(&self, name: &str) -> &str {
        match self.all(name)[..] {
            [value] => value,
            _ => panic!("expected one {name} in:\n{}", self.0),
        }
    }

    /// The status, if it is a response.
    pub(super) fn status(&self) -> Option<u16> {
        self.0.strip_prefix("SIP/2.0 ")?.get(..3)?.parse().ok()
    }

    /// Panics unless it is a request of this method; gives its URI.
    pub(super) fn expect(&self, method: &str) -> &str {
        let mut words = self.0.split(' ');
        assert_eq!(words.next(), Some(method), "{}", self.0);
        words.next().expect("a request URI")
    }
}

/// A user with a socket.
pub(super) struct Phone {
    socket: UdpSocket,
    server: SocketAddr,
    domain: String,
    pub(super) user: String,
    password: String,
    serial: usize,
    received: RefCell<HashSet<String>>,
    /// Requests that were challenged.
    pub(super) challenges: usize,
}

/// The header fields that stay the same within a call or the registrations of a phone.
#[derive(Clone, Debug)]
pub(super) struct Dialog {
    /// The request URI.
    pub(super) uri: String,
    /// The To header field.
    pub(super) to: String,
    /// Route header fields, each with its line end.
    pub(super) routes: String,
    call_id: String,
    cseq: usize,
}

impl Phone {
    pub(super) fn new(server: SocketAddr, domain: &str, user: &str, password: &str) -> Self {
        let socket = UdpSocket::bind((server.ip(), 0)).expect("a socket");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
        let [domain, user, password] = [domain, user, password].map(str::to_owned);
        let received = RefCell::default();
        Self { socket, server, domain, user, password, serial: 0, received, challenges: 0 }
    }

    fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("an address")
    }

    /// Its contact's URI.
    pub(super) fn contact(&self) -> String {
        format!("sip:{}@{}", self.user, self.address())
    }

    pub(super) fn dialog(&self, uri: &str, to: &str) -> Dialog {
        Dialog {
            uri: uri.to_owned(),
            to: format!("<sip:{to}@{}>", self.domain),
            routes: String::new(),
            call_id: format!("call-{to}-{}", self.address()),
            cseq: 0,
        }
    }

    /// The text of a request, with a branch of its own and the next number if it is no ACK.
    pub(super) fn request(&mut self, dialog: &mut Dialog, method: &str, more: &str) -> String {
        if method != "ACK" {
            dialog.cseq += 1;
        }
        self.serial += 1;
        let address = self.address();
        let Dialog { uri, to, routes, call_id, cseq } = dialog;
        format!(
            "{method} {uri} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {address};branch=z9hG4bK-{port}-{serial};rport\r\n\
             Max-Forwards: 70\r\n\
             {routes}\
             From: <sip:{user}@{domain}>;tag=t{port}\r\n\
             To: {to}\r\n\
             Call-ID: {call_id}\r\n\
             CSeq: {cseq} {method}\r\n\
             Contact: <{contact}>\r\n\
             {more}\
             Content-Length: 0\r\n\r\n",
            port = address.port(),
            serial = self.serial,
            user = self.user,
            domain = self.domain,
            contact = self.contact(),
        )
    }

    pub(super) fn send(&self, text: &str) {
        self.socket.send_to(text.as_bytes(), self.server).expect("sent");
    }

    /// The next message that has not come before: on a slow machine a server sends some again, at any
    /// time.
    pub(super) fn receive(&self) -> Message {
        loop {
            let Message(text) = self.receive_also_again();
            if self.received.borrow_mut().insert(text.clone()) {
                return Message(text);
            }
        }
    }

    /// The next message, be it one that has come before.
    pub(super) fn receive_also_again(&self) -> Message {
        let mut buffer = [0; 65536];
        let size = self.socket.recv(&mut buffer).expect("a message");
        Message(String::from_utf8(buffer[..size].to_vec()).expect("text"))
    }

    /// The next response that is not provisional.
    pub(super) fn final_response(&self) -> Message {
        loop {
            let message = self.receive();
            match message.status() {
                Some(100..200) => {}
                Some(_) => return message,
                None => panic!("expected a response:\n{}", message.0),
            }
        }
    }

    /// The final response to a request, or the first provisional one; a challenge is answered. Gives
    /// the text of the request that it belongs to too.
    pub(super) fn ask(
        &mut self,
        dialog: &mut Dialog,
        method: &str,
        more: &str,
    ) -> (String, Message) {
        let request = self.request(dialog, method, more);
        self.send(&request);
        let answer = self.receive();
        if !matches!(answer.status(), Some(401 | 407)) {
            return (request, answer);
        }
        let request = self.authorize(dialog, (method, more), &request, &answer);
        (request, self.receive())
    }

    /// Sends a request again that was challenged, and gives its text.
    pub(super) fn authorize(
        &mut self,
        dialog: &mut Dialog,
        (method, more): (&str, &str),
        request: &str,
        answer: &Message,
    ) -> String {
        let challenge = match answer.status() {
            Some(401) => answer.only("WWW-Authenticate"),
            _ => answer.only("Proxy-Authenticate"),
        };
        self.challenges += 1;
        if method == "INVITE" {
            self.acknowledge(request, answer);
        }
        let challenge = Challenge::parse(challenge.as_bytes()).expect("a challenge");
        let challenge = challenge.expect("a digest challenge");
        assert_eq!(challenge.realm, self.domain.as_bytes());
        assert!(challenge.qop.auth);
        let set = Ha1Set::new(self.user.as_bytes(), challenge.realm, self.password.as_bytes());
        let ha1 = set.get(challenge.algorithm).to_vec();
        let uri = dialog.uri.clone();
        let about = Request { method: method.as_bytes(), uri: uri.as_bytes(), body: b"" };
        let credentials = challenge.answer(self.user.as_bytes(), &ha1, &about, b"cn", 1);
        let mut value = Vec::new();
        credentials.write(&mut value);
        let name = if method == "REGISTER" { "Authorization" } else { "Proxy-Authorization" };
        let value = String::from_utf8(value).expect("text");
        let request = self.request(dialog, method, &format!("{name}: {value}\r\n{more}"));
        self.send(&request);
        request
    }

    /// Acknowledges a final response to an INVITE that is no success, on its branch.
    pub(super) fn acknowledge(&self, invite: &str, answer: &Message) {
        let invite = Message(invite.to_owned());
        let uri = invite.expect("INVITE");
        let cseq = invite.only("CSeq").replace("INVITE", "ACK");
        self.send(&format!(
            "ACK {uri} SIP/2.0\r\nVia: {}\r\nMax-Forwards: 70\r\nFrom: {}\r\nTo: {}\r\nCall-ID: {}\r\n\
             CSeq: {cseq}\r\nContent-Length: 0\r\n\r\n",
            invite.only("Via"),
            invite.only("From"),
            answer.only("To"),
            invite.only("Call-ID"),
        ));
    }

    /// Answers a request.
    pub(super) fn answer(&self, request: &Message, status: &str) {
        let mut text = format!("SIP/2.0 {status}\r\n");
        for name in ["Via", "Record-Route", "From", "Call-ID", "CSeq"] {
            for value in request.all(name) {
                text.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        let to = request.only("To");
        let tag = if to.contains(";tag=") { "" } else { ";tag=callee" };
        let contact = self.contact();
        text.push_str(&format!(
            "To: {to}{tag}\r\nContact: <{contact}>\r\nContent-Length: 0\r\n\r\n"
        ));
        self.send(&text);
    }
}
