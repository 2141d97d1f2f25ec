//! A session description as a whole (RFC 8866 section 5).

use crate::media::Media;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;

/// How many lines a description may have.
const MAX_LINES: usize = 1000;

/// The types of lines after the first (RFC 8866 section 5): a description with others is to be refused.
const LETTERS: &[u8] = b"osiuepcbtrzkam";

/// Those of them whose values are texts for people, which may be in another charset than UTF-8 (RFC 8866
/// section 4.5).
const TEXTS: &[u8] = b"siep";

/// What stands for a text that cannot be read, as for a session without a name (RFC 8866 section 5.3).
const NO_TEXT: &str = "-";

/// Why bytes are no session description. Lines are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// It does not begin with `v=0`.
    Version,
    /// A line is not one of the letters of RFC 8866, an equals sign and a value in UTF-8 without control
    /// characters that end lines or texts. (Texts for people may be in another charset.)
    Line(usize),
    /// A line of a media description is not `m=<media> <port> <protocol> <formats>`.
    Media(usize),
    /// It has more lines than anybody's.
    TooLong,
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version => write!(f, "session description without `v=0` as its first line"),
            Self::Line(line) => {
                write!(
                    f,
                    "line {line} of the session description: expected a letter of RFC 8866, `=` and a value"
                )
            }
            Self::Media(line) => write!(
                f,
                "line {line} of the session description: expected `m=<media> <port> <protocol> <formats>`"
            ),
            Self::TooLong => write!(f, "session description of more than {MAX_LINES} lines"),
        }
    }
}

impl Error for SessionError {}

/// A session description, over borrowed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session<'a> {
    /// Its lines before the first medium, but `v=0`: type and value.
    pub lines: Vec<(char, &'a str)>,
    /// Its media.
    pub media: Vec<Media<'a>>,
}

impl<'a> Session<'a> {
    /// Reads a description. Lines may end with LF alone, as some programs write them; what order they
    /// come in is not looked at, but that the first is `v=0`. The text of an `s`, `i`, `e` or `p` line in
    /// another charset than UTF-8 is read as `-`.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, SessionError> {
        let mut session = Self { lines: Vec::new(), media: Vec::new() };
        let mut lines = (1..).zip(bytes.split(|&byte| byte == b'\n'));
        let version = lines.next().map(|(_, line)| line.trim_ascii_end());
        if version != Some(b"v=0") {
            return Err(SessionError::Version);
        }
        for (number, line) in lines {
            if number > MAX_LINES {
                return Err(SessionError::TooLong);
            }
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let (letter, value) = match line {
                [letter, b'=', value @ ..] if LETTERS.contains(letter) => (*letter, value),
                _ => return Err(SessionError::Line(number)),
            };
            // Another reader might take what follows for a line of its own.
            if value.contains(&b'\0') || value.contains(&b'\r') {
                return Err(SessionError::Line(number));
            }
            let value = match core::str::from_utf8(value) {
                Ok(value) => value,
                Err(_) if TEXTS.contains(&letter) => NO_TEXT,
                Err(_) => return Err(SessionError::Line(number)),
            };
            let letter = char::from(letter);
            if letter == 'm' {
                let media = Media::parse(value).ok_or(SessionError::Media(number))?;
                session.media.push(media);
            } else if let Some(media) = session.media.last_mut() {
                media.lines.push((letter, value));
            } else {
                session.lines.push((letter, value));
            }
        }
        Ok(session)
    }

    /// The values of the session's lines of a type.
    pub fn values(&self, letter: char) -> impl Iterator<Item = &'a str> {
        values(&self.lines, letter)
    }

    /// The values of the session's attributes of this name; empty for those that have none.
    pub fn attributes(&self, name: &str) -> impl Iterator<Item = &'a str> {
        attributes(&self.lines, name)
    }

    /// The address to which a medium is to be sent: its own, or that of the session (RFC 8866 section
    /// 5.7).
    #[must_use]
    pub fn address(&self, media: &Media<'a>) -> Option<&'a str> {
        let line = values(&media.lines, 'c').next().or_else(|| self.values('c').next())?;
        let address = line.strip_prefix("IN ")?.split_once(' ')?.1.trim();
        // For a multicast address come how far it goes and how many there are.
        address.split('/').next()
    }
}

impl fmt::Display for Session<'_> {
    /// Writes the description, each line with CRLF.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v=0\r\n")?;
        write_lines(&self.lines, f)?;
        self.media.iter().try_for_each(|media| media.fmt(f))
    }
}

pub(crate) fn values<'a>(lines: &[(char, &'a str)], letter: char) -> impl Iterator<Item = &'a str> {
    lines.iter().filter(move |line| line.0 == letter).map(|line| line.1)
}

pub(crate) fn attributes<'a>(
    lines: &[(char, &'a str)],
    name: &str,
) -> impl Iterator<Item = &'a str> {
    values(lines, 'a').filter_map(move |line| {
        let (found, value) = line.split_once(':').unwrap_or((line, ""));
        (found.trim_end() == name).then_some(value)
    })
}

pub(crate) fn write_lines(lines: &[(char, &str)], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    lines.iter().try_for_each(|(letter, value)| write!(f, "{letter}={value}\r\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::Direction;
    use proptest::prelude::*;
    use std::string::ToString;

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
    fn an_example_is_read_and_written() {
        let session = Session::parse(EXAMPLE.as_bytes()).unwrap();
        assert_eq!(session.values('s').next(), Some("Call to John Smith"));
        let [audio, video] = &session.media[..] else { panic!("{session:?}") };
        assert_eq!((audio.kind, audio.port, audio.protocol), ("audio", 49170, "RTP/AVP"));
        assert_eq!(audio.formats().collect::<Vec<_>>(), ["0", "96"]);
        assert_eq!(session.address(audio), Some("198.51.100.1"));
        assert_eq!(session.address(video), Some("2001:db8::2"));
        assert_eq!(audio.direction(&session), Direction::SendOnly);
        assert_eq!(video.direction(&session), Direction::ReceiveOnly);
        assert_eq!(session.to_string(), EXAMPLE);
        let bare = EXAMPLE.replace("\r\n", "\n");
        assert_eq!(Session::parse(bare.as_bytes()).unwrap(), session);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, error) in [
            ("", SessionError::Version),
            ("v=1\r\n", SessionError::Version),
            ("v=0\r\no\r\n", SessionError::Line(2)),
            ("v=0\r\n\r\n=x\r\n", SessionError::Line(3)),
            ("v=0\r\nq=1\r\n", SessionError::Line(2)),
            ("v=0\r\nv=0\r\n", SessionError::Line(2)),
            ("v=0\r\na=x\ra=y\r\n", SessionError::Line(2)),
            ("v=0\r\na=x\0\r\n", SessionError::Line(2)),
            ("v=0\r\nm=audio 5 RTP/AVP\r\n", SessionError::Media(2)),
            ("v=0\r\nm=audio five RTP/AVP 0\r\n", SessionError::Media(2)),
            ("v=0\r\nm=audio 65536 RTP/AVP 0\r\n", SessionError::Media(2)),
        ] {
            assert_eq!(Session::parse(text.as_bytes()), Err(error), "{text}");
        }
        assert_eq!(Session::parse(b"v=0\r\na=\xff\r\n"), Err(SessionError::Line(2)));
        let long = ["v=0\r\n", &"a=x\r\n".repeat(1000)].concat();
        assert_eq!(Session::parse(long.as_bytes()), Err(SessionError::TooLong));
    }

    #[test]
    fn a_text_in_another_charset_spoils_nothing() {
        let latin_1 = b"v=0\r\ns=Gespr\xe4ch\r\nc=IN IP4 192.0.2.1\r\na=charset:ISO-8859-1\r\nm=audio 5 RTP/AVP 0\r\ni=f\xfcr\r\n";
        let session = Session::parse(latin_1).unwrap();
        assert_eq!(session.values('s').next(), Some(NO_TEXT));
        assert_eq!(session.address(&session.media[0]), Some("192.0.2.1"));
        assert_eq!(session.media[0].lines, [('i', NO_TEXT)]);
        assert_eq!(Session::parse(b"v=0\r\ns=\xff\0\r\n"), Err(SessionError::Line(2)));
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_the_same(text in "v=0\n([acmtoskz]=[ -~]{0,30}\n){0,20}") {
            if let Ok(session) = Session::parse(text.as_bytes()) {
                let written = session.to_string();
                prop_assert_eq!(Session::parse(written.as_bytes()).unwrap(), session);
            }
        }

        #[test]
        fn nothing_panics(bytes: Vec<u8>) {
            if let Ok(session) = Session::parse(&[b"v=0\n", &bytes[..]].concat()) {
                crate::media::tests::look_at_all(&session);
            }
        }
    }
}
