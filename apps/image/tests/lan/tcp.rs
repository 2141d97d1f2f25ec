//! TCP hosts in the server's network, each with its own stack.

use super::{SERVER, Wire, mac_of};
use sip::Instant;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant as Time;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};
use std::collections::VecDeque;
use std::net::Ipv4Addr;

/// A host with connections to the server.
pub(crate) struct Host {
    pub(crate) address: Ipv4Addr,
    interface: Interface,
    sockets: SocketSet<'static>,
    cable: Cable,
    next_port: u16,
}

impl Host {
    pub(crate) fn new(address: Ipv4Addr, now: Instant) -> Self {
        let mut cable = Cable::default();
        let mut config = Config::new(EthernetAddress(mac_of(address)).into());
        config.random_seed = u32::from(address).into();
        let mut interface = Interface::new(config, &mut cable, time(now));
        interface.update_ip_addrs(|all| {
            all.push(IpCidr::new(IpAddress::Ipv4(address), 24)).expect("room for one");
        });
        let sockets = SocketSet::new(Vec::new());
        Self { address, interface, sockets, cable, next_port: 40_000 }
    }

    /// Starts a connection to the server.
    pub(crate) fn connect(&mut self) -> SocketHandle {
        self.next_port += 1;
        let buffer = |length| SocketBuffer::new(vec![0; length]);
        let mut socket = Socket::new(buffer(2048), buffer(8192));
        let remote = (IpAddress::Ipv4(SERVER), 5060);
        socket.connect(self.interface.context(), remote, self.next_port).expect("a connection");
        self.sockets.add(socket)
    }

    /// Waits for a connection of the server at port 5060.
    pub(crate) fn listen(&mut self) -> SocketHandle {
        let buffer = |length| SocketBuffer::new(vec![0; length]);
        let mut socket = Socket::new(buffer(2048), buffer(8192));
        socket.listen(5060).expect("the port is not zero");
        self.sockets.add(socket)
    }

    /// Replaces a connection that has ended by a new one.
    pub(crate) fn connect_again(&mut self, handle: &mut SocketHandle) {
        if !self.socket(*handle).is_open() {
            self.sockets.remove(*handle);
            *handle = self.connect();
        }
    }

    pub(crate) fn socket(&mut self, handle: SocketHandle) -> &mut Socket<'static> {
        self.sockets.get_mut(handle)
    }

    pub(crate) fn is_established(&mut self, handle: SocketHandle) -> bool {
        self.socket(handle).state() == State::Established
    }

    /// Takes `frame` if it is for this host, and returns true then.
    pub(super) fn take(&mut self, frame: &[u8]) -> bool {
        let is_ours = frame[..6] == mac_of(self.address) && frame[12..14] != [8, 6]
            || frame[12..14] == [8, 6] && frame[38..42] == self.address.octets();
        if is_ours {
            self.cable.received.push_back(frame.to_vec());
        }
        is_ours
    }

    pub(super) fn turn(&mut self, now: Instant, wire: &mut Wire) {
        self.interface.poll(time(now), &mut self.cable, &mut self.sockets);
        wire.to_server.append(&mut self.cable.sent);
    }
}

fn time(now: Instant) -> Time {
    Time::from_micros(now.as_micros() as i64)
}

/// Frames under way.
#[derive(Default)]
struct Cable {
    received: VecDeque<Vec<u8>>,
    sent: VecDeque<Vec<u8>>,
}

struct Received(Vec<u8>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

struct Sent<'a>(&'a mut VecDeque<Vec<u8>>);

impl TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let mut frame = vec![0; length];
        let result = f(&mut frame);
        self.0.push_back(frame);
        result
    }
}

impl Device for Cable {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sent<'a>;

    fn receive(&mut self, _: Time) -> Option<(Received, Sent<'_>)> {
        Some((Received(self.received.pop_front()?), Sent(&mut self.sent)))
    }

    fn transmit(&mut self, _: Time) -> Option<Sent<'_>> {
        Some(Sent(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 1514;
        capabilities
    }
}
