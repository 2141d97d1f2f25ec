//! Time from an NTP server (SNTP, RFC 4330), without I/O.

use core::net::{Ipv4Addr, SocketAddrV4};
use sip::{Duration, Instant};

/// The NTP port.
pub const PORT: u16 = 123;
/// Time limit for an answer, and the interval of the requests after one.
const PATIENCE: Duration = Duration::from_secs(4);
const INTERVAL: Duration = Duration::from_secs(1024);
/// Length of a message in bytes.
const LENGTH: usize = 48;
/// Seconds from 1900, the epoch of NTP, to 1970.
const EPOCH: u64 = 2_208_988_800;

/// Requests the time at intervals.
#[derive(Debug)]
pub struct TimeKeeper {
    server: Ipv4Addr,
    /// The time of the request, and its random transmit timestamp, which authenticates the answer.
    asked: Option<(Instant, u64)>,
    next: Instant,
}

impl TimeKeeper {
    /// Requests the time of `server` from `now` on.
    #[must_use]
    pub const fn new(server: Ipv4Addr, now: Instant) -> Self {
        Self { server, asked: None, next: now }
    }

    /// Returns the message to send at `now`, and its destination; `number` is random.
    pub fn transmit(&mut self, now: Instant, number: u64) -> Option<(SocketAddrV4, [u8; LENGTH])> {
        if now < self.next {
            return None;
        }
        self.next = now + PATIENCE;
        self.asked = Some((now, number));
        let mut message = [0; LENGTH];
        // Version 4, client mode.
        message[0] = 4 << 3 | 3;
        message[40..].copy_from_slice(&number.to_be_bytes());
        Some((SocketAddrV4::new(self.server, PORT), message))
    }

    /// Handles a message from `remote`. If it is a valid answer, returns the microseconds by which
    /// the time of day is ahead of our time.
    pub fn receive(&mut self, now: Instant, remote: SocketAddrV4, message: &[u8]) -> Option<i64> {
        let (asked, number) = self.asked?;
        let is_server = remote == SocketAddrV4::new(self.server, PORT);
        if !is_server || message.len() < LENGTH {
            return None;
        }
        let field = |at: usize| message[at..].first_chunk().map_or(0, |b| u64::from_be_bytes(*b));
        let mode = message[0] & 7;
        let stratum = message[1];
        // An unsynchronized server has stratum 0 or 16, or both leap indicator bits set.
        let knows = message[0] >> 6 != 3 && (1..16).contains(&stratum);
        if mode != 4 || !knows || field(24) != number || field(40) == 0 {
            return None;
        }
        self.asked = None;
        self.next = now + INTERVAL;
        let (received, sent) = (micros(field(32)), micros(field(40)));
        let (asked, now) = (asked.as_micros() as i64, now.as_micros() as i64);
        Some(((received - asked) + (sent - now)) / 2)
    }
}

/// Microseconds since 1970. NTP timestamps wrap in 2036.
fn micros(time: u64) -> i64 {
    let seconds = time >> 32;
    let seconds = if seconds < EPOCH { seconds + (1 << 32) } else { seconds };
    let fraction = ((time & 0xffff_ffff) * 1_000_000) >> 32;
    ((seconds - EPOCH) * 1_000_000 + fraction) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_of_the_clocks_is_found_and_strangers_are_not_heard() {
        let server = Ipv4Addr::new(192, 0, 2, 4);
        let at = |second: u64| Instant::from_micros(second * 1_000_000);
        let mut keeper = TimeKeeper::new(server, at(1000));
        let (remote, request) = keeper.transmit(at(1000), 77).expect("a question");
        assert_eq!((remote.port(), keeper.transmit(at(1001), 78)), (PORT, None));
        let stamp = |second: u64| ((second + EPOCH) << 32).to_be_bytes();
        let mut answer = [0; LENGTH];
        (answer[0], answer[1]) = (4 << 3 | 4, 2);
        answer[24..32].copy_from_slice(&request[40..]);
        answer[32..40].copy_from_slice(&stamp(2001));
        answer[40..].copy_from_slice(&stamp(2001));
        let mut forged = answer;
        forged[24] ^= 1;
        assert_eq!(keeper.receive(at(1002), remote, &forged), None);
        let mut unsure = answer;
        unsure[1] = 0;
        assert_eq!(keeper.receive(at(1002), remote, &unsure), None);
        assert_eq!(keeper.receive(at(1002), remote, &answer), Some(1_000_000_000));
        assert_eq!(keeper.receive(at(1002), remote, &answer), None, "twice");
        assert_eq!(micros(0), (4_294_967_296_i64 - 2_208_988_800) * 1_000_000, "in 2036");
    }
}
