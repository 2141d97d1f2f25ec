//! The phones of the benchmark: what they send, and what they make of the answers.

use crate::Server;
use crate::lock::Counting;
use nix::time::{ClockId, clock_gettime};
use sip::digest::{Challenge, Ha1Set, Request};
use sip::{HeaderName, Instant, Message, Transport};
use sip_server::config::{Config, Domain, Listener, Mode, State};
use sip_server::{Flow, Output, Worker};
use std::sync::Arc;
use std::time::Duration;

const DOMAIN: &str = "example.com";
const SERVER: &str = "192.0.2.1:5060";
/// How long transactions are remembered (RFC 3261, timers H, J and L), so that after this time as many
/// are there as will ever be.
const REMEMBERED: u64 = 33;
/// Messages that are taken from a socket at once.
const BATCH: usize = 64;

/// How many users there are, and how fast the clock of the engine goes: so many operations a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) users: usize,
    pub(crate) rate: u64,
}

/// What is done.
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
        let ha1 = Ha1Set::new(name.as_bytes(), DOMAIN.as_bytes(), b"secret");
        server.add_user(format!("{name}@{DOMAIN}").as_bytes(), ha1);
    }
    server
}

fn address(text: &str) -> std::net::SocketAddr {
    text.parse().expect("an address")
}

fn name(user: usize) -> String {
    format!("user{user:06}")
}

/// The flow of a phone: each has an address and port of its own.
fn flow(user: usize) -> Flow {
    let [_, _, high, low] = (user as u32).to_be_bytes();
    Flow {
        transport: Transport::Udp,
        local: address(SERVER),
        remote: ([198, 18, high, low], 5060).into(),
        connection: None,
    }
}

/// A message that an operation's phone sends, or was sent.
type Sent = (usize, Flow, Vec<u8>);

/// Phones with a worker of the server to themselves.
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
    /// Phones of as many users as `pace` says, those of the client at `index`, all of whom are registered, in
    /// the middle of `work`, which is done `together` at a time.
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

    /// Works, with a `pause` after each batch, until as many transactions are remembered as ever will be, or each user
    /// has been there.
    fn fill(&mut self, together: usize, mut pause: impl FnMut()) {
        let (users, is_call) = (self.users as u64, self.work.is_call());
        let operations = if is_call { REMEMBERED * self.rate } else { users };
        for _ in 0..operations.div_ceil(together as u64) {
            self.batch(together);
            pause();
        }
    }

    /// From now on a profiler sees [`Client::counted`].
    pub(crate) fn count(&mut self) {
        self.is_counting = true;
    }

    /// Does `count` operations, and says how long the engine was at it.
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

    /// Hands messages to the engine, and returns what it sends, by operation.
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

    /// What is measured. A function of its own, so that a profiler can be told to look only at it.
    #[inline(never)]
    fn counted(&mut self, batch: &[Sent], ends: &mut [usize]) {
        self.run(batch, ends);
    }

    /// Messages go into the engine, and timers run. Says how many messages there were to send after each.
    fn run(&mut self, batch: &[Sent], ends: &mut [usize]) {
        for ((_, flow, bytes), end) in batch.iter().zip(ends) {
            self.worker.receive(self.now, flow, bytes, &mut self.out);
            *end = self.out.transmits.len();
        }
        if self.worker.next_timer().is_some_and(|when| when <= self.now) {
            self.worker.on_timer(self.now, &mut self.out);
        }
    }

    /// The same for requests, with the answers to the challenges.
    fn ask(&mut self, requests: &[Sent], users: &[usize]) -> Vec<Sent> {
        let sent = self.feed(requests);
        if !self.work.is_authenticated() {
            return sent;
        }
        let (mut again, mut acks) = (Vec::new(), Vec::new());
        for (operation, _, bytes) in &sent {
            let response = Message::parse(bytes).expect("a message");
            let (_, flow, request) = &requests[*operation];
            let user = name(self.first + users[*operation]);
            let text = std::str::from_utf8(request).expect("text");
            if response.status() == Some(407) {
                acks.push((*operation, *flow, ack_of(text, &response)));
            }
            let credentials = credentials(text, &response, &user);
            let number: u64 = between(text, "CSeq: ", " ").parse().expect("a number");
            let text = text
                .replace(&format!("CSeq: {number}"), &format!("CSeq: {}", number + 1))
                .replace(";branch=z9hG4bK", ";branch=z9hG4bKa");
            let (head, body) = text.split_once("\r\n\r\n").expect("an empty line");
            again.push((
                *operation,
                *flow,
                format!("{head}\r\n{credentials}\r\n\r\n{body}").into(),
            ));
        }
        assert_eq!(again.len(), users.len(), "each is challenged once");
        self.feed(&acks);
        self.feed(&again)
    }

    fn serials(&mut self, users: &[usize]) -> Vec<(usize, usize, u64)> {
        self.now += sip::Duration::from_micros(users.len() as u64 * 1_000_000 / self.rate);
        let first = self.serial;
        self.serial += users.len() as u64;
        users
            .iter()
            .enumerate()
            .map(|(at, &user)| (at, self.first + user, first + at as u64))
            .collect()
    }

    fn register(&mut self, users: &[usize]) {
        let requests: Vec<Sent> = self
            .serials(users)
            .into_iter()
            .map(|(at, user, serial)| {
                let (name, flow) = (name(user), flow(user));
                let host = flow.remote;
                let text = format!(
                    "REGISTER sip:{DOMAIN} SIP/2.0\r\nVia: SIP/2.0/UDP {host};rport;branch=z9hG4bK{serial:024x}\r\n\
                     Max-Forwards: 70\r\nFrom: <sip:{name}@{DOMAIN}>;tag={serial:x}\r\nTo: <sip:{name}@{DOMAIN}>\r\n\
                     Call-ID: r{user:08}@{host}\r\nCSeq: {} REGISTER\r\nContact: <sip:{name}@{host}>\r\n\
                     Expires: 3600\r\nUser-Agent: bench\r\nContent-Length: 0\r\n\r\n",
                    // A client's serial numbers begin high up, where no CSeq reaches.
                    (2 * serial + 1) & 0x7fff_ffff
                );
                (at, flow, text.into_bytes())
            })
            .collect();
        for (_, _, bytes) in self.ask(&requests, users) {
            assert!(bytes.starts_with(b"SIP/2.0 200 "), "{}", bytes.escape_ascii());
        }
    }

    fn options(&mut self, users: &[usize]) {
        let requests: Vec<Sent> = self
            .serials(users)
            .into_iter()
            .map(|(at, user, serial)| {
                let (name, flow) = (name(user), flow(user));
                let host = flow.remote;
                let text = format!(
                    "OPTIONS sip:{DOMAIN} SIP/2.0\r\nVia: SIP/2.0/UDP {host};rport;branch=z9hG4bK{serial:024x}\r\n\
                     Max-Forwards: 70\r\nFrom: <sip:{name}@{DOMAIN}>;tag={serial:x}\r\nTo: <sip:{DOMAIN}>\r\n\
                     Call-ID: {serial:024x}@{host}\r\nCSeq: 1 OPTIONS\r\nAccept: application/sdp\r\n\
                     User-Agent: bench\r\nContent-Length: 0\r\n\r\n"
                );
                (at, flow, text.into_bytes())
            })
            .collect();
        for (_, _, bytes) in self.ask(&requests, users) {
            assert!(bytes.starts_with(b"SIP/2.0 200 "), "{}", bytes.escape_ascii());
        }
    }

    fn invites(&mut self, users: &[usize], callee: impl Fn(usize) -> String) -> Vec<Sent> {
        let first = self.first;
        self.serials(users)
            .into_iter()
            .map(|(at, user, serial)| {
                let (name, callee, flow) = (name(user), callee(user - first), flow(user));
                let host = flow.remote;
                let session = format!(
                    "v=0\r\no=- 1 1 IN IP4 {ip}\r\ns=-\r\nc=IN IP4 {ip}\r\nt=0 0\r\nm=audio 40000 RTP/AVP 0\r\n\
                     a=rtpmap:0 PCMU/8000\r\n",
                    ip = host.ip()
                );
                let text = format!(
                    "INVITE sip:{callee}@{DOMAIN} SIP/2.0\r\nVia: SIP/2.0/UDP {host};rport;branch=z9hG4bK{serial:024x}\r\n\
                     Max-Forwards: 70\r\nFrom: <sip:{name}@{DOMAIN}>;tag={serial:x}\r\nTo: <sip:{callee}@{DOMAIN}>\r\n\
                     Call-ID: {serial:024x}@{host}\r\nCSeq: 1 INVITE\r\nContact: <sip:{name}@{host}>\r\n\
                     Content-Type: application/sdp\r\nUser-Agent: bench\r\nContent-Length: {}\r\n\r\n{session}",
                    session.len()
                );
                (at, flow, text.into_bytes())
            })
            .collect()
    }

    /// Calls that the server refuses or redirects.
    fn invite(&mut self, users: &[usize], status: u16, callee: impl Fn(usize) -> String) {
        let invites = self.invites(users, callee);
        let mut acks = Vec::new();
        for (at, _, bytes) in self.ask(&invites, users) {
            let response = Message::parse(&bytes).expect("a message");
            assert_eq!(response.status(), Some(status), "{}", bytes.escape_ascii());
            let text = std::str::from_utf8(&invites[at].2).expect("text");
            acks.push((at, invites[at].1, ack_of(text, &response)));
        }
        assert_eq!(self.feed(&acks).len(), 0);
    }

    /// Whole calls: INVITE, 180, 200, ACK, BYE, 200.
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
        let respond = |client: &Self, requests: &[Sent], status: &str, more: &str| -> Vec<Sent> {
            let answer = |(at, _, bytes): &Sent| {
                let to = callee(client, *at);
                (
                    *at,
                    to,
                    response_to(bytes, status, &more.replace("{host}", &to.remote.to_string())),
                )
            };
            requests.iter().map(answer).collect()
        };
        let ringing = self.feed(&respond(
            self,
            &forwarded,
            "180 Ringing",
            "Contact: <sip:callee@{host}>\r\n",
        ));
        assert_eq!(ringing.len(), users.len());
        let answers =
            self.feed(&respond(self, &forwarded, "200 OK", "Contact: <sip:callee@{host}>\r\n"));
        assert_eq!(answers.len(), users.len());
        for method in ["ACK", "BYE"] {
            let requests: Vec<Sent> = answers
                .iter()
                .map(|(at, _, bytes)| (*at, caller(self, *at), in_dialog(method, bytes)))
                .collect();
            let forwarded = self.feed(&requests);
            assert_eq!(forwarded.len(), users.len(), "{method}");
            if method == "BYE" {
                let ended = self.feed(&respond(self, &forwarded, "200 OK", ""));
                assert_eq!(ended.len(), users.len());
            }
        }
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}

/// The lines of `text` whose names are `names`, in the order they stand in.
fn lines(text: &str, names: &[&str]) -> String {
    text.split("\r\n")
        .take_while(|line| !line.is_empty())
        .filter(|line| names.iter().any(|name| line.starts_with(name)))
        .map(|line| format!("{line}\r\n"))
        .collect()
}

/// What stands between `start` and `end`.
fn between<'t>(text: &'t str, start: &str, end: &str) -> &'t str {
    let (_, rest) = text.split_once(start).expect(start);
    rest.split_once(end).expect(end).0
}

/// What the callee answers to `request`.
fn response_to(request: &[u8], status: &str, more: &str) -> Vec<u8> {
    let text = std::str::from_utf8(request).expect("text");
    let mut head = lines(text, &["Via:", "Record-Route:", "From:", "To:", "Call-ID:", "CSeq:"]);
    if !head.split("\r\n").any(|line| line.starts_with("To:") && line.contains(";tag=")) {
        let to = lines(text, &["To:"]);
        head = head.replace(&to, &format!("{};tag=callee\r\n", to.trim_end()));
    }
    format!("SIP/2.0 {status}\r\n{head}{more}Content-Length: 0\r\n\r\n").into_bytes()
}

/// The caller's request within the dialog that `answer` begins.
fn in_dialog(method: &str, answer: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(answer).expect("text");
    let target = between(text, "Contact: <", ">");
    let call = between(text, "Call-ID: ", "@");
    let sent_by = between(text, "Via: SIP/2.0/UDP ", ";");
    let routes = lines(text, &["Record-Route:"]).replace("Record-Route:", "Route:");
    let dialog = lines(text, &["From:", "To:", "Call-ID:"]);
    let number = if method == "ACK" { 1 } else { 3 };
    format!(
        "{method} {target} SIP/2.0\r\nVia: SIP/2.0/UDP {sent_by};rport;branch=z9hG4bK{call}{method}\r\nMax-Forwards: 70\r\n\
         {routes}{dialog}CSeq: {number} {method}\r\nUser-Agent: bench\r\nContent-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

/// The ACK of a refusal.
fn ack_of(invite: &str, response: &Message<'_>) -> Vec<u8> {
    let start = invite.replacen("INVITE", "ACK", 1);
    let start = start.split("\r\n").next().unwrap_or_default();
    let kept = lines(invite, &["Via:", "From:", "Call-ID:"]);
    let to = response.value(HeaderName::To).unwrap_or_default().escape_ascii();
    let number = lines(invite, &["CSeq:"]).replace("INVITE", "ACK");
    format!("{start}\r\n{kept}To: {to}\r\n{number}Max-Forwards: 70\r\nContent-Length: 0\r\n\r\n")
        .into_bytes()
}

/// The header field line that answers the first challenge of `response`.
fn credentials(request: &str, response: &Message<'_>, user: &str) -> String {
    let (from, to) = match response.status() {
        Some(401) => (HeaderName::WwwAuthenticate, "Authorization"),
        _ => (HeaderName::ProxyAuthenticate, "Proxy-Authorization"),
    };
    let value = response.values(from).next().expect("a challenge");
    let challenge = Challenge::parse(value).expect("sound").expect("digest");
    let ha1 = Ha1Set::new(user.as_bytes(), challenge.realm, b"secret");
    let mut words = request.split(' ');
    let (method, uri) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let about = Request { method: method.as_bytes(), uri: uri.as_bytes(), body: b"" };
    let mut value = Vec::new();
    challenge
        .answer(user.as_bytes(), ha1.get(challenge.algorithm), &about, b"0a4f113b", 1)
        .write(&mut value);
    format!("{to}: {}", String::from_utf8_lossy(&value))
}
