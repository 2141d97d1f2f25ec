//! The neighbour table: IP to Ethernet addresses (ARP, RFC 826).
//!
//! Each address is resolved separately, and only its own datagrams wait: a host that does not
//! answer delays no other traffic.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use sip::{Duration, Instant};
use smoltcp::wire::{ArpOperation, ArpPacket, ArpRepr, EthernetAddress, Ipv4Cidr};

/// Lifetime of an entry; after half of it, the address is requested again.
const LIFETIME: Duration = Duration::from_secs(120);
/// Interval of the requests, and their maximum number.
const INTERVAL: Duration = Duration::from_secs(1);
const QUESTIONS: u8 = 3;
/// Maximum number of entries.
const MOST: usize = 4096;
/// Maximum number of datagrams that wait for one neighbour, and default limit of the bytes of all.
const MOST_WAITING: usize = 16;
const MOST_BYTES: usize = 1 << 20;

#[derive(Debug)]
struct Neighbor {
    mac: Option<EthernetAddress>,
    /// The time of the answer, or of the first request.
    since: Instant,
    asked: Instant,
    questions: u8,
    /// True if another host may have the address.
    is_doubted: bool,
    waiting: Vec<Waiting>,
}

/// Bytes that wait for an address.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// A datagram with its UDP header.
    Datagram(super::datagram::Ends, Vec<u8>),
    /// An IP packet.
    Packet(Vec<u8>),
}

impl Waiting {
    /// Its length in bytes.
    fn length(&self) -> usize {
        match self {
            Self::Datagram(_, bytes) | Self::Packet(bytes) => bytes.len(),
        }
    }
}

/// The neighbour table.
#[derive(Debug)]
pub(crate) struct Neighbors {
    table: BTreeMap<Ipv4Addr, Neighbor>,
    /// Bytes of all waiting datagrams, and the limit.
    bytes: usize,
    most: usize,
    /// The position of the eviction walk through a full table.
    walk: Ipv4Addr,
}

impl Default for Neighbors {
    fn default() -> Self {
        Self { table: BTreeMap::new(), bytes: 0, most: MOST_BYTES, walk: Ipv4Addr::UNSPECIFIED }
    }
}

/// The result of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The Ethernet address, if it is known.
    pub(crate) mac: Option<EthernetAddress>,
    /// True if an ARP request is due.
    pub(crate) asks: bool,
}

impl Neighbors {
    /// Limits the bytes of waiting datagrams.
    pub(crate) fn set_memory(&mut self, bytes: usize) {
        self.most = bytes.min(MOST_BYTES);
    }

    /// Looks up `address` at the time `now`.
    pub(crate) fn find(&mut self, now: Instant, address: Ipv4Addr) -> Found {
        let neighbor = self.entry(now, address);
        let age = now.since(neighbor.since);
        if age >= LIFETIME {
            neighbor.mac = None;
        }
        let is_due = now.since(neighbor.asked) >= INTERVAL;
        let wants = neighbor.mac.is_none() || age.times(2) >= LIFETIME;
        let asks = wants && is_due;
        if asks {
            neighbor.asked = now;
            neighbor.questions = neighbor.questions.saturating_add(1);
        }
        Found { mac: neighbor.mac, asks }
    }

    /// Handles the source of a frame: `address` at `mac`. If another Ethernet address is known, the
    /// entry is requested again, so that the host itself corrects a forgery.
    pub(crate) fn see(&mut self, address: Ipv4Addr, mac: EthernetAddress) {
        if let Some(neighbor) = self.table.get_mut(&address) {
            neighbor.is_doubted |= neighbor.mac.is_some_and(|heard| heard != mac);
        }
    }

    /// Queues `datagram` until `address`, which was looked up, is resolved. Drops it if too many
    /// wait.
    pub(crate) fn wait(&mut self, address: Ipv4Addr, datagram: Waiting) {
        let Some(neighbor) = self.table.get_mut(&address) else { return };
        let bytes = self.bytes + datagram.length();
        if neighbor.waiting.len() < MOST_WAITING && bytes <= self.most {
            self.bytes = bytes;
            neighbor.waiting.push(datagram);
        }
    }

    /// Handles the ARP `packet`. Returns the neighbour's Ethernet address and its waiting
    /// datagrams. Only hosts of our `network` count that were requested or that request our
    /// address.
    pub(crate) fn hear(
        &mut self,
        now: Instant,
        packet: &[u8],
        network: Ipv4Cidr,
    ) -> Option<(EthernetAddress, Vec<Waiting>)> {
        let ours = network.address();
        let packet = ArpPacket::new_checked(packet).ok()?;
        let ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr: mac,
            source_protocol_addr: address,
            target_protocol_addr: target,
            ..
        } = ArpRepr::parse(&packet).ok()?
        else {
            return None;
        };
        let is_asked = self.table.get(&address).is_some_and(|neighbor| neighbor.questions > 0);
        let asks_us = operation == ArpOperation::Request && target == ours;
        let is_someone = mac.is_unicast()
            && super::datagram::is_host(address)
            && network.contains_addr(&address)
            && address != ours;
        if !is_someone || !(is_asked || asks_us) {
            return None;
        }
        let neighbor = self.entry(now, address);
        (neighbor.mac, neighbor.since, neighbor.questions) = (Some(mac), now, 0);
        neighbor.is_doubted = false;
        let waiting = core::mem::take(&mut neighbor.waiting);
        self.bytes -= waiting.iter().map(Waiting::length).sum::<usize>();
        Some((mac, waiting))
    }

    /// Addresses to request again, because datagrams wait or the entry is in doubt. Entries that do
    /// not answer are removed with their datagrams.
    pub(crate) fn unanswered(&mut self, now: Instant) -> Vec<Ipv4Addr> {
        let mut again = Vec::new();
        let bytes = &mut self.bytes;
        self.table.retain(|address, neighbor| {
            let is_wanted = !neighbor.waiting.is_empty() || neighbor.is_doubted;
            if !is_wanted || now.since(neighbor.asked) < INTERVAL {
                return true;
            }
            if core::mem::take(&mut neighbor.is_doubted) {
                neighbor.questions = 0;
            }
            if neighbor.questions >= QUESTIONS {
                *bytes -= neighbor.waiting.iter().map(Waiting::length).sum::<usize>();
                return false;
            }
            neighbor.asked = now;
            neighbor.questions += 1;
            again.push(*address);
            true
        });
        again
    }

    /// The entry for `address`. In a full table it replaces the next one of a walk, so that the
    /// work is constant for each frame.
    fn entry(&mut self, now: Instant, address: Ipv4Addr) -> &mut Neighbor {
        if self.table.len() >= MOST && !self.table.contains_key(&address) {
            let next = self.table.range(self.walk..).next().or(self.table.iter().next());
            if let Some(goes) = next.map(|(address, _)| *address) {
                // The step shares no factor with the usual table sizes: neighbours that came in
                // sequence are not evicted in sequence.
                self.walk = Ipv4Addr::from(u32::from(goes).wrapping_add(0x9e37_79b1));
                let gone = self.table.remove(&goes);
                let waiting = gone.iter().flat_map(|gone| &gone.waiting);
                self.bytes -= waiting.map(Waiting::length).sum::<usize>();
            }
        }
        self.table.entry(address).or_insert(Neighbor {
            mac: None,
            since: now,
            asked: Instant::ZERO,
            questions: 0,
            is_doubted: false,
            waiting: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: u32) -> Ipv4Addr {
        Ipv4Addr::from(0x0a00_0000 + number)
    }

    /// An ARP request of `address` for our address.
    fn question(address: Ipv4Addr, ours: Ipv4Addr) -> Vec<u8> {
        let question = ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Request,
            source_hardware_addr: EthernetAddress([2, 0, 0, 0, 0, 9]),
            source_protocol_addr: address,
            target_hardware_addr: EthernetAddress([0; 6]),
            target_protocol_addr: ours,
        };
        let mut bytes = alloc::vec![0; question.buffer_len()];
        question.emit(&mut ArpPacket::new_unchecked(&mut bytes));
        bytes
    }

    #[test]
    fn hosts_of_other_networks_are_not_heard() {
        let mut neighbors = Neighbors::default();
        let network = Ipv4Cidr::new(host(1), 16);
        let outside = Ipv4Addr::new(192, 0, 2, 9);
        assert_eq!(neighbors.hear(Instant::ZERO, &question(outside, host(1)), network), None);
        assert!(neighbors.hear(Instant::ZERO, &question(host(2), host(1)), network).is_some());
        assert_eq!(neighbors.table.len(), 1);
    }

    #[test]
    fn a_full_table_takes_new_neighbours_and_counts_waiting_frames() {
        let mut neighbors = Neighbors::default();
        let ends = super::super::datagram::Ends {
            source: core::net::SocketAddrV4::new(host(1), 5060),
            destination: core::net::SocketAddrV4::new(host(2), 5060),
        };
        for number in 0..3 * MOST as u32 {
            neighbors.find(Instant::ZERO, host(number));
            let bytes = alloc::vec![0; 10];
            neighbors.wait(host(number), Waiting::Datagram(ends, bytes));
        }
        let waiting = neighbors.table.values().map(|neighbor| neighbor.waiting.len());
        assert_eq!(neighbors.bytes, 10 * waiting.sum::<usize>());
        assert_eq!(neighbors.table.len(), MOST);
        assert!(neighbors.table.contains_key(&host(3 * MOST as u32 - 1)));
    }
}
