//! The network: UDP from the frame to its port and back, and a TCP/IP stack for the rest.
//!
//! UDP bypasses the stack: SIP datagrams are passed on in the card's memory, and a neighbour that
//! does not answer delays no other traffic.

mod claim;
mod datagram;
mod fragments;
mod neighbors;
mod send;
mod stack;
mod unreachable;

pub use claim::Conflict;
pub use datagram::Ends;
pub use stack::{Address, Polled};
pub use unreachable::Undelivered;

use crate::machine::clock::nanoseconds;
use crate::media::Media;
use crate::nic::{MAX_FRAME, Nic};
use alloc::boxed::Box;
use alloc::vec::Vec;
use claim::{Claim, Say};
use core::net::{Ipv4Addr, SocketAddrV4};
use core::ops::Range;
use datagram::{Content, ETHERNET, IP, UDP, with_header};
use fragments::{Fragments, Whole};
use neighbors::{Neighbors, Waiting};
use sip::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, EthernetFrame, EthernetProtocol, Ipv4Packet};
use srtp::timings::Timing;
pub(crate) use stack::{CONNECTION_BUFFERS, Stack};

/// Maximum payload of a datagram in bytes.
const MOST_OF_DATAGRAM: usize = 65_535 - IP - UDP;
/// The ports of DHCP clients and servers.
const DHCP: u16 = 68;
const DHCP_SERVER: u16 = 67;
/// Number of receive buffers of a card: a waiting frame arrived after the reception of the frame
/// this many before it.
const RING: usize = 256;
/// Maximum number of frames for other ports that are handled before timers run.
const BUDGET: usize = 64;
/// Maximum number of ICMP errors that wait for the program.
const MOST_UNDELIVERED: usize = 16;
/// Interval of the checks for unanswered ARP requests.
const LOOK: Duration = Duration::from_millis(100);
/// Interval of the reports on datagrams with an impossible source.
const REPORT: Duration = Duration::from_secs(60);

/// A datagram for one of our ports.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// Its source and destination.
    pub ends: Ends,
    /// Its payload.
    pub payload: &'a [u8],
    /// Maximum time that it has waited to be received.
    pub waited: Duration,
}

/// Counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Received frames.
    pub received: u64,
    /// Sent frames.
    pub sent: u64,
    /// Datagrams dropped for lack of room or of a recipient.
    pub dropped: u64,
    /// Received datagrams dropped for a source address that no other host can have.
    pub impossible: u64,
    /// Relayed packets that were rewritten in their frames.
    pub rewritten: u64,
    /// The time from the reception to the sending of these, in nanoseconds.
    pub rewriting: u64,
}

/// The times of the network headers of datagrams: Ethernet, IP and UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderTimes {
    /// From a datagram's payload to its frame in the memory of the card.
    pub outgoing: Timing,
    /// From a frame of the card to the datagram's payload.
    pub incoming: Timing,
}

/// A network card and the protocols above it.
#[derive(Debug)]
pub struct Network {
    nic: Box<dyn Nic>,
    mac: EthernetAddress,
    stack: Stack,
    neighbors: Neighbors,
    fragments: Fragments,
    address: Option<Address>,
    claim: Claim,
    unreachable: unreachable::Rate,
    /// Sent datagrams that were not delivered, for the program.
    undelivered: Vec<Undelivered>,
    ports: Vec<u16>,
    /// The ports of relayed media.
    media: Option<Media>,
    /// A frame with a relayed packet.
    relayed: Vec<u8>,
    checks: bool,
    /// The identification of the next fragmented packet.
    ident: u16,
    /// The claimed source of the last received datagram, and its neighbour's Ethernet address.
    last: Option<(Ipv4Addr, EthernetAddress)>,
    /// The last reassembled datagram.
    whole: Vec<u8>,
    /// The time at which the card was last empty, and the reception times of the last frames.
    idle: Instant,
    taken: Vec<Instant>,
    next_poll: Instant,
    next_look: Instant,
    /// The last impossible source since the last report, and the time of the next one.
    impossible: Option<Ipv4Addr>,
    next_report: Instant,
    counts: Counts,
    /// The port of the datagrams with timed headers, and the times.
    timed: Option<(u16, HeaderTimes)>,
}

impl Network {
    /// A network on this card; `seed` is random. UDP checksums are verified if `checks`.
    #[must_use]
    pub fn new(nic: Box<dyn Nic>, seed: u64, checks: bool, now: Instant) -> Self {
        let mac = nic.mac();
        Self {
            mac,
            nic,
            stack: Stack::new(mac, seed, now),
            neighbors: Neighbors::default(),
            fragments: Fragments::default(),
            address: None,
            claim: Claim::default(),
            unreachable: unreachable::Rate::default(),
            undelivered: Vec::new(),
            ports: Vec::new(),
            media: None,
            relayed: alloc::vec![0; MAX_FRAME],
            checks,
            ident: seed as u16,
            last: None,
            whole: Vec::new(),
            idle: now,
            taken: alloc::vec![now; RING],
            next_poll: now,
            next_look: now,
            impossible: None,
            next_report: now,
            counts: Counts::default(),
            timed: None,
        }
    }

    /// The card.
    pub fn nic(&mut self) -> &mut dyn Nic {
        &mut *self.nic
    }

    /// The counters.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Our address, if there is one.
    #[must_use]
    pub fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }

    /// Limits the bytes of incomplete datagrams, and likewise of datagrams that wait for a
    /// neighbour.
    pub fn set_memory(&mut self, bytes: usize) {
        self.fragments.set_memory(bytes);
        self.neighbors.set_memory(bytes);
    }

    /// Opens the ports of relayed media, as long as they belong to a stream.
    pub fn set_media(&mut self, media: Media) {
        self.media = Some(media);
    }

    /// Starts the DHCP client.
    pub fn use_dhcp(&mut self) {
        self.stack.use_dhcp();
    }

    /// The DHCP server of our address, and the time of the lease in seconds.
    #[must_use]
    pub const fn lease(&self) -> Option<(Ipv4Addr, u32)> {
        self.stack.lease()
    }

    /// Restarts the DHCP client as if there were no lease.
    pub fn restart_dhcp(&mut self, now: Instant) {
        self.stack(now).restart_dhcp();
    }

    /// Declines our address, which DHCP has assigned and another host has in use. The DHCP client
    /// stops until it is restarted.
    pub fn decline(&mut self, now: Instant) {
        let Some(ours) = self.address.as_ref().map(|address| address.ours.address()) else {
            return;
        };
        let mac = self.mac;
        let Some(message) = self.stack(now).decline(mac, ours) else { return };
        let ends = Ends {
            source: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, DHCP),
            destination: SocketAddrV4::new(Ipv4Addr::BROADCAST, DHCP_SERVER),
        };
        self.send_parts(EthernetAddress::BROADCAST, ends, &with_header(ends, &message));
    }

    /// Sets or removes our address.
    pub fn set_address(&mut self, address: Option<Address>) {
        let ours = |address: &Address| address.ours;
        if address.as_ref().map(ours) != self.address.as_ref().map(ours) {
            self.claim = Claim::default();
        }
        self.stack.set_address(address.as_ref());
        self.address = address;
    }

    /// Opens the UDP `port`.
    pub fn listen(&mut self, port: u16) {
        self.ports.push(port);
    }

    /// Times the network headers of the datagrams of the local `port` from now on.
    pub fn time_headers(&mut self, port: u16) {
        self.timed = Some((port, HeaderTimes::default()));
    }

    /// Ends the timing of network headers, and returns their times.
    pub fn header_times(&mut self) -> Option<HeaderTimes> {
        self.timed.take().map(|(_, times)| times)
    }

    /// Adds the time since `start` to that of a direction, if the headers of `port` are timed.
    #[inline(never)]
    fn time(&mut self, port: u16, start: Option<u64>, is_incoming: bool) {
        if let (Some((timed, times)), Some(start)) = (&mut self.timed, start)
            && *timed == port
        {
            let timing = if is_incoming { &mut times.incoming } else { &mut times.outgoing };
            timing.count += 1;
            timing.nanoseconds += nanoseconds().saturating_sub(start);
        }
    }

    /// Returns true if the UDP `port` is open.
    fn is_open(&self, port: u16) -> bool {
        self.ports.contains(&port) || self.media.as_ref().is_some_and(|media| media.is_open(port))
    }

    /// Closes the UDP `port`.
    pub fn close(&mut self, port: u16) {
        self.ports.retain(|&other| other != port);
    }

    /// The stack. It is polled soon for the changes of the caller.
    pub(crate) fn stack(&mut self, now: Instant) -> &mut Stack {
        self.next_poll = now;
        &mut self.stack
    }

    /// Returns the next datagram for one of our ports, and handles all other frames meanwhile.
    pub fn receive(&mut self, now: Instant) -> Option<Datagram<'_>> {
        enum Found {
            InFrame(Ends, Range<usize>),
            Whole(Ends),
        }
        self.last = None;
        let mut waited;
        let mut rest = BUDGET;
        let found = loop {
            // Frames for other ports must not delay everything else.
            rest = rest.checked_sub(1)?;
            if !self.nic.receive() {
                self.idle = now;
                return None;
            }
            // The frame arrived after its buffer was given to the card, and after the card was last
            // empty.
            let slot = &mut self.taken[self.counts.received as usize % RING];
            waited = now.since((*slot).max(self.idle));
            *slot = now;
            self.counts.received += 1;
            let start = self.timed.map(|_| nanoseconds());
            if self.relay_frame(now) {
                continue;
            }
            let frame = self.nic.frame();
            let ours = self.address.as_ref().map(|address| address.ours.address());
            if let Some((address, mac)) = datagram::sender(frame) {
                self.neighbors.see(address, mac);
            }
            match datagram::content(frame, self.mac, ours, self.checks) {
                Content::Datagram { ends, from, payload } => {
                    if self.is_open(ends.destination.port()) {
                        self.last = Some((*ends.source.ip(), from));
                        self.time(ends.destination.port(), start, true);
                        break Found::InFrame(ends, payload);
                    }
                    if ends.destination.port() == DHCP {
                        self.stack.receive_frame(frame);
                        self.next_poll = now;
                    } else if self.unreachable.allows(now)
                        && let Some(answer) =
                            unreachable::answer(frame, self.mac, *ends.destination.ip())
                    {
                        self.send_frame(|memory| {
                            memory[..answer.len()].copy_from_slice(&answer);
                            answer.len()
                        });
                    }
                }
                Content::Fragment { packet } => {
                    let whole =
                        frame.get(packet).and_then(|packet| self.fragments.add(now, packet));
                    let Some(Whole { source, destination, bytes }) = whole else { continue };
                    let ends = datagram::datagram(source, destination, &bytes, self.checks);
                    let Some((ends, length)) = ends else { continue };
                    if self.is_open(ends.destination.port()) {
                        self.whole = bytes;
                        self.whole.truncate(UDP + length);
                        break Found::Whole(ends);
                    }
                }
                Content::Link => {
                    let ethernet = EthernetFrame::new_unchecked(frame);
                    let network = self.address.as_ref().map(|address| address.ours);
                    self.next_poll = now;
                    let (EthernetProtocol::Arp, Some(network)) = (ethernet.ethertype(), network)
                    else {
                        self.stack.receive_frame(frame);
                        continue;
                    };
                    let packet = ethernet.payload();
                    let heard = self.neighbors.hear(now, packet, network);
                    if heard.is_some() {
                        // The stack answers only our neighbours, too.
                        self.stack.receive_frame(frame);
                    }
                    if self.claim.hear(now, packet, network.address(), self.mac) {
                        self.say(Say::Announcement);
                    }
                    let Some((mac, waiting)) = heard else { continue };
                    waiting.iter().for_each(|waiting| self.send_waiting(mac, waiting));
                }
                Content::Packet => {
                    let ours = ours.unwrap_or(Ipv4Addr::UNSPECIFIED);
                    if let Some(undelivered) = unreachable::read(frame, ours) {
                        self.note_undelivered(undelivered);
                    } else {
                        self.stack.receive_packet(&frame[ETHERNET..]);
                        self.next_poll = now;
                    }
                }
                Content::Impossible(source) => {
                    self.impossible = Some(source);
                    self.counts.impossible += 1;
                }
                Content::Nothing => {}
            }
        };
        Some(match found {
            Found::InFrame(ends, payload) => {
                Datagram { ends, payload: &self.nic.frame()[payload], waited }
            }
            Found::Whole(ends) => Datagram { ends, payload: &self.whole[UDP..], waited },
        })
    }

    /// Sends the received frame on, if it has a relayed packet that is only rewritten.
    fn relay_frame(&mut self, now: Instant) -> bool {
        let Some(media) = &self.media else { return false };
        let start = nanoseconds();
        let length = media.rewrite(self.nic.frame(), &mut self.relayed, now.since_epoch());
        let Some(length) = length else { return false };
        let frame = core::mem::take(&mut self.relayed);
        self.send_frame(|memory| {
            memory[..length].copy_from_slice(&frame[..length]);
            length
        });
        self.relayed = frame;
        self.counts.rewritten += 1;
        self.counts.rewriting += nanoseconds().saturating_sub(start);
        true
    }

    /// Has the next packets of relayed media to `port` rewritten in their frames, if that is all
    /// that their stream needs. They go to `remote`.
    pub fn expedite(&mut self, now: Instant, port: u16, remote: Ipv4Addr) {
        let (Some(address), Some(media)) = (&self.address, &self.media) else { return };
        let Some(hop) = address.next_hop(remote) else { return };
        // A packet that was just sent there has asked for the neighbour, if it was not known.
        let Some(mac) = self.neighbors.find(now, hop).mac else { return };
        media.expedite(port, address.ours.address(), [self.mac, mac], now.since_epoch());
    }

    /// Keeps an undelivered datagram of one of our ports for the program.
    fn note_undelivered(&mut self, undelivered: Undelivered) {
        let is_ours = self.ports.contains(&undelivered.ends.source.port());
        if is_ours && self.undelivered.len() < MOST_UNDELIVERED {
            self.undelivered.push(undelivered);
        }
    }

    /// Returns the datagrams from our ports that were not delivered since the last call: by ICMP
    /// errors, or because no other host can have the destination.
    pub fn undelivered(&mut self) -> Vec<Undelivered> {
        core::mem::take(&mut self.undelivered)
    }

    /// Sends `payload` from the local `port` to `remote`. A response to the datagram received last
    /// returns by the way it came; otherwise the neighbour is resolved by ARP. A datagram to an
    /// address that no other host can have, such as 127.0.0.1, is undelivered (RFC 1122 section
    /// 3.2.1.3).
    pub fn send(&mut self, now: Instant, port: u16, remote: SocketAddrV4, payload: &[u8]) {
        let start = self.timed.map(|_| nanoseconds());
        self.send_datagram(now, port, remote, payload);
        self.time(port, start, false);
    }

    fn send_datagram(&mut self, now: Instant, port: u16, remote: SocketAddrV4, payload: &[u8]) {
        let Some(address) = &self.address else { return };
        let ends =
            Ends { source: SocketAddrV4::new(address.ours.address(), port), destination: remote };
        if !datagram::is_host(*remote.ip()) {
            self.counts.dropped += 1;
            return self.note_undelivered(Undelivered { ends, payload: payload.to_vec() });
        }
        let Some(hop) = address.next_hop(*remote.ip()) else { return self.counts.dropped += 1 };
        if payload.len() > MOST_OF_DATAGRAM || hop == address.ours.address() {
            return self.counts.dropped += 1;
        }
        if let Some((host, mac)) = self.last
            && host == *remote.ip()
        {
            return self.send_payload(mac, ends, payload);
        }
        let found = self.neighbors.find(now, hop);
        if found.asks {
            self.ask(hop);
        }
        match found.mac {
            Some(mac) => self.send_payload(mac, ends, payload),
            None => {
                let bytes = with_header(ends, payload);
                self.neighbors.wait(hop, Waiting::Datagram(ends, bytes));
            }
        }
    }

    /// Runs what is due, and notifies the card of frames to send.
    pub fn poll(&mut self, now: Instant) -> Polled {
        let mut polled = Polled::default();
        if now >= self.next_poll {
            polled = self.stack.poll(now);
            while let Some(packet) = self.stack.next_packet() {
                self.send_packet(now, packet);
            }
            while let Some(frame) = self.stack.next_frame() {
                self.send_frame(|memory| {
                    memory[..frame.len()].copy_from_slice(&frame);
                    frame.len()
                });
            }
            self.next_poll = self.stack.next_poll(now);
        }
        if now >= self.next_look {
            self.next_look = now + LOOK;
            for address in self.neighbors.unanswered(now) {
                self.ask(address);
            }
        }
        if self.address.is_some()
            && let Some(say) = self.claim.due(now)
        {
            self.say(say);
        }
        polled.conflict = self.claim.conflict();
        if now >= self.next_report {
            polled.impossible = self.impossible.take();
            if polled.impossible.is_some() {
                self.next_report = now + REPORT;
            }
        }
        self.nic.flush();
        polled
    }

    /// Sends an ARP packet about our own address.
    fn say(&mut self, say: Say) {
        let Some(ours) = self.address.as_ref().map(|address| address.ours.address()) else {
            return;
        };
        let source = if say == Say::Probe { Ipv4Addr::UNSPECIFIED } else { ours };
        self.send_question(source, ours);
    }

    /// Sends an IP packet of the stack, once its neighbour is resolved.
    fn send_packet(&mut self, now: Instant, mut packet: Vec<u8>) {
        let Some(address) = &self.address else { return };
        let Ok(mut ip) = Ipv4Packet::new_checked(&mut packet[..]) else { return };
        datagram::mark(&mut ip);
        let remote = ip.dst_addr();
        let hop = address.next_hop(remote).filter(|_| datagram::is_host(remote));
        let Some(hop) = hop else { return self.counts.dropped += 1 };
        let found = self.neighbors.find(now, hop);
        if found.asks {
            self.ask(hop);
        }
        match found.mac {
            Some(mac) => self.send_waiting(mac, &Waiting::Packet(packet)),
            None => self.neighbors.wait(hop, Waiting::Packet(packet)),
        }
    }
}
