//! The ports of the media of a call, and their public address behind a NAT.

use crate::machine::random::Random;
use crate::net::Network;
use alloc::vec::Vec;
use core::net::SocketAddr;
use media::Mapper;
use sip::{Duration, Instant};

/// Time that a call waits for a STUN response.
const PATIENCE: Duration = Duration::from_millis(1600);

/// Two ports: RTP, and RTCP on the next one.
pub(super) struct Ports {
    rtp: u16,
    mapper: Option<Mapper>,
    opened: Instant,
    query: Vec<u8>,
}

impl Ports {
    /// Opens two ports, and asks the server `stun` for the public address of the first one from
    /// now on.
    pub(super) fn open(
        now: Instant,
        stun: Option<SocketAddr>,
        network: &mut Network,
        random: &mut Random,
    ) -> Self {
        let rtp = 16_384 + 2 * random.below(8192) as u16;
        network.listen(rtp);
        network.listen(rtp + 1);
        let mapper = stun.map(|server| Mapper::new(&[server], now.since_epoch()));
        Self { rtp, mapper, opened: now, query: Vec::new() }
    }

    pub(super) fn close(&self, network: &mut Network) {
        network.close(self.rtp);
        network.close(self.rtp + 1);
    }

    /// Returns true if `port` is one of them.
    pub(super) const fn has(&self, port: u16) -> bool {
        port == self.rtp || port == self.rtp + 1
    }

    /// The local RTP port.
    pub(super) const fn rtp(&self) -> u16 {
        self.rtp
    }

    /// The public address of the RTP port, if the server has reported it.
    pub(super) fn mapped(&self) -> Option<SocketAddr> {
        self.mapper.as_ref().and_then(Mapper::mapped)
    }

    /// Returns true if the public address is unknown and worth waiting for.
    pub(super) fn is_waiting(&self, now: Instant) -> bool {
        self.mapper.is_some() && self.mapped().is_none() && now.since(self.opened) < PATIENCE
    }

    /// Stops the queries: the packets of an established call keep the mapping alive.
    pub(super) fn rest(&mut self) {
        self.mapper.iter_mut().for_each(Mapper::rest);
    }

    /// Returns true if a datagram is a response of the server.
    pub(super) fn receive(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) -> bool {
        let mapper = self.mapper.as_mut();
        mapper.is_some_and(|mapper| mapper.receive(now.since_epoch(), from, datagram))
    }

    /// Sends the query that is due.
    pub(super) fn step(&mut self, now: Instant, network: &mut Network, random: &mut Random) {
        let Some(mapper) = &mut self.mapper else { return };
        let fill = &mut |bytes: &mut [u8]| random.fill(bytes);
        while let Some(SocketAddr::V4(server)) =
            mapper.poll(now.since_epoch(), fill, &mut self.query)
        {
            network.send(now, self.rtp, server, &self.query);
        }
    }
}
