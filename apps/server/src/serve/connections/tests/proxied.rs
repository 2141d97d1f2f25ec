//! Streams over loopback to a peer that is a proxy.

use super::*;
use net::Hops;
use sip::stream::proxy_protocol::BadHeader;
use sip::stream::websocket::ClientField;
use std::net::IpAddr;

const HEADER: &[u8] = b"PROXY TCP4 192.0.2.7 192.0.2.1 40000 5060\r\n";

fn proxied(transport: Transport) -> Rig {
    let Rig { set, stream, peer, now } = Rig::accepted_by(transport, None);
    let stream = match transport {
        Transport::Ws => stream.of_proxy().of_web(Arc::default()),
        _ => stream.of_proxy(),
    };
    Rig { set, stream, peer, now }
}

/// Has the proxy send `bytes` after `seconds`, and reads the header from them.
fn greet(rig: &mut Rig, seconds: u64, bytes: &[u8]) -> Result<More, BadHeader> {
    rig.now += Duration::from_secs(seconds);
    rig.peer.write_all(bytes).unwrap();
    while !rig.ready().contains(EpollFlags::EPOLLIN) {}
    let is_proxy = Arc::new(|address: IpAddr| address.is_loopback());
    let field = ClientField::XForwardedFor;
    rig.stream.greet(rig.now, Hops { field, is_required: true, is_proxy })
}

/// The messages after the header.
fn rest(rig: &Rig) -> Vec<Vec<u8>> {
    let mut seen = Seen::default();
    while rig.stream.read(rig.now, &mut [0; 16], &rig.set, |heard| seen.hear(heard))
        == Ok(More::Now)
    {}
    seen.0
}

#[test]
fn the_header_may_come_in_pieces_and_with_data() {
    for end in [1, 5, 20, HEADER.len() - 1] {
        let mut rig = proxied(Transport::Tcp);
        assert_eq!(rig.due(), 10, "a proxy has to speak soon");
        assert_eq!(greet(&mut rig, 1, &HEADER[..end]), Ok(More::Later));
        assert!(rig.stream.is_greeting());
        assert_eq!(rig.due(), 10);
        let more = [&HEADER[end..], &message("1")[..20]].concat();
        assert_eq!(greet(&mut rig, 1, &more), Ok(More::Now));
        assert!(!rig.stream.is_greeting());
        assert_eq!(rig.stream.flow().remote, "192.0.2.7:40000".parse().unwrap());
        assert_eq!(rest(&rig), [b""; 0]);
        assert_eq!(rig.due(), 2 + 20);
        assert_eq!(rig.hear(0, &message("1")[20..]), [message("1")]);
    }
}

#[test]
fn a_proxy_without_a_header_counts_by_its_own_address() {
    let mut rig = proxied(Transport::Tcp);
    assert_eq!(greet(&mut rig, 0, &message("1")), Ok(More::Now));
    assert_eq!(rest(&rig), [message("1")]);
    assert!(rig.stream.flow().remote.ip().is_loopback());
    let mut rig = proxied(Transport::Tcp);
    assert_eq!(greet(&mut rig, 0, b"PROXY TCP4 \r\n"), Err(BadHeader::Address));
}

#[test]
fn x_forwarded_for_counts_behind_the_last_proxy() {
    let asked = String::from_utf8(sip::stream::websocket::request("127.0.0.1", [5; 16])).unwrap();
    let asked = asked.replace("\r\n\r\n", "\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n");
    let near = b"PROXY TCP4 127.0.0.9 127.0.0.1 40000 80\r\n";
    for (header, client) in
        [(&b""[..], "203.0.113.9"), (near, "203.0.113.9"), (HEADER, "192.0.2.7")]
    {
        let mut rig = proxied(Transport::Ws);
        let bytes = [header, asked.as_bytes()].concat();
        assert_eq!(greet(&mut rig, 0, &bytes), Ok(More::Now));
        assert_eq!(rest(&rig), [b""; 0]);
        assert_eq!(rig.stream.flow().remote.ip(), client.parse::<IpAddr>().unwrap(), "{client}");
    }
}
