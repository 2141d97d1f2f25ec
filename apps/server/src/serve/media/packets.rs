//! The packets of the relay.

use super::token::{Token, index};
use super::{Leg, Media, Sockets, since_epoch};
use crate::log;
use net::Clock;
use nix::sys::epoll::{EpollEvent, EpollTimeout};
use relay::Way;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Events fetched in one call.
const EVENTS: usize = 64;
/// The maximum number of calls in one turn. The rest waits until messages had their turn.
const ROUNDS: usize = 4;
/// The maximum length of a packet, in bytes.
pub(super) const MAX_PACKET: usize = 4096;
/// The room for a packet and what SRTP adds to it.
pub(super) const BUFFER: usize = MAX_PACKET + 512;

impl Media {
    /// Relays the waiting packets of the streams of the worker `owner`, a bounded number, by way of
    /// `buffer`.
    pub(in crate::serve) fn serve(&self, owner: usize, clock: &Clock, buffer: &mut [u8]) {
        let mut events = [EpollEvent::empty(); EVENTS];
        let mut counts = Counts::default();
        for _ in 0..ROUNDS {
            let count = match self.0.sets[owner].wait(&mut events, EpollTimeout::ZERO) {
                Ok(count) => count,
                Err(error) => {
                    log::error("wait", || format!("cannot wait for media: {error}"));
                    break;
                }
            };
            let now = since_epoch(clock.now());
            for event in &events[..count] {
                self.0.relay_one(Token::of(event.data()), buffer, now, &mut counts);
            }
            if count < EVENTS {
                break;
            }
        }
        self.0.received.fetch_add(counts.received, Ordering::Relaxed);
        self.0.sent.fetch_add(counts.sent, Ordering::Relaxed);
    }
}

/// The packets of one turn.
#[derive(Default)]
struct Counts {
    received: u64,
    sent: u64,
}

impl Sockets {
    /// Relays the next packet of a socket. One that is left waits for the next event: most sockets
    /// have one at a time, and a second call would find none.
    fn relay_one(&self, token: Token, buffer: &mut [u8], now: Duration, counts: &mut Counts) {
        let Some(leg) = self.legs.get(token.pair) else { return };
        let mut leg = leg.lock();
        let Some(leg) = &mut *leg else { return };
        let Leg { stream, side, sockets, .. } = &*leg;
        let [from, to] = [*side, side.other()].map(|side| &sockets[side.index()]);
        let at = index(token.channel);
        // One byte more shows that a packet is too long. An error is that of an earlier packet.
        let Ok((length, source)) = from[at].receive(&mut buffer[..=MAX_PACKET]) else { return };
        counts.received += 1;
        if length > MAX_PACKET {
            self.unsent.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let relayed =
            stream.relay(*side, token.channel, source, &mut buffer[..BUFFER], length, now);
        // The stream counts what it drops.
        let Ok(mut relayed) = relayed else { return };
        match relayed.way {
            Way::Across => {}
            Way::Back => {
                match from[at].send(&buffer[..relayed.length], relayed.to) {
                    Ok(_) => counts.sent += 1,
                    Err(_) => drop(self.unsent.fetch_add(1, Ordering::Relaxed)),
                }
                return;
            }
            Way::Handshake => {
                let datagram = &buffer[..relayed.length];
                return self.shake_hands(leg, token.pair, relayed.to, datagram);
            }
            _ => return,
        }
        if relayed.is_fixed {
            from[at].connect(source);
        }
        loop {
            if relayed.length > 0 {
                match to[index(relayed.channel)].send(&buffer[..relayed.length], relayed.to) {
                    Ok(_) => counts.sent += 1,
                    Err(_) => drop(self.unsent.fetch_add(1, Ordering::Relaxed)),
                }
            }
            if !relayed.has_more {
                return;
            }
            let Some(next) = stream.next(*side, &mut buffer[..BUFFER]) else { return };
            relayed = next;
        }
    }
}
