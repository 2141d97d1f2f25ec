//! TCP connections of hosts in the same network, while other hosts flood the server.

#[allow(dead_code)]
mod lan;

use lan::tcp::Host;
use lan::{Lan, SERVER, SERVER_MAC, mac_of, request};
use sip::Duration;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, IpProtocol,
    Ipv4Packet, TcpPacket, TcpSeqNumber,
};
use std::net::{Ipv4Addr, SocketAddrV4};

const USERS: &str = "alice:secret\n";
const PHONE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 20), 5070);

fn host(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, 100 + number)
}

/// A SYN from `source`, which does not exist.
fn forged(source: Ipv4Addr, port: u16) -> Vec<u8> {
    let mut frame = vec![0; 14 + 20 + 20];
    let mut ethernet = EthernetFrame::new_unchecked(&mut frame[..]);
    ethernet.set_src_addr(EthernetAddress(mac_of(source)));
    ethernet.set_dst_addr(EthernetAddress(SERVER_MAC));
    ethernet.set_ethertype(EthernetProtocol::Ipv4);
    let mut ip = Ipv4Packet::new_unchecked(ethernet.payload_mut());
    ip.set_version(4);
    ip.set_header_len(20);
    ip.set_total_len(40);
    ip.set_hop_limit(64);
    ip.set_next_header(IpProtocol::Tcp);
    ip.set_src_addr(source);
    ip.set_dst_addr(SERVER);
    ip.fill_checksum();
    let mut tcp = TcpPacket::new_unchecked(ip.payload_mut());
    tcp.set_src_port(port);
    tcp.set_dst_port(5060);
    tcp.set_seq_number(TcpSeqNumber(port.into()));
    tcp.set_header_len(20);
    tcp.set_syn(true);
    tcp.set_window_len(1000);
    tcp.fill_checksum(&source.into(), &SERVER.into());
    frame
}

#[test]
fn thirty_hosts_connect_at_once() {
    let mut lan = Lan::ready("auth=off", USERS);
    let mut all = Vec::new();
    for number in 0..30 {
        lan.hosts.push(Host::new(host(number), lan.now));
        all.push(lan.hosts[usize::from(number)].connect());
    }
    lan.run(Duration::from_millis(200));
    let made = (0..30).filter(|&at| lan.hosts[at].is_established(all[at])).count();
    assert_eq!(made, 30);
}

#[test]
fn ten_hosts_are_called_at_once_while_another_one_is_silent() {
    let mut lan = Lan::ready("auth=off trusted=192.0.2.0/24", USERS);
    lan.silent.push(host(10));
    let mut all = Vec::new();
    for number in 0..10 {
        lan.hosts.push(Host::new(host(number), lan.now));
        all.push(lan.hosts[usize::from(number)].listen());
    }
    for number in (0..11).rev() {
        let invite = request("INVITE", "alice", PHONE, number.into());
        let uri = format!("INVITE sip:alice@{};transport=tcp SIP", host(number));
        let invite = invite.replace("INVITE sip:alice@192.0.2.7 SIP", &uri);
        lan.send(PHONE, 5060, invite.as_bytes());
    }
    lan.run(Duration::from_millis(300));
    let made = (0..10).filter(|&at| lan.hosts[at].is_established(all[at])).count();
    assert_eq!(made, 10);
}

#[test]
fn connections_are_made_while_others_are_begun_and_not_ended() {
    let mut lan = Lan::ready("auth=off", USERS);
    lan.hosts.push(Host::new(host(0), lan.now));
    let mut made = 0;
    for second in 0..4_u32 {
        let handle = lan.hosts[0].connect();
        for number in 0..1000_u32 {
            // A thousand per second, from addresses that do not answer.
            let source = Ipv4Addr::new(192, 0, 2, 150 + (number % 50) as u8);
            let port = (1024 + second * 1000 + number) as u16;
            lan.wire.borrow_mut().to_server.push_back(forged(source, port));
            lan.run(Duration::from_millis(1));
        }
        made += u32::from(lan.hosts[0].is_established(handle));
    }
    assert_eq!(made, 4);
}

#[test]
fn a_port_that_is_closed_is_told_a_few_times_a_second() {
    let mut lan = Lan::ready("auth=off", USERS);
    for _ in 0..50 {
        lan.send(PHONE, 5061, b"hello");
    }
    let now = lan.now;
    lan.server.step(&mut || now);
    let frames = std::mem::take(&mut lan.wire.borrow_mut().from_server);
    let told: Vec<_> = frames.iter().filter(|frame| frame[12..14] == [8, 0]).collect();
    assert_eq!(told.len(), 10);
    // ICMP to the sender; type 3, code 3; the quoted datagram.
    assert_eq!((told[0][23], &told[0][..6]), (1, &mac_of(*PHONE.ip())[..]));
    assert_eq!(told[0][34..36], [3, 3]);
    assert_eq!(told[0][62 + 2..62 + 4], 5061_u16.to_be_bytes());
    let ip = Ipv4Packet::new_checked(&told[0][14..]).expect("a packet");
    let icmp = smoltcp::wire::Icmpv4Packet::new_checked(ip.payload()).expect("ICMP");
    assert!(ip.verify_checksum() && icmp.verify_checksum());
}

#[test]
fn a_turn_ends_however_many_frames_of_strangers_wait() {
    let mut lan = Lan::ready("auth=off", USERS);
    let question = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr: EthernetAddress(mac_of(host(1))),
        source_protocol_addr: Ipv4Addr::new(203, 0, 113, 5),
        target_hardware_addr: EthernetAddress([0; 6]),
        target_protocol_addr: SERVER,
    };
    let mut frame = vec![0; 14 + question.buffer_len()];
    let mut ethernet = EthernetFrame::new_unchecked(&mut frame[..]);
    ethernet.set_src_addr(EthernetAddress(mac_of(host(1))));
    ethernet.set_dst_addr(EthernetAddress(SERVER_MAC));
    ethernet.set_ethertype(EthernetProtocol::Arp);
    question.emit(&mut ArpPacket::new_unchecked(ethernet.payload_mut()));
    (0..1000).for_each(|_| lan.wire.borrow_mut().to_server.push_back(frame.clone()));
    lan.send(PHONE, 5060, request("OPTIONS", "alice", PHONE, 1).as_bytes());
    let now = lan.now;
    lan.server.step(&mut || now);
    let left = lan.wire.borrow().to_server.len();
    assert!((900..1000).contains(&left), "{left} are left for later turns");
    assert!(lan.wire.borrow().from_server.is_empty(), "a host of another network is not answered");
    lan.run(Duration::from_millis(30));
    assert!(lan.sent.iter().any(|sent| sent.to == PHONE), "and the phone is answered");
}
