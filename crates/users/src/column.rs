//! The column of a fault in a line.

use crate::line::{LineError, MAX_LINE};
use crate::name::{MAX_NAME, NameError, check_name};

/// The column of the fault `error` in `line`, in characters from 1. `None` is
/// a password that the caller rejects.
#[must_use]
pub fn column(line: &[u8], error: Option<&LineError>) -> usize {
    let end = line.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n'));
    let line = &line[..end.map_or(0, |last| last + 1)];
    let offset = match error {
        Some(LineError::TooLong) => return MAX_LINE + 1,
        Some(LineError::NotUtf8) => core::str::from_utf8(line)
            .map_or_else(|error| error.valid_up_to(), |text| text.find('\0').unwrap_or_default()),
        Some(LineError::NoColon) => line.len(),
        Some(LineError::Name(error)) => name_offset(line, error),
        None
        | Some(
            LineError::Password
            | LineError::Realm(_)
            | LineError::Digits
            | LineError::HashedAuthName,
        ) => line.iter().position(|&byte| byte == b':').map_or(0, |colon| colon + 1),
    };
    let before = &line[..offset.min(line.len())];
    // The octets before a fault are UTF-8. Continuation octets are no characters.
    1 + before.iter().filter(|byte| *byte & 0xc0 != 0x80).count()
}

/// The offset of the fault of a name, or of an authentication name, in octets.
fn name_offset(line: &[u8], error: &NameError) -> usize {
    let head = line.split(|&byte| byte == b':').next().unwrap_or_default();
    let head = core::str::from_utf8(head).unwrap_or_default();
    let parts = head.strip_suffix('>').and_then(|head| head.split_once('<'));
    let (start, part) = match parts {
        Some((name, auth_name)) if check_name(name).is_ok() => (name.len() + 1, auth_name),
        Some((name, _)) => (0, name),
        None => (0, head),
    };
    start
        + match error {
            // The first @ of an authentication name separates a domain.
            NameError::Character { character: '@', .. } if start > 0 => part.rfind('@'),
            NameError::Character { character, .. } => part.find(*character),
            NameError::TooLong => part.char_indices().map(|it| it.0).find(|at| *at >= MAX_NAME),
            NameError::Empty | NameError::Address { .. } => None,
        }
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;
    use alloc::vec::Vec;
    use std::format;

    /// The columns of the faults in `text`, which is one line.
    fn columns(text: &str) -> Vec<usize> {
        let mut found = Vec::new();
        let mut reader = Reader::new("a.com", "a.com");
        let each = &mut |_, line: Result<crate::Line<'_>, LineError>| {
            found.extend(line.err().map(|error| column(text.as_bytes(), Some(&error))));
        };
        reader.read(text.as_bytes(), each);
        reader.end(each);
        found
    }

    #[test]
    fn faults_have_their_columns() {
        let long = format!("ü{}:x", "a".repeat(MAX_NAME));
        for (text, expected) in [
            ("alice", 6),
            ("alice\r\n", 6),
            (":x", 1),
            ("ali ce:x", 4),
            ("Jürgen x:y", 7),
            ("al<b c>:x", 5),
            ("a b<c d>:x", 2),
            ("al<>:x", 4),
            ("al<bob@a.com>:x", 4),
            ("al<a@b@c>:x", 7),
            ("ü:", 3),
            ("ü:a\tb", 3),
            ("ü:\0", 3),
            ("a:a.com:MD5:+0000000000000000000000000000000", 3),
            (&*long, MAX_NAME),
        ] {
            assert_eq!(columns(text), [expected], "{text:?}");
        }
        assert_eq!(columns("alice:secret"), []);
        assert_eq!(column(b"alice:x", None), 7);
        assert_eq!(column(b"", Some(&LineError::NoColon)), 1);
        assert_eq!(column(b"\xc3\xbca\xff:x", Some(&LineError::NotUtf8)), 3);
    }
}
