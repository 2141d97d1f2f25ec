//! Session descriptions (RFC 8866 section 5) and their parser.
//!
//! Phones, gateways and old devices send descriptions that violate the grammar of RFC 8866 section
//! 9. The parser accepts such input where its meaning is clear. A malformed line loses only itself
//! or its medium; [`Session::parse`] lists the accepted deviations. The output follows the RFC as
//! far as the input did.

use crate::lines::{NO_TEXT, attributes, values, write_lines};
use crate::media::{Direction, MediaDescription};
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;

/// The maximum number of lines in a description.
const MAX_LINES: usize = 10_000;

/// The line types with free text (RFC 8866 section 4.5). Spaces around the text are kept: a session
/// without a name has one space (section 5.3).
const TEXTS: &[u8] = b"siep";

/// The reason why bytes are not a session description.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionError {
    /// The first line is not `v=0`.
    Version,
    /// The description exceeds the maximum number of lines.
    TooLong,
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version => write!(f, "session description without `v=0` as its first line"),
            Self::TooLong => write!(f, "session description of more than {MAX_LINES} lines"),
        }
    }
}

impl Error for SessionError {}

/// A session description, over borrowed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionDescription<'a> {
    /// The lines before the first medium except `v=0`: type and value.
    pub lines: Vec<(char, &'a str)>,
    /// The media in order. An answer has the same number (RFC 3264 section 6).
    pub media: Vec<MediaDescription<'a>>,
}

impl<'a> SessionDescription<'a> {
    /// Parses a description. These deviations from the grammar of RFC 8866 are accepted:
    ///
    /// - A byte order mark, spaces and empty lines before `v=0`, and empty lines anywhere.
    /// - Lines that end with LF or CR alone.
    /// - Spaces and tabs before a line, around its equals sign and at its end (except in free
    ///   text), and repeated spaces between words. Line types of RFC 8866 in upper case.
    /// - Lines in any order, missing mandatory lines, and lines of unknown types, such as `y` and
    ///   `f` of GB/T 28181. (Section 5 requires that such a description is ignored.)
    /// - A NUL byte ends its line, as in a C string. The bytes after it are ignored.
    /// - A value that is not UTF-8 is read as `-`, in every line type. Text in another charset does
    ///   no harm, and an undecodable address or key is absent.
    /// - A line that is not a letter, an equals sign and a value is ignored.
    /// - `m` lines as described at [`MediaDescription`]. Every `m` line yields a medium.
    /// - A second `v` line before the first medium is ignored. After a medium it begins another
    ///   description, which is not read.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, SessionError> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut lines = (1..).zip(bytes.split(|byte| matches!(byte, b'\n' | b'\r')));
        let mut session = Self { lines: Vec::new(), media: Vec::new() };
        let first = lines.find(|(_, line)| !line.trim_ascii().is_empty());
        if first.and_then(|(_, line)| read_line(line)) != Some(('v', "0")) {
            return Err(SessionError::Version);
        }
        // The split between CR and LF yields an empty line, which does not count.
        let lines = lines.filter(|(_, line)| !line.is_empty());
        for (count, (_, line)) in (1..).zip(lines) {
            if count >= MAX_LINES {
                return Err(SessionError::TooLong);
            }
            match (read_line(line), session.media.last_mut()) {
                (None, _) | (Some(('v', _)), None) => {}
                (Some(('v', _)), Some(_)) => break,
                (Some(('m', value)), _) => session.media.push(MediaDescription::parse(value)),
                (Some(line), Some(media)) => media.lines.push(line),
                (Some(line), None) => session.lines.push(line),
            }
        }
        Ok(session)
    }

    /// The values of the session-level lines of a type.
    pub fn values(&self, letter: char) -> impl Iterator<Item = &'a str> {
        values(&self.lines, letter)
    }

    /// The values of the session-level attributes with this name; an empty string for a property
    /// attribute.
    pub fn attributes(&self, name: &str) -> impl Iterator<Item = &'a str> {
        attributes(&self.lines, name)
    }

    /// The connection address of a medium: its own, or that of the session (RFC 8866 section 5.7).
    /// The words before the address are case-insensitive. An IPv6 address may have brackets. A
    /// medium with a `c=` line without an address has no address.
    #[must_use]
    pub fn address(&self, media: &MediaDescription<'a>) -> Option<&'a str> {
        let line = values(&media.lines, 'c').next().or_else(|| self.values('c').next())?;
        let mut words = line.split_ascii_whitespace();
        words.next().filter(|network| network.eq_ignore_ascii_case("IN"))?;
        let address = words.nth(1)?;
        // A multicast address is followed by its TTL and the number of addresses.
        let address = address.split('/').next()?;
        let inner = address.strip_prefix('[').and_then(|address| address.strip_suffix(']'));
        Some(inner.unwrap_or(address)).filter(|address| !address.is_empty())
    }
}

impl<'a> MediaDescription<'a> {
    /// The direction of the medium: its own attribute, or that of the session.
    #[must_use]
    pub fn direction(&self, session: &SessionDescription<'a>) -> Direction {
        let named = [
            ("sendrecv", Direction::SendReceive),
            ("sendonly", Direction::SendOnly),
            ("recvonly", Direction::ReceiveOnly),
            ("inactive", Direction::Inactive),
        ];
        let of = |lines| {
            values(lines, 'a').find_map(|value| {
                let is = |name: &str| value.eq_ignore_ascii_case(name);
                named.into_iter().find_map(|(name, direction)| is(name).then_some(direction))
            })
        };
        of(&self.lines).or_else(|| of(&session.lines)).unwrap_or_default()
    }
}

/// Parses the type and the value of a line.
fn read_line(line: &[u8]) -> Option<(char, &str)> {
    let line = line.split(|&byte| byte == b'\0').next()?.trim_ascii_start();
    let (&letter, rest) = line.split_first().filter(|(letter, _)| letter.is_ascii_alphabetic())?;
    let value = rest.trim_ascii_start().strip_prefix(b"=")?;
    let known = letter.to_ascii_lowercase();
    let letter = if b"vosiuepcbtrzkam".contains(&known) { known } else { letter };
    let value = if TEXTS.contains(&letter) { value } else { value.trim_ascii() };
    Some((char::from(letter), core::str::from_utf8(value).unwrap_or(NO_TEXT)))
}

impl fmt::Display for SessionDescription<'_> {
    /// Writes the description, each line with CRLF.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v=0\r\n")?;
        write_lines(&self.lines, f)?;
        self.media.iter().try_for_each(|media| media.fmt(f))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::Direction;
    use proptest::prelude::*;
    use std::string::{String, ToString};

    /// The example of RFC 8866 section 5, shortened.
    const EXAMPLE: &str = "v=0\r\n\
        o=jdoe 3724394400 3724394405 IN IP4 198.51.100.1\r\n\
        s=Call to John Smith\r\n\
        c=IN IP4 198.51.100.1\r\n\
        t=0 0\r\n\
        a=sendonly\r\n\
        m=audio 49170 RTP/AVP 0 96\r\n\
        a=rtpmap:96 opus/48000/2\r\n\
        a=fmtp:96 useinbandfec=1\r\n\
        a=ptime:20\r\n\
        m=video 51372/2 RTP/SAVP 99\r\n\
        c=IN IP6 2001:db8::2\r\n\
        a=recvonly\r\n";

    #[test]
    fn the_example_of_rfc_8866_is_parsed_and_written() {
        let session = SessionDescription::parse(EXAMPLE.as_bytes()).unwrap();
        assert_eq!(session.values('s').next(), Some("Call to John Smith"));
        let [audio, video] = &session.media[..] else { panic!("{session:?}") };
        assert_eq!((audio.media_type, audio.port, audio.protocol), ("audio", 49170, "RTP/AVP"));
        assert_eq!(audio.formats().collect::<Vec<_>>(), ["0", "96"]);
        assert_eq!(session.address(audio), Some("198.51.100.1"));
        assert_eq!(session.address(video), Some("2001:db8::2"));
        assert_eq!(audio.direction(&session), Direction::SendOnly);
        assert_eq!(video.direction(&session), Direction::ReceiveOnly);
        assert_eq!(session.to_string(), EXAMPLE);
        let bare = EXAMPLE.replace("\r\n", "\n");
        assert_eq!(SessionDescription::parse(bare.as_bytes()).unwrap(), session);
    }

    #[test]
    fn other_content_is_rejected() {
        for text in ["", "v=1\r\n", "v=0x\r\n", "o=x\r\nv=0\r\n", "\0v=0\r\n", "<html>"] {
            assert_eq!(
                SessionDescription::parse(text.as_bytes()),
                Err(SessionError::Version),
                "{text}"
            );
        }
        let long = |lines| ["v=0\r\n", &"a=x\r\n".repeat(lines)].concat();
        assert!(SessionDescription::parse(long(MAX_LINES - 1).as_bytes()).is_ok());
        assert_eq!(
            SessionDescription::parse(long(MAX_LINES).as_bytes()),
            Err(SessionError::TooLong)
        );
    }

    #[test]
    fn white_space_and_line_endings_do_not_matter() {
        let session = SessionDescription::parse(EXAMPLE.as_bytes()).unwrap();
        let without = |letter: &str| {
            EXAMPLE
                .split_inclusive('\n')
                .filter(|line| !line.starts_with(letter))
                .collect::<String>()
        };
        let lower = EXAMPLE.replace("IN IP", "in ip").replace("\r\n", "\n");
        for (text, is_same) in [
            (EXAMPLE.replace("\r\n", "\n"), true),
            (EXAMPLE.replace("\r\n", "\r"), true),
            (EXAMPLE.replace("\r\n", "\n\r\n \n"), true),
            (EXAMPLE.trim_end().into(), true),
            (["  ", EXAMPLE].concat(), true),
            (["\r\n\r\n", EXAMPLE].concat(), true),
            (["\u{feff}", EXAMPLE].concat(), true),
            (["\u{feff}\r\n \t", EXAMPLE].concat(), true),
            ([EXAMPLE, "\0\0"].concat(), true),
            ([EXAMPLE.trim_end(), "\0"].concat(), true),
            ([EXAMPLE, "\r\n--boundary--\r\n"].concat(), true),
            (EXAMPLE.replace("\r\na=", "\r\n  a = "), true),
            (EXAMPLE.replace("m=", "M="), true),
            (EXAMPLE.replace("\r\nm", "  \r\nm"), true),
            (EXAMPLE.replace(" RTP/", "   RTP/").replace(" 0 96", "  0\t96 "), true),
            (EXAMPLE.replace("v=0", "V = 0 "), true),
            (EXAMPLE.replace("s=", "v=0\r\ns="), true),
            ([EXAMPLE, EXAMPLE].concat(), true),
            // These differ in session-level values, but not in the media.
            (lower, false),
            (EXAMPLE.replace("c=IN ", "c= IN  \t"), false),
            (without("s="), false),
            (without("t="), false),
            (without("o="), false),
            (EXAMPLE.replace("t=0 0", "garbage"), false),
            (EXAMPLE.replace("t=0 0", "t=\0 0"), false),
            (EXAMPLE.replace("a=rtpmap:", "a=RTPMAP : "), false),
            (EXAMPLE.replace("opus/48000/2", "  opus / 48000 / 2"), false),
            (EXAMPLE.replace("a=sendonly", "a=SENDONLY").replace("ptime:", "ptime :  "), false),
            (EXAMPLE.replace("2001:db8::2", "[2001:db8::2]"), false),
            (EXAMPLE.replace("198.51.100.1\r\nt", "198.51.100.1/127/3\r\nt"), false),
        ] {
            let read = SessionDescription::parse(text.as_bytes()).unwrap();
            assert_eq!(read == session, is_same, "{text:?}\n{read:#?}");
            assert_eq!(meaning(&read), meaning(&session), "{text:?}");
        }
    }

    /// The media of a description, for comparison.
    fn meaning(session: &SessionDescription<'_>) -> Vec<String> {
        let meaning = |media: &MediaDescription<'_>| {
            let formats: Vec<_> = media.formats().collect();
            let maps: Vec<_> = media.rtpmaps().collect();
            let parameters = media.format_parameters(96).map(str::to_string);
            let (address, direction) = (session.address(media), media.direction(session));
            let ends = (media.media_type, media.port, media.protocol, address, direction);
            std::format!("{ends:?} {formats:?} {maps:?} {parameters:?} {:?}", media.packet_time())
        };
        session.media.iter().map(meaning).collect()
    }

    #[test]
    fn unknown_line_types_are_kept() {
        // A description of GB/T 28181.
        let text = "v=0\r\ns=Play\r\nm=video 6000 RTP/AVP 96\r\na=recvonly\r\n\
            y=0100000001\r\nf=v/2/4///a///\r\n";
        let session = SessionDescription::parse(text.as_bytes()).unwrap();
        assert_eq!(
            session.media[0].lines,
            [('a', "recvonly"), ('y', "0100000001"), ('f', "v/2/4///a///")]
        );
        assert_eq!(session.to_string(), text);
    }

    #[test]
    fn another_charset_does_no_harm() {
        let latin_1 =
            b"v=0\r\no=J\xfcrg 1 1 IN IP4 192.0.2.1\r\ns=Gespr\xe4ch\r\nc=IN IP4 192.0.2.1\r\n\
            a=charset:ISO-8859-1\r\na=tool:f\xfcr\r\nm=audio 5 RTP/AVP 0\r\ni=f\xfcr\r\n\
            m=\xfc 6 RTP/AVP 0\r\nm=video 7 RTP/AVP 31\r\nc=IN IP4 192.0.2.\xfc\r\n";
        let session = SessionDescription::parse(latin_1).unwrap();
        let values = |letter| session.values(letter).collect::<Vec<_>>();
        assert_eq!((values('o'), values('s')), ([NO_TEXT].into(), [NO_TEXT].into()));
        assert_eq!(values('a'), ["charset:ISO-8859-1", NO_TEXT]);
        let [audio, other, video] = &session.media[..] else { panic!("{session:?}") };
        assert_eq!(audio.lines, [('i', NO_TEXT)]);
        assert_eq!(session.address(audio), Some("192.0.2.1"));
        assert_eq!((other.media_type, other.port), (NO_TEXT, 0));
        assert_eq!(
            (video.port, session.address(video)),
            (7, None),
            "the address of the session is not used"
        );
    }

    proptest! {
        #[test]
        fn parsed_descriptions_are_written_unchanged(text in "v=0\n([acmtoskzyfMvV ]?[ =]=?[ -~\t\0\rü]{0,30}\n){0,20}") {
            let session = SessionDescription::parse(text.as_bytes()).unwrap();
            let written = session.to_string();
            prop_assert_eq!(SessionDescription::parse(written.as_bytes()).unwrap(), session);
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>) {
            let bytes = [b"v=0\n", &bytes[..]].concat();
            crate::media::tests::read_everything(&SessionDescription::parse(&bytes).unwrap());
        }
    }
}
