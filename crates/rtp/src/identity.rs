//! Our own SSRC, and others who use it too (RFC 3550 section 8.2).

use alloc::vec::Vec;
use core::time::Duration;

/// How long an address is remembered from which packets came with an SSRC of ours.
const REMEMBERED: Duration = Duration::from_secs(60);

/// How many such addresses are remembered.
const MAX_CONFLICTS: usize = 16;

/// What a packet from somebody else means for our SSRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It has an SSRC of its own.
    Other,
    /// It has ours: a BYE for ours is to be sent, and [`Identity::change`] called.
    Collision,
    /// It has ours, and comes from where one came before: our own packets come back. It is to be
    /// dropped.
    Loop,
}

/// Our own SSRC. Addresses are whatever the caller tells apart senders by.
#[derive(Clone, Debug)]
pub struct Identity<A> {
    ssrc: u32,
    /// Where packets with an SSRC of ours came from, and when last.
    conflicts: Vec<(A, Duration)>,
}

impl<A: PartialEq> Identity<A> {
    /// Begins with a random SSRC.
    #[must_use]
    pub fn new(ssrc: u32) -> Self {
        Self { ssrc, conflicts: Vec::new() }
    }

    /// Our SSRC.
    #[must_use]
    pub fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// Looks at the SSRC of a packet that came from `address` at `now`, a span since an epoch that
    /// the caller chooses and stays with.
    pub fn receive(&mut self, ssrc: u32, address: A, now: Duration) -> Claim {
        if ssrc != self.ssrc {
            return Claim::Other;
        }
        self.conflicts.retain(|(_, last)| now.saturating_sub(*last) < REMEMBERED);
        if let Some(conflict) = self.conflicts.iter_mut().find(|conflict| conflict.0 == address) {
            conflict.1 = now;
            return Claim::Loop;
        }
        if self.conflicts.len() == MAX_CONFLICTS {
            self.conflicts.remove(0);
        }
        self.conflicts.push((address, now));
        Claim::Collision
    }

    /// Goes on with another random SSRC.
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
        let mut identity = Identity::new(7);
        assert_eq!(identity.receive(8, "a", second(1)), Claim::Other);
        assert_eq!(identity.receive(7, "a", second(1)), Claim::Collision);
        identity.change(9);
        assert_eq!(identity.receive(7, "a", second(2)), Claim::Other);
        // What we send comes back from the same address: no reason to change again.
        assert_eq!(identity.receive(9, "a", second(3)), Claim::Loop);
        assert_eq!(identity.receive(9, "b", second(3)), Claim::Collision);
        assert_eq!(identity.receive(9, "a", second(62)), Claim::Loop);
        assert_eq!(identity.receive(9, "b", second(64)), Claim::Collision);
    }

    #[test]
    fn addresses_are_limited() {
        let mut identity = Identity::new(7);
        for address in 0..100 {
            assert_eq!(identity.receive(7, address, Duration::ZERO), Claim::Collision);
        }
        assert_eq!(identity.conflicts.len(), MAX_CONFLICTS);
    }
}
