//! Who in our network has which Ethernet address (ARP, RFC 826).
//!
//! Each address is asked for by itself, and what is to go there waits: one host that does not
//! answer holds nobody else up.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use sip::{Duration, Instant};
use smoltcp::wire::{ArpOperation, ArpPacket, ArpRepr, EthernetAddress};

/// How long an answer counts; from the half of it on it is asked again.
const LIFETIME: Duration = Duration::from_secs(120);
/// From one question to the next, and how many there are.
const INTERVAL: Duration = Duration::from_secs(1);
const QUESTIONS: u8 = 3;
/// Neighbours that are known or asked for.
const MOST: usize = 4096;
/// Datagrams that wait for one neighbour, and the bytes of all that wait.
const MOST_WAITING: usize = 16;
const MOST_BYTES: usize = 1 << 20;

#[derive(Debug)]
struct Neighbor {
    mac: Option<EthernetAddress>,
    /// When it was heard, or asked for first.
    since: Instant,
    asked: Instant,
    questions: u8,
    /// Whether somebody else may have it.
    is_doubted: bool,
    waiting: Vec<Waiting>,
}

/// A datagram, UDP's header included, that waits for an address.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) ends: super::datagram::Ends,
    pub(crate) bytes: Vec<u8>,
}

/// The neighbours.
#[derive(Debug)]
pub(crate) struct Neighbors {
    table: BTreeMap<Ipv4Addr, Neighbor>,
    /// Bytes of all datagrams that wait, and the bound of that.
    bytes: usize,
    most: usize,
}

impl Default for Neighbors {
    fn default() -> Self {
        Self { table: BTreeMap::new(), bytes: 0, most: MOST_BYTES }
    }
}

/// What is known of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The address, if it was heard.
    pub(crate) mac: Option<EthernetAddress>,
    /// Whether it is to be asked for now.
    pub(crate) asks: bool,
}

impl Neighbors {
    /// Keeps `bytes` at most of datagrams that wait.
    pub(crate) fn set_memory(&mut self, bytes: usize) {
        self.most = bytes.min(MOST_BYTES);
    }

    /// Looks `address` up at `now`.
    pub(crate) fn find(&mut self, now: Instant, address: Ipv4Addr) -> Found {
        if self.table.len() >= MOST && !self.table.contains_key(&address) {
            self.forget(now);
        }
        let neighbor = self.table.entry(address).or_insert(Neighbor {
            mac: None,
            since: now,
            asked: Instant::ZERO,
            questions: 0,
            is_doubted: false,
            waiting: Vec::new(),
        });
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

    /// A frame of `address` came from `mac`. Where another one was heard, it is asked for again:
    /// whoever has said so is corrected by the host itself.
    pub(crate) fn see(&mut self, address: Ipv4Addr, mac: EthernetAddress) {
        if let Some(neighbor) = self.table.get_mut(&address) {
            neighbor.is_doubted |= neighbor.mac.is_some_and(|heard| heard != mac);
        }
    }

    /// Keeps `datagram` until `address`, which was looked up, is heard; drops it where too many
    /// wait.
    pub(crate) fn wait(&mut self, address: Ipv4Addr, datagram: Waiting) {
        let Some(neighbor) = self.table.get_mut(&address) else { return };
        let bytes = self.bytes + datagram.bytes.len();
        if neighbor.waiting.len() < MOST_WAITING && bytes <= self.most {
            self.bytes = bytes;
            neighbor.waiting.push(datagram);
        }
    }

    /// Hears what `packet` says, and returns what waits for that neighbour, with its address. Only
    /// who was asked for is heard, and who asks for `ours`.
    pub(crate) fn hear(
        &mut self,
        now: Instant,
        packet: &[u8],
        ours: Ipv4Addr,
    ) -> Option<(EthernetAddress, Vec<Waiting>)> {
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
        let is_someone = mac.is_unicast() && super::datagram::is_host(address) && address != ours;
        if !is_someone || !(is_asked || asks_us) {
            return None;
        }
        if self.table.len() >= MOST && !self.table.contains_key(&address) {
            self.forget(now);
        }
        let neighbor = self.table.entry(address).or_insert(Neighbor {
            mac: None,
            since: now,
            asked: Instant::ZERO,
            questions: 0,
            is_doubted: false,
            waiting: Vec::new(),
        });
        (neighbor.mac, neighbor.since, neighbor.questions) = (Some(mac), now, 0);
        neighbor.is_doubted = false;
        let waiting = core::mem::take(&mut neighbor.waiting);
        self.bytes -= waiting.iter().map(|datagram| datagram.bytes.len()).sum::<usize>();
        Some((mac, waiting))
    }

    /// Addresses that are to be asked for again, since something waits for them, or they are in
    /// doubt. Those for which something waits, and which do not answer, are forgotten with it.
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
                *bytes -=
                    neighbor.waiting.iter().map(|datagram| datagram.bytes.len()).sum::<usize>();
                return false;
            }
            neighbor.asked = now;
            neighbor.questions += 1;
            again.push(*address);
            true
        });
        again
    }

    /// Makes room for one: those whose time is over, else the oldest.
    fn forget(&mut self, now: Instant) {
        self.table.retain(|_, neighbor| {
            now.since(neighbor.since) < LIFETIME || !neighbor.waiting.is_empty()
        });
        if self.table.len() < MOST {
            return;
        }
        let oldest = self.table.iter().min_by_key(|(_, neighbor)| neighbor.since);
        if let Some(address) = oldest.map(|(address, _)| *address)
            && let Some(neighbor) = self.table.remove(&address)
        {
            self.bytes -=
                neighbor.waiting.iter().map(|datagram| datagram.bytes.len()).sum::<usize>();
        }
    }
}
