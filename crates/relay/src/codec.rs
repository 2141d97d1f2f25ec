//! The codecs that an end announces.

use alloc::boxed::Box;
use alloc::string::ToString;
use core::fmt;
use rtp::payload::static_format;
use rtp::quality::CodecQuality;
use sdp::{MediaDescription, RtpMap};

/// The maximum number of codecs that are kept of one medium.
const MAX_CODECS: usize = 16;

/// The maximum length of the name of a codec, in bytes.
const MAX_NAME: usize = 32;

/// The bit of a payload type, 0 to 127.
pub(crate) const fn bit(payload_type: u8) -> u128 {
    1 << (payload_type & 0x7f)
}

/// The codec of a payload type, as `a=rtpmap` names it, or RFC 3551.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Codec {
    pub(crate) payload_type: u8,
    pub(crate) clock_rate: u32,
    /// The number of channels, at least one.
    channels: u8,
    name: Box<str>,
}

/// The bytes a second that packets have besides their payload: headers of RTP, padding and SRTP,
/// for packets of 10 ms.
const OVERHEAD: u64 = 4_000;

impl Codec {
    /// Returns the codecs of `medium` in its order, except the payload types in `events`.
    pub(crate) fn read(medium: &MediaDescription<'_>, events: u128) -> Box<[Self]> {
        let types = medium.payload_types().into_iter();
        let codec = |(payload_type, map)| {
            let (name, clock_rate, channels) = encoding(payload_type, map)?;
            let end = name.floor_char_boundary(MAX_NAME);
            Some(Self { payload_type, clock_rate, channels, name: name[..end].into() })
        };
        let types = types.filter(|(number, _)| events >> number & 1 == 0);
        types.filter_map(codec).take(MAX_CODECS).collect()
    }

    /// The name with the clock rate, as in `a=rtpmap`.
    pub(crate) fn label(&self) -> Box<str> {
        self.to_string().into()
    }

    /// The bandwidth that audio of this codec may have, in bytes a second: that of uncompressed
    /// samples of 16 bits, which is twice that of G.711.
    pub(crate) fn bandwidth(&self) -> u64 {
        2 * u64::from(self.clock_rate) * u64::from(self.channels.max(1)) + OVERHEAD
    }

    /// True if its packets replace silence (RFC 3389), and are not of the codec in use.
    pub(crate) fn is_noise(&self) -> bool {
        self.name.eq_ignore_ascii_case("CN")
    }

    /// The quality of the codec; that of G.711 with concealment if it is unknown.
    pub(crate) fn quality(&self) -> CodecQuality {
        let is = |name: &str| self.name.eq_ignore_ascii_case(name);
        match () {
            () if is("GSM") => CodecQuality::GSM_FR,
            () if is("GSM-EFR") => CodecQuality::GSM_EFR,
            () if is("G723") => CodecQuality::G723_1,
            () if is("G726-32") => CodecQuality::G726_32,
            () if is("G729") => CodecQuality::G729A,
            () => CodecQuality::G711_CONCEALED,
        }
    }
}

/// The name, the clock rate and the number of channels of a payload type with this mapping.
fn encoding(payload_type: u8, map: Option<RtpMap<'_>>) -> Option<(&str, u32, u8)> {
    if let Some(map) = map.filter(|map| map.clock_rate != 0) {
        let channels = map.parameters.and_then(|channels| channels.parse().ok());
        return Some((map.name, map.clock_rate, channels.unwrap_or(1)));
    }
    static_format(payload_type).map(|it| (it.name, it.clock_rate, it.channels))
}

/// The name of a payload type among these.
#[cfg(feature = "convert")]
pub(crate) fn name_of<'m>(types: &[(u8, Option<RtpMap<'m>>)], payload_type: u8) -> Option<&'m str> {
    let (_, map) = types.iter().find(|(number, _)| *number == payload_type)?;
    encoding(payload_type, *map).map(|(name, ..)| name)
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.clock_rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sdp::SessionDescription;
    use std::vec::Vec;

    #[test]
    fn a_codec_has_the_name_of_its_map_or_of_its_number() {
        let text = "v=0\r\nm=audio 4000 RTP/AVP 96 0 97 18 101 300 x\r\n\
            a=rtpmap:96 opus/48000/2\r\na=rtpmap:101 telephone-event/8000\r\n";
        let session = SessionDescription::parse(text.as_bytes()).unwrap();
        let codecs = Codec::read(&session.media[0], 1 << 101);
        let labels: Vec<_> = codecs.iter().map(Codec::label).collect();
        assert_eq!(labels[..], ["opus/48000".into(), "PCMU/8000".into(), "G729/8000".into()]);
        assert_eq!(codecs[2].quality(), CodecQuality::G729A);
        let long = std::format!("v=0\r\nm=x 1 RTP/AVP 99\r\na=rtpmap:99 {}/1\r\n", "ü".repeat(90));
        let session = SessionDescription::parse(long.as_bytes()).unwrap();
        let label = Codec::read(&session.media[0], 0)[0].label();
        assert_eq!(label.len(), MAX_NAME + 2);
    }
}
