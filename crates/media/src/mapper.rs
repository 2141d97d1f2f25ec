//! The discovery of the public address of a socket behind a NAT. STUN servers are queried
//! periodically, which also keeps the mapping alive.

use crate::negotiation::Random;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use stun::{BindingResponse, Client, Event, TransactionId};

/// The interval of the queries to a server. NATs drop a mapping after 30 s to several minutes, and
/// this interval was sufficient for deployed ones.
const INTERVAL: Duration = Duration::from_secs(30);
/// The maximum number of queried servers.
const MAX_SERVERS: usize = 4;

/// The mapping behaviour of a NAT (RFC 4787 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Unknown: fewer than two servers have answered.
    Unknown,
    /// No NAT: the servers see the socket's own address.
    Direct,
    /// All servers see the same address, and so does the other end of a call.
    EndpointIndependent,
    /// Each server sees another address (a symmetric NAT). The address is useless to the other end
    /// of a call. It needs symmetric RTP or a relay.
    EndpointDependent,
}

/// A server with its last answer.
#[derive(Clone, Debug)]
struct Server {
    address: SocketAddr,
    question: Option<Client>,
    next: Duration,
    mapped: Option<SocketAddr>,
}

/// Queries STUN servers for the public address of one socket, every 30 seconds from its start until
/// [`Mapper::rest`]. The owner sends the output of [`Mapper::poll`] from that socket and passes
/// received datagrams to [`Mapper::receive`]. Times are durations since an epoch of the owner's
/// choice.
#[derive(Clone, Debug)]
pub struct Mapper {
    servers: Vec<Server>,
    rests: bool,
}

impl Mapper {
    /// Queries the first four of these servers from `now` on. The kind of the NAT is known only
    /// from two or more servers with different addresses or ports.
    #[must_use]
    pub fn new(servers: &[SocketAddr], now: Duration) -> Self {
        let servers = servers.iter().take(MAX_SERVERS);
        let server =
            |&address: &SocketAddr| Server { address, question: None, next: now, mapped: None };
        Self { servers: servers.map(server).collect(), rests: false }
    }

    /// Stops the queries: the packets of an established call keep the mapping alive. The answers
    /// stay.
    pub fn rest(&mut self) {
        self.rests = true;
        self.servers.iter_mut().for_each(|server| server.question = None);
    }

    /// Resumes the queries after [`Mapper::rest`].
    pub fn resume(&mut self, now: Duration) {
        self.rests = false;
        self.servers.iter_mut().for_each(|server| server.next = now);
    }

    /// Returns the time of the next call to [`Mapper::poll`].
    #[must_use]
    pub fn next_timer(&self) -> Option<Duration> {
        if self.rests {
            return None;
        }
        let next = |server: &Server| {
            server.question.as_ref().and_then(Client::next_timer).unwrap_or(server.next)
        };
        self.servers.iter().map(next).min()
    }

    /// Writes a request that is due at `now` to `out` and returns its destination. It is called
    /// until it returns `None`. `random` makes the transaction identifiers.
    pub fn poll(
        &mut self,
        now: Duration,
        random: Random<'_>,
        out: &mut Vec<u8>,
    ) -> Option<SocketAddr> {
        if self.rests {
            return None;
        }
        for server in &mut self.servers {
            if server.question.is_none() && now >= server.next {
                let mut id = TransactionId([0; 12]);
                random(&mut id.0);
                server.question = Some(Client::new(id, server.address, now));
                server.next = now + INTERVAL;
            }
            let Some(question) = &mut server.question else { continue };
            match question.poll(now, out) {
                Event::Send(to) => return Some(to),
                Event::Wait => {}
                Event::TimedOut => {
                    // Without an answer the mapping is unknown.
                    (server.question, server.mapped) = (None, None);
                    server.next = now;
                }
            }
        }
        None
    }

    /// Processes a datagram from `from`. Returns true if it is the answer to a query. Then no other
    /// protocol handles it.
    pub fn receive(&mut self, now: Duration, from: SocketAddr, datagram: &[u8]) -> bool {
        if !stun::is_stun(datagram) {
            return false;
        }
        for server in &mut self.servers {
            let Some(question) = &mut server.question else { continue };
            let Some(answer) = question.receive(from, datagram) else { continue };
            server.question = None;
            server.next = server.next.max(now);
            server.mapped = match answer {
                BindingResponse::Mapped(address) => Some(address),
                BindingResponse::Error(_) | BindingResponse::Unusable => None,
            };
            return true;
        }
        false
    }

    /// Returns the public address of the socket, from the first server that has answered.
    #[must_use]
    pub fn mapped(&self) -> Option<SocketAddr> {
        self.servers.iter().find_map(|server| server.mapped)
    }

    /// Returns the mapping behaviour of the NAT for the socket at `local`, as far as known from the
    /// answers. Servers that differ only in their ports do not reveal a mapping that depends on
    /// addresses.
    #[must_use]
    pub fn mapping(&self, local: SocketAddr) -> Mapping {
        let mut answers = self.servers.iter().filter_map(|server| server.mapped);
        let Some(first) = answers.next() else { return Mapping::Unknown };
        let others: Vec<SocketAddr> = answers.collect();
        match others.iter().all(|other| *other == first) {
            _ if first == local && others.iter().all(|other| *other == first) => Mapping::Direct,
            _ if others.is_empty() => Mapping::Unknown,
            true => Mapping::EndpointIndependent,
            false => Mapping::EndpointDependent,
        }
    }
}

#[cfg(test)]
mod tests;
