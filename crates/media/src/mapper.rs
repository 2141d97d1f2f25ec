//! What a socket looks like from outside of a NAT: servers are asked from it now and then, which
//! keeps the mapping alive, too.

use crate::negotiation::Random;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use stun::{Answer, Client, Event, TransactionId};

/// How often a server is asked. NATs forget a mapping after 30 s to minutes, and this was enough
/// for those of the field.
const INTERVAL: Duration = Duration::from_secs(30);
/// How many servers are asked at most.
const MAX_SERVERS: usize = 4;

/// How a NAT maps a socket (RFC 4787 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Not known: fewer than two servers have answered.
    Unknown,
    /// There is none: the socket's own address is seen.
    Direct,
    /// All see the same address: the other end of a call will, too.
    EndpointIndependent,
    /// Each sees another one (a symmetric NAT): what a server says of it is no use to the other end
    /// of a call. Only who sends to where packets come from, or a relay, can reach it.
    EndpointDependent,
}

/// A server, and what it has said last.
#[derive(Clone, Debug)]
struct Server {
    address: SocketAddr,
    question: Option<Client>,
    next: Duration,
    mapped: Option<SocketAddr>,
}

/// Asks STUN servers for the address of one socket, every 30 seconds from its start until
/// [`Mapper::rest`]. The owner sends what [`Mapper::poll`] gives it, from that socket, and hands
/// over what comes. Times are spans since an epoch that it chooses.
#[derive(Clone, Debug)]
pub struct Mapper {
    servers: Vec<Server>,
    rests: bool,
}

impl Mapper {
    /// Asks these servers from `now` on, the first four of them. Two or more, with different
    /// addresses or ports, are needed to tell what kind of NAT there is.
    #[must_use]
    pub fn new(servers: &[SocketAddr], now: Duration) -> Self {
        let servers = servers.iter().take(MAX_SERVERS);
        let server =
            |&address: &SocketAddr| Server { address, question: None, next: now, mapped: None };
        Self { servers: servers.map(server).collect(), rests: false }
    }

    /// The call stands, and its packets keep the mapping alive: nobody is asked any more. What was
    /// answered stays.
    pub fn rest(&mut self) {
        self.rests = true;
        self.servers.iter_mut().for_each(|server| server.question = None);
    }

    /// Asks on after [`Mapper::rest`].
    pub fn resume(&mut self, now: Duration) {
        self.rests = false;
        self.servers.iter_mut().for_each(|server| server.next = now);
    }

    /// When to call [`Mapper::poll`].
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

    /// Puts a request that is due at `now` into `out`: where it goes. To be called until there is
    /// none. Questions are told from others by what `random` gives.
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
                    // Whoever does not answer knows nothing any more of how we look now.
                    (server.question, server.mapped) = (None, None);
                    server.next = now;
                }
            }
        }
        None
    }

    /// A datagram has come from `from`. True where it is the answer to a question of ours: it is
    /// nobody else's then.
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
                Answer::Mapped(address) => Some(address),
                Answer::Refused(_) | Answer::Useless => None,
            };
            return true;
        }
        false
    }

    /// What the socket looks like, as the first server that has answered says.
    #[must_use]
    pub fn mapped(&self) -> Option<SocketAddr> {
        self.servers.iter().find_map(|server| server.mapped)
    }

    /// How the socket at `local` is mapped, as far as the answers tell. Servers that differ in
    /// their ports only do not tell apart what depends on addresses.
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
