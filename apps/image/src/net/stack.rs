//! The protocols beside UDP: DHCP, ICMP and TCP, by smoltcp.
//!
//! TCP and ICMP echo have an interface without Ethernet: its packets go through the same neighbour
//! table as UDP. smoltcp's own cache of neighbours sends one ARP request a second in all, so that a
//! host that does not answer would delay the connections of all others. DHCP, which requires
//! Ethernet, has an interface of its own, which also answers ARP requests.

use super::datagram::ETHERNET;
use crate::nic::MAX_FRAME;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddrV4};
use sip::{Duration, Instant};
use smoltcp::iface::{
    Config, Interface, PollIngressSingleResult, PollResult, SocketHandle, SocketSet,
};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::socket::dhcpv4::{self, RetryConfig};
use smoltcp::socket::{Socket, tcp};
use smoltcp::time::Instant as Time;
use smoltcp::wire::{
    DhcpMessageType, DhcpOption, DhcpPacket, DhcpRepr, EthernetAddress, HardwareAddress, IpAddress,
    IpCidr, Ipv4Cidr,
};

/// Capacity of the receive queue in frames.
const MOST_FRAMES: usize = 256;

/// Number of listening sockets, and limit of unfinished handshakes. Beyond it, a random one is
/// dropped: an attacker that occupies all of them within the time of an honest handshake needs many
/// more packets than this per millisecond.
const LISTENING: usize = 8;
const COMING: usize = 128;
/// Maximum number of frames handled per turn.
const FRAMES: usize = 64;
/// Time limit of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Bytes of each buffer of a connection, in addition to the stream layer's.
const TCP_BUFFER: usize = 4096;
/// Bytes of both buffers.
pub(crate) const CONNECTION_BUFFERS: usize = 2 * TCP_BUFFER;
/// Time limit for an acknowledgement.
const SILENCE: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(30);

/// The DHCP options requested: mask, router, DNS servers, NTP servers, TFTP server by name and by
/// address, boot file.
const WISHES: &[u8] = &[1, 3, 6, 42, 66, 67, 150];
const NTP_SERVERS: u8 = 42;
const LEASE_TIME: u8 = 51;
const TFTP_NAME: u8 = 66;
const BOOT_FILE: u8 = 67;
const TFTP_ADDRESSES: u8 = 150;

/// Our address, and the servers of our network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Our address with its prefix length.
    pub ours: Ipv4Cidr,
    /// The default gateway.
    pub gateway: Option<Ipv4Addr>,
    /// The DNS servers.
    pub dns: Vec<Ipv4Addr>,
    /// The TFTP server with the file of users, if DHCP names one.
    pub tftp: Option<Ipv4Addr>,
    /// The name of that file.
    pub file: Option<String>,
    /// The NTP server.
    pub ntp: Option<Ipv4Addr>,
}

impl Address {
    /// The neighbour for packets to `remote`; `None` without a route.
    #[must_use]
    pub fn next_hop(&self, remote: Ipv4Addr) -> Option<Ipv4Addr> {
        if self.ours.contains_addr(&remote) { Some(remote) } else { self.gateway }
    }
}

/// The result of polling the network.
#[derive(Debug, Default)]
pub struct Polled {
    /// The new state of the DHCP lease, if it changed: an address, or its loss.
    pub lease: Option<Option<Address>>,
    /// True if connections have changed.
    pub has_stirred: bool,
    /// A conflict with another host that uses our address.
    pub conflict: Option<super::Conflict>,
    /// The source of a dropped datagram that no other host can have. It is reported once a minute.
    pub impossible: Option<Ipv4Addr>,
}

/// The stack.
pub(crate) struct Stack {
    /// The interface of TCP and ICMP echo.
    packets: Queues,
    interface: Interface,
    sockets: SocketSet<'static>,
    /// The interface of DHCP and ARP.
    frames: Queues,
    link: Interface,
    dhcp_sockets: SocketSet<'static>,
    dhcp: Option<SocketHandle>,
    /// The DHCP client while it is stopped.
    stopped: Option<dhcpv4::Socket<'static>>,
    /// The server of the last lease.
    dhcp_server: Option<Ipv4Addr>,
    /// Its time in seconds.
    lease_time: Option<u32>,
    /// Listening sockets, and those with unfinished handshakes.
    listening: Vec<SocketHandle>,
    coming: Vec<(SocketHandle, Instant)>,
    /// Connections that are removed once the reset is sent.
    ending: Vec<SocketHandle>,
    port: u16,
    /// State of the random choice among handshakes.
    number: u64,
}

impl core::fmt::Debug for Stack {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Stack")
    }
}

impl Stack {
    /// A stack for the card with this address; `seed` is random.
    pub(crate) fn new(mac: EthernetAddress, seed: u64, now: Instant) -> Self {
        let interface = |address: HardwareAddress, queues: &mut Queues| {
            let mut config = Config::new(address);
            config.random_seed = seed;
            Interface::new(config, queues, time(now))
        };
        let (mut packets, mut frames) = (Queues::new(Medium::Ip), Queues::new(Medium::Ethernet));
        Self {
            interface: interface(HardwareAddress::Ip, &mut packets),
            packets,
            sockets: SocketSet::new(Vec::new()),
            link: interface(mac.into(), &mut frames),
            frames,
            dhcp_sockets: SocketSet::new(Vec::new()),
            dhcp: None,
            stopped: None,
            dhcp_server: None,
            lease_time: None,
            listening: Vec::new(),
            coming: Vec::new(),
            ending: Vec::new(),
            port: 0,
            number: seed,
        }
    }

    /// Starts the DHCP client.
    pub(crate) fn use_dhcp(&mut self) {
        let mut socket = dhcpv4::Socket::new();
        // RFC 2131 section 4.1.
        let mut retry = RetryConfig::default();
        retry.discover_timeout = smoltcp::time::Duration::from_secs(4);
        socket.set_retry_config(retry);
        socket.set_parameter_request_list(WISHES);
        // The buffer of received packets, for the whole run of the program.
        socket.set_receive_packet_buffer(Box::leak(Box::new([0; MAX_FRAME])));
        self.dhcp = Some(self.dhcp_sockets.add(socket));
    }

    /// Restarts the DHCP client as if there were no lease.
    pub(crate) fn restart_dhcp(&mut self) {
        if let Some(socket) = self.stopped.take() {
            self.dhcp = Some(self.dhcp_sockets.add(socket));
        }
        if let Some(dhcp) = self.dhcp {
            self.dhcp_sockets.get_mut::<dhcpv4::Socket<'_>>(dhcp).reset();
        }
    }

    /// The server of the last lease, and the time of the lease in seconds.
    pub(crate) const fn lease(&self) -> Option<(Ipv4Addr, u32)> {
        match (self.dhcp_server, self.lease_time) {
            (Some(server), Some(time)) => Some((server, time)),
            _ => None,
        }
    }

    /// Stops the DHCP client. Returns the message that declines its lease of `ours` (RFC 2131 table
    /// 5), if there is one.
    pub(crate) fn decline(&mut self, mac: EthernetAddress, ours: Ipv4Addr) -> Option<Vec<u8>> {
        if let Socket::Dhcpv4(socket) = self.dhcp_sockets.remove(self.dhcp.take()?) {
            self.stopped = Some(socket);
        }
        let none = Ipv4Addr::UNSPECIFIED;
        let message = DhcpRepr {
            message_type: DhcpMessageType::Decline,
            transaction_id: self.number as u32,
            secs: 0,
            client_hardware_address: mac,
            client_ip: none,
            your_ip: none,
            server_ip: none,
            router: None,
            subnet_mask: None,
            relay_agent_ip: none,
            broadcast: false,
            requested_ip: Some(ours),
            client_identifier: Some(mac),
            server_identifier: Some(self.dhcp_server.take()?),
            parameter_request_list: None,
            dns_servers: None,
            max_size: None,
            lease_duration: None,
            renew_duration: None,
            rebind_duration: None,
            additional_options: &[],
        };
        let mut bytes = alloc::vec![0; message.buffer_len()];
        message.emit(&mut DhcpPacket::new_unchecked(&mut bytes)).ok()?;
        Some(bytes)
    }

    /// Sets or removes our address.
    pub(crate) fn set_address(&mut self, address: Option<&Address>) {
        for interface in [&mut self.interface, &mut self.link] {
            interface.update_ip_addrs(|all| {
                all.clear();
                all.extend(address.map(|address| IpCidr::Ipv4(address.ours)));
            });
            let routes = interface.routes_mut();
            routes.remove_default_ipv4_route();
            if let Some(gateway) = address.and_then(|address| address.gateway) {
                // There is room for one route: the table was just cleared.
                let _ = routes.add_default_ipv4_route(gateway);
            }
        }
    }

    /// Accepts connections at `port` from now on.
    pub(crate) fn listen(&mut self, port: u16) {
        self.port = port;
        while self.listening.len() < LISTENING {
            self.add_listener();
        }
    }

    /// Closes the listening sockets and unfinished handshakes.
    pub(crate) fn close_all(&mut self) {
        for handle in
            self.listening.drain(..).chain(self.coming.drain(..).map(|(handle, _)| handle))
        {
            self.sockets.remove(handle);
        }
    }

    fn add_listener(&mut self) {
        let mut socket = new_socket();
        // The socket is new and the port is not zero, so listening succeeds.
        if socket.listen(self.port).is_ok() {
            let handle = self.sockets.add(socket);
            self.listening.push(handle);
        }
    }

    /// Returns the connections established since the last call of this function.
    pub(crate) fn accept(&mut self, now: Instant) -> Vec<SocketHandle> {
        self.make_listeners(now);
        let mut made = Vec::new();
        let sockets = &mut self.sockets;
        self.coming.retain(|&(handle, since)| {
            let state = sockets.get::<tcp::Socket<'_>>(handle).state();
            if state == tcp::State::SynReceived && now.since(since) < HANDSHAKE {
                return true;
            }
            match state {
                tcp::State::SynReceived | tcp::State::Closed | tcp::State::Listen => {
                    sockets.remove(handle);
                }
                _ => made.push(handle),
            }
            false
        });
        made
    }

    /// Replaces listening sockets that received a connection.
    fn make_listeners(&mut self, now: Instant) {
        let sockets = &self.sockets;
        let is_taken =
            |handle: &mut SocketHandle| !sockets.get::<tcp::Socket<'_>>(*handle).is_listening();
        let begun = self.listening.extract_if(.., is_taken);
        self.coming.extend(begun.map(|handle| (handle, now)));
        while self.coming.len() > COMING {
            self.end_a_handshake();
        }
        while self.port != 0 && self.listening.len() < LISTENING {
            self.add_listener();
        }
    }

    /// Drops a random unfinished handshake.
    fn end_a_handshake(&mut self) {
        // Marsaglia's xorshift from a random seed.
        for (left, shift) in [(true, 13), (false, 7), (true, 17)] {
            self.number ^= if left { self.number << shift } else { self.number >> shift };
        }
        let sockets = &self.sockets;
        let is_made =
            |handle| sockets.get::<tcp::Socket<'_>>(handle).state() != tcp::State::SynReceived;
        let start = (self.number % self.coming.len() as u64) as usize;
        // An established connection only waits to be accepted, so it is spared if possible.
        let mut places = (start..self.coming.len()).chain(0..start);
        let place = places.find(|&place| !is_made(self.coming[place].0)).unwrap_or(start);
        let (handle, _) = self.coming.swap_remove(place);
        self.sockets.remove(handle);
    }

    /// Connects to `remote` from the local port `local`.
    pub(crate) fn connect(&mut self, remote: SocketAddrV4, local: u16) -> Option<SocketHandle> {
        let mut socket = new_socket();
        let to = (IpAddress::Ipv4(*remote.ip()), remote.port());
        socket.connect(self.interface.context(), to, local).ok()?;
        Some(self.sockets.add(socket))
    }

    /// The socket of a connection.
    pub(crate) fn socket(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    /// Aborts and removes a connection. Must be called once for each.
    pub(crate) fn remove(&mut self, handle: SocketHandle) {
        self.socket(handle).abort();
        self.ending.push(handle);
    }

    /// Queues a received frame with ARP or DHCP.
    pub(crate) fn receive_frame(&mut self, frame: &[u8]) {
        self.frames.receive(frame);
    }

    /// Queues a received IP packet.
    pub(crate) fn receive_packet(&mut self, packet: &[u8]) {
        self.packets.receive(packet);
    }

    /// Runs what is due.
    pub(crate) fn poll(&mut self, now: Instant) -> Polled {
        let mut has_stirred = false;
        self.interface.poll_maintenance(time(now));
        for _ in 0..FRAMES {
            use PollIngressSingleResult::{None as Nothing, PacketProcessed, SocketStateChanged};
            let (packets, sockets) = (&mut self.packets, &mut self.sockets);
            match self.interface.poll_ingress_single(time(now), packets, sockets) {
                Nothing => break,
                PacketProcessed => {}
                SocketStateChanged => has_stirred = true,
            }
            // A listening socket must remain, or else the next connection would be refused.
            self.make_listeners(now);
        }
        let result = self.interface.poll_egress(time(now), &mut self.packets, &mut self.sockets);
        has_stirred |= result == PollResult::SocketStateChanged;
        for handle in self.ending.drain(..) {
            self.sockets.remove(handle);
        }
        self.link.poll(time(now), &mut self.frames, &mut self.dhcp_sockets);
        let Some(dhcp) = self.dhcp else {
            return Polled { lease: None, has_stirred, conflict: None, impossible: None };
        };
        let lease = match self.dhcp_sockets.get_mut::<dhcpv4::Socket<'_>>(dhcp).poll() {
            None => None,
            Some(dhcpv4::Event::Deconfigured) => Some(None),
            Some(dhcpv4::Event::Configured(config)) => {
                self.dhcp_server = Some(config.server.identifier);
                self.lease_time = lease_time(&config);
                Some(Some(address(&config)))
            }
        };
        Polled { lease, has_stirred, conflict: None, impossible: None }
    }

    /// The time of the next timer.
    pub(crate) fn next_poll(&mut self, now: Instant) -> Instant {
        if !self.packets.received.is_empty() {
            return now;
        }
        let all = [
            self.interface.poll_at(time(now), &self.sockets),
            self.link.poll_at(time(now), &self.dhcp_sockets),
        ];
        let next = all.into_iter().flatten().min();
        next.map_or(Instant::MAX, |at| Instant::from_micros(at.total_micros() as u64))
    }

    /// Returns the next frame to send.
    pub(crate) fn next_frame(&mut self) -> Option<Vec<u8>> {
        self.frames.transmitted.pop_front()
    }

    /// Returns the next IP packet to send.
    pub(crate) fn next_packet(&mut self) -> Option<Vec<u8>> {
        self.packets.transmitted.pop_front()
    }
}

fn new_socket() -> tcp::Socket<'static> {
    let buffer = || tcp::SocketBuffer::new(alloc::vec![0; TCP_BUFFER]);
    let mut socket = tcp::Socket::new(buffer(), buffer());
    // Messages are complete when written: waiting for more only delays them.
    socket.set_nagle_enabled(false);
    socket.set_timeout(Some(SILENCE));
    socket
}

fn time(now: Instant) -> Time {
    Time::from_micros(now.as_micros() as i64)
}

/// The time of a lease in seconds.
fn lease_time(config: &dhcpv4::Config<'_>) -> Option<u32> {
    let mut options = config.packet.as_ref()?.options();
    let data = options.find(|option| option.kind == LEASE_TIME)?.data;
    data.first_chunk().map(|octets| u32::from_be_bytes(*octets))
}

/// The address and servers of a lease.
fn address(config: &dhcpv4::Config<'_>) -> Address {
    let mut address = Address {
        ours: config.address,
        gateway: config.router,
        dns: config.dns_servers.iter().copied().collect(),
        tftp: None,
        file: None,
        ntp: None,
    };
    let Some(packet) = &config.packet else { return address };
    let first = |data: &[u8]| data.first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets));
    let text = |data: &[u8]| {
        let text = core::str::from_utf8(data).ok()?.trim_end_matches('\0');
        (!text.is_empty()).then(|| String::from(text))
    };
    let mut named = None;
    for DhcpOption { kind, data } in packet.options() {
        match kind {
            NTP_SERVERS => address.ntp = first(data),
            TFTP_ADDRESSES => address.tftp = first(data),
            TFTP_NAME => named = text(data).and_then(|name| name.parse().ok()),
            BOOT_FILE => address.file = text(data),
            _ => {}
        }
    }
    let next = Some(packet.server_ip()).filter(|server| !server.is_unspecified());
    address.tftp = address.tftp.or(named).or(next);
    let file = packet.get_boot_file().ok().filter(|file| !file.is_empty());
    address.file = address.file.or_else(|| file.map(String::from));
    address
}

/// Frames or IP packets between the card and an interface.
#[derive(Debug)]
struct Queues {
    medium: Medium,
    received: VecDeque<Vec<u8>>,
    transmitted: VecDeque<Vec<u8>>,
}

impl Queues {
    fn new(medium: Medium) -> Self {
        Self { medium, received: VecDeque::new(), transmitted: VecDeque::new() }
    }

    fn receive(&mut self, bytes: &[u8]) {
        if self.received.len() < MOST_FRAMES {
            self.received.push_back(bytes.into());
        }
    }
}

struct Received(Vec<u8>);

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

struct Transmitted<'a>(&'a mut VecDeque<Vec<u8>>);

impl phy::TxToken for Transmitted<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let mut frame = alloc::vec![0; length];
        let result = f(&mut frame);
        self.0.push_back(frame);
        result
    }
}

impl Device for Queues {
    type RxToken<'a> = Received;
    type TxToken<'a> = Transmitted<'a>;

    fn receive(&mut self, _: Time) -> Option<(Received, Transmitted<'_>)> {
        let frame = self.received.pop_front()?;
        Some((Received(frame), Transmitted(&mut self.transmitted)))
    }

    fn transmit(&mut self, _: Time) -> Option<Transmitted<'_>> {
        (self.transmitted.len() < MOST_FRAMES).then_some(Transmitted(&mut self.transmitted))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = self.medium;
        capabilities.max_transmission_unit = match self.medium {
            Medium::Ethernet => MAX_FRAME,
            Medium::Ip => MAX_FRAME - ETHERNET,
        };
        capabilities
    }
}
