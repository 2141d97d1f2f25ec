//! The media descriptions of a session (RFC 8866 section 5.14) and their attributes.

use crate::lines::{NO_TEXT, attributes, write_lines};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

/// A media description, over borrowed text.
///
/// Its line is `m=<media> <port> <protocol> <formats>`, with any amount of white space between the
/// words. Formats may be missing, as in a rejected medium. A line that lacks other words, or has a
/// port that is not a number up to 65535, becomes a disabled medium: it keeps its position, with
/// port 0 and `-` for the missing words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaDescription<'a> {
    /// The media type: `audio`, `video` or another one.
    pub media_type: &'a str,
    /// The port; 0 for a rejected or disabled medium.
    pub port: u16,
    /// The number of ports after a slash, if present. (The end of a range, `4000-4001`, is
    /// ignored.)
    pub ports: Option<u16>,
    /// The transport protocol, for example `RTP/AVP`.
    pub protocol: &'a str,
    formats: Vec<&'a str>,
    /// The lines of the medium after `m=`: type and value.
    pub lines: Vec<(char, &'a str)>,
}

/// The direction of media (RFC 8866 section 6.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Send and receive.
    #[default]
    SendReceive,
    /// The author of the description only sends.
    SendOnly,
    /// The author of the description only receives.
    ReceiveOnly,
    /// Neither direction.
    Inactive,
}

/// The mapping of a payload type (`a=rtpmap`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpMap<'a> {
    /// The payload type.
    pub payload_type: u8,
    /// The encoding name, which is case-insensitive.
    pub name: &'a str,
    /// Timestamp units per second.
    pub clock_rate: u32,
    /// The encoding parameters; for audio the number of channels, if not one.
    pub parameters: Option<&'a str>,
}

impl<'a> RtpMap<'a> {
    fn parse(value: &'a str) -> Option<Self> {
        let (payload_type, encoding) = value.split_once([' ', '\t'])?;
        let mut parts = encoding.splitn(3, '/').map(str::trim);
        let payload_type = payload_type.parse().ok().filter(|&number: &u8| number < 128)?;
        let (name, clock_rate) = (parts.next()?, parts.next()?.parse().ok()?);
        Some(Self { payload_type, name, clock_rate, parameters: parts.next() })
    }
}

impl<'a> MediaDescription<'a> {
    pub(crate) fn parse(value: &'a str) -> Self {
        let mut words = value.split_ascii_whitespace();
        let kind = words.next().unwrap_or(NO_TEXT);
        let place = words.next().unwrap_or_default();
        let protocol = words.next();
        let (port, ports) = place.split_once('/').unwrap_or((place, ""));
        let port = port.split_once('-').map_or(port, |(first, _)| first).parse().ok();
        Self {
            media_type: kind,
            port: port.filter(|_| protocol.is_some()).unwrap_or(0),
            ports: ports.parse().ok(),
            protocol: protocol.unwrap_or(NO_TEXT),
            formats: words.collect(),
            lines: Vec::new(),
        }
    }

    /// The formats in order of preference: payload types for RTP.
    pub fn formats(&self) -> impl Iterator<Item = &'a str> {
        self.formats.iter().copied()
    }

    /// The values of the attributes with this name; an empty string for a property attribute.
    pub fn attributes(&self, name: &str) -> impl Iterator<Item = &'a str> {
        attributes(&self.lines, name)
    }

    /// The mappings of payload types.
    pub fn rtpmaps(&self) -> impl Iterator<Item = RtpMap<'a>> {
        self.attributes("rtpmap").filter_map(RtpMap::parse)
    }

    /// The payload types among the formats, each once, in order of preference, with the first
    /// mapping of each. There are at most 128, whatever the length of the description.
    #[must_use]
    pub fn payload_types(&self) -> Vec<(u8, Option<RtpMap<'a>>)> {
        let (mut found, mut places) = (Vec::new(), [None; 128]);
        for number in self.formats.iter().filter_map(|format| format.parse::<u8>().ok()) {
            if let Some(place @ None) = places.get_mut(usize::from(number)) {
                *place = Some(found.len() as u8);
                found.push((number, None));
            }
        }
        for map in self.rtpmaps() {
            let place = places[usize::from(map.payload_type) % 128].map(usize::from);
            if let Some((_, known)) = place.and_then(|place| found.get_mut(place)) {
                known.get_or_insert(map);
            }
        }
        found
    }

    /// The format parameters of a payload type (`a=fmtp`).
    #[must_use]
    pub fn format_parameters(&self, payload_type: u8) -> Option<&'a str> {
        self.attributes("fmtp").find_map(|value| {
            let (format, parameters) = value.split_once([' ', '\t'])?;
            (format.parse() == Ok(payload_type)).then_some(parameters.trim())
        })
    }

    /// The preferred duration of a packet (`a=ptime`), which may have fractions of a millisecond.
    #[must_use]
    pub fn packet_time(&self) -> Option<Duration> {
        self.milliseconds("ptime")
    }

    /// The maximum duration of a packet (`a=maxptime`).
    #[must_use]
    pub fn maximum_packet_time(&self) -> Option<Duration> {
        self.milliseconds("maxptime")
    }

    fn milliseconds(&self, name: &str) -> Option<Duration> {
        self.attributes(name).find_map(parse_milliseconds).filter(|time| !time.is_zero())
    }

    /// The destination of RTCP (`a=rtcp`, RFC 3605), if present: a port, and an address unless it
    /// is that of RTP.
    #[must_use]
    pub fn rtcp(&self) -> Option<(u16, Option<&'a str>)> {
        let mut words = self.attributes("rtcp").next()?.split_ascii_whitespace();
        let port = words.next()?.parse().ok().filter(|&port: &u16| port != 0)?;
        let is_internet = words.next().is_some_and(|network| network.eq_ignore_ascii_case("IN"));
        Some((port, words.nth(1).filter(|_| is_internet)))
    }

    /// Returns true if RTCP shares the port of RTP (`a=rtcp-mux`, RFC 5761).
    #[must_use]
    pub fn multiplexes_rtcp(&self) -> bool {
        self.attributes("rtcp-mux").next().is_some()
    }
}

/// Parses a number of milliseconds that may have a fraction. Digits below a nanosecond are ignored.
fn parse_milliseconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let (mut nanoseconds, mut unit) = (0, 1_000_000);
    for digit in fraction.chars() {
        unit /= 10;
        nanoseconds += digit.to_digit(10)? * unit;
    }
    let whole = Duration::from_millis(whole.parse::<u32>().ok()?.into());
    Some(whole + Duration::from_nanos(nanoseconds.into()))
}

impl fmt::Display for MediaDescription<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m={} {}", self.media_type, self.port)?;
        if let Some(ports) = self.ports {
            write!(f, "/{ports}")?;
        }
        write!(f, " {}", self.protocol)?;
        self.formats.iter().try_for_each(|format| write!(f, " {format}"))?;
        f.write_str("\r\n")?;
        write_lines(&self.lines, f)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::SessionDescription;

    #[test]
    fn the_rtcp_address_and_packet_times_are_parsed() {
        for (line, rtcp) in [
            ("rtcp:53020", Some((53020, None))),
            ("rtcp:53020 IN IP4 126.16.64.4", Some((53020, Some("126.16.64.4")))),
            ("rtcp: 53020  in IP6 2001:2345::1", Some((53020, Some("2001:2345::1")))),
            ("rtcp:53020 ATM x y", Some((53020, None))),
            ("rtcp:0", None),
            ("rtcp:x", None),
            ("rtcp-mux", None),
        ] {
            let text = std::format!("v=0\r\nm=audio 5 RTP/AVP 0\r\na={line}\r\na=maxptime:40\r\n");
            let session = SessionDescription::parse(text.as_bytes()).unwrap();
            assert_eq!(session.media[0].rtcp(), rtcp, "{line}");
            assert_eq!(session.media[0].maximum_packet_time(), Some(Duration::from_millis(40)));
        }
    }

    /// Calls all accessors of a description.
    pub(crate) fn read_everything(session: &SessionDescription<'_>) {
        for media in &session.media {
            media.formats().for_each(drop);
            media.rtpmaps().for_each(drop);
            assert!(media.payload_types().len() <= 128);
            let _ = (media.format_parameters(96), media.packet_time(), media.direction(session));
            let _ = (media.multiplexes_rtcp(), session.address(media));
            let _ = crate::ice::IceParameters::of(media, session);
            let _ = crate::dtls::DtlsParameters::of(media, session);
            let _ = crate::negotiation::usable_crypto_attributes(media);
        }
    }

    #[test]
    fn attributes_are_parsed() {
        let text = b"v=0\nm=audio 4000 RTP/AVP 0 101 96\na=rtpmap:0 PCMU/8000\n\
            a=rtpmap:101 telephone-event/8000\na=fmtp:101 0-16\na=rtpmap:96 opus/48000/2\n\
            a=rtpmap:200 no/8000\na=rtpmap:97 broken\na=ptime:20\na=rtcp-mux\n";
        let session = SessionDescription::parse(text).unwrap();
        let media = &session.media[0];
        let maps: Vec<_> = media.rtpmaps().collect();
        assert_eq!(maps.len(), 3);
        assert_eq!(
            (maps[2].name, maps[2].clock_rate, maps[2].parameters),
            ("opus", 48000, Some("2"))
        );
        assert_eq!(media.format_parameters(101), Some("0-16"));
        assert_eq!(media.format_parameters(0), None);
        assert_eq!(media.packet_time(), Some(Duration::from_millis(20)));
        assert!(media.multiplexes_rtcp());
        assert_eq!(media.direction(&session), Direction::SendReceive);
    }

    #[test]
    fn a_payload_type_has_its_first_mapping_and_is_there_once() {
        let text = b"v=0\nm=audio 4000 RTP/AVP 96 0 96 300 200 x 97 0\na=rtpmap:98 none/8000\n\
            a=rtpmap:97 first/8000\na=rtpmap:97 second/8000\na=rtpmap:96 opus/48000/2\n";
        let session = SessionDescription::parse(text).unwrap();
        let types = session.media[0].payload_types();
        let names: Vec<_> =
            types.iter().map(|(number, map)| (*number, map.map(|it| it.name))).collect();
        assert_eq!(names, [(96, Some("opus")), (0, None), (97, Some("first"))]);
    }

    #[test]
    fn a_malformed_line_does_not_affect_others() {
        for (line, kind, port, ports, protocol, formats) in [
            ("video 0 RTP/AVP", "video", 0, None, "RTP/AVP", 0),
            ("video 0 RTP/AVP ", "video", 0, None, "RTP/AVP", 0),
            ("image 5 udptl t38", "image", 5, None, "udptl", 1),
            (
                "application 9 UDP/DTLS/SCTP webrtc-datachannel",
                "application",
                9,
                None,
                "UDP/DTLS/SCTP",
                1,
            ),
            ("audio 4000/2 RTP/AVP 0 8", "audio", 4000, Some(2), "RTP/AVP", 2),
            ("audio 4000/x RTP/AVP 0 8", "audio", 4000, None, "RTP/AVP", 2),
            ("audio 4000-4001 RTP/AVP 0 8", "audio", 4000, None, "RTP/AVP", 2),
            ("audio five RTP/AVP 0", "audio", 0, None, "RTP/AVP", 1),
            ("audio 65536 RTP/AVP 0", "audio", 0, None, "RTP/AVP", 1),
            ("audio -1 RTP/AVP 0", "audio", 0, None, "RTP/AVP", 1),
            ("audio $ RTP/AVP 0", "audio", 0, None, "RTP/AVP", 1),
            ("audio 5", "audio", 0, None, "-", 0),
            ("audio", "audio", 0, None, "-", 0),
            ("", "-", 0, None, "-", 0),
        ] {
            let text = std::format!(
                "v=0\r\nm=audio 4000 RTP/AVP 0\r\na=ptime:30\r\nm={line}\r\na=ptime:40\r\n\
                m=video 4002 RTP/AVP 31\r\na=ptime:50\r\n"
            );
            let session = SessionDescription::parse(text.as_bytes()).unwrap();
            let ports_of: Vec<_> = session.media.iter().map(|media| media.port).collect();
            assert_eq!(ports_of, [4000, port, 4002], "{line}");
            let times = session.media.iter().map(|media| media.packet_time().unwrap().as_millis());
            assert_eq!(times.collect::<Vec<_>>(), [30, 40, 50], "{line}");
            let media = &session.media[1];
            assert_eq!(
                (media.media_type, media.ports, media.protocol),
                (kind, ports, protocol),
                "{line}"
            );
            assert_eq!(media.formats().count(), formats, "{line}");
        }
    }

    #[test]
    fn packet_times_may_have_fractions() {
        for (value, time) in [
            ("20", Some(Duration::from_millis(20))),
            ("0.125", Some(Duration::from_micros(125))),
            ("2.50000049", Some(Duration::from_nanos(2_500_000))),
            ("20.", Some(Duration::from_millis(20))),
            ("4294967295", Some(Duration::from_millis(u32::MAX.into()))),
            ("4294967296", None),
            ("0.0", None),
            ("2.x", None),
            ("0", None),
            ("-1", None),
            ("inf", None),
            ("NaN", None),
            ("1e300", None),
            ("x", None),
        ] {
            let text = std::format!("v=0\nm=audio 4000 RTP/AVP 0\na=ptime:{value}\n");
            let session = SessionDescription::parse(text.as_bytes()).unwrap();
            assert_eq!(session.media[0].packet_time(), time, "{value}");
        }
    }

    #[test]
    fn descriptions_of_the_corpora_are_parsed() {
        let Some(root) = test_support::corpora() else { return };
        let (mut read, mut media) = (0, 0);
        for path in test_support::files(&root.join("sdp")) {
            let bytes = std::fs::read(&path).unwrap();
            let result = SessionDescription::parse(&bytes);
            // Some files of the corpus lack their first line, and some are not descriptions.
            let has_version = [b"v=0\r", b"v=0\n"].iter().any(|line| bytes.starts_with(*line));
            assert!(result.is_ok() || !has_version, "{}: {result:?}", path.display());
            if let Ok(session) = result {
                read_everything(&session);
                let lines = bytes.split(|&byte| byte == b'\n' || byte == b'\r');
                // Some files contain a second description.
                let lines = lines.skip(1).take_while(|line| !line.starts_with(b"v="));
                let lines = lines.filter(|line| line.starts_with(b"m=")).count();
                assert_eq!(session.media.len(), lines, "{}", path.display());
                media += lines;
                read += 1;
            }
        }
        assert!(read > 250 && media > 300, "{read} {media}");
    }
}
