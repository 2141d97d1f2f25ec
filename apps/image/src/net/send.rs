//! The frames that leave: datagrams, in fragments where necessary, packets of the stack, and ARP
//! requests.

use super::Network;
use super::datagram::{self, ETHERNET, Ends, IP, Part, SIGNALLING, UDP, with_header};
use super::neighbors::Waiting;
use crate::nic::MAX_FRAME;
use core::net::Ipv4Addr;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol,
};

/// Maximum payload of an IP packet in a frame, in bytes.
const MOST_OF_PACKET: usize = MAX_FRAME - ETHERNET - IP;
/// The same for a fragment: offsets count units of eight bytes.
const MOST_OF_PART: usize = MOST_OF_PACKET & !7;
/// Maximum number of polls of the card for room to send.
const PATIENCE: u32 = 1000;
/// The DSCP of media: expedited forwarding (RFC 3246, RFC 4594).
const EXPEDITED: u8 = 46;
const SIP: u16 = 5060;

impl Network {
    /// Sends a datagram or packet to the neighbour `mac`.
    pub(super) fn send_waiting(&mut self, mac: EthernetAddress, waiting: &Waiting) {
        let from = self.mac;
        match waiting {
            Waiting::Datagram(ends, bytes) => self.send_parts(mac, *ends, bytes),
            Waiting::Packet(packet) => self.send_frame(|memory| {
                let length = ETHERNET + packet.len();
                let mut ethernet = EthernetFrame::new_unchecked(&mut memory[..length]);
                ethernet.set_src_addr(from);
                ethernet.set_dst_addr(mac);
                ethernet.set_ethertype(EthernetProtocol::Ipv4);
                ethernet.payload_mut().copy_from_slice(packet);
                length
            }),
        }
    }

    pub(super) fn send_payload(&mut self, mac: EthernetAddress, ends: Ends, payload: &[u8]) {
        let length = UDP + payload.len();
        if length > MOST_OF_PACKET {
            return self.send_parts(mac, ends, &with_header(ends, payload));
        }
        let ident = self.next_ident();
        let (from, dscp) = (self.mac, self.dscp(ends));
        self.send_frame(|memory| {
            let start = ETHERNET + IP;
            memory[start + UDP..start + length].copy_from_slice(payload);
            datagram::write_udp(&mut memory[start..start + length], ends);
            let part = Part { from, to: mac, ends, dscp, ident, offset: 0, is_last: true, length };
            datagram::write_headers(memory, &part)
        });
    }

    /// Sends a datagram with its header, in as many frames as necessary.
    pub(super) fn send_parts(&mut self, to: EthernetAddress, ends: Ends, bytes: &[u8]) {
        let (from, dscp, ident) = (self.mac, self.dscp(ends), self.next_ident());
        let count = bytes.len().div_ceil(MOST_OF_PART);
        for (number, bytes) in bytes.chunks(MOST_OF_PART).enumerate() {
            let offset = (number * MOST_OF_PART) as u16;
            let is_last = number + 1 == count;
            let length = bytes.len();
            self.send_frame(|memory| {
                memory[ETHERNET + IP..][..length].copy_from_slice(bytes);
                let part = Part { from, to, ends, dscp, ident, offset, is_last, length };
                datagram::write_headers(memory, &part)
            });
        }
    }

    /// The DSCP of datagrams between these ends: that of media or of SIP, or the default one.
    fn dscp(&self, ends: Ends) -> u8 {
        let is_media = self.media.as_ref().is_some_and(|media| media.is_open(ends.source.port()));
        match ends {
            _ if is_media => EXPEDITED,
            Ends { source, destination } if [source.port(), destination.port()].contains(&SIP) => {
                SIGNALLING
            }
            _ => 0,
        }
    }

    fn next_ident(&mut self) -> u16 {
        self.ident = self.ident.wrapping_add(1);
        self.ident
    }

    /// Sends an ARP request for `address`.
    pub(super) fn ask(&mut self, address: Ipv4Addr) {
        let Some(ours) = &self.address else { return };
        self.send_question(ours.ours.address(), address);
    }

    /// Sends an ARP request for `address` with the sender address `source`.
    pub(super) fn send_question(&mut self, source: Ipv4Addr, address: Ipv4Addr) {
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

    /// Sends a frame written by `write`, which returns its length.
    pub(super) fn send_frame(&mut self, write: impl FnOnce(&mut [u8]) -> usize) {
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
