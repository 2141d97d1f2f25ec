//! The events of sockets.

use relay::Channel;

/// A socket in an epoll instance: a channel of a pair of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) pair: usize,
    pub(super) channel: Channel,
}

impl Token {
    pub(super) const fn number(self) -> u64 {
        (self.pair as u64) << 1 | index(self.channel) as u64
    }

    pub(super) const fn of(number: u64) -> Self {
        let channel = if number & 1 == 0 { Channel::Rtp } else { Channel::Rtcp };
        Self { pair: (number >> 1) as usize, channel }
    }
}

/// The index of a channel's socket in a pair.
pub(super) const fn index(channel: Channel) -> usize {
    match channel {
        Channel::Rtp => 0,
        Channel::Rtcp => 1,
    }
}
