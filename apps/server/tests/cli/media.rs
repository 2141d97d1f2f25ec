//! A call with media that the server relays.

use crate::calls::{records, serve_with, serve_with_range};
use crate::phone::{PATIENCE, found, receive, register, request, serve, status};
use crate::site::{Site, free_range, show};
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// A phone: its socket for SIP, that for RTP, and those for further media.
pub(crate) struct Phone {
    pub(crate) sip: UdpSocket,
    pub(crate) rtp: UdpSocket,
    /// Each with the media type, the protocol and the format.
    more: Vec<(&'static str, UdpSocket)>,
    /// The port that the description names instead of that of `rtp`.
    named: Option<u16>,
}

impl Phone {
    pub(crate) fn new() -> Self {
        Self::at("127.0.0.1", &[])
    }

    /// A phone at the address `host`, with `media` besides audio.
    fn at(host: &str, media: &[&'static str]) -> Self {
        let socket = || {
            let socket = UdpSocket::bind((host, 0)).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket
        };
        let more = media.iter().map(|&medium| (medium, socket())).collect();
        Self { sip: socket(), rtp: socket(), more, named: None }
    }

    /// A phone that names this port of its host for its audio.
    pub(crate) fn with_media_at(port: u16) -> Self {
        Self { named: Some(port), ..Self::new() }
    }

    /// A body with a session description, and its header fields.
    pub(crate) fn description(&self) -> String {
        let place = self.rtp.local_addr().unwrap();
        let (family, ip) = (if place.is_ipv4() { "IP4" } else { "IP6" }, place.ip());
        let mut body = format!(
            "v=0\r\no=- 1 1 IN {family} {ip}\r\ns=-\r\nc=IN {family} {ip}\r\nt=0 0\r\n\
             m=audio {} RTP/AVP 0\r\n",
            self.named.unwrap_or(place.port())
        );
        for (medium, socket) in &self.more {
            let port = socket.local_addr().unwrap().port().to_string();
            body += &format!("m={}\r\n", medium.replace("PORT", &port));
        }
        format!(
            "Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{}",
            body.len(),
            body.trim_end_matches("\r\n")
        )
    }

    /// Receives the next message other than a provisional response of the server.
    pub(crate) fn receive(&self) -> String {
        loop {
            let message = receive(&self.sip);
            if !message.starts_with("SIP/2.0 100 ") {
                return message;
            }
        }
    }

    /// Receives a BYE. Other messages are skipped, such as responses that come again.
    pub(crate) fn receive_bye(&self) -> String {
        loop {
            let message = self.receive();
            if message.starts_with("BYE ") {
                return message;
            }
        }
    }

    /// Sends the response `status` to `request`, with `more` header fields and a body.
    pub(crate) fn respond(&self, server: &str, request: &str, status: &str, more: &str) {
        self.sip.send_to(response(request, status, more).as_bytes(), server).unwrap();
    }
}

/// The response `status` to `request`, with `more` header fields and a body.
pub(crate) fn response(request: &str, status: &str, more: &str) -> String {
    let mut text = format!("SIP/2.0 {status}\r\n");
    for name in ["Via: ", "Record-Route: ", "From: ", "To: ", "Call-ID: ", "CSeq: "] {
        for value in found(request, name) {
            let tag = if name == "To: " && !value.contains("tag=") { ";tag=2" } else { "" };
            text += &format!("{name}{value}{tag}\r\n");
        }
    }
    text + more + "\r\n"
}

/// The ports of the media in a message.
pub(crate) fn ports(message: &str) -> Vec<u16> {
    let media = found(message, "m=");
    media.iter().map(|medium| medium.split(' ').nth(1).unwrap().parse().unwrap()).collect()
}

/// Sends RTP packets from one phone to the port of the relay, until the other one has one.
pub(crate) fn pass(from: &UdpSocket, port: u16, to: &UdpSocket) {
    let mut packet = [0xd5; 172];
    packet[..12].copy_from_slice(&[0x80, 0, 0, 1, 0, 0, 0, 160, 0, 0, 0, 7]);
    pass_packet(from, port, to, &packet);
}

pub(crate) fn pass_packet(from: &UdpSocket, port: u16, to: &UdpSocket, packet: &[u8]) {
    // The server has the loopback address of the phone's family.
    let server = SocketAddr::new(from.local_addr().unwrap().ip(), port);
    from.send_to(packet, server).unwrap();
    let mut buffer = [0; 200];
    let length = to.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], packet);
}

/// Sets up a call. Returns its phones and the ports of the relay for the caller and the callee.
pub(crate) fn call(server: &str) -> ([Phone; 2], [u16; 2], String) {
    let (phones, [caller, callee], within) =
        call_of([Phone::new(), Phone::new()], [server, server]);
    (phones, [caller[0], callee[0]], within)
}

/// Sets up a call of these phones, each at its address of the server. Returns all ports of the
/// relay.
fn call_of(
    [caller, callee]: [Phone; 2],
    [server, there]: [&str; 2],
) -> ([Phone; 2], [Vec<u16>; 2], String) {
    let contact = format!("sip:bob@{}", callee.sip.local_addr().unwrap());
    register(&callee.sip, there, &contact);
    let from = caller.sip.local_addr().unwrap();
    let more = format!("Contact: <sip:alice@{from}>\r\n{}", caller.description());
    let invite = request("INVITE", "sip:bob@example.com", "UDP", from, 2000, &more);
    caller.sip.send_to(invite.as_bytes(), server).unwrap();
    let invite = callee.receive();
    let more = format!("Contact: <{contact}>\r\n{}", callee.description());
    callee.respond(there, &invite, "200 OK", &more);
    let answer = caller.receive();
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    let routes: String = found(&answer, "Record-Route: ")
        .iter()
        .rev()
        .map(|route| format!("Route: {route}\r\n"))
        .collect();
    let within = routes + "To: <sip:bob@example.com>;tag=2\r\n";
    ([caller, callee], [ports(&answer), ports(&invite)], within)
}

/// Has the caller end the call.
pub(crate) fn hang_up(server: &str, [caller, callee]: [&Phone; 2], within: String) {
    let contact = format!("sip:bob@{}", callee.sip.local_addr().unwrap());
    let more = within + "Reason: Q.850;cause=16\r\nContent-Length: 0\r\n";
    let from = caller.sip.local_addr().unwrap();
    let bye = request("BYE", &contact, "UDP", from, 2000, &more)
        .replace("To: <sip:bob@example.com>\r\n", "")
        .replace("branch=z9hG4bK2000", "branch=z9hG4bK3000")
        .replace("CSeq: 1", "CSeq: 2");
    caller.sip.send_to(bye.as_bytes(), server).unwrap();
    let bye = callee.receive_bye();
    callee.respond(server, &bye, "200 OK", "Content-Length: 0\r\n");
}

/// Waits until the ports are closed.
fn await_closed(ports: &[u16]) {
    let give_up = Instant::now() + PATIENCE;
    while ports.iter().any(|port| UdpSocket::bind(("127.0.0.1", *port)).is_err()) {
        assert!(Instant::now() < give_up, "{ports:?} are open");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn packets_of_a_call_pass_until_it_ends() {
    let site = Site::new();
    let (range, ports) = free_range(100);
    let (_server, server) = serve_with_range(&site, &ports, "max_calls_per_source = 1\n");
    let ([caller, callee], ports, within) = call(&server);
    assert!(ports.iter().all(|port| range.contains(port)), "{ports:?}");
    for _ in 0..20 {
        pass(&caller.rtp, ports[0], &callee.rtp);
        pass(&callee.rtp, ports[1], &caller.rtp);
    }
    // A second call of the same source is over its share.
    let from = caller.sip.local_addr().unwrap();
    let more = format!("Contact: <sip:alice@{from}>\r\n{}", caller.description());
    let invite = request("INVITE", "sip:bob@example.com", "UDP", from, 2001, &more);
    caller.sip.send_to(invite.as_bytes(), &server).unwrap();
    let refused = caller.receive();
    assert!(refused.starts_with("SIP/2.0 480 "), "{refused}");
    let counters = status(&site)["counters"].clone();
    assert_eq!(
        (&counters["relay-refused"], &counters["relay-source-limit"]),
        (&1.into(), &1.into())
    );
    hang_up(&server, [&caller, &callee], within);
    await_closed(&ports);
}

#[test]
fn a_reload_relays_new_calls_and_names_what_needs_a_restart() {
    let site = Site::new();
    let config = |relay: &str, rest: &str| {
        show(&site.file("c.toml", &format!("[media]\nrelay = \"{relay}\"\n{rest}")))
    };
    let [(first, ports), (second, others)] = [free_range(100), free_range(100)];
    let (ports, others) = (format!("ports = \"{ports}\"\n"), format!("ports = \"{others}\"\n"));
    let is_relayed = |port: &u16| first.contains(port) || second.contains(port);
    let path = config("needed", &ports);
    let (running, [server, _]) = serve(&site, &format!("--config {path}"));
    let (_, open, _) = call(&server);
    assert!(!open.iter().any(is_relayed), "not relayed: {open:?}");
    let rest = "timeout = \"9s\"\nhistory = \"9d\"\n[panel]\nusers = false\n";
    config("all", &format!("{others}{rest}"));
    running.hang_up();
    let log = site.log_with("as before until a restart: ");
    let keys = "panel.users, media.ports, media.timeout, media.history\n";
    assert!(log.contains(&format!("until a restart: {keys}")), "{log}");
    let ([caller, callee], open, within) = call(&server);
    assert!(open.iter().all(|port| first.contains(port)), "relayed: {open:?}");
    // Another call with its Call-ID would be the same one.
    hang_up(&server, [&caller, &callee], within);
    await_closed(&open);
    // Nothing waits for a restart any more.
    config("off", &ports);
    running.hang_up();
    let count = |log: &str| log.matches("the configuration was read again\n").count();
    let give_up = Instant::now() + PATIENCE;
    while count(&site.log()) < 2 {
        assert!(Instant::now() < give_up, "{}", site.log());
        thread::sleep(Duration::from_millis(20));
    }
    let (_, open, _) = call(&server);
    assert!(!open.iter().any(is_relayed), "not relayed: {open:?}");
    assert_eq!(site.log().matches("until a restart").count(), 1, "{}", site.log());
}

#[test]
fn a_caller_with_ipv4_and_a_callee_with_ipv6_hear_each_other() {
    let site = Site::new();
    let text = format!("[media]\nports = \"{}\"\n", free_range(100).1);
    let config = show(&site.file("c.toml", &text));
    let words = format!("--config {config} --listen udp:127.0.0.1:0 --listen udp:[::1]:0");
    let _server = site.serve(&format!("--domain example.com --auth off --workers 2 {words}"));
    let listens = status(&site)["listens"].clone();
    let [server, there] = [0, 1].map(|at| listens[at].as_str().unwrap()[4..].to_owned());
    let phones = [Phone::at("127.0.0.1", &[]), Phone::at("::1", &[])];
    let ([caller, callee], ports, _) = call_of(phones, [&server, &there]);
    for _ in 0..20 {
        pass(&caller.rtp, ports[0][0], &callee.rtp);
        pass(&callee.rtp, ports[1][0], &caller.rtp);
    }
}

#[test]
fn video_and_fax_pass() {
    let site = Site::new();
    let (_server, server) = serve_with(&site, 100, "keys = \"offered\"\n");
    let media = ["video PORT RTP/AVPF 0", "image PORT udptl t38"];
    let phones = [Phone::at("127.0.0.1", &media), Phone::at("127.0.0.1", &media)];
    let ([caller, callee], ports, _) = call_of(phones, [&server, &server]);
    assert_eq!(ports.each_ref().map(Vec::len), [3, 3]);
    pass(&caller.rtp, ports[0][0], &callee.rtp);
    pass(&callee.more[0].1, ports[1][1], &caller.more[0].1);
    pass(&caller.more[0].1, ports[0][1], &callee.more[0].1);
    // UDPTL (T.38 annex D) has no header that this relay reads.
    for first in [0, 0x80, 0xff] {
        pass_packet(&caller.more[1].1, ports[0][2], &callee.more[1].1, &[first, 1, 1, 0, 0]);
        pass_packet(&callee.more[1].1, ports[1][2], &caller.more[1].1, &[first, 2, 1, 0, 0]);
    }
}

#[test]
fn a_call_without_packets_loses_its_ports() {
    let site = Site::new();
    let (_server, server) = serve_with(&site, 100, "timeout = \"1s\"\n");
    let ([caller, callee], ports, _) = call(&server);
    pass(&caller.rtp, ports[0], &callee.rtp);
    await_closed(&ports);
    site.log_with("the relay of call 2000 ends: it has no packets");
    for phone in [&caller, &callee] {
        let bye = phone.receive_bye();
        assert_eq!(found(&bye, "Reason: "), ["SIP;cause=408;text=\"No media\""]);
    }
}

/// The phones send their BYE to one another, past the server.
#[test]
fn a_call_that_a_phone_leaves_by_rtcp_ends_soon() {
    let site = Site::new();
    let (_server, server) = serve_with(&site, 20, "timeout = \"1h\"\n");
    let ([caller, callee], ports, _) = call(&server);
    pass(&caller.rtp, ports[0], &callee.rtp);
    pass(&callee.rtp, ports[1], &caller.rtp);
    // A receiver report, and a BYE of the source of the packets.
    let bye = [0x80, 201, 0, 1, 0, 0, 0, 7, 0x81, 203, 0, 1, 0, 0, 0, 7];
    pass_packet(&callee.rtp, ports[1], &caller.rtp, &bye);
    await_closed(&ports);
    site.log_with("the relay of call 2000 ends: it has no packets after an RTCP BYE");
    for phone in [&caller, &callee] {
        let bye = phone.receive_bye();
        assert_eq!(found(&bye, "Reason: "), ["Q.850;cause=16;text=\"RTCP BYE\""]);
    }
    let record = &records(&site.data().join("calls.jsonl"), 1)[0];
    assert_eq!(record["ended_by"], "callee");
    assert_eq!(record["reason"], "Q.850;cause=16;text=\"RTCP BYE\"");
}

#[test]
fn fewer_calls_are_relayed_if_fewer_files_may_be_open() {
    let site = Site::new();
    let mut command = site.command_after(
        "ulimit -n 400",
        "serve --listen udp:127.0.0.1:0 --workers 1 --domain example.com",
    );
    let _server = site.started(&mut command);
    let log = site.log_with("calls are relayed, not 2500");
    assert!(log.contains("files may be open for media"), "{log}");
}
