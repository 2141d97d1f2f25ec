//! The NG protocol of a whole server.

use crate::calls::{invite, serve_with, serve_with_range, standing};
use crate::media::{Phone, call, hang_up, pass, pass_packet};
use crate::phone::{PATIENCE, status};
use crate::site::{Site, free_range};
use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;
use test_support::ports::free_ports;

/// A client of the NG protocol on loopback.
pub(crate) struct NgClient(UdpSocket);

impl NgClient {
    pub(crate) fn new() -> Self {
        Self(socket())
    }

    /// Sends a request with this cookie, and returns the response.
    pub(crate) fn ask(&self, to: &str, cookie: u32, entries: &[(&str, &str)]) -> String {
        let entry =
            |(key, value): &(&str, &str)| format!("{}:{key}{}:{value}", key.len(), value.len());
        let dictionary: String = entries.iter().map(entry).collect();
        self.0.send_to(format!("{cookie} d{dictionary}e").as_bytes(), to).unwrap();
        let mut buffer = [0; 65_535];
        let length = self.0.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    /// Sends an offer of the caller `a`. Returns the response.
    fn offer(&self, to: &str, (cookie, call_id): (u32, &str), flags: &str, sdp: &str) -> String {
        let command = [("call-id", call_id), ("command", "offer"), ("from-tag", "a")];
        let rest = [("rtpp-flags", flags), ("sdp", sdp)];
        self.ask(to, cookie, &[&command[..], &rest].concat())
    }

    /// Sends the answer of the callee `b`. Returns the response.
    fn answer(&self, to: &str, (cookie, call_id): (u32, &str), sdp: &str) -> String {
        let command = [("call-id", call_id), ("command", "answer"), ("from-tag", "a")];
        self.ask(to, cookie, &[&command[..], &[("sdp", sdp), ("to-tag", "b")]].concat())
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn port_of(socket: &UdpSocket) -> u16 {
    socket.local_addr().unwrap().port()
}

/// A description with a medium at `port`, and further lines.
fn sdp(port: u16, protocol: &str, more: &str) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
         m=audio {port} {protocol} 0\r\n{more}"
    )
}

/// The port of the medium in a response.
fn port_in(response: &str) -> u16 {
    let (_, medium) = response.split_once("m=audio ").unwrap_or_else(|| panic!("{response}"));
    medium.split(' ').next().unwrap().parse().unwrap()
}

fn settings(ng: &str) -> String {
    format!("ng = \"{ng}\"\nng_clients = [\"127.0.0.1\"]\n")
}

/// The range has the ports of two calls.
#[test]
fn an_ng_client_and_the_server_relay_calls_with_the_same_ports() {
    let (site, ng) = (Site::new(), &*format!("127.0.0.1:{}", free_ports(1)));
    let (range, ports) = free_range(8);
    let (_server, address) = serve_with_range(&site, &ports, &settings(ng));
    let client = NgClient::new();
    let ([caller, callee], ports, within) = call(&address);
    let (here, there) = (socket(), socket());
    let offered = client.offer(ng, (1, "c"), "", &sdp(port_of(&here), "RTP/AVP", ""));
    let answered = client.answer(ng, (2, "c"), &sdp(port_of(&there), "RTP/AVP", ""));
    let of_client = [port_in(&answered), port_in(&offered)];
    let all = [ports, of_client].concat();
    assert!(all.iter().all(|port| range.contains(port)), "{all:?}");
    assert!((1..4).all(|at| !all[..at].contains(&all[at])), "{all:?}");
    for _ in 0..20 {
        pass(&caller.rtp, ports[0], &callee.rtp);
        pass(&here, of_client[0], &there);
        pass(&callee.rtp, ports[1], &caller.rtp);
        pass(&there, of_client[1], &here);
    }
    assert_eq!((standing(&site).len(), &status(&site)["calls"]), (2, &2.into()));
    // No port is left for either.
    let refused = client.offer(ng, (3, "d"), "", &sdp(4000, "RTP/AVP", ""));
    assert!(refused.contains("Ran out of ports"), "{refused}");
    let other = Phone::new();
    invite(&address, &other, 2001);
    let refused = other.receive();
    assert!(refused.starts_with("SIP/2.0 480 "), "{refused}");
    // Each relay knows the ports of the other one: packets cannot run in a circle.
    let delete = [("call-id", "c"), ("command", "delete"), ("from-tag", "a")];
    for port in ports {
        let refused = client.offer(ng, (port.into(), "e"), "", &sdp(port, "RTP/AVP", ""));
        assert!(refused.contains("a port of the relay itself"), "{refused}");
    }
    hang_up(&address, [&caller, &callee], within);
    let give_up = Instant::now() + PATIENCE;
    while standing(&site).len() > 1 {
        assert!(Instant::now() < give_up, "the call has not ended");
    }
    let other = Phone::with_media_at(of_client[0]);
    invite(&address, &other, 2002);
    let refused = other.receive();
    assert!(refused.starts_with("SIP/2.0 488 "), "{refused}");
    // The ports of both are free again.
    assert!(client.ask(ng, 4, &delete).contains("6:result2:ok"));
    for (cookie, call_id) in [(5, "f"), (6, "g")] {
        let offered = client.offer(ng, (cookie, call_id), "", &sdp(4000, "RTP/AVP", ""));
        assert!(range.contains(&port_in(&offered)), "{offered}");
    }
}

#[test]
fn reports_move_between_the_ports_and_feedback_stays_with_the_end_that_has_it() {
    let (site, ng) = (Site::new(), &*format!("127.0.0.1:{}", free_ports(1)));
    let (_server, _) = serve_with(&site, 8, &settings(ng));
    let client = NgClient::new();
    let (here, there, reports) = (socket(), socket(), socket());
    let more = "a=rtcp-mux\r\na=rtcp-fb:0 nack\r\n";
    let flags = "RTP/AVP rtcp-mux-demux";
    let offered = client.offer(ng, (1, "c"), flags, &sdp(port_of(&here), "RTP/AVPF", more));
    assert!(offered.contains(" RTP/AVP 0\r\n") && !offered.contains("a=rtcp"), "{offered}");
    let more = format!("a=rtcp:{}\r\n", port_of(&reports));
    let answered = client.answer(ng, (2, "c"), &sdp(port_of(&there), "RTP/AVP", &more));
    assert!(answered.contains(" RTP/AVPF 0\r\n"), "{answered}");
    assert!(answered.contains("a=rtcp-mux\r\n") && !answered.contains("rtcp-fb"), "{answered}");
    let ports = [port_in(&answered), port_in(&offered)];
    pass(&here, ports[0], &there);
    pass(&there, ports[1], &here);
    // A receiver report, and a request for a picture.
    let report = [0x80, 201, 0, 1, 0, 0, 0, 7];
    let feedback = [0x81, 206, 0, 2, 0, 0, 0, 7, 0, 0, 0, 8];
    let relay = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let mut buffer = [0; 100];
    for packet in [&feedback[..], &[&report[..], &feedback].concat()] {
        here.send_to(packet, relay(ports[0])).unwrap();
    }
    let (length, from) = reports.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from), (&report[..], relay(ports[1] + 1)));
    pass_packet(&reports, ports[1] + 1, &here, &report);
    assert_eq!(status(&site)["counters"]["ng-ignored-flags"], 0);
}
