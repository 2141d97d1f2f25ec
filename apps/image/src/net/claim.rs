//! Address conflict detection (RFC 5227): our address is probed and announced, and other hosts that
//! use it are detected. Unlike in the RFC, the address is used from the first probe on: a booting
//! server does not wait for seconds.

use core::net::Ipv4Addr;
use sip::{Duration, Instant};
use smoltcp::wire::{ArpPacket, ArpRepr, EthernetAddress};

/// Number of probes and announcements (section 1.1), and the intervals between them.
const PROBES: u8 = 3;
const ANNOUNCEMENTS: u8 = 2;
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
/// Minimum interval between two defences of the address (section 2.4).
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);

/// An ARP packet to send about our address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Say {
    /// An ARP probe.
    Probe,
    /// An ARP announcement.
    Announcement,
}

/// A conflict with another host that uses our address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The other host's Ethernet address.
    pub mac: EthernetAddress,
    /// True if the other host had the address first, so that it has to be given up.
    pub is_lost: bool,
}

/// The claim on an address.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    sent: u8,
    next: Instant,
    defended: Option<Instant>,
    conflict: Option<Conflict>,
}

impl Claim {
    /// The packet due at `now`.
    pub(crate) fn due(&mut self, now: Instant) -> Option<Say> {
        if self.sent >= PROBES + ANNOUNCEMENTS || now < self.next {
            return None;
        }
        self.sent += 1;
        let is_probe = self.sent <= PROBES;
        let pause = if self.sent < PROBES { PROBE_INTERVAL } else { ANNOUNCE_INTERVAL };
        self.next = now + pause;
        Some(if is_probe { Say::Probe } else { Say::Announcement })
    }

    /// Handles an ARP packet in the network of `address`, which is ours with the Ethernet address
    /// `mac`. Returns true if the address has to be announced again.
    pub(crate) fn hear(
        &mut self,
        now: Instant,
        packet: &[u8],
        address: Ipv4Addr,
        mac: EthernetAddress,
    ) -> bool {
        let packet = ArpPacket::new_checked(packet).and_then(|packet| ArpRepr::parse(&packet));
        let Ok(ArpRepr::EthernetIpv4 {
            source_hardware_addr: sender,
            source_protocol_addr: source,
            target_protocol_addr: target,
            ..
        }) = packet
        else {
            return false;
        };
        let is_probing = self.sent <= PROBES;
        let probes_too = is_probing && source.is_unspecified() && target == address;
        if sender == mac || !(source == address || probes_too) {
            return false;
        }
        let is_late = self.defended.is_none_or(|time| now.since(time) >= DEFEND_INTERVAL);
        if is_probing || is_late {
            self.conflict = Some(Conflict { mac: sender, is_lost: is_probing });
            self.defended = Some(now);
        }
        !is_probing && is_late
    }

    /// Returns the conflict detected since the last call of this function.
    pub(crate) fn conflict(&mut self) -> Option<Conflict> {
        self.conflict.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use smoltcp::wire::ArpOperation;

    const OURS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
    const MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 7]);
    const OTHER: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 8]);

    fn packet(mac: EthernetAddress, source: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
        let packet = ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Request,
            source_hardware_addr: mac,
            source_protocol_addr: source,
            target_hardware_addr: EthernetAddress([0; 6]),
            target_protocol_addr: target,
        };
        let mut bytes = alloc::vec![0; packet.buffer_len()];
        packet.emit(&mut ArpPacket::new_unchecked(&mut bytes));
        bytes
    }

    fn second(number: u64) -> Instant {
        Instant::from_micros(1_800_000_000_000_000 + number * 1_000_000)
    }

    #[test]
    fn an_address_is_probed_and_announced() {
        let mut claim = Claim::default();
        let said: Vec<_> = (0..20).filter_map(|at| Some((at, claim.due(second(at))?))).collect();
        let (probe, announcement) = (Say::Probe, Say::Announcement);
        let expected = [(0, probe), (1, probe), (2, probe), (4, announcement), (6, announcement)];
        assert_eq!(said, expected);
    }

    #[test]
    fn a_host_that_had_the_address_before_keeps_it() {
        for source in [OURS, Ipv4Addr::UNSPECIFIED] {
            let mut claim = Claim::default();
            claim.due(second(0));
            assert!(!claim.hear(second(0), &packet(MAC, OURS, OURS), OURS, MAC), "our own");
            assert_eq!(claim.conflict(), None);
            assert!(!claim.hear(second(0), &packet(OTHER, source, OURS), OURS, MAC));
            assert_eq!(claim.conflict(), Some(Conflict { mac: OTHER, is_lost: true }));
        }
    }

    #[test]
    fn an_address_that_is_ours_is_defended_every_ten_seconds() {
        let mut claim = Claim::default();
        (0..10).for_each(|at| _ = claim.due(second(at)));
        let forged = packet(OTHER, OURS, Ipv4Addr::new(192, 0, 2, 1));
        let defences = (10..40).filter(|at| claim.hear(second(*at), &forged, OURS, MAC));
        assert_eq!(defences.collect::<Vec<_>>(), [10, 20, 30]);
        assert_eq!(claim.conflict(), Some(Conflict { mac: OTHER, is_lost: false }));
    }
}
