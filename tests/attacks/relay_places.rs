//! The places that relayed media go to: addresses that a party must not have packets sent to, and
//! ports of relays.

use crate::apart::{Elsewhere, add_address, apart};
use peers::process::wait_until;
use peers::server::{DOMAIN, TRUSTS_NOBODY};
use peers::test_server::TestServer;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::thread;
use std::time::Duration;

/// The addresses of two servers, and those of the phones: public ones.
const SERVERS: [Ipv4Addr; 2] = [Ipv4Addr::new(203, 0, 113, 1), Ipv4Addr::new(203, 0, 113, 2)];
const ALICE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const BOB: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
/// Addresses that phones on the Internet must not reach.
const PRIVATE: Ipv4Addr = Ipv4Addr::new(192, 168, 7, 7);
const LINK: Ipv4Addr = Ipv4Addr::new(169, 254, 7, 7);
const MULTICAST: Ipv4Addr = Ipv4Addr::new(224, 0, 1, 75);
/// The SIP port of the servers at their addresses.
const SIP: u16 = 5060;
/// The ports of a relay: those of ten calls.
const PORTS: u16 = 40;

/// A server without authentication at `host`, which relays all calls by ports from `first` on.
fn server(host: IpAddr, first: u16, more: &str) -> TestServer {
    let settings = format!(
        "{TRUSTS_NOBODY}{more}[media]\nrelay = \"all\"\nports = \"{first}-{}\"\n",
        first + PORTS - 1
    );
    let listen = match host {
        IpAddr::V4(ip) => format!("udp:{ip}:{SIP}"),
        // The loopback interface.
        IpAddr::V6(ip) => format!("udp:[{ip}%1]:{SIP}"),
    };
    TestServer::with(&settings, &["--auth", "off", "--listen", &listen])
}

fn socket(host: impl Into<IpAddr>) -> UdpSocket {
    let place = match host.into() {
        IpAddr::V6(ip) => SocketAddrV6::new(ip, 0, 0, 1).into(),
        ip => SocketAddr::new(ip, 0),
    };
    let socket = UdpSocket::bind(place).expect("the address can be bound");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout can be set");
    socket
}

fn place(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().expect("the socket is bound")
}

/// The values of the lines that begin with `name`.
fn lines<'m>(message: &'m str, name: &str) -> Vec<&'m str> {
    message.lines().filter_map(|line| line.strip_prefix(name)).collect()
}

/// The port of the first medium.
fn port_in(message: &str) -> u16 {
    let medium = lines(message, "m=audio ")[0];
    medium.split(' ').next().and_then(|port| port.parse().ok()).expect("a port")
}

/// A description with a medium at these places for RTP and RTCP.
fn description(rtp: SocketAddr, rtcp: Option<SocketAddr>) -> String {
    let family = |place: SocketAddr| if place.is_ipv4() { "IP4" } else { "IP6" };
    let of = |place: SocketAddr| format!("{} {}", family(place), place.ip());
    let rtcp = rtcp.map(|rtcp| format!("a=rtcp:{} IN {}\r\n", rtcp.port(), of(rtcp)));
    format!(
        "v=0\r\no=- 1 1 IN {host}\r\ns=-\r\nc=IN {host}\r\nt=0 0\r\nm=audio {} RTP/AVP 0\r\n{}",
        rtp.port(),
        rtcp.unwrap_or_default(),
        host = of(rtp)
    )
}

/// A message with a body.
fn with_body(head: &str, body: &str) -> String {
    let (kind, length) = ("Content-Type: application/sdp\r\n", body.len());
    format!("{head}{kind}Content-Length: {length}\r\n\r\n{body}")
}

/// Receives the next message that begins with `start`.
fn receive(socket: &UdpSocket, start: &str) -> String {
    let mut buffer = [0; 65_535];
    loop {
        let (length, _) = socket.recv_from(&mut buffer).expect("a message");
        let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
        if message.starts_with(start) {
            return message;
        }
    }
}

/// A call that the caller has begun, and whose INVITE has come to the callee.
struct Offered {
    caller: UdpSocket,
    callee: UdpSocket,
    server: SocketAddr,
    invite: String,
}

impl Offered {
    /// Registers a user of its own at the callee, and calls it with the description `offer`.
    fn new(server: SocketAddr, hosts: [IpAddr; 2], number: u32, offer: &str) -> Self {
        let [caller, callee] = hosts.map(socket);
        let user = format!("sip:u{number}@{DOMAIN}");
        let head = |method: &str, uri: &str, from: &UdpSocket| {
            let from = place(from);
            let shown = SocketAddr::new(from.ip(), from.port());
            format!(
                "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {shown};branch=z9hG4bK{method}{number};\
                 rport\r\nMax-Forwards: 70\r\nFrom: <{user}>;tag={number}\r\nTo: <{user}>\r\n\
                 Call-ID: {method}{number}\r\nCSeq: 1 {method}\r\nContact: <sip:x@{shown}>\r\n"
            )
        };
        let register = head("REGISTER", &format!("sip:{DOMAIN}"), &callee);
        let register = register + "Content-Length: 0\r\n\r\n";
        callee.send_to(register.as_bytes(), server).expect("a request is sent");
        receive(&callee, "SIP/2.0 200 ");
        let invite = with_body(&head("INVITE", &user, &caller), offer);
        caller.send_to(invite.as_bytes(), server).expect("a request is sent");
        Self { invite: String::new(), caller, callee, server }
    }

    /// Waits for the INVITE at the callee.
    fn arrived(mut self) -> Self {
        self.invite = receive(&self.callee, "INVITE ");
        self
    }

    /// The port of the relay for the callee.
    fn port(&self) -> u16 {
        port_in(&self.invite)
    }

    /// Answers with the description `answer`. Returns the port of the relay for the caller.
    fn answer(&self, answer: &str) -> u16 {
        let mut head = "SIP/2.0 200 OK\r\n".to_owned();
        for name in ["Via: ", "Record-Route: ", "From: ", "To: ", "Call-ID: ", "CSeq: "] {
            for value in lines(&self.invite, name) {
                let tag = if name == "To: " { ";tag=callee" } else { "" };
                head += &format!("{name}{value}{tag}\r\n");
            }
        }
        head += &format!("Contact: <sip:x@{}>\r\n", place(&self.callee));
        let response = with_body(&head, answer);
        self.callee.send_to(response.as_bytes(), self.server).expect("a response is sent");
        port_in(&receive(&self.caller, "SIP/2.0 200 "))
    }
}

/// A packet of RTP, short enough for the bandwidth of the codec.
fn packet(number: u8) -> Vec<u8> {
    let mut packet = vec![0x80, 0, 0, number, 0, 0, 0, 0, 0, 0, 0, 7];
    packet.resize(40, 0xd5);
    packet
}

/// The packets of a burst.
const BURST: u8 = 50;

/// The number of packets of 50, from the caller to the relay, that arrive at `target`. The callee
/// names it for RTP, or for RTCP. Afterwards the callee sends and hears the caller.
fn packets_to(
    target: &UdpSocket,
    names_rtcp: bool,
    host: SocketAddr,
    number: u32,
    exchange: &TestServer,
) -> usize {
    let [media, there] = [ALICE, BOB].map(socket);
    let hosts = [ALICE, BOB].map(IpAddr::from);
    let call = Offered::new(host, hosts, number, &description(place(&media), None)).arrived();
    let named = match place(target) {
        // A socket of a group is bound at all addresses.
        any if any.ip().is_unspecified() => SocketAddr::new(MULTICAST.into(), any.port()),
        other => other,
    };
    let answer = match names_rtcp {
        true => description(place(&there), Some(named)),
        false => description(named, None),
    };
    let relay = SocketAddr::new(host.ip(), call.answer(&answer));
    let rtcp = SocketAddr::new(host.ip(), relay.port() + 1);
    let before = exchange.server.counter("media-received");
    for number in 0..BURST {
        media.send_to(&packet(number), relay).expect("a packet is sent");
        // The buffer of the port for RTCP is small.
        if number % 10 == 0 {
            media.send_to(&[0x80, 201, 0, 1, 0, 0, 0, 7], rtcp).expect("a packet is sent");
        }
    }
    wait_until("the packets at the relay", || {
        let received = exchange.server.counter("media-received") - before;
        (received == u64::from(BURST + BURST / 10)).then_some(())
    });
    let sent = exchange.server.counter("media-sent");
    assert!(sent <= exchange.server.counter("media-received"), "more packets than came");
    target.set_nonblocking(true).expect("a socket can be nonblocking");
    let mut buffer = [0; 2000];
    let arrived = std::iter::from_fn(|| match target.recv(&mut buffer) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        received => Some(received.expect("a socket without an error")),
    });
    let arrived = arrived.count();
    // The callee moves the packets to its own address by one of its own.
    let back = SocketAddr::new(host.ip(), call.port());
    there.send_to(&packet(0), back).expect("a packet is sent");
    media.recv(&mut buffer).expect("a packet of the callee");
    arrived
}

#[test]
fn media_go_to_no_address_that_the_party_cannot_reach() {
    apart(|| {
        let host = SERVERS[0];
        add_address(host.into());
        let elsewhere = Elsewhere::new(host, &[ALICE, BOB, PRIVATE, LINK], MULTICAST);
        let targets = || {
            let group = elsewhere.run(|| {
                let group = socket(Ipv4Addr::UNSPECIFIED);
                group.join_multicast_v4(&MULTICAST, &ALICE).expect("a group can be joined");
                group
            });
            let [private, link] = [PRIVATE, LINK].map(|host| elsewhere.run(|| socket(host)));
            [private, link, socket(Ipv4Addr::LOCALHOST), socket(host), group]
        };
        let exchange = server(host.into(), 24_000, "");
        let sip = SocketAddr::from((host, SIP));
        for (number, target) in (1..).zip(targets()) {
            for names_rtcp in [false, true] {
                let number = 2 * number + u32::from(names_rtcp);
                let arrived =
                    elsewhere.run(|| packets_to(&target, names_rtcp, sip, number, &exchange));
                assert_eq!(arrived, 0, "{:?} {names_rtcp}", place(&target));
            }
        }
        drop(exchange);
        // With the permission of the configuration.
        let permission = "reachable = [\"192.168.7.0/24\"]\n";
        let exchange = server(host.into(), 24_100, permission);
        let to = |host, number| {
            elsewhere.run(|| packets_to(&socket(host), false, sip, number, &exchange))
        };
        assert_eq!(to(PRIVATE, 1), usize::from(BURST));
        assert_eq!(to(LINK, 2), 0);
    });
}

/// The parties of two calls, at two servers, name the ports of the other call.
#[test]
fn packets_in_a_circle_of_two_servers_end() {
    apart(|| {
        for address in SERVERS.into_iter().chain([ALICE, BOB]) {
            add_address(address.into());
        }
        let firsts = [24_200, 24_300];
        let exchanges = [0, 1].map(|at| server(SERVERS[at].into(), firsts[at], ""));
        let sip = SERVERS.map(|host| SocketAddr::from((host, SIP)));
        let hosts = [ALICE, BOB].map(IpAddr::from);
        // The ports of a call follow those of the call before.
        let own = socket(ALICE);
        let next = [0, 1].map(|at| {
            let call = Offered::new(sip[at], hosts, 1, &description(place(&own), None)).arrived();
            let range = firsts[at]..firsts[at] + PORTS;
            let after = |port: u16| if range.contains(&port) { port } else { firsts[at] };
            let caller = after(call.port() + 2);
            [caller, after(caller + 2)].map(|port| SocketAddr::from((SERVERS[at], port)))
        });
        let calls = [0, 1].map(|at| {
            let offer = description(next[1 - at][0], None);
            Offered::new(sip[at], hosts, 2, &offer).arrived()
        });
        for at in [0, 1] {
            assert_eq!(calls[at].port(), next[at][1].port(), "the ports were foreseen");
            let port = calls[at].answer(&description(next[1 - at][1], None));
            assert_eq!(port, next[at][0].port(), "the ports were foreseen");
        }
        let count = || exchanges.each_ref().map(|it| it.server.counter("media-received"));
        // A packet in either direction. Each runs from server to server.
        let attackers = [ALICE, BOB].map(socket);
        for (attacker, port) in attackers.iter().zip(next[0]) {
            let before = count();
            attacker.send_to(&packet(1), port).expect("a packet is sent");
            wait_until("the packet to run in a circle", || {
                let after = count();
                (0..2).all(|at| after[at] >= before[at] + 100).then_some(())
            });
        }
        // What is over the bandwidth of the call is dropped.
        wait_until("the end of the circle", || {
            let before = count();
            thread::sleep(Duration::from_secs(1));
            (count() == before).then_some(())
        });
    });
}

#[test]
fn a_call_of_a_link_local_address_is_not_relayed_and_the_log_says_why() {
    apart(|| {
        let host = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 7);
        add_address(host.into());
        let exchange = server(host.into(), 24_400, "");
        let sip = SocketAddrV6::new(host, SIP, 0, 1).into();
        let media = SocketAddr::new(host.into(), 4000);
        let call = Offered::new(sip, [host.into(); 2], 1, &description(media, None));
        receive(&call.caller, "SIP/2.0 480 ");
        exchange.server.wait_for_line("fe80::7, which is valid on one link only");
    });
}
