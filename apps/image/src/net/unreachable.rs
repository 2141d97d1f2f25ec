//! ICMP errors (RFC 792, RFC 1122 section 3.2.2): port unreachable as the answer to a datagram for
//! a closed port, with a rate limit, and received errors for sent datagrams.

use super::datagram::{ETHERNET, Ends, IP, UDP};
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddrV4};
use sip::{Duration, Instant};
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, Icmpv4Message, Icmpv4Packet, IpProtocol,
    Ipv4Packet,
};

/// Maximum number of answers in each time span.
const MOST: u32 = 10;
const SPAN: Duration = Duration::from_secs(1);
/// The ICMP code of port unreachable.
const PORT: u8 = 3;
/// Length of the ICMP header in bytes.
const ICMP: usize = 8;

/// A sent datagram that was not delivered, by an ICMP error, or because no other host can have its
/// destination. Any host may have forged the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// The source and the destination of the datagram.
    pub ends: Ends,
    /// The beginning of its payload, which may be empty.
    pub payload: Vec<u8>,
}

/// The datagram of `ours` that the ICMP error in `frame` quotes. `None` if the frame is another
/// one, or the error does not mean that the destination cannot be reached (RFC 3261 section 18.4).
pub(super) fn read(frame: &[u8], ours: Ipv4Addr) -> Option<Undelivered> {
    let ethernet = EthernetFrame::new_checked(frame).ok()?;
    if ethernet.ethertype() != EthernetProtocol::Ipv4 {
        return None;
    }
    let ip = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
    let is_for_us = ip.version() == 4 && ip.dst_addr() == ours && ip.verify_checksum();
    let is_whole = !ip.more_frags() && ip.frag_offset() == 0;
    if ip.next_header() != IpProtocol::Icmp || !is_for_us || !is_whole {
        return None;
    }
    let icmp = Icmpv4Packet::new_checked(ip.payload()).ok()?;
    let is_error = match icmp.msg_type() {
        Icmpv4Message::DstUnreachable => icmp.msg_code() <= PORT,
        Icmpv4Message::ParamProblem => true,
        _ => false,
    };
    if !is_error || !icmp.verify_checksum() {
        return None;
    }
    // The quoted packet is usually cut off, so that its length does not match.
    let quoted = ip.payload().get(ICMP..)?;
    let cause = Ipv4Packet::new_unchecked(quoted);
    let start = usize::from(quoted.first()? & 15) * 4;
    if quoted.len() < IP || start < IP || quoted.len() < start + UDP {
        return None;
    }
    let is_first = cause.version() == 4 && cause.frag_offset() == 0;
    if !is_first || cause.next_header() != IpProtocol::Udp || cause.src_addr() != ours {
        return None;
    }
    let (header, payload) = quoted[start..].split_at(UDP);
    let number = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    // Padding may follow the datagram (RFC 4884).
    let length = usize::from(number(4)).checked_sub(UDP)?.min(payload.len());
    let ends = Ends {
        source: SocketAddrV4::new(ours, number(0)),
        destination: SocketAddrV4::new(cause.dst_addr(), number(2)),
    };
    Some(Undelivered { ends, payload: payload[..length].to_vec() })
}

/// The rate limiter.
#[derive(Debug, Default)]
pub(super) struct Rate {
    since: Instant,
    sent: u32,
}

impl Rate {
    /// Returns true if an answer is allowed at `now`, and counts it.
    pub(super) fn allows(&mut self, now: Instant) -> bool {
        if now.since(self.since) >= SPAN {
            *self = Self { since: now, sent: 0 };
        }
        self.sent += 1;
        self.sent <= MOST
    }
}

/// The frame that answers `frame`, a datagram for us without IP options.
pub(super) fn answer(frame: &[u8], mac: EthernetAddress, ours: Ipv4Addr) -> Option<[u8; LENGTH]> {
    let ethernet = EthernetFrame::new_checked(frame).ok()?;
    let cause = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
    let quoted = ethernet.payload().get(..IP + UDP)?;
    if usize::from(cause.header_len()) != IP {
        return None;
    }
    let mut answer = [0; LENGTH];
    let mut out = EthernetFrame::new_unchecked(&mut answer[..]);
    out.set_src_addr(mac);
    out.set_dst_addr(ethernet.src_addr());
    out.set_ethertype(EthernetProtocol::Ipv4);
    let mut ip = Ipv4Packet::new_unchecked(out.payload_mut());
    ip.set_version(4);
    ip.set_header_len(IP as u8);
    ip.set_total_len((LENGTH - ETHERNET) as u16);
    ip.set_hop_limit(64);
    ip.set_next_header(IpProtocol::Icmp);
    ip.set_src_addr(ours);
    ip.set_dst_addr(cause.src_addr());
    ip.fill_checksum();
    let payload = ip.payload_mut();
    payload[ICMP..].copy_from_slice(quoted);
    let mut icmp = Icmpv4Packet::new_unchecked(payload);
    icmp.set_msg_type(Icmpv4Message::DstUnreachable);
    icmp.set_msg_code(PORT);
    icmp.fill_checksum();
    Some(answer)
}

/// Length of an answer in bytes.
pub(super) const LENGTH: usize = ETHERNET + IP + ICMP + IP + UDP;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const OURS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
    const MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 7]);

    /// A datagram of ours.
    fn sent(payload: &[u8]) -> Vec<u8> {
        let ends = Ends {
            source: SocketAddrV4::new(OURS, 5060),
            destination: SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 20), 5070),
        };
        let length = UDP + payload.len();
        let mut frame = alloc::vec![0; ETHERNET + IP + length];
        frame[ETHERNET + IP + UDP..].copy_from_slice(payload);
        super::super::datagram::write_udp(&mut frame[ETHERNET + IP..], ends);
        let (from, to) = (MAC, EthernetAddress([2, 0, 0, 0, 0, 20]));
        let part = super::super::datagram::Part {
            from,
            to,
            ends,
            dscp: 0,
            ident: 1,
            offset: 0,
            is_last: true,
            length,
        };
        super::super::datagram::write_headers(&mut frame, &part);
        frame
    }

    #[test]
    fn the_answer_to_a_datagram_is_read_as_its_error() {
        let frame = sent(b"INVITE sip:a@b");
        let answer = answer(&frame, MAC, Ipv4Addr::new(192, 0, 2, 20)).expect("an answer");
        let undelivered = read(&answer, OURS).expect("an error for it");
        assert_eq!(undelivered.ends.source.to_string(), "192.0.2.7:5060");
        assert_eq!(undelivered.ends.destination.to_string(), "192.0.2.20:5070");
        assert_eq!(undelivered.payload, b"", "the answer quotes the headers only");
        assert_eq!(read(&answer, Ipv4Addr::new(192, 0, 2, 8)), None, "it is for another host");
    }

    #[test]
    fn errors_that_quote_no_datagram_of_ours_are_ignored() {
        let frame = sent(b"INVITE sip:a@b");
        let whole = answer(&frame, MAC, Ipv4Addr::new(192, 0, 2, 20)).expect("an answer");
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length], OURS), None, "{length}");
        }
        for at in ETHERNET..whole.len() {
            let mut damaged = whole;
            damaged[at] ^= 1;
            assert_eq!(read(&damaged, OURS), None, "the byte {at} is covered by a checksum");
        }
    }
}
