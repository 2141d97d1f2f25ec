//! The network: UDP from the frame to who wants it and back, and beside it a stack for the rest.
//!
//! UDP is not the stack's business: SIP's datagrams are handed on where the card has put them, and
//! a neighbour that does not answer holds nobody else up.

mod claim;
mod datagram;
mod fragments;
mod neighbors;
mod stack;
mod unreachable;

pub use claim::Conflict;
pub use datagram::Ends;
pub use stack::{Address, Polled};

use crate::nic::{MAX_FRAME, Nic};
use alloc::boxed::Box;
use alloc::vec::Vec;
use claim::{Claim, Say};
use core::net::{Ipv4Addr, SocketAddrV4};
use core::ops::Range;
use datagram::{Content, ETHERNET, IP, Part, UDP};
use fragments::{Fragments, Whole};
use neighbors::{Neighbors, Waiting};
use sip::{Duration, Instant};
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol,
};
pub(crate) use stack::{CONNECTION_BUFFERS, Stack};

/// Bytes of an IP packet in a frame, behind its header.
const MOST_OF_PACKET: usize = MAX_FRAME - ETHERNET - IP;
/// The same for one of several, whose places are counted in eights.
const MOST_OF_PART: usize = MOST_OF_PACKET & !7;
/// Bytes of the payload of a datagram.
const MOST_OF_DATAGRAM: usize = 65_535 - IP - UDP;
/// The port that answers of DHCP come to.
const DHCP: u16 = 68;
/// Bytes of an ARP packet.
const ARP: usize = 28;
/// How often the card is looked at for room to send.
const PATIENCE: u32 = 1000;
/// Frames that a card has memory for: those that wait came after so many before them were received.
const RING: usize = 256;
/// Frames that are not for our ports and are dealt with before timers get their turn.
const BUDGET: usize = 64;
/// From one look for neighbours that have not answered to the next.
const LOOK: Duration = Duration::from_millis(100);

/// A datagram that came for a port of ours.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// Where from, where to.
    pub ends: Ends,
    /// What is in it.
    pub payload: &'a [u8],
    /// How long it has waited to be received, at most.
    pub waited: Duration,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that came.
    pub received: u64,
    /// Frames that were sent.
    pub sent: u64,
    /// Datagrams for which there was no room, or nobody to give them to.
    pub dropped: u64,
}

/// A card and what speaks through it.
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
    ports: Vec<u16>,
    checks: bool,
    /// The next number for the parts of a packet.
    ident: u16,
    /// Who has sent the datagram that was received last, and from where in the network.
    last: Option<(Ipv4Addr, EthernetAddress)>,
    /// The datagram that was put together last.
    whole: Vec<u8>,
    /// When nothing was there to be received, and when each of the last frames was.
    idle: Instant,
    taken: Vec<Instant>,
    next_poll: Instant,
    next_look: Instant,
    counts: Counts,
}

impl Network {
    /// A network by this card, with a random number. Checksums of UDP are looked at if `checks`.
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
            ports: Vec::new(),
            checks,
            ident: seed as u16,
            last: None,
            whole: Vec::new(),
            idle: now,
            taken: alloc::vec![now; RING],
            next_poll: now,
            next_look: now,
            counts: Counts::default(),
        }
    }

    /// The card.
    pub fn nic(&mut self) -> &mut dyn Nic {
        &mut *self.nic
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Who we are, if we are somebody.
    #[must_use]
    pub fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }

    /// Keeps `bytes` at most of datagrams that are not whole, and as many of those that wait for a
    /// neighbour.
    pub fn set_memory(&mut self, bytes: usize) {
        self.fragments.set_memory(bytes);
        self.neighbors.set_memory(bytes);
    }

    /// Asks DHCP for an address from now on.
    pub fn use_dhcp(&mut self) {
        self.stack.use_dhcp();
    }

    /// Asks DHCP again, as if there were no lease.
    pub fn restart_dhcp(&mut self, now: Instant) {
        self.stack(now).restart_dhcp();
    }

    /// Has this address from now on, or none.
    pub fn set_address(&mut self, address: Option<Address>) {
        let ours = |address: &Address| address.ours;
        if address.as_ref().map(ours) != self.address.as_ref().map(ours) {
            self.claim = Claim::default();
        }
        self.stack.set_address(address.as_ref());
        self.address = address;
    }

    /// Takes datagrams for `port`.
    pub fn listen(&mut self, port: u16) {
        self.ports.push(port);
    }

    /// Takes none for `port` any more.
    pub fn close(&mut self, port: u16) {
        self.ports.retain(|&other| other != port);
    }

    /// The stack, which is looked at soon for what is done with its connections.
    pub(crate) fn stack(&mut self, now: Instant) -> &mut Stack {
        self.next_poll = now;
        &mut self.stack
    }

    /// The next datagram for one of our ports. Everything else that comes is dealt with meanwhile.
    pub fn receive(&mut self, now: Instant) -> Option<Datagram<'_>> {
        enum Found {
            InFrame(Ends, Range<usize>),
            Whole(Ends),
        }
        self.last = None;
        let mut waited;
        let mut rest = BUDGET;
        let found = loop {
            // Others than ours must not hold up what else there is to do.
            rest = rest.checked_sub(1)?;
            if !self.nic.receive() {
                self.idle = now;
                return None;
            }
            // It came after the card got the memory for it, and was not there when none was.
            let slot = &mut self.taken[self.counts.received as usize % RING];
            waited = now.since((*slot).max(self.idle));
            *slot = now;
            self.counts.received += 1;
            let frame = self.nic.frame();
            let ours = self.address.as_ref().map(|address| address.ours.address());
            if let Some((address, mac)) = datagram::sender(frame) {
                self.neighbors.see(address, mac);
            }
            match datagram::content(frame, self.mac, ours, self.checks) {
                Content::Datagram { ends, from, payload } => {
                    if self.ports.contains(&ends.destination.port()) {
                        self.last = Some((*ends.source.ip(), from));
                        break Found::InFrame(ends, payload);
                    }
                    if ends.destination.port() == DHCP {
                        self.stack.receive(frame);
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
                    if self.ports.contains(&ends.destination.port()) {
                        self.whole = bytes;
                        self.whole.truncate(UDP + length);
                        break Found::Whole(ends);
                    }
                }
                Content::Other => {
                    let ethernet = EthernetFrame::new_unchecked(frame);
                    let network = self.address.as_ref().map(|address| address.ours);
                    if let (EthernetProtocol::Arp, Some(network)) = (ethernet.ethertype(), network)
                    {
                        let packet = ethernet.payload();
                        let heard = self.neighbors.hear(now, packet, network);
                        if heard.is_some() {
                            // The stack hears of our neighbours alone, too.
                            self.stack.receive(frame);
                        }
                        if self.claim.hear(now, packet, network.address(), self.mac) {
                            self.say(Say::Announcement);
                        }
                        let Some((mac, waiting)) = heard else { continue };
                        waiting.iter().for_each(|datagram| self.send_to(mac, datagram));
                    } else {
                        self.introduce_sender(now);
                        self.stack.receive(self.nic.frame());
                    }
                    self.next_poll = now;
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

    /// Sends `payload` from our `port` to `remote`. What answers the datagram that was received
    /// last goes back the way that came; for the rest the neighbour is asked for.
    pub fn send(&mut self, now: Instant, port: u16, remote: SocketAddrV4, payload: &[u8]) {
        let Some(address) = &self.address else { return };
        let ends =
            Ends { source: SocketAddrV4::new(address.ours.address(), port), destination: remote };
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
                self.neighbors.wait(hop, Waiting { ends, bytes });
            }
        }
    }

    /// Does what is to be done now, and lets the card know of what is to be sent.
    pub fn poll(&mut self, now: Instant) -> Polled {
        let mut polled = Polled::default();
        if now >= self.next_poll {
            polled = self.stack.poll(now);
            while let Some(frame) = self.stack.transmit() {
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

    /// Tells the stack by which card the sender of a TCP frame is reached that begins a connection,
    /// so that it does not ask for one neighbour after the other: by the card that was heard by
    /// ARP, else by the one that sent the frame.
    fn introduce_sender(&mut self, now: Instant) {
        let Some(ours) = &self.address else { return };
        let Some((sender, mac)) = datagram::connection_begun(self.nic.frame()) else { return };
        let Some(hop) = ours.next_hop(sender).filter(|hop| *hop != ours.ours.address()) else {
            return;
        };
        let mac = self.neighbors.known(now, hop).unwrap_or(mac);
        if !mac.is_unicast() || !datagram::is_host(sender) {
            return;
        }
        let introduction = ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Reply,
            source_hardware_addr: mac,
            source_protocol_addr: hop,
            target_hardware_addr: self.mac,
            target_protocol_addr: ours.ours.address(),
        };
        let mut frame = [0; ETHERNET + ARP];
        let mut ethernet = EthernetFrame::new_unchecked(&mut frame[..]);
        ethernet.set_src_addr(mac);
        ethernet.set_dst_addr(self.mac);
        ethernet.set_ethertype(EthernetProtocol::Arp);
        introduction.emit(&mut ArpPacket::new_unchecked(ethernet.payload_mut()));
        self.stack.receive(&frame);
    }

    /// Sends what has waited for a neighbour.
    fn send_to(&mut self, mac: EthernetAddress, datagram: &Waiting) {
        self.send_parts(mac, datagram.ends, &datagram.bytes);
    }

    fn send_payload(&mut self, mac: EthernetAddress, ends: Ends, payload: &[u8]) {
        let length = UDP + payload.len();
        if length > MOST_OF_PACKET {
            return self.send_parts(mac, ends, &with_header(ends, payload));
        }
        let ident = self.next_ident();
        let from = self.mac;
        self.send_frame(|memory| {
            let start = ETHERNET + IP;
            memory[start + UDP..start + length].copy_from_slice(payload);
            datagram::write_udp(&mut memory[start..start + length], ends);
            let part = Part { from, to: mac, ends, ident, offset: 0, is_last: true, length };
            datagram::write_headers(memory, &part)
        });
    }

    /// Sends a datagram with its header, in as many frames as it takes.
    fn send_parts(&mut self, to: EthernetAddress, ends: Ends, bytes: &[u8]) {
        let (from, ident) = (self.mac, self.next_ident());
        let count = bytes.len().div_ceil(MOST_OF_PART);
        for (number, bytes) in bytes.chunks(MOST_OF_PART).enumerate() {
            let offset = (number * MOST_OF_PART) as u16;
            let is_last = number + 1 == count;
            let length = bytes.len();
            self.send_frame(|memory| {
                memory[ETHERNET + IP..][..length].copy_from_slice(bytes);
                let part = Part { from, to, ends, ident, offset, is_last, length };
                datagram::write_headers(memory, &part)
            });
        }
    }

    fn next_ident(&mut self) -> u16 {
        self.ident = self.ident.wrapping_add(1);
        self.ident
    }

    /// Asks who has `address`.
    fn ask(&mut self, address: Ipv4Addr) {
        let Some(ours) = &self.address else { return };
        self.send_question(ours.ours.address(), address);
    }

    /// Asks in the name of `source` who has `address`.
    fn send_question(&mut self, source: Ipv4Addr, address: Ipv4Addr) {
        let question = ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Request,
            source_hardware_addr: self.mac,
            source_protocol_addr: source,
            target_hardware_addr: EthernetAddress([0; 6]),
            target_protocol_addr: address,
        };
        let from = self.mac;
        self.send_frame(|memory| {
            let length = ETHERNET + question.buffer_len();
            let mut ethernet = EthernetFrame::new_unchecked(&mut memory[..length]);
            ethernet.set_src_addr(from);
            ethernet.set_dst_addr(EthernetAddress::BROADCAST);
            ethernet.set_ethertype(EthernetProtocol::Arp);
            question.emit(&mut ArpPacket::new_unchecked(ethernet.payload_mut()));
            length
        });
    }

    /// Sends the frame that `write` writes, and of which it says how long it is.
    fn send_frame(&mut self, write: impl FnOnce(&mut [u8]) -> usize) {
        for _ in 0..PATIENCE {
            if let Some(memory) = self.nic.buffer() {
                let length = write(memory);
                self.nic.send(length);
                self.counts.sent += 1;
                return;
            }
            self.nic.flush();
            core::hint::spin_loop();
        }
        self.counts.dropped += 1;
    }
}

/// A datagram: UDP's header, and `payload`.
fn with_header(ends: Ends, payload: &[u8]) -> Vec<u8> {
    let mut bytes = alloc::vec![0; UDP + payload.len()];
    bytes[UDP..].copy_from_slice(payload);
    datagram::write_udp(&mut bytes, ends);
    bytes
}
