//! A peer over real sockets on loopback.

use super::*;
use sip::Message;
use sip::digest::{Challenge, DigestInput, Ha1Set};
use sip::stream::{Frame, Framer};
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};

/// Long enough for any machine; reached only if a test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client over UDP or TCP.
enum End {
    Udp(UdpSocket),
    Tcp(TcpStream, Vec<u8>),
}

impl End {
    fn udp(peer: &Peer) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(peer.address()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self::Udp(socket)
    }

    fn tcp(peer: &Peer) -> Self {
        let stream = TcpStream::connect(peer.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self::Tcp(stream, Vec::new())
    }

    fn address(&self) -> SocketAddr {
        match self {
            Self::Udp(socket) => socket.local_addr().unwrap(),
            Self::Tcp(stream, _) => stream.local_addr().unwrap(),
        }
    }

    fn send(&mut self, text: &str) {
        match self {
            Self::Udp(socket) => assert_eq!(socket.send(text.as_bytes()).unwrap(), text.len()),
            Self::Tcp(stream, _) => stream.write_all(text.as_bytes()).unwrap(),
        }
    }

    fn receive(&mut self) -> String {
        let bytes = match self {
            Self::Udp(socket) => {
                let mut bytes = vec![0; 8192];
                let length = socket.recv(&mut bytes).expect("a message comes");
                bytes.truncate(length);
                bytes
            }
            Self::Tcp(stream, unread) => loop {
                if let Ok(Frame::Message(length)) = Framer::default().next(unread) {
                    break unread.drain(..length).collect();
                }
                let mut bytes = [0; 8192];
                let length = stream.read(&mut bytes).expect("a message comes");
                assert!(length > 0, "the connection was closed");
                unread.extend_from_slice(&bytes[..length]);
            },
        };
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Sends a request with the mandatory header fields. `more` has further header field lines.
    fn request(&mut self, method: &str, uri: &str, to: &str, branch: &str, more: &str) {
        let transport = if matches!(self, Self::Udp(_)) { "UDP" } else { "TCP" };
        let address = self.address();
        self.send(&format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/{transport} {address};branch={branch}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:alice@example.org>;tag=a\r\nTo: {to}\r\n\
             Call-ID: {branch}\r\nCSeq: 1 {method}\r\n{more}Content-Length: 0\r\n\r\n"
        ));
    }

    fn register(&mut self, user: &str, more: &str) -> String {
        let contact = self.contact(user);
        let to = format!("<sip:{user}@example.org>");
        self.request(
            "REGISTER",
            "sip:example.org",
            &to,
            "z9hG4bKr",
            &format!("Contact: <{contact}>\r\n{more}"),
        );
        self.receive()
    }

    fn contact(&self, user: &str) -> String {
        let transport = if matches!(self, Self::Udp(_)) { "" } else { ";transport=tcp" };
        format!("sip:{user}@{}{transport}", self.address())
    }

    fn options(&mut self, number: usize) {
        self.request(
            "OPTIONS",
            "sip:example.org",
            "<sip:example.org>",
            &format!("z9hG4bK{number}"),
            "",
        );
    }
}

fn value<'a>(message: &'a str, name: &str) -> Vec<&'a str> {
    let fields = message.lines().filter_map(|line| line.split_once(": "));
    fields.filter(|(found, _)| *found == name).map(|(_, value)| value).collect()
}

/// Returns the response of a callee.
fn respond(request: &str, status: &str, contact: &str) -> String {
    let copied: String = ["Via", "Record-Route", "From", "To", "Call-ID", "CSeq"]
        .iter()
        .flat_map(|name| value(request, name).into_iter().map(move |value| (name, value)))
        .map(|(name, value)| match *name {
            "To" if !value.contains("tag=") => format!("To: {value};tag=b\r\n"),
            _ => format!("{name}: {value}\r\n"),
        })
        .collect();
    format!("SIP/2.0 {status}\r\n{copied}Contact: <{contact}>\r\nContent-Length: 0\r\n\r\n")
}

fn call(peer: &Peer, mut caller: End, mut callee: End) {
    assert!(callee.register("bob", "Expires: 600\r\n").starts_with("SIP/2.0 200 OK"));
    let contact = callee.contact("bob");
    caller.request("INVITE", "sip:bob@example.org", "<sip:bob@example.org>", "z9hG4bKi", "");
    let invite = callee.receive();
    assert!(invite.starts_with(&format!("INVITE {contact} SIP/2.0\r\n")), "{invite}");
    assert_eq!(value(&invite, "Via").len(), 2);
    assert_eq!(value(&invite, "Max-Forwards"), ["69"]);
    for status in ["180 Ringing", "200 OK"] {
        callee.send(&respond(&invite, status, &contact));
        let response = caller.receive();
        assert!(response.starts_with(&format!("SIP/2.0 {status}")), "{response}");
        let vias = value(&response, "Via");
        assert_eq!(vias.len(), 1);
        assert!(vias[0].contains("branch=z9hG4bKi"), "{vias:?}");
    }
    let route = format!("Route: {}\r\n", value(&invite, "Record-Route")[0]);
    let to = "<sip:bob@example.org>;tag=b";
    caller.request("ACK", &contact, to, "z9hG4bKa", &route);
    let ack = callee.receive();
    assert!(ack.starts_with(&format!("ACK {contact} SIP/2.0\r\n")), "{ack}");
    assert!(value(&ack, "Route").is_empty() && value(&ack, "Record-Route").is_empty(), "{ack}");
    caller.request("BYE", &contact, to, "z9hG4bKb", &route);
    let bye = callee.receive();
    callee.send(&respond(&bye, "200 OK", &contact));
    assert_eq!(value(&caller.receive(), "CSeq"), ["1 BYE"]);
    let counts = peer.counts();
    assert_eq!((counts.registers, counts.invites, counts.acks, counts.byes), (1, 1, 1, 1));
    assert_eq!((counts.responses, counts.relayed, counts.sent), (3, 6, 7));
    assert_eq!((counts.malformed, counts.bindings), (0, 1));
}

#[test]
fn calls_go_through_it_over_udp() {
    let peer = Peer::start(&Script::default()).unwrap();
    call(&peer, End::udp(&peer), End::udp(&peer));
}

#[test]
fn calls_go_through_it_over_tcp() {
    let peer = Peer::start(&Script::default()).unwrap();
    call(&peer, End::tcp(&peer), End::tcp(&peer));
    assert_eq!(peer.counts().connections, 2);
}

#[test]
fn calls_go_through_it_over_ipv6() {
    let Ok(peer) = Peer::listen(&Script::default(), "[::1]:0".parse().unwrap()) else {
        return assert!(UdpSocket::bind("[::1]:0").is_err(), "IPv6 is there");
    };
    let end = || {
        let socket = UdpSocket::bind("[::1]:0").unwrap();
        socket.connect(peer.address()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        End::Udp(socket)
    };
    call(&peer, end(), end());
}

#[test]
fn a_registration_is_answered_with_its_contact_and_ends() {
    let peer = Peer::start(&Script::default()).unwrap();
    let mut end = End::udp(&peer);
    let contact = end.contact("bob");
    let response = end.register("bob", "Expires: 600\r\n");
    assert_eq!(value(&response, "Contact"), [format!("<{contact}>;expires=600")]);
    assert_eq!(peer.counts().bindings, 1);
    let response = end.register("bob", "Expires: 0\r\n");
    assert!(response.starts_with("SIP/2.0 200") && value(&response, "Contact").is_empty());
    end.request("INVITE", "sip:bob@example.org", "<sip:bob@example.org>", "z9hG4bKi", "");
    let response = end.receive();
    assert!(response.starts_with("SIP/2.0 404 Not Found"), "{response}");
    let to = value(&response, "To")[0].to_owned();
    end.request("ACK", "sip:bob@example.org", &to, "z9hG4bKi", "");
    end.options(1);
    assert!(end.receive().starts_with("SIP/2.0 200"), "the ACK got no answer");
}

#[test]
fn responses_go_where_the_topmost_via_says() {
    let peer = Peer::start(&Script::default()).unwrap();
    let (mut one, mut other) = (End::udp(&peer), End::udp(&peer));
    let options = |via: &str| {
        format!(
            "OPTIONS sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP {via}\r\nFrom: <sip:a@b>;tag=a\r\n\
             To: <sip:example.org>\r\nCall-ID: x\r\nCSeq: 1 OPTIONS\r\n\r\n"
        )
    };
    let (here, there) = (one.address(), other.address());
    one.send(&options(&format!("{there};branch=z9hG4bK1")));
    assert_eq!(value(&other.receive(), "Via"), [format!("SIP/2.0/UDP {there};branch=z9hG4bK1")]);
    one.send(&options(&format!("{there};rport;branch=z9hG4bK2")));
    let rport =
        format!("SIP/2.0/UDP {there};received={};rport={};branch=z9hG4bK2", here.ip(), here.port());
    assert_eq!(value(&one.receive(), "Via"), [rport]);
    one.send(&options(&format!("{here};branch=z9hG4bK3")));
    assert_eq!(value(&one.receive(), "Via"), [format!("SIP/2.0/UDP {here};branch=z9hG4bK3")]);
}

#[test]
fn calls_are_redirected_where_the_script_says_so() {
    let peer = Peer::start(&Script { is_redirecting: true, ..Script::default() }).unwrap();
    let mut end = End::udp(&peer);
    let contact = end.contact("bob");
    end.register("bob", "");
    end.request("INVITE", "sip:bob@example.org", "<sip:bob@example.org>", "z9hG4bKi", "");
    let response = end.receive();
    assert!(response.starts_with("SIP/2.0 302"), "{response}");
    assert_eq!(value(&response, "Contact"), [format!("<{contact}>")]);
}

/// Returns the Authorization for a challenge to REGISTER.
fn authorization(response: &str, password: &str) -> String {
    assert!(response.starts_with("SIP/2.0 401"), "{response}");
    let challenge = Challenge::parse(value(response, "WWW-Authenticate")[0].as_bytes());
    let challenge = challenge.unwrap().unwrap();
    let ha1 = Ha1Set::new(b"bob", challenge.realm, password.as_bytes());
    let request = DigestInput { method: b"REGISTER", uri: b"sip:example.org", body: b"" };
    let mut line = b"Authorization: ".to_vec();
    let ha1 = ha1.get(challenge.algorithm);
    challenge.credentials_for(b"bob", ha1, &request, b"c", 1).write(&mut line);
    String::from_utf8(line).unwrap() + "\r\n"
}

#[test]
fn credentials_are_asked_for_and_checked() {
    let passwords = [(b"bob".to_vec(), "secret".to_owned())].into();
    for (authentication, wrong) in [
        (Authentication::Nonce, "SIP/2.0 200"),
        (Authentication::Passwords(passwords), "SIP/2.0 403"),
    ] {
        let peer = Peer::start(&Script { authentication, ..Script::default() }).unwrap();
        let mut end = End::udp(&peer);
        let challenge = end.register("bob", "");
        assert!(
            end.register("bob", &authorization(&challenge, "secret")).starts_with("SIP/2.0 200")
        );
        assert!(end.register("bob", &authorization(&challenge, "wrong")).starts_with(wrong));
        let other = challenge.replace("nonce=\"", "nonce=\"0");
        assert!(end.register("bob", &authorization(&other, "secret")).starts_with("SIP/2.0 401"));
        end.request("INVITE", "sip:bob@example.org", "<sip:bob@example.org>", "z9hG4bKi", "");
        assert!(end.receive().starts_with("SIP/2.0 407"));
        assert_eq!(peer.counts().challenged, 3);
    }
}

#[test]
fn it_loses_fails_repeats_and_spoils_as_told_and_counts_it() {
    let rules = vec![
        Rule::lose("requests:10").unwrap(),
        Rule::fail("options:9=503/7").unwrap(),
        Rule::lose("options/200:8").unwrap(),
        Rule::repeat("options/200:7").unwrap(),
        Rule::garbage("options/503").unwrap(),
    ];
    let peer = Peer::start(&Script { rules, ..Script::default() }).unwrap();
    let mut end = End::udp(&peer);
    // Of 100 requests 10 are lost; of the other 90, 10 get a 503 each with garbage before it. Of
    // the 80 responses 10 are lost, and 11 match the repeat rule; one of these (the 56th) is lost.
    for number in 1..=100 {
        end.options(number);
    }
    let (mut ok, mut failed, mut garbage) = (0, 0, 0);
    for _ in 0..100 {
        let text = end.receive();
        match Message::parse(text.as_bytes()).ok().and_then(|message| message.status()) {
            Some(200) => ok += 1,
            Some(503) => {
                assert_eq!(value(&text, "Retry-After"), ["7"]);
                failed += 1;
            }
            _ => garbage += 1,
        }
    }
    assert_eq!((ok, failed, garbage), (80, 10, 10));
    let counts = peer.counts();
    assert_eq!(
        (counts.options, counts.lost, counts.failed, counts.repeated, counts.garbage, counts.sent),
        (100, 20, 10, 10, 10, 90)
    );
    end.send("hello");
    end.send("SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKx\r\n\r\n");
    end.options(101);
    end.receive();
    assert_eq!(peer.counts().malformed, 2);
}

#[test]
fn delayed_messages_are_not_early_and_keep_their_order() {
    let delay = Duration::from_millis(300);
    let rules = vec![Rule::delay("options:2=300ms").unwrap()];
    let peer = Peer::start(&Script { rules, ..Script::default() }).unwrap();
    let mut end = End::udp(&peer);
    let start = Instant::now();
    for number in 1..=6 {
        end.options(number);
    }
    let answers: Vec<_> = (0..6)
        .map(|_| {
            let branch = value(&end.receive(), "Call-ID")[0].to_owned();
            (branch, start.elapsed())
        })
        .collect();
    let order: Vec<_> = answers.iter().map(|(branch, _)| branch.as_str()).collect();
    assert_eq!(order, [1, 3, 5, 2, 4, 6].map(|number| format!("z9hG4bK{number}")));
    assert!(answers[3..].iter().all(|(_, after)| *after >= delay), "{answers:?}");
    assert_eq!(peer.counts().delayed, 3);
}

#[test]
fn a_stall_delays_all_answers_to_its_end() {
    let stall = (Duration::ZERO, Duration::from_millis(200));
    let peer = Peer::start(&Script { stalls: vec![stall], ..Script::default() }).unwrap();
    let mut end = End::udp(&peer);
    let start = Instant::now();
    end.options(0);
    // The first message begins the stall; it was read, and its response was sent before.
    end.receive();
    for number in 1..=50 {
        end.options(number);
    }
    for _ in 1..=50 {
        end.receive();
        assert!(start.elapsed() >= stall.1);
    }
    assert_eq!(peer.counts().options, 51);
    assert!(peer.is_running());
}

#[test]
fn options_of_the_command_line_make_a_script() {
    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        peer: PeerArgs,
    }
    let parse = |args: &str| {
        <Program as clap::Parser>::try_parse_from(["peer"].into_iter().chain(args.split(' ')))
    };
    let args = "--listen 127.0.0.1:0 --duration 1ms --lose requests:10 --fail 503 --stall 1s..2s";
    serve(&parse(args).unwrap().peer, &AtomicBool::new(false)).unwrap();
    for args in ["--lose foo", "--fail 99", "--stall 3", "--delay x", "--auth --users x"] {
        assert!(parse(args).is_err(), "{args}");
    }
    let busy = Peer::start(&Script::default()).unwrap();
    let args = format!("--listen {}", busy.address());
    assert!(matches!(
        serve(&parse(&args).unwrap().peer, &AtomicBool::new(false)),
        Err(PeerError::Listen(..))
    ));
}
