//! One end of a stream.

use crate::announcement::Announcement;
use crate::bandwidth::Pace;
use crate::codec::{Codec, bit};
use crate::digits::Digits;
use crate::error::Drop;
use crate::keying::LegKeys;
use crate::profile::LegProfile;
use crate::statistics::{Direction, LegStatistics};
use crate::transcode::Conversion;
use crate::web::{WebFault, WebLeg};
use alloc::boxed::Box;
use core::net::SocketAddr;
use core::time::Duration;
use media::Channel;
use rtp::Header;

/// The packets that an address which is not proven gets at most before a packet came from it: ten
/// seconds of audio in packets of 20 ms.
const MAX_UNCONFIRMED: u32 = 500;

/// One end of a stream.
#[derive(Default)]
pub(crate) struct Leg {
    /// `None` before the offer and the answer.
    pub(crate) announced: Option<Announcement>,
    /// The time of the last change of the announced direction.
    pub(crate) since: Duration,
    /// The addresses that RTP and RTCP come from. Packets to the end go there.
    pub(crate) latched: [Option<SocketAddr>; 2],
    /// The packets sent without a sign of the end.
    pub(crate) unconfirmed: u32,
    /// The traffic from the end.
    pub(crate) traffic: Pace,
    pub(crate) profile: LegProfile,
    /// The handshake of the end, and the checks of a browser.
    pub(crate) web: Option<Box<WebLeg>>,
    /// `None` if packets pass with the keys of the ends, or in clear.
    pub(crate) keys: Option<LegKeys>,
    /// The conversion of the packets of the end, if they do not pass unchanged.
    pub(crate) conversion: Option<Conversion>,
    /// The digits in the packets of the end, if they are translated.
    pub(crate) digits: Option<Box<Digits>>,
    pub(crate) statistics: LegStatistics,
}

impl Leg {
    /// Applies a new announcement of the end. An address that did not change stays latched.
    /// Otherwise returns true.
    pub(crate) fn announce(&mut self, announced: Announcement, now: Duration) -> bool {
        let before = self.announced.as_ref();
        let has_moved = before.is_some_and(|before| {
            (before.named, before.destinations, &before.sources)
                != (announced.named, announced.destinations, &announced.sources)
        });
        if has_moved {
            // An end that never sent gets no more packets at other addresses.
            if self.latched != [None; 2] {
                self.unconfirmed = 0;
            }
            self.latched = [None; 2];
        }
        if before.is_none_or(|before| before.direction != announced.direction) {
            self.since = now;
            self.statistics.has_left = false;
            self.statistics.pause();
        }
        self.announced = Some(announced);
        has_moved
    }

    pub(crate) fn described(&self, codec: Option<&Codec>) -> Direction {
        let mut direction = self.statistics.summary(codec);
        direction.source = self.source();
        direction.has_keys = self.keys.is_some();
        direction.has_handshake = self.web.is_some();
        if let Some(announced) = &self.announced {
            direction.media_type.clone_from(&announced.media_type);
            direction.protocol.clone_from(&announced.protocol);
            direction.announced = announced.destinations[0];
        }
        direction
    }

    /// The address that RTP comes from.
    pub(crate) fn source(&self) -> Option<SocketAddr> {
        match self.ice() {
            Some(web) => web.selected(),
            None => self.latched[0],
        }
    }

    /// The checks of a browser.
    pub(crate) fn ice(&self) -> Option<&WebLeg> {
        self.web.as_deref().filter(|web| web.has_ice())
    }

    /// False if the consent of a browser has ended (RFC 7675).
    pub(crate) fn has_consent(&self, now: Duration) -> bool {
        let fault = self.web.as_ref().and_then(|web| web.fault(now));
        fault != Some(WebFault::Consent)
    }

    /// True if the handshake of the end has no keys yet.
    pub(crate) fn awaits_keys(&self) -> bool {
        self.web.is_some() && self.keys.is_none()
    }

    /// The statistics of the packets to `receiver`, which numbers the codecs.
    pub(crate) fn summary(&self, receiver: &Self) -> Direction {
        let (own, theirs) = (self.announced.as_ref(), receiver.announced.as_ref());
        // Packets that are converted have the numbers of their own leg.
        let is_converted = self.conversion.as_ref().is_some_and(|it| it.route().is_some());
        let numbering = if is_converted { [own, None] } else { [theirs, own] };
        let codec = match self.statistics.payload_type() {
            Some(number) => numbering.into_iter().flatten().find_map(|it| it.codec(number)),
            None => {
                let sent = own.map_or(0, |announced| announced.payload_types);
                let is_agreed = |codec: &&Codec| sent & bit(codec.payload_type) != 0;
                numbering[0].and_then(|announced| announced.codecs.iter().find(is_agreed))
            }
        };
        let mut direction = self.described(codec);
        if let Some(conversion) = &self.conversion {
            direction.conversions = Some(conversion.counts());
            let to = conversion.route().map(|route| route.codec());
            direction.converted_to =
                to.map(|codec| alloc::format!("{}/{}", codec.name(), codec.clock_rate()).into());
        }
        direction
    }

    /// Counts a packet to the end. Returns false if it has sent no sign from its address, and has
    /// received the most that it gets then.
    pub(crate) fn admits(&mut self) -> bool {
        let is_proven = self.announced.as_ref().is_some_and(|announced| announced.is_proven);
        if self.latched == [None; 2] && self.ice().is_none() && !is_proven {
            if self.unconfirmed >= MAX_UNCONFIRMED {
                return false;
            }
            self.unconfirmed += 1;
        }
        true
    }

    /// Writes the number of a packet for `receiver`. Returns false if it does not pass since a
    /// digit is played.
    pub(crate) fn passes(&mut self, receiver: &Self, packet: &mut [u8], now: Duration) -> bool {
        let Some(digits) = &mut self.digits else { return true };
        let Ok(header) = Header::parse(packet) else { return false };
        let theirs = receiver.announced.as_ref();
        let rate = theirs.map_or(8000, |theirs| theirs.clock_rate(header.payload_type()));
        digits.pass(packet, rate, now)
    }

    /// The address that packets of `channel` are sent to.
    pub(crate) fn destination(&self, channel: Channel) -> Option<SocketAddr> {
        let at = index(channel);
        if let Some(web) = self.ice() {
            return web.selected();
        }
        // A handshake has keys for its own port only.
        if self.web.is_some() && channel == Channel::Rtcp {
            return None;
        }
        self.latched[at].or_else(|| self.announced.as_ref()?.destinations[at])
    }

    /// Checks the source of a packet. Returns true if it is known already.
    pub(crate) fn check_source(
        &self,
        announced: &Announcement,
        channel: Channel,
        from: SocketAddr,
    ) -> Result<bool, Drop> {
        if let Some(web) = self.ice() {
            return web.is_checked(from).then_some(true).ok_or(Drop::Source);
        }
        let named = announced.destinations[index(channel)];
        match self.latched[index(channel)] {
            Some(latched) if latched == from => Ok(true),
            // The end itself, after a packet of another source in its name.
            Some(_) if named == Some(from) => Ok(false),
            // An authentic packet proves that the end has moved.
            Some(_) if self.keys.is_some() => Ok(false),
            Some(_) => Err(Drop::Source),
            None => {
                // RTCP comes from the host that RTP comes from.
                let host = self.latched[0].map(|latched| latched.ip());
                let is_expected = match host {
                    Some(host) => host == from.ip(),
                    None => announced.sources.contains(&from.ip()),
                };
                is_expected.then_some(false).ok_or(Drop::Source)
            }
        }
    }
}

/// The index of a channel in a pair of ports.
pub(crate) const fn index(channel: Channel) -> usize {
    match channel {
        Channel::Rtp => 0,
        Channel::Rtcp => 1,
    }
}
