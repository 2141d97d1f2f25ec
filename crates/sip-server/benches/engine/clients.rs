//! The phones of the benchmark: their requests, and the handling of responses.

use crate::Server;
use crate::lock::Counting;
use barebell_sip_server::config::{Config, Domain, Listener, Mode, State};
use barebell_sip_server::{Flow, Output, Worker};
use nix::time::{ClockId, clock_gettime};
use sip::dialog::Dialog;
use sip::digest::{DigestInput, Ha1Set};
use sip::header::CSeq;
use sip::message::{Writer, reason_phrase};
use sip::{Encode, HeaderName, Instant, Message, Method, StartLine, Transport};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use test_support::agent::credentials;

const DOMAIN: &str = "example.com";
const SERVER: &str = "192.0.2.1:5060";
const SDP: &str = "application/sdp";
const USER_AGENT: &str = "bench";
/// The password of each user.
const PASSWORD: &str = "secret";
/// The lifetime of transactions in seconds (RFC 3261, timers H, J and L). After this time their
/// number is constant.
const REMEMBERED: u64 = 33;
/// The number of messages that are read from a socket at once.
const BATCH: usize = 64;

/// The number of users, and the rate of operations per second on the clock of the engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) users: usize,
    pub(crate) rate: u64,
}

/// The kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    RegisterUpdate,
    RegisterUpdateAuthenticated,
    Options,
    InviteNotFound,
    InviteRedirect,
    Call,
    CallAuthenticated,
    CallStateless,
}

impl Work {
    pub(crate) const ALL: [Self; 8] = [
        Self::RegisterUpdate,
        Self::RegisterUpdateAuthenticated,
        Self::Options,
        Self::InviteNotFound,
        Self::InviteRedirect,
        Self::Call,
        Self::CallAuthenticated,
        Self::CallStateless,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::RegisterUpdate => "register-update",
            Self::RegisterUpdateAuthenticated => "register-update authenticated",
            Self::Options => "options",
            Self::InviteNotFound => "invite-not-found",
            Self::InviteRedirect => "invite-redirect",
            Self::Call => "call",
            Self::CallAuthenticated => "call authenticated",
            Self::CallStateless => "call stateless",
        }
    }

    const fn is_authenticated(self) -> bool {
        matches!(self, Self::RegisterUpdateAuthenticated | Self::CallAuthenticated)
    }

    const fn is_call(self) -> bool {
        matches!(self, Self::Call | Self::CallAuthenticated | Self::CallStateless)
    }
}

/// A server with `users` users.
pub(crate) fn server(work: Work, users: usize) -> Arc<Server> {
    let mut config = Config {
        mode: if work == Work::InviteRedirect { Mode::Redirect } else { Mode::Proxy },
        state: if work == Work::CallStateless { State::Stateless } else { State::Stateful },
        listeners: vec![Listener { transport: Transport::Udp, address: address(SERVER) }],
        domains: vec![Domain { name: DOMAIN.into(), aliases: vec!["192.0.2.1".into()] }],
        ..Config::default()
    };
    config.authentication.required = work.is_authenticated();
    config.limits.source_rate = u32::MAX;
    let server = Arc::new(Server::new(config, &[7; 32]));
    for user in 0..users {
        let name = name(user);
        let ha1 = Ha1Set::new(name.as_bytes(), DOMAIN.as_bytes(), PASSWORD.as_bytes());
        server.add_user(format!("{name}@{DOMAIN}").as_bytes(), ha1);
    }
    server
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// The name of the user with this number.
pub(crate) fn name(user: usize) -> String {
    format!("user{user:06}")
}

/// The flow of a phone. Each has its own address and port.
fn flow(user: usize) -> Flow {
    let [_, _, high, low] = (user as u32).to_be_bytes();
    Flow {
        transport: Transport::Udp,
        local: address(SERVER),
        remote: ([198, 18, high, low], 5060).into(),
        connection: None,
    }
}

/// A message from or to the phone of an operation.
type Sent = (usize, Flow, Vec<u8>);

/// Phones with their own worker of the server.
pub(crate) struct Client {
    worker: Worker<Counting>,
    out: Output,
    work: Work,
    first: usize,
    users: usize,
    rate: u64,
    serial: u64,
    now: Instant,
    spent: Duration,
    is_counting: bool,
}

impl Client {
    /// Creates the phones of `pace.users` users, those of the client at `index`. All users are
    /// registered, and `work` is in progress, with `together` operations at a time.
    pub(crate) fn new(
        server: &Arc<Server>,
        work: Work,
        index: usize,
        pace: Pace,
        together: usize,
        pause: impl FnMut(),
    ) -> Self {
        let Pace { users, rate } = pace;
        let mut client = Self {
            worker: server.worker(),
            out: Output::default(),
            work,
            first: index * users,
            users,
            rate,
            serial: (index as u64) << 40,
            now: Instant::from_micros(1_800_000_000_000_000),
            spent: Duration::ZERO,
            is_counting: false,
        };
        for user in 0..users {
            client.register(&[user]);
        }
        client.fill(together, pause);
        client
    }

    /// Works, with a `pause` after each batch, until the number of transactions is constant, or
    /// each user has done an operation.
    fn fill(&mut self, together: usize, mut pause: impl FnMut()) {
        let (users, is_call) = (self.users as u64, self.work.is_call());
        let operations = if is_call { REMEMBERED * self.rate } else { users };
        for _ in 0..operations.div_ceil(together as u64) {
            self.batch(together);
            pause();
        }
    }

    /// Makes the work visible to a profiler, in [`Client::counted`].
    pub(crate) fn count(&mut self) {
        self.is_counting = true;
    }

    /// Does `count` operations, and returns the time spent in the engine.
    pub(crate) fn batch(&mut self, count: usize) -> Duration {
        self.spent = Duration::ZERO;
        let at = self.serial as usize;
        let half = self.users / 2;
        let users: Vec<usize> = (at..at + count).map(|serial| serial % half).collect();
        match self.work {
            Work::RegisterUpdate | Work::RegisterUpdateAuthenticated => self.register(&users),
            Work::Options => self.options(&users),
            Work::InviteNotFound => self.invite(&users, 404, |_| "nobody".to_owned()),
            Work::InviteRedirect => self.invite(&users, 302, |user| name(user + half)),
            Work::Call | Work::CallAuthenticated | Work::CallStateless => self.call(&users),
        }
        self.spent
    }

    /// Passes messages to the engine, and returns its output by operation.
    fn feed(&mut self, messages: &[Sent]) -> Vec<Sent> {
        let mut sent = Vec::with_capacity(messages.len() * 2);
        for batch in messages.chunks(BATCH) {
            let mut ends = [0; BATCH];
            let start = cpu_time();
            match self.is_counting {
                true => self.counted(batch, &mut ends),
                false => self.run(batch, &mut ends),
            }
            self.spent += cpu_time() - start;
            let mut next = 0;
            for ((operation, ..), end) in batch.iter().zip(ends) {
                for transmit in &self.out.transmits[next..end] {
                    let bytes = self.out.bytes[transmit.range.clone()].to_vec();
                    sent.push((*operation, transmit.flow, bytes));
                }
                next = end;
            }
            assert_eq!(self.out.transmits.len(), next, "nothing is sent again");
            self.out.clear();
        }
        sent
    }

    /// The measured part. It is a separate function, so that a profiler can be limited to it.
    #[inline(never)]
    fn counted(&mut self, batch: &[Sent], ends: &mut [usize]) {
        self.run(batch, ends);
    }

    /// Passes messages to the engine and runs the timers. Stores in `ends` the number of messages
    /// to send after each.
    fn run(&mut self, batch: &[Sent], ends: &mut [usize]) {
        for ((_, flow, bytes), end) in batch.iter().zip(ends) {
            self.worker.receive(self.now, flow, bytes, &mut self.out);
            *end = self.out.transmits.len();
        }
        if self.worker.next_timer().is_some_and(|when| when <= self.now) {
            self.worker.on_timer(self.now, &mut self.out);
        }
    }

    /// Like [`Client::feed`], for requests. Answers the challenges.
    fn ask(&mut self, requests: &[Sent], users: &[usize]) -> Vec<Sent> {
        let sent = self.feed(requests);
        if !self.work.is_authenticated() {
            return sent;
        }
        let (mut again, mut acks) = (Vec::new(), Vec::new());
        for (operation, _, bytes) in &sent {
            let response = Message::parse(bytes).expect("a message");
            let (_, flow, request) = &requests[*operation];
            let request = Message::parse(request).expect("a message");
            if response.status() == Some(407) {
                acks.push((*operation, *flow, ack_of(&request, &response)));
            }
            let user = name(self.first + users[*operation]);
            again.push((*operation, *flow, with_credentials(&request, &response, &user, PASSWORD)));
        }
        assert_eq!(again.len(), users.len(), "each is challenged once");
        self.feed(&acks);
        self.feed(&again)
    }

    /// Requests of users outside of dialogs, written by `write` with the [`Phone`] of each.
    fn requests(&mut self, users: &[usize], write: impl Fn(&Phone, &mut Vec<u8>)) -> Vec<Sent> {
        self.now += sip::Duration::from_micros(users.len() as u64 * 1_000_000 / self.rate);
        let request = |(at, user): (usize, &usize)| {
            let user = self.first + user;
            let serial = self.serial + at as u64;
            let mut out = Vec::new();
            write(&Phone::new(user, serial), &mut out);
            (at, flow(user), out)
        };
        let requests = users.iter().enumerate().map(request).collect();
        self.serial += users.len() as u64;
        requests
    }

    fn register(&mut self, users: &[usize]) {
        let requests = self.requests(users, Phone::write_register);
        self.succeed(&requests, users);
    }

    fn options(&mut self, users: &[usize]) {
        let requests = self.requests(users, |phone, out| {
            phone
                .outside(("sip:", DOMAIN), ("<sip:", DOMAIN, ">"), phone.call_id())
                .request(Method::Options, 1, phone.via(), out)
                .field(HeaderName::Accept, SDP)
                .field(HeaderName::UserAgent, USER_AGENT)
                .end();
        });
        self.succeed(&requests, users);
    }

    fn succeed(&mut self, requests: &[Sent], users: &[usize]) {
        for (_, _, bytes) in self.ask(requests, users) {
            assert!(bytes.starts_with(b"SIP/2.0 200 "), "{}", bytes.escape_ascii());
        }
    }

    fn invites(&mut self, users: &[usize], callee: impl Fn(usize) -> String) -> Vec<Sent> {
        let first = self.first;
        self.requests(users, |phone, out| phone.write_invite(&callee(phone.user - first), out))
    }

    /// Calls that the server rejects or redirects.
    fn invite(&mut self, users: &[usize], status: u16, callee: impl Fn(usize) -> String) {
        let invites = self.invites(users, callee);
        let mut acks = Vec::new();
        for (at, _, bytes) in self.ask(&invites, users) {
            let response = Message::parse(&bytes).expect("a message");
            assert_eq!(response.status(), Some(status), "{}", bytes.escape_ascii());
            let (_, flow, invite) = &invites[at];
            let invite = Message::parse(invite).expect("a message");
            acks.push((at, *flow, ack_of(&invite, &response)));
        }
        assert_eq!(self.feed(&acks).len(), 0);
    }

    /// Complete calls: INVITE, 180, 200, ACK, BYE, 200.
    fn call(&mut self, users: &[usize]) {
        let half = self.users / 2;
        let (caller, callee) = (
            |client: &Self, at: usize| flow(client.first + users[at]),
            |client: &Self, at: usize| flow(client.first + half + users[at]),
        );
        let first = self.first;
        let invites = self.invites(users, |user| name(first + half + user));
        let forwarded: Vec<Sent> = self
            .ask(&invites, users)
            .into_iter()
            .filter(|(_, _, bytes)| !bytes.starts_with(b"SIP/2.0 100 "))
            .collect();
        assert_eq!(forwarded.len(), users.len());
        let respond = |client: &Self, requests: &[Sent], status| -> Vec<Sent> {
            let answer = |(at, _, bytes): &Sent| {
                let to = callee(client, *at);
                (*at, to, response_to(bytes, status, to.remote))
            };
            requests.iter().map(answer).collect()
        };
        let ringing = self.feed(&respond(self, &forwarded, 180));
        assert_eq!(ringing.len(), users.len());
        let answers = self.feed(&respond(self, &forwarded, 200));
        assert_eq!(answers.len(), users.len());
        for (method, cseq) in [(Method::Ack, 1), (Method::Bye, 3)] {
            let requests: Vec<Sent> = answers
                .iter()
                .map(|(at, _, bytes)| (*at, caller(self, *at), in_dialog(method, cseq, bytes)))
                .collect();
            let forwarded = self.feed(&requests);
            assert_eq!(forwarded.len(), users.len(), "{method}");
            if method == Method::Bye {
                let ended = self.feed(&respond(self, &forwarded, 200));
                assert_eq!(ended.len(), users.len());
            }
        }
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}

/// The sender of a request outside of dialogs.
pub(crate) struct Phone {
    user: usize,
    pub(crate) name: String,
    serial: u64,
}

impl Phone {
    /// A phone with the number `user`, which need not be that of a user of the server. `serial` is
    /// another one for each request.
    pub(crate) fn new(user: usize, serial: u64) -> Self {
        Self { user, name: name(user), serial }
    }

    pub(crate) fn flow(&self) -> Flow {
        flow(self.user)
    }

    pub(crate) fn write_register(&self, out: &mut Vec<u8>) {
        let call_id = (format!("r{:08}", self.user), "@", self.host());
        // The serial numbers of a client may exceed the range of CSeq.
        let cseq = (2 * self.serial as u32 + 1) & 0x7fff_ffff;
        self.outside(("sip:", DOMAIN), ("<", self.address_of_record(), ">"), call_id)
            .request(Method::Register, cseq, self.via(), out)
            .field(HeaderName::Contact, self.contact())
            .field(HeaderName::Expires, 3600_u32)
            .field(HeaderName::UserAgent, USER_AGENT)
            .end();
    }

    /// Writes an INVITE to the user `callee`.
    pub(crate) fn write_invite(&self, callee: &str, out: &mut Vec<u8>) {
        let uri = ("sip:", callee, "@", DOMAIN);
        let session = format!(
            "v=0\r\no=- 1 1 IN IP4 {ip}\r\ns=-\r\nc=IN IP4 {ip}\r\nt=0 0\r\nm=audio 40000 RTP/AVP 0\r\n\
             a=rtpmap:0 PCMU/8000\r\n",
            ip = self.host().ip()
        );
        self.outside(uri, ("<", uri, ">"), self.call_id())
            .request(Method::Invite, 1, self.via(), out)
            .field(HeaderName::Contact, self.contact())
            .field(HeaderName::ContentType, SDP)
            .field(HeaderName::UserAgent, USER_AGENT)
            .body("", session.as_bytes());
    }

    fn host(&self) -> SocketAddr {
        flow(self.user).remote
    }

    fn address_of_record(&self) -> impl Encode {
        ("sip:", &self.name, "@", DOMAIN)
    }

    fn contact(&self) -> impl Encode {
        ("<sip:", &self.name, "@", self.host(), ">")
    }

    fn call_id(&self) -> impl Encode {
        (format!("{:024x}", self.serial), "@", self.host())
    }

    fn via(&self) -> impl Encode {
        via(self.host(), format!("{:024x}", self.serial))
    }

    fn outside(&self, uri: impl Encode, to: impl Encode, call_id: impl Encode) -> Dialog {
        let from = ("<", self.address_of_record(), ">");
        Dialog::new(call_id, from, format!("{:x}", self.serial), to, uri)
    }
}

fn via(host: impl Encode, branch: impl Encode) -> impl Encode {
    ("SIP/2.0/UDP ", host, ";rport;branch=z9hG4bK", branch)
}

/// The response of the callee at `host` to `request`.
fn response_to(request: &[u8], status: u16, host: SocketAddr) -> Vec<u8> {
    let request = Message::parse(request).expect("a message");
    let is_invite = request.method() == Some(Method::Invite);
    let copied = [
        HeaderName::Via,
        HeaderName::RecordRoute,
        HeaderName::From,
        HeaderName::To,
        HeaderName::CallId,
        HeaderName::CSeq,
    ];
    let mut out = Vec::new();
    let mut writer = Writer::response(&mut out, status, reason_phrase(status));
    for field in request.fields_of(&copied) {
        writer = match field.name {
            HeaderName::To if is_invite => writer.field(field.name, (field.value, ";tag=callee")),
            _ => writer.lines(field.line),
        };
    }
    writer.lines(is_invite.then_some(("Contact: <sip:callee@", host, ">\r\n"))).end();
    out
}

/// The request of the caller within the dialog that `answer` creates.
fn in_dialog(method: Method<'_>, cseq: u32, answer: &[u8]) -> Vec<u8> {
    let answer = Message::parse(answer).expect("a message");
    let dialog = Dialog::from_response(&answer).expect("a dialog");
    let call = dialog.id().call_id.split(|&byte| byte == b'@').next();
    let sent_by = answer.top_via().map(|via| (via.host, ":", via.port)).expect("a Via");
    let mut out = Vec::new();
    dialog
        .request(method, cseq, via(sent_by, (call, method)), &mut out)
        .field(HeaderName::UserAgent, USER_AGENT)
        .end();
    out
}

/// The ACK of a non-2xx response.
fn ack_of(invite: &Message<'_>, response: &Message<'_>) -> Vec<u8> {
    let StartLine::Request { uri, .. } = invite.start_line() else { panic!("no request") };
    let number = cseq_of(invite);
    let mut out = Vec::new();
    Writer::request(&mut out, Method::Ack, uri)
        .field(HeaderName::Via, invite.value(HeaderName::Via))
        .field(HeaderName::From, invite.value(HeaderName::From))
        .field(HeaderName::CallId, invite.value(HeaderName::CallId))
        .field(HeaderName::To, response.value(HeaderName::To))
        .field(HeaderName::CSeq, CSeq { number, method: Method::Ack })
        .field(HeaderName::MaxForwards, 70_u32)
        .end();
    out
}

fn cseq_of(message: &Message<'_>) -> u32 {
    let value = message.value(HeaderName::CSeq).expect("a CSeq");
    CSeq::parse(value).expect("a CSeq").number
}

/// The `request` of `user` again, with credentials for the challenge.
pub(crate) fn with_credentials(
    request: &Message<'_>,
    challenged: &Message<'_>,
    user: &str,
    password: &str,
) -> Vec<u8> {
    let StartLine::Request { method, uri, .. } = request.start_line() else { panic!("no request") };
    let about = DigestInput { method: method.as_bytes(), uri, body: b"" };
    let credentials = credentials(challenged, user, password, &about, b"0a4f113b", 1);
    let number = cseq_of(request);
    let text = std::str::from_utf8(request.as_bytes()).expect("text");
    let text = text
        .replace(&format!("CSeq: {number}"), &format!("CSeq: {}", number + 1))
        .replace(";branch=z9hG4bK", ";branch=z9hG4bKa");
    let (head, body) = text.split_once("\r\n\r\n").expect("an empty line");
    format!("{head}\r\n{credentials}\r\n{body}").into()
}
