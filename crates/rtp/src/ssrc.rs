//! The local SSRC, and SSRC collisions and loops (RFC 3550 section 8.2).

use alloc::vec::Vec;
use core::time::Duration;

/// The time for which the source address of a collision is remembered.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The maximum number of remembered addresses.
const MAX_CONFLICTS: usize = 16;

/// The result of comparing a received SSRC with the local one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SsrcCheck {
    /// The SSRC is a different one.
    Distinct,
    /// The SSRC is the local one. The caller sends a BYE for it and calls [`LocalSsrc::change`].
    Collision,
    /// The SSRC is the local one, and a packet from this address has collided before: our own
    /// packets come back. The caller drops the packet.
    Loop,
}

/// The local SSRC. `A` is the type of senders' addresses.
#[derive(Clone, Debug)]
pub struct LocalSsrc<A> {
    ssrc: u32,
    /// The addresses that collided with a local SSRC, each with the time of its last packet.
    conflicts: Vec<(A, Duration)>,
}

impl<A: PartialEq> LocalSsrc<A> {
    /// Creates an identity with a random SSRC.
    #[must_use]
    pub fn new(ssrc: u32) -> Self {
        Self { ssrc, conflicts: Vec::new() }
    }

    /// The local SSRC.
    #[must_use]
    pub fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// Compares the SSRC of a packet received from `address` at `now`, a duration since an epoch
    /// that the caller chooses and keeps.
    pub fn receive(&mut self, ssrc: u32, address: A, now: Duration) -> SsrcCheck {
        if ssrc != self.ssrc {
            return SsrcCheck::Distinct;
        }
        self.conflicts.retain(|(_, last)| now.saturating_sub(*last) < REMEMBERED);
        if let Some(conflict) = self.conflicts.iter_mut().find(|conflict| conflict.0 == address) {
            conflict.1 = now;
            return SsrcCheck::Loop;
        }
        if self.conflicts.len() == MAX_CONFLICTS {
            self.conflicts.remove(0);
        }
        self.conflicts.push((address, now));
        SsrcCheck::Collision
    }

    /// Replaces the local SSRC by another random one.
    pub fn change(&mut self, ssrc: u32) {
        self.ssrc = ssrc;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collisions_change_the_ssrc_and_loops_do_not() {
        let second = Duration::from_secs;
        let mut identity = LocalSsrc::new(7);
        assert_eq!(identity.receive(8, "a", second(1)), SsrcCheck::Distinct);
        assert_eq!(identity.receive(7, "a", second(1)), SsrcCheck::Collision);
        identity.change(9);
        assert_eq!(identity.receive(7, "a", second(2)), SsrcCheck::Distinct);
        // Our own packets return from the same address: the SSRC stays.
        assert_eq!(identity.receive(9, "a", second(3)), SsrcCheck::Loop);
        assert_eq!(identity.receive(9, "b", second(3)), SsrcCheck::Collision);
        assert_eq!(identity.receive(9, "a", second(62)), SsrcCheck::Loop);
        assert_eq!(identity.receive(9, "b", second(64)), SsrcCheck::Collision);
    }

    #[test]
    fn addresses_are_limited() {
        let mut identity = LocalSsrc::new(7);
        for address in 0..100 {
            assert_eq!(identity.receive(7, address, Duration::ZERO), SsrcCheck::Collision);
        }
        assert_eq!(identity.conflicts.len(), MAX_CONFLICTS);
    }
}
