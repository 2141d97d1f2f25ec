//! The payload types of an audio medium, as far as a conversion deals with them.

use crate::codec::bit;
use ::codec::Codec;
use core::fmt;
use rtp::payload::static_format;
use sdp::{MediaDescription, RtpMap};
use smallvec::SmallVec;

/// The maximum number of payload types that are kept of one medium.
const MAX_FORMATS: usize = 24;

/// The clock rate and the payload type of comfort noise in RFC 3551.
const NOISE_RATE: u32 = 8000;

/// The shortest and the longest packet time that an end gets, in milliseconds.
const PACKET_TIMES: core::ops::RangeInclusive<u128> = 10..=60;

/// The contents of the packets of a payload type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Sound that the relay can convert.
    Sound(Codec),
    /// Telephone events (RFC 4733).
    Event {
        /// The clock rate in Hz.
        clock_rate: u32,
    },
    /// Comfort noise (RFC 3389).
    Noise,
    /// A codec that the relay does not have.
    Other,
}

/// A payload type of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) payload_type: u8,
    pub(crate) kind: Kind,
}

/// The payload types of an end in its order of preference, and the packet time that it wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Formats {
    pub(crate) list: SmallVec<[Format; 8]>,
    /// In milliseconds.
    pub(crate) packet_time: Option<u8>,
}

/// The change of the payload types in a description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FormatChange {
    /// The payload types that go, one bit each, with their attributes.
    pub(crate) removed: u128,
    /// Those that come, behind the others.
    pub(crate) added: SmallVec<[Format; 4]>,
    /// True if the packet times of the author do not pass.
    pub(crate) is_converted: bool,
}

impl Formats {
    /// Reads the formats of `medium`.
    pub(crate) fn read(medium: &MediaDescription<'_>) -> Self {
        let types = medium.payload_types().into_iter().take(MAX_FORMATS);
        let format =
            |(payload_type, map)| Format { payload_type, kind: kind_of(payload_type, map) };
        let time = medium.packet_time().map(|time| time.as_millis());
        let time = time.map(|time| time.clamp(*PACKET_TIMES.start(), *PACKET_TIMES.end()) as u8);
        Self { list: types.map(format).collect(), packet_time: time }
    }

    /// The payload types, one bit each.
    pub(crate) fn bits(&self) -> u128 {
        self.list.iter().fold(0, |bits, format| bits | bit(format.payload_type))
    }

    /// The codecs that can be converted, with their payload types.
    pub(crate) fn sounds(&self) -> impl Iterator<Item = (u8, Codec)> {
        self.list.iter().filter_map(|format| match format.kind {
            Kind::Sound(codec) => Some((format.payload_type, codec)),
            _ => None,
        })
    }

    /// The payload types of telephone events, with their clock rates.
    pub(crate) fn events(&self) -> impl Iterator<Item = (u8, u32)> {
        self.list.iter().filter_map(|format| match format.kind {
            Kind::Event { clock_rate } => Some((format.payload_type, clock_rate)),
            _ => None,
        })
    }

    /// The payload type of telephone events for a codec with this clock rate: with the same one
    /// (RFC 4733 section 2.1), or else the first.
    pub(crate) fn event_at(&self, clock_rate: u32) -> Option<(u8, u32)> {
        self.events().find(|(_, rate)| *rate == clock_rate).or_else(|| self.events().next())
    }

    /// The payload type of comfort noise.
    pub(crate) fn noise(&self) -> Option<u8> {
        let is_noise = |format: &&Format| format.kind == Kind::Noise;
        self.list.iter().find(is_noise).map(|format| format.payload_type)
    }

    /// True if there is a format with this payload type.
    pub(crate) fn has(&self, payload_type: u8) -> bool {
        self.list.iter().any(|format| format.payload_type == payload_type)
    }

    /// The kind of a payload type.
    pub(crate) fn kind(&self, payload_type: u8) -> Option<Kind> {
        let found = self.list.iter().find(|format| format.payload_type == payload_type);
        found.map(|format| format.kind)
    }
}

fn kind_of(payload_type: u8, map: Option<RtpMap<'_>>) -> Kind {
    let (name, clock_rate, channels) = match (map, static_format(payload_type)) {
        (Some(map), _) => (map.name, map.clock_rate, map.parameters.map(str::parse)),
        (None, Some(format)) => (format.name, format.clock_rate, None),
        (None, None) => return Kind::Other,
    };
    if name.eq_ignore_ascii_case("telephone-event") && clock_rate > 0 {
        return Kind::Event { clock_rate };
    }
    if name.eq_ignore_ascii_case("CN") && clock_rate == NOISE_RATE {
        return Kind::Noise;
    }
    let has_channels = |codec: &Codec| channels.is_none_or(|count| count == Ok(codec.channels()));
    let codec = Codec::from_encoding_name(name, clock_rate).filter(has_channels);
    codec.map_or(Kind::Other, Kind::Sound)
}

/// The value of `a=rtpmap`.
impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.payload_type)?;
        match self.kind {
            Kind::Sound(codec) => {
                write!(f, "{}/{}", codec.name(), codec.clock_rate())?;
                match codec.channels() {
                    1 => Ok(()),
                    channels => write!(f, "/{channels}"),
                }
            }
            Kind::Event { clock_rate } => write!(f, "telephone-event/{clock_rate}"),
            Kind::Noise => write!(f, "CN/{NOISE_RATE}"),
            Kind::Other => f.write_str("unknown/8000"),
        }
    }
}

impl Format {
    /// The value of `a=fmtp` without the payload type, if it has one.
    pub(crate) const fn parameters(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Sound(codec) => codec.format_parameters(),
            // The keys of telephones.
            Kind::Event { .. } => Some("0-15"),
            Kind::Noise | Kind::Other => None,
        }
    }
}
