//! Attacks on the media relay: packets of strangers, hostile session descriptions, and calls that
//! use up its ports.

use crate::client::{Client, status};
use peers::call::{End, establish_described};
use peers::process::wait_until;
use peers::server::{DOMAIN, TRUSTS_NOBODY};
use peers::test_server::TestServer;
use sip::HeaderName;
use sip::dialog::Dialog;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use test_support::agent::Agent;
use test_support::ports::free_ports;

/// The number of ports of the relay.
const PORTS: u16 = 40;
/// The sockets of a call with one medium.
const SOCKETS: usize = 4;
/// The permitted media of one source.
const SHARE: usize = 3;
/// A host that belongs to no call.
pub(crate) const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 8);

/// A server that relays all calls.
fn relay(keys: &str) -> TestServer {
    relay_with(keys, SHARE)
}

/// A server that relays all calls, and this number of media of one source.
pub(crate) fn relay_with(keys: &str, share: usize) -> TestServer {
    let first = free_ports(PORTS);
    let ports = format!("{first}-{}", first + PORTS - 1);
    let settings = format!(
        "{TRUSTS_NOBODY}[media]\nrelay = \"all\"\nports = \"{ports}\"\nkeys = \"{keys}\"\n\
         max_calls_per_source = {share}\n"
    );
    TestServer::with(&settings, &[])
}

/// The number of open ports of the relay: all UDP ports of the server but that for SIP.
fn sockets(exchange: &TestServer) -> usize {
    let ports = exchange.server.process().udp_ports();
    ports.into_iter().filter(|&port| port != exchange.server.address().port()).count()
}

/// Waits until the relay has no open port.
pub(crate) fn wait_until_closed(exchange: &TestServer) {
    wait_until("the ports of the relay are closed", || (sockets(exchange) == 0).then_some(()));
}

pub(crate) fn socket(host: Ipv4Addr) -> UdpSocket {
    let socket = UdpSocket::bind((host, 0)).expect("a UDP socket can be bound");
    let wait = socket.set_read_timeout(Some(Duration::from_millis(100)));
    wait.expect("the read timeout can be set");
    socket
}

pub(crate) fn address(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().expect("the socket is bound")
}

/// A description with the medium audio at `port` of this machine, and further lines.
pub(crate) fn description(port: u16, more: &str) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
         m=audio {port} RTP/AVP 0\r\n{more}"
    )
}

/// The ports of media in a description.
pub(crate) fn ports(description: &str) -> Vec<u16> {
    let media = description.lines().filter_map(|line| line.strip_prefix("m="));
    media.filter_map(|line| line.split(' ').nth(1)?.parse().ok()).collect()
}

/// An RTP packet of the source `ssrc`.
pub(crate) fn packet(ssrc: u32, number: u16) -> Vec<u8> {
    let mut packet = vec![0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    packet[2..4].copy_from_slice(&number.to_be_bytes());
    packet[8..].copy_from_slice(&ssrc.to_be_bytes());
    packet.resize(172, 0xd5);
    packet
}

/// A relayed call of alice and bob.
pub(crate) struct Call {
    ends: [End; 2],
    /// The sockets for RTP, the caller's first.
    media: [UdpSocket; 2],
    /// The addresses of the relay for them.
    relay: [SocketAddr; 2],
    /// The number of packets sent.
    sent: u16,
}

impl Call {
    pub(crate) fn new(exchange: &TestServer) -> Self {
        Self::with(exchange.agent("alice"), exchange.agent("bob"))
    }

    pub(crate) fn with(alice: Agent, bob: Agent) -> Self {
        let media = [(); 2].map(|()| socket(Ipv4Addr::LOCALHOST));
        let bodies = media.each_ref().map(|media| description(address(media).port(), ""));
        let bodies = bodies.each_ref().map(String::as_str);
        let (alice, bob, received) =
            establish_described(alice, bob, &format!("sip:bob@{DOMAIN}"), bodies);
        let [offer, answer] = received.map(|received| ports(&received)[0]);
        let relay = [answer, offer].map(|port| (Ipv4Addr::LOCALHOST, port).into());
        Self { ends: [alice, bob], media, relay, sent: 0 }
    }

    /// Sends packets from both ends until one reaches each, as audio does. Nothing else reaches
    /// them.
    pub(crate) fn talk(&mut self) {
        let mut heard = [false; 2];
        wait_until("packets to be relayed both ways", || {
            self.sent += 1;
            for (ssrc, (media, relay)) in (0..).zip(self.media.iter().zip(self.relay)) {
                media.send_to(&packet(ssrc, self.sent), relay).expect("a packet is sent");
            }
            for to in [0, 1] {
                let mut buffer = [0; 2000];
                let Ok((length, source)) = self.media[to].recv_from(&mut buffer) else { continue };
                assert_eq!(source, self.relay[to]);
                let number = u16::from_be_bytes([buffer[2], buffer[3]]);
                assert_eq!(buffer[..length], packet(1 - to as u32, number), "a foreign packet");
                heard[to] = true;
            }
            (heard == [true; 2]).then_some(())
        });
    }

    pub(crate) fn hang_up(mut self, exchange: &TestServer) {
        let [alice, bob] = &mut self.ends;
        alice.pass(bob, "BYE", "");
        wait_until_closed(exchange);
    }
}

/// The RTP port and the RTCP port of the relay for an end.
fn both(relay: SocketAddr) -> [SocketAddr; 2] {
    [relay, SocketAddr::new(relay.ip(), relay.port() + 1)]
}

#[test]
fn a_flood_of_packets_of_strangers_does_not_reach_the_ends_of_a_call() {
    let exchange = relay("passed");
    let mut call = Call::new(&exchange);
    let (is_over, targets) = (AtomicBool::new(false), call.relay);
    thread::scope(|scope| {
        scope.spawn(|| {
            let strangers = [(); 4].map(|()| socket(STRANGER));
            while !is_over.load(Ordering::Relaxed) {
                for (number, stranger) in (0..).zip(&strangers) {
                    for target in targets.into_iter().flat_map(both) {
                        let _ = stranger.send_to(&packet(99, number), target);
                    }
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        (0..100).for_each(|_| call.talk());
        is_over.store(true, Ordering::Relaxed);
    });
    call.hang_up(&exchange);
}

/// A forged packet of the phone's own host precedes those of the phone. Others follow them.
#[test]
fn forged_packets_do_not_redirect_the_audio() {
    let exchange = relay("passed");
    let mut call = Call::new(&exchange);
    let forgers = [STRANGER, Ipv4Addr::LOCALHOST].map(socket);
    for _ in 0..3 {
        for forger in &forgers {
            for target in call.relay.into_iter().flat_map(both) {
                forger.send_to(&packet(99, 1), target).expect("a packet is sent");
            }
        }
        // The ends receive what was forged before they sent.
        for media in &call.media {
            while media.recv(&mut [0; 2000]).is_ok() {}
        }
        call.talk();
    }
    call.hang_up(&exchange);
}

/// The number of packets, of 600, that reach the end `receiver` of a call. It never sends, and
/// names
/// `host` for its media. Both ends are at the loopback address.
fn packets_to(receiver: usize, host: Ipv4Addr, caller: Agent, exchange: &TestServer) -> usize {
    let mut hosts = [Ipv4Addr::LOCALHOST; 2];
    hosts[receiver] = host;
    let media = hosts.map(socket);
    let bodies = media.each_ref().map(|media| {
        let address = address(media);
        description(address.port(), "").replace("127.0.0.1", &address.ip().to_string())
    });
    let bodies = bodies.each_ref().map(String::as_str);
    let uri = format!("sip:bob@{DOMAIN}");
    let (mut caller, mut bob, received) =
        establish_described(caller, exchange.agent("bob"), &uri, bodies);
    let relay = SocketAddr::from((Ipv4Addr::LOCALHOST, ports(&received[receiver])[0]));
    let (mut arrived, mut missing) = (0, 0);
    for number in 0..600 {
        // Short packets stay within the bandwidth of the codec.
        let packet = &packet(7, number)[..32];
        media[1 - receiver].send_to(packet, relay).expect("a packet is sent");
        match media[receiver].recv(&mut [0; 2000]) {
            Ok(_) => (arrived, missing) = (arrived + 1, 0),
            Err(_) => missing += 1,
        }
        // One packet may be late; three in a row are refused.
        if missing == 3 {
            break;
        }
    }
    caller.pass(&mut bob, "BYE", "");
    wait_until_closed(exchange);
    arrived
}

/// The most that an address gets which is not proven, and never sends.
const UNCONFIRMED: usize = 500;

#[test]
fn users_that_only_receive_get_all_packets_and_third_parties_and_strangers_few() {
    let exchange = relay("passed");
    let alice = || exchange.agent("alice");
    let stranger = || Agent::stranger("stranger", "other.test", exchange.server.address());
    let here = Ipv4Addr::LOCALHOST;
    assert_eq!(packets_to(0, here, alice(), &exchange), 600);
    assert_eq!(packets_to(1, here, alice(), &exchange), 600);
    assert_eq!(packets_to(1, here, stranger(), &exchange), 600);
    assert_eq!(packets_to(0, here, stranger(), &exchange), UNCONFIRMED);
    for receiver in [0, 1] {
        assert_eq!(packets_to(receiver, STRANGER, alice(), &exchange), UNCONFIRMED);
    }
}

/// A user floods the other end of his call. Another call is not affected.
#[test]
fn a_flood_of_an_end_is_cut_to_the_bandwidth_of_its_codec() {
    let exchange = relay("passed");
    let mut call = Call::new(&exchange);
    call.talk();
    let sent = 4 * 250;
    for number in 0..sent {
        // Batches that the buffer of the port takes.
        if number % 50 == 0 {
            thread::sleep(Duration::from_millis(2));
        }
        call.media[0].send_to(&packet(0, number), call.relay[0]).expect("a packet is sent");
    }
    exchange.server.wait_for_count("media-over-bandwidth", 100);
    call.media[1].set_nonblocking(true).expect("a socket can be nonblocking");
    let arrived = std::iter::from_fn(|| call.media[1].recv(&mut [0; 2000]).ok()).count();
    // Two seconds at once, and 20,000 bytes a second afterwards.
    assert!((100..800).contains(&arrived), "{arrived} of {sent} packets");
    call.media[1].set_nonblocking(false).expect("a socket can be blocking");
    call.hang_up(&exchange);
}

/// A stranger and another user know the dialog. The user sends its BYE to her own phone.
#[test]
fn a_forged_bye_does_not_end_the_relay_of_a_call() {
    let exchange = relay("passed");
    let mut call = Call::new(&exchange);
    let id = call.ends[0].dialog.id();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let [call_id, caller, callee] = [id.call_id, id.local_tag, id.remote_tag].map(text);
    let mut stranger = Client::udp((STRANGER, 0).into(), exchange.server.address());
    for user in ["carol", "bob", "nobody"] {
        let uri = format!("sip:{user}@{DOMAIN}");
        let bye = stranger.request("BYE", &uri, "sip:stranger@other.test", "");
        let line = |line: &str| match line.split_once(": ") {
            Some(("From", _)) => format!("From: <sip:stranger@other.test>;tag={caller}\r\n"),
            Some(("To", _)) => format!("To: <{uri}>;tag={callee}\r\n"),
            Some(("Call-ID", _)) => format!("Call-ID: {call_id}\r\n"),
            _ => format!("{line}\r\n"),
        };
        let bye: String = bye.lines().map(line).collect();
        let answer = stranger.ask(&bye).expect("a response");
        assert_eq!(status(&answer), Some(405), "BYE to {user}: {answer}");
        call.talk();
    }
    let mut carol = exchange.agent("carol");
    let (uri, local) = (exchange.server.uri("carol"), carol.address_of_record());
    for [from, to] in [[&caller, &callee], [&callee, &caller]] {
        let remote = ("<", &uri, ">;tag=", to);
        let mut forged = Dialog::new(&call_id, ("<", &local, ">"), from, remote, &uri);
        carol.ask(&mut forged, "BYE", "", "");
        let bye = carol.request("BYE");
        assert!(bye.value(HeaderName::From).ends_with(from), "{bye}");
        assert!(bye.value(HeaderName::To).ends_with(to), "{bye}");
        assert_eq!(bye.value(HeaderName::CallId), call_id);
        carol.answer(&bye, &forged, 200, "", "");
        assert_eq!(carol.final_response("BYE").status(), Some(200));
        call.talk();
    }
    call.hang_up(&exchange);
}

/// Bob rejects what he receives. Returns the final response to alice.
fn rejected(alice: &mut Agent, bob: &mut Agent) -> Option<u16> {
    wait_until("the final response to INVITE", || {
        if let Some(invite) = bob.request_if_any("INVITE") {
            let dialog = bob.dialog_with(&invite);
            bob.answer(&invite, &dialog, 486, "", "");
        }
        alice.final_response_if_any("INVITE")
    })
    .status()
}

#[test]
fn oversized_descriptions_are_refused_or_pass() {
    let exchange = relay_with("offered", 8);
    let key = "A".repeat(40);
    let crypto: String = (1..600)
        .map(|tag| format!("a=crypto:{tag} AES_CM_128_HMAC_SHA1_80 inline:{key}\r\n"))
        .collect();
    let (mut alice, mut bob) = (exchange.agent("alice"), exchange.agent("bob"));
    for (more, status) in [
        ("a=x\r\n".repeat(9_000), 486),
        ("a=x\r\n".repeat(10_100), 486),
        ("m=audio 9 RTP/AVP 0\r\n".repeat(7), 486),
        ("m=audio 9 RTP/AVP 0\r\n".repeat(8), 488),
        ("m=audio 9 RTP/AVP 0\r\n".repeat(1_000), 488),
        (crypto, 486),
        ("a=extmap:1 urn:x\r\n".repeat(2_500), 486),
        ("a=rtpmap:9 telephone-event/1\r\n".repeat(1_500), 486),
    ] {
        let mut dialog = alice.dialog(&format!("sip:bob@{DOMAIN}"));
        alice.ask(&mut dialog, "INVITE", "", &description(4000, &more));
        let start: String = more.chars().take(20).collect();
        let refused = rejected(&mut alice, &mut bob);
        assert_eq!(refused, Some(status), "{} bytes of {start:?}", more.len());
        wait_until_closed(&exchange);
    }
    let mut call = Call::with(alice, bob);
    call.talk();
    call.hang_up(&exchange);
}

/// Media come and go, and offers are rejected. The packets of the first medium pass all the time.
#[test]
fn a_storm_of_offers_within_a_call_opens_no_more_ports_than_its_media() {
    let exchange = relay("passed");
    let mut call = Call::new(&exchange);
    let places = call.media.each_ref().map(|media| address(media).port());
    let video = |port: u16| format!("m=video {port} RTP/AVP 31\r\n");
    for round in 0..40 {
        let [alice, bob] = &mut call.ends;
        let (here, there) = if round % 2 == 0 { (alice, bob) } else { (bob, alice) };
        let (from, to) = (round % 2, 1 - round % 2);
        // The medium is added and removed.
        for port in [5000, 0] {
            let bodies = [from, to].map(|side| description(places[side], &video(port)));
            here.pass_described(there, "INVITE", "", bodies.each_ref().map(String::as_str));
            assert!(sockets(&exchange) <= 2 * SOCKETS, "{} ports", sockets(&exchange));
        }
        // Media that the other end rejects, with and without the first one.
        for (port, more) in [(places[from], 1), (0, 1), (9, 1)] {
            let body = description(port, &video(5000).repeat(more));
            here.agent.send(&mut here.dialog, "INVITE", "", &body);
            let invite = there.agent.request("INVITE");
            there.agent.answer(&invite, &there.dialog, 488, "", "");
            let answer = here.agent.final_response("INVITE");
            assert_eq!(answer.status(), Some(488));
            there.agent.request("ACK");
        }
        call.talk();
    }
    call.hang_up(&exchange);
}

/// The INVITE of a stranger to bob with this many media.
fn invite(stranger: &mut Client, media: usize) -> String {
    let body = description(4000, &"m=audio 4002 RTP/AVP 0\r\n".repeat(media - 1));
    let end =
        format!("Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let uri = format!("sip:bob@{DOMAIN}");
    let request = stranger.request("INVITE", &uri, "sip:stranger@other.test", "");
    request.replace("Content-Length: 0\r\n\r\n", &end)
}

/// The calls have as many media as a call may have, and are not answered.
#[test]
fn calls_of_one_source_leave_ports_for_those_of_another() {
    let exchange = relay("passed");
    let mut held = exchange.agent("bob");
    let mut stranger = Client::udp((STRANGER, 0).into(), exchange.server.address());
    let calls: Vec<_> = (0..8).map(|_| invite(&mut stranger, 8)).collect();
    let calls: Vec<_> = calls.into_iter().chain((0..8).map(|_| invite(&mut stranger, 1))).collect();
    calls.iter().for_each(|invite| stranger.send(invite).expect("the request is sent"));
    exchange.server.wait_for_count("relay-limited", 1);
    let ringing: Vec<_> = std::iter::from_fn(|| held.request_if_any("INVITE")).collect();
    assert!(!ringing.is_empty());
    assert!(sockets(&exchange) <= SHARE * SOCKETS, "{} ports", sockets(&exchange));
    let media = [(); 2].map(|()| socket(Ipv4Addr::LOCALHOST));
    let bodies = media.each_ref().map(|media| description(address(media).port(), ""));
    let (alice, carol) = (exchange.agent("alice"), exchange.agent("carol"));
    let uri = format!("sip:carol@{DOMAIN}");
    let bodies = bodies.each_ref().map(String::as_str);
    let (mut alice, mut carol, _) = establish_described(alice, carol, &uri, bodies);
    alice.pass(&mut carol, "BYE", "");
    for invite in &ringing {
        let dialog = held.dialog_with(invite);
        held.answer(invite, &dialog, 486, "", "");
    }
    wait_until_closed(&exchange);
}

/// A later proxy forks the call. Its branches have the ports of one.
#[test]
fn early_answers_of_many_callees_open_no_more_ports() {
    let exchange = relay("passed");
    let (mut alice, mut bob) = (exchange.agent("alice"), exchange.agent("bob"));
    let mut dialog = alice.dialog(&format!("sip:bob@{DOMAIN}"));
    alice.ask(&mut dialog, "INVITE", "", &description(4000, ""));
    let invite = bob.request("INVITE");
    for number in 0..40 {
        let dialog = bob.dialog_with(&invite);
        bob.answer(&invite, &dialog, 183, "", &description(5000 + 2 * number, ""));
        let early = alice.response_from("INVITE", 183, dialog.id().local_tag);
        // The relay has room for some callees; the descriptions of others pass.
        let is_relayed = exchange.server.process().udp_ports().contains(&ports(&early.body())[0]);
        assert_eq!(is_relayed, number < 16, "early answer {number}");
    }
    assert_eq!(sockets(&exchange), SOCKETS);
    let dialog = bob.dialog_with(&invite);
    bob.answer(&invite, &dialog, 486, "", "");
    assert_eq!(alice.final_response("INVITE").status(), Some(486));
    wait_until_closed(&exchange);
}
