//! The answer to a datagram for a closed port: ICMP port unreachable (RFC 792, RFC 1122 section
//! 4.1.3.1), with a rate limit.

use super::datagram::{ETHERNET, IP, UDP};
use core::net::Ipv4Addr;
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
