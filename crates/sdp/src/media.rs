//! A medium of a session (RFC 8866 section 5.14) and its attributes.

use crate::session::{Session, attributes, write_lines};
use alloc::vec::Vec;
use core::fmt;

/// A medium, over borrowed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media<'a> {
    /// `audio`, `video` or another.
    pub kind: &'a str,
    /// The port; 0 for a medium that is refused or off.
    pub port: u16,
    /// How many ports it takes, if it says so.
    pub ports: Option<u16>,
    /// The protocol, `RTP/AVP` for instance.
    pub protocol: &'a str,
    /// The formats, between spaces.
    formats: &'a str,
    /// The lines that follow: type and value.
    pub lines: Vec<(char, &'a str)>,
}

/// Whether media flow (RFC 8866 section 6.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Both ways.
    #[default]
    SendReceive,
    /// Only from whose description this is.
    SendOnly,
    /// Only to it.
    ReceiveOnly,
    /// Neither way.
    Inactive,
}

/// What a payload type stands for (`a=rtpmap`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpMap<'a> {
    /// The payload type.
    pub payload_type: u8,
    /// The encoding's name, which is the same in either case.
    pub name: &'a str,
    /// Units of the timestamp in a second.
    pub clock_rate: u32,
    /// The encoding's parameters; for audio how many channels it has, if not one.
    pub parameters: Option<&'a str>,
}

impl<'a> RtpMap<'a> {
    fn parse(value: &'a str) -> Option<Self> {
        let (payload_type, encoding) = value.trim().split_once(' ')?;
        let mut parts = encoding.trim().splitn(3, '/');
        let payload_type = payload_type.parse().ok().filter(|&number: &u8| number < 128)?;
        let (name, clock_rate) = (parts.next()?, parts.next()?.parse().ok()?);
        Some(Self { payload_type, name, clock_rate, parameters: parts.next() })
    }
}

impl<'a> Media<'a> {
    pub(crate) fn parse(value: &'a str) -> Option<Self> {
        let mut parts = value.splitn(4, ' ');
        let (kind, port, protocol) = (parts.next()?, parts.next()?, parts.next()?);
        let formats = parts.next()?.trim();
        let (port, ports) = match port.split_once('/') {
            Some((port, ports)) => (port, Some(ports.parse().ok()?)),
            None => (port, None),
        };
        if kind.is_empty() || protocol.is_empty() || formats.is_empty() {
            return None;
        }
        let port = port.parse().ok()?;
        Some(Self { kind, port, ports, protocol, formats, lines: Vec::new() })
    }

    /// The formats, in order of preference: payload types for RTP.
    pub fn formats(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.formats.split_ascii_whitespace()
    }

    /// The values of its attributes of this name; empty for those that have none.
    pub fn attributes(&self, name: &str) -> impl Iterator<Item = &'a str> {
        attributes(&self.lines, name)
    }

    /// What its payload types stand for, as far as it says so.
    pub fn rtpmaps(&self) -> impl Iterator<Item = RtpMap<'a>> {
        self.attributes("rtpmap").filter_map(RtpMap::parse)
    }

    /// The parameters of a payload type (`a=fmtp`).
    #[must_use]
    pub fn format_parameters(&self, payload_type: u8) -> Option<&'a str> {
        self.attributes("fmtp").find_map(|value| {
            let (format, parameters) = value.trim().split_once(' ')?;
            (format.parse() == Ok(payload_type)).then_some(parameters.trim())
        })
    }

    /// How much audio a packet should hold, in milliseconds (`a=ptime`).
    #[must_use]
    pub fn packet_time(&self) -> Option<u32> {
        self.attributes("ptime").find_map(|value| value.trim().parse().ok())
    }

    /// Whether it flows: by its own attribute, or that of the session.
    #[must_use]
    pub fn direction(&self, session: &Session<'a>) -> Direction {
        let of = |lines| {
            crate::session::values(lines, 'a').find_map(|value| match value.trim_end() {
                "sendrecv" => Some(Direction::SendReceive),
                "sendonly" => Some(Direction::SendOnly),
                "recvonly" => Some(Direction::ReceiveOnly),
                "inactive" => Some(Direction::Inactive),
                _ => None,
            })
        };
        of(&self.lines).or_else(|| of(&session.lines)).unwrap_or_default()
    }

    /// Whether RTCP shares RTP's port (`a=rtcp-mux`, RFC 5761).
    #[must_use]
    pub fn multiplexes_rtcp(&self) -> bool {
        self.attributes("rtcp-mux").next().is_some()
    }
}

impl fmt::Display for Media<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m={} {}", self.kind, self.port)?;
        if let Some(ports) = self.ports {
            write!(f, "/{ports}")?;
        }
        write!(f, " {} {}\r\n", self.protocol, self.formats)?;
        write_lines(&self.lines, f)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Asks a description everything.
    pub(crate) fn look_at_all(session: &Session<'_>) {
        for media in &session.media {
            media.formats().for_each(drop);
            media.rtpmaps().for_each(drop);
            let _ = (media.format_parameters(96), media.packet_time(), media.direction(session));
            let _ = (media.multiplexes_rtcp(), session.address(media));
            let _ = crate::negotiation::offered(media);
        }
    }

    #[test]
    fn attributes_are_found() {
        let text = b"v=0\nm=audio 4000 RTP/AVP 0 101 96\na=rtpmap:0 PCMU/8000\n\
            a=rtpmap:101 telephone-event/8000\na=fmtp:101 0-16\na=rtpmap:96 opus/48000/2\n\
            a=rtpmap:200 no/8000\na=rtpmap:97 broken\na=ptime:20\na=rtcp-mux\n";
        let session = Session::parse(text).unwrap();
        let media = &session.media[0];
        let maps: Vec<_> = media.rtpmaps().collect();
        assert_eq!(maps.len(), 3);
        assert_eq!(
            (maps[2].name, maps[2].clock_rate, maps[2].parameters),
            ("opus", 48000, Some("2"))
        );
        assert_eq!(media.format_parameters(101), Some("0-16"));
        assert_eq!(media.format_parameters(0), None);
        assert_eq!(media.packet_time(), Some(20));
        assert!(media.multiplexes_rtcp());
        assert_eq!(media.direction(&session), Direction::SendReceive);
    }

    #[test]
    fn descriptions_of_the_field_are_read() {
        let Some(root) = test_support::corpora() else { return };
        let mut read = 0;
        for path in test_support::files(&root.join("sdp")) {
            let bytes = std::fs::read(&path).unwrap();
            if let Ok(session) = Session::parse(&bytes) {
                look_at_all(&session);
                read += 1;
            }
        }
        assert!(read > 200, "{read}");
    }
}
