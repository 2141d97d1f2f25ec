//! The properties of one medium that an end announces in its description.

use crate::codec::{Codec, bit};
use crate::end::End;
use alloc::boxed::Box;
use core::net::{IpAddr, SocketAddr};
use sdp::negotiation::Profile;
use sdp::{Direction, MediaDescription, SessionDescription};
use smallvec::SmallVec;

/// The packets that a medium carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Content {
    /// RTP and RTCP, also with encryption by keys in the description.
    #[default]
    Rtp,
    /// DTLS, and the SRTP that it has keys for.
    Dtls,
    /// Datagrams of another protocol, for example UDPTL (T.38). They pass unread.
    Other,
}

impl Content {
    /// Returns the content of a medium with this transport protocol; `None` if it has no datagrams.
    pub(crate) fn of(protocol: &str) -> Option<Self> {
        match Profile::of(protocol) {
            Some(Profile::Plain | Profile::Secure) => Some(Self::Rtp),
            Some(Profile::Dtls) => Some(Self::Dtls),
            None if protocol.eq_ignore_ascii_case("udptl") => Some(Self::Other),
            None => {
                let start = protocol.split('/').next().unwrap_or_default();
                start.eq_ignore_ascii_case("udp").then_some(Self::Other)
            }
        }
    }
}

/// The announcement of one end about a medium.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Announcement {
    pub(crate) content: Content,
    /// The address that the end names for RTP, whether packets may be sent there or not.
    pub(crate) named: Option<SocketAddr>,
    /// The type of the medium, such as `audio`. Empty if it is longer than [`MAX_NAME`].
    pub(crate) media_type: Box<str>,
    /// The transport protocol, such as `RTP/AVP`. Empty if it is longer than [`MAX_NAME`].
    pub(crate) protocol: Box<str>,
    /// The destinations of RTP and of RTCP, if packets may be sent there.
    pub(crate) destinations: [Option<SocketAddr>; 2],
    /// True if the destinations are at the host that the end has [proved](End::is_proven).
    pub(crate) is_proven: bool,
    /// The hosts that the first packets may come from.
    pub(crate) sources: SmallVec<[IpAddr; 2]>,
    /// The payload types, one bit each.
    pub(crate) payload_types: u128,
    /// The codecs of the payload types other than telephone events, the preferred one first.
    pub(crate) codecs: Box<[Codec]>,
    /// The bandwidth that the codecs may have, in bytes a second. `None` for other media than
    /// audio.
    pub(crate) bandwidth: Option<u64>,
    /// The payload types of telephone events, one bit each.
    pub(crate) events: u128,
    pub(crate) direction: Direction,
}

impl Announcement {
    /// Reads the announcement of `end` about `medium`, with the destinations that `permits` allows.
    /// Returns `None` if the medium is rejected or has no datagrams.
    pub(crate) fn read(
        session: &SessionDescription<'_>,
        medium: &MediaDescription<'_>,
        end: &End<'_>,
        permits: impl Fn(SocketAddr) -> bool,
    ) -> Option<Self> {
        let content = Content::of(medium.protocol).filter(|_| medium.port != 0)?;
        let address = |text: Option<&str>| text.and_then(|text| text.parse::<IpAddr>().ok());
        let named = address(session.address(medium)).map(|ip| ip.to_canonical());
        // A hold of RFC 2543: packets must not be sent.
        let is_held = named.is_some_and(|ip| ip.is_unspecified());
        let host = end.media.map(|ip| ip.to_canonical()).filter(|_| !is_held).or(named);
        let permitted = |place: SocketAddr| permits(place).then_some(place);
        let named = host.map(|ip| SocketAddr::new(ip, medium.port));
        let rtp = named.and_then(permitted);
        let (rtcp_port, rtcp_host) = match medium.rtcp() {
            Some((port, host)) => (port, host),
            None => (medium.port.saturating_add(1), None),
        };
        let rtcp_host = rtcp_host.filter(|_| end.media.is_none());
        let rtcp_host = rtcp_host.map_or(host, |text| address(Some(text)));
        let rtcp = rtcp_host.and_then(|ip| permitted(SocketAddr::new(ip, rtcp_port)));
        let signalling = end.signalling.ip().to_canonical();
        let is_at_signalling = |place: &SocketAddr| place.ip() == signalling;
        let mut sources = SmallVec::from_slice(&[signalling]);
        sources.extend(host.filter(|ip| *ip != signalling && rtp.is_some()));
        let mut announcement = Self {
            content,
            named,
            media_type: name(medium.media_type),
            protocol: name(medium.protocol),
            destinations: [rtp, rtcp],
            is_proven: end.is_proven && [rtp, rtcp].iter().flatten().all(is_at_signalling),
            sources,
            direction: match medium.direction(session) {
                Direction::SendReceive | Direction::SendOnly if is_held => Direction::SendOnly,
                _ if is_held => Direction::Inactive,
                direction => direction,
            },
            ..Self::default()
        };
        for number in medium.formats().filter_map(|format| format.parse::<u8>().ok()) {
            announcement.payload_types |= bit(number);
        }
        for map in medium.rtpmaps() {
            if map.name.eq_ignore_ascii_case("telephone-event") {
                announcement.events |= bit(map.payload_type);
            }
        }
        announcement.codecs = Codec::read(medium, announcement.events);
        if medium.media_type == "audio" {
            announcement.bandwidth = announcement.codecs.iter().map(Codec::bandwidth).max();
        }
        Some(announcement)
    }

    /// Makes this the announcement of an end with a handshake that ends at the relay. Checks of ICE
    /// tell the addresses of a browser, with this `session`.
    pub(crate) fn end_handshake(
        &mut self,
        session: Option<&SessionDescription<'_>>,
        medium: &MediaDescription<'_>,
    ) {
        self.content = Content::Rtp;
        let Some(session) = session else { return };
        (self.named, self.destinations, self.is_proven) = (None, [None; 2], false);
        self.sources.clear();
        // The unspecified address is no hold: its author had no candidates yet.
        self.direction = medium.direction(session);
    }

    /// The attribute of the direction of a medium on hold by the unspecified address (RFC 3264
    /// section 8.4), for the other end, which gets the address of the relay. It is inactive if that
    /// end does not receive.
    #[inline(never)]
    pub(crate) fn hold(&self, other_receives: bool) -> Option<&'static str> {
        let is_unspecified = self.named.is_some_and(|named| named.ip().is_unspecified());
        let is_held = is_unspecified && self.content == Content::Rtp;
        is_held.then(|| if other_receives && self.sends() { "sendonly" } else { "inactive" })
    }

    /// The clock rate of a payload type in Hz.
    pub(crate) fn clock_rate(&self, payload_type: u8) -> u32 {
        self.codec(payload_type).map_or(DEFAULT_RATE, |codec| codec.clock_rate)
    }

    /// The codec of a payload type.
    pub(crate) fn codec(&self, payload_type: u8) -> Option<&Codec> {
        self.codecs.iter().find(|codec| codec.payload_type == payload_type)
    }

    /// True if the end announces that it sends.
    pub(crate) const fn sends(&self) -> bool {
        matches!(self.direction, Direction::SendReceive | Direction::SendOnly)
    }

    /// True if the end announces that it receives.
    pub(crate) const fn receives(&self) -> bool {
        matches!(self.direction, Direction::SendReceive | Direction::ReceiveOnly)
    }
}

/// The maximum length of a media type or a protocol in reports, in bytes.
const MAX_NAME: usize = 32;

fn name(text: &str) -> Box<str> {
    if text.len() > MAX_NAME { Box::default() } else { text.into() }
}

/// The clock rate of an unknown payload type, in Hz.
const DEFAULT_RATE: u32 = 8000;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, permits: &dyn Fn(SocketAddr) -> bool) -> Option<Announcement> {
        let session = SessionDescription::parse(text.as_bytes()).unwrap();
        let end = End::new("198.51.100.9:5060".parse().unwrap(), [192, 0, 2, 1].into(), permits);
        Announcement::read(&session, &session.media[0], &end, |place| end.permits(place))
    }

    #[test]
    fn addresses_are_destinations_only_if_permitted() {
        let text = "v=0\r\nc=IN IP4 10.0.0.7\r\nm=audio 4000 RTP/AVP 0 96 101\r\n\
            a=rtpmap:101 telephone-event/8000\r\na=rtpmap:96 opus/48000/2\r\na=sendonly\r\n";
        let announcement = read(text, &|_| true).unwrap();
        let place = |port| Some(SocketAddr::new([10, 0, 0, 7].into(), port));
        assert_eq!(announcement.destinations, [place(4000), place(4001)]);
        let hosts: [IpAddr; 2] = [[198, 51, 100, 9].into(), [10, 0, 0, 7].into()];
        assert_eq!(announcement.sources[..], hosts);
        assert_eq!(announcement.payload_types, 1 | 1 << 96 | 1 << 101);
        assert_eq!((announcement.events, announcement.clock_rate(96)), (1 << 101, 48000));
        assert!(announcement.sends() && !announcement.receives());
        let private = read(text, &|place| place.ip() != IpAddr::from([10, 0, 0, 7])).unwrap();
        assert_eq!(private.destinations, [None, None]);
        assert_eq!(private.sources[..], hosts[..1]);
    }

    #[test]
    fn the_host_of_the_owner_replaces_those_of_the_description() {
        let place = |port| Some(SocketAddr::new([203, 0, 113, 5].into(), port));
        let read = |host: &str| {
            let text = std::format!(
                "v=0\r\nc=IN IP4 {host}\r\nm=audio 4000 RTP/AVP 0\r\na=rtcp:4007 IN IP4 10.0.0.9\r\n"
            );
            let session = SessionDescription::parse(text.as_bytes()).unwrap();
            let permits = |_: SocketAddr| true;
            let mut end = End::new("198.51.100.9:5060".parse().unwrap(), [0; 4].into(), &permits);
            end.media = Some([203, 0, 113, 5].into());
            let permitted = |place| end.permits(place);
            Announcement::read(&session, &session.media[0], &end, permitted).unwrap()
        };
        assert_eq!(read("10.0.0.7").destinations, [place(4000), place(4007)]);
        assert_eq!(read("0.0.0.0").destinations[0], None);
    }

    #[test]
    fn a_hold_by_the_unspecified_address_receives_nothing() {
        let text = "v=0\r\nc=IN IP4 0.0.0.0\r\nm=audio 4000 RTP/AVP 0\r\n";
        let announcement = read(text, &|place| !place.ip().is_unspecified()).unwrap();
        assert_eq!(announcement.direction, Direction::SendOnly);
        assert_eq!(announcement.destinations, [None, None]);
    }

    #[test]
    fn the_protocol_tells_the_content() {
        let content = |protocol: &str| {
            let text = std::format!("v=0\r\nc=IN IP4 192.0.2.7\r\nm=x 4000 {protocol} 0\r\n");
            read(&text, &|_| true).map(|announcement| announcement.content)
        };
        assert_eq!(content("RTP/SAVPF"), Some(Content::Rtp));
        assert_eq!(content("UDP/TLS/RTP/SAVP"), Some(Content::Dtls));
        assert_eq!(content("udptl"), Some(Content::Other));
        assert_eq!(content("UDP/BFCP"), Some(Content::Other));
        assert_eq!(content("TCP/MSRP"), None);
    }
}
