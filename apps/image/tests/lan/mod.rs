//! A simulated network: the server on a fake card, and all other hosts at its other end.

#[allow(dead_code)]
pub(crate) mod call;
#[allow(dead_code)]
pub(crate) mod tcp;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use image::machine::heap::Heap;
use image::machine::random::Random;
use image::net::Network;
use image::nic::{MAX_FRAME, Nic};
use image::options::server::Options;
use image::server::{Phase, Server};
use sip::{Duration, Instant};
use smoltcp::wire::EthernetAddress;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;
use tcp::Host;
use test_support::hostile::End;

pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
pub(crate) const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];
pub(crate) const SERVER_END: End = End { mac: SERVER_MAC, address: SERVER };
/// The TFTP server of the file of users, and gateway.
pub(crate) const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// The frames on the wire.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    pub(crate) to_server: VecDeque<Vec<u8>>,
    pub(crate) from_server: VecDeque<Vec<u8>>,
    pub(crate) is_cut: bool,
}

#[derive(Debug)]
struct Card {
    wire: Rc<RefCell<Wire>>,
    current: Vec<u8>,
    memory: [u8; MAX_FRAME],
}

impl Nic for Card {
    fn name(&self) -> &'static str {
        "wire"
    }

    fn mac(&self) -> EthernetAddress {
        EthernetAddress(SERVER_MAC)
    }

    fn has_link(&mut self) -> bool {
        !self.wire.borrow().is_cut
    }

    fn receive(&mut self) -> bool {
        let frame = self.wire.borrow_mut().to_server.pop_front();
        frame.map(|frame| self.current = frame).is_some()
    }

    fn frame(&self) -> &[u8] {
        &self.current
    }

    fn buffer(&mut self) -> Option<&mut [u8]> {
        Some(&mut self.memory)
    }

    fn send(&mut self, length: usize) {
        self.wire.borrow_mut().from_server.push_back(self.memory[..length].to_vec());
    }

    fn flush(&mut self) {}
}

/// A datagram that the server has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) port: u16,
    pub(crate) to: SocketAddrV4,
    pub(crate) payload: Vec<u8>,
}

/// The server and the other hosts.
pub(crate) struct Lan {
    pub(crate) server: Server,
    pub(crate) wire: Rc<RefCell<Wire>>,
    pub(crate) now: Instant,
    /// The file of users on the TFTP server.
    pub(crate) file: Vec<u8>,
    /// Addresses that do not answer.
    pub(crate) silent: Vec<Ipv4Addr>,
    /// Datagrams of the server, except those to the TFTP server.
    pub(crate) sent: Vec<Sent>,
    /// Hosts with TCP.
    pub(crate) hosts: Vec<Host>,
}

fn plenty() -> Heap {
    Heap { used: 0, claimed: 64 << 20, used_reserve: 0 }
}

impl Lan {
    pub(crate) fn new(options: &str, file: &str) -> Self {
        Self::with_memory(options, file, plenty)
    }

    pub(crate) fn with_memory(options: &str, file: &str, memory: fn() -> Heap) -> Self {
        let mut parsed = Options::default();
        parsed.read("address=192.0.2.7/24 gateway=192.0.2.1 tftp=192.0.2.1 file=users").unwrap();
        parsed.read(options).unwrap();
        let now = Instant::from_micros(1_795_700_000_000_000);
        let wire = Rc::new(RefCell::new(Wire::default()));
        let card = Card { wire: Rc::clone(&wire), current: Vec::new(), memory: [0; MAX_FRAME] };
        let network = Network::new(Box::new(card), 7, parsed.machine.checksums, now);
        let server = Server::new(parsed, network, Random::new([7; 32]), memory, now);
        let file = file.as_bytes().to_vec();
        Self { server, wire, now, file, silent: Vec::new(), sent: Vec::new(), hosts: Vec::new() }
    }

    /// A server that is ready.
    pub(crate) fn ready(options: &str, file: &str) -> Self {
        let mut lan = Self::new(options, file);
        lan.run(Duration::from_millis(500));
        assert_eq!(lan.server.phase(), Phase::Ready, "{}", lan.log());
        lan
    }

    pub(crate) fn log(&self) -> String {
        self.server.log.since(0).collect::<Vec<_>>().join("\n")
    }

    /// Lets `time` pass, in steps of a millisecond.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.turn();
            self.now += Duration::from_millis(1);
        }
    }

    /// One step of the server, and the answers of the other hosts.
    pub(crate) fn turn(&mut self) {
        let now = self.now;
        self.server.step(&mut || now);
        loop {
            let Some(frame) = self.wire.borrow_mut().from_server.pop_front() else { break };
            self.on_frame(&frame);
        }
        for host in &mut self.hosts {
            host.turn(now, &mut self.wire.borrow_mut());
        }
    }

    fn on_frame(&mut self, frame: &[u8]) {
        check_class(frame);
        let is_udp = frame[12..14] == [8, 0] && frame[23] == 17;
        if !is_udp && self.hosts.iter_mut().any(|host| host.take(frame)) {
            return;
        }
        // ARP requests.
        if frame[12..14] == [8, 6] {
            let target = Ipv4Addr::new(frame[38], frame[39], frame[40], frame[41]);
            if frame[20..22] == [0, 1] && !self.silent.contains(&target) && target != SERVER {
                let mut reply = frame.to_vec();
                reply[..6].copy_from_slice(&SERVER_MAC);
                reply[6..12].copy_from_slice(&mac_of(target));
                reply[21] = 2;
                reply[22..28].copy_from_slice(&mac_of(target));
                reply[28..32].copy_from_slice(&target.octets());
                reply[32..38].copy_from_slice(&SERVER_MAC);
                reply[38..42].copy_from_slice(&SERVER.octets());
                self.wire.borrow_mut().to_server.push_back(reply);
            }
            return;
        }
        let packet = SlicedPacket::from_ethernet(frame).expect("a frame as it should be");
        let Some(NetSlice::Ipv4(ip)) = &packet.net else { return };
        let Some(TransportSlice::Udp(udp)) = &packet.transport else { return };
        assert!(ip.header().source_addr() == SERVER, "sent by the server");
        let to = SocketAddrV4::new(ip.header().destination_addr(), udp.destination_port());
        let sent = Sent { port: udp.source_port(), to, payload: udp.payload().to_vec() };
        if *to.ip() == HOST && [69, 1069].contains(&to.port()) {
            return self.on_tftp(&sent);
        }
        self.sent.push(sent);
    }

    /// The TFTP server, which supports no options.
    fn on_tftp(&mut self, sent: &Sent) {
        let block: u16 = match sent.payload[1] {
            1 => 1,
            4 => u16::from_be_bytes([sent.payload[2], sent.payload[3]]) + 1,
            _ => return,
        };
        let start = 512 * (usize::from(block) - 1);
        if start > self.file.len() {
            return;
        }
        let end = self.file.len().min(start + 512);
        let data = [&[0, 3][..], &block.to_be_bytes(), &self.file[start..end]].concat();
        self.send(SocketAddrV4::new(HOST, 1069), sent.port, &data);
    }

    /// Sends a datagram to a port of the server.
    pub(crate) fn send(&mut self, from: SocketAddrV4, port: u16, payload: &[u8]) {
        let frame = frame(from, port, payload);
        self.wire.borrow_mut().to_server.push_back(frame);
    }

    /// Sends a message by UDP. Returns the datagrams that the server sends then.
    pub(crate) fn exchange(&mut self, from: SocketAddrV4, message: &str) -> Vec<Sent> {
        self.sent.clear();
        self.send(from, 5060, message.as_bytes());
        self.turn();
        std::mem::take(&mut self.sent)
    }
}

/// Fails if a frame with SIP or media has not their DSCP.
fn check_class(frame: &[u8]) {
    let packet = SlicedPacket::from_ethernet(frame).expect("a frame as it should be");
    let Some(NetSlice::Ipv4(ip)) = &packet.net else { return };
    let (dscp, source, destination) = match &packet.transport {
        Some(TransportSlice::Udp(udp)) => (0, udp.source_port(), udp.destination_port()),
        Some(TransportSlice::Tcp(tcp)) => (24, tcp.source_port(), tcp.destination_port()),
        _ => return,
    };
    let expected = match [source, destination] {
        ports if ports.contains(&5060) => 24,
        [20_000..=30_000, _] => 46,
        _ => dscp,
    };
    assert_eq!(ip.header().dcp().value(), expected, "from port {source} to {destination}");
}

/// The Ethernet address of the host `address`.
pub(crate) fn mac_of(address: Ipv4Addr) -> [u8; 6] {
    [2, 0, 1, 0, 0, address.octets()[3]]
}

/// The host `address`.
pub(crate) fn end(address: Ipv4Addr) -> End {
    End { mac: mac_of(address), address }
}

/// A frame with a datagram.
pub(crate) fn frame(from: SocketAddrV4, port: u16, payload: &[u8]) -> Vec<u8> {
    end(*from.ip()).frame(from.port(), SERVER_END, port, payload)
}

/// A request of `user` at `from`.
pub(crate) fn request(method: &str, user: &str, from: SocketAddrV4, number: u32) -> String {
    end(*from.ip()).request(from.port(), SERVER_END, method, user, number)
}
