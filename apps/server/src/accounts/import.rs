//! Parsing of user lists, and computation of their hashes on all processors.

use super::error::Error;
use super::logins::{AuthNames, check_password, user};
use super::names::{check_auth_name, check_name};
use crate::storage::User;
use std::io::{self, BufRead};
use std::sync::Arc;

/// The maximum length of a line, in bytes.
const MAX_LINE: usize = 4096;
/// The UTF-8 byte order mark, which some editors put before the first line of a file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The maximum number of invalid lines reported individually.
const MAX_NAMED_LINES: usize = 10;
/// The number of lines that a thread hashes in one step.
const CHUNK: usize = 4096;

/// Reads the users of `domain` from `input`, one on each line. `realm` is the realm of the domain,
/// and `known` its present authentication names.
///
/// # Errors
/// [`Error::BadLines`] if a line is invalid, [`Error::Read`] if reading fails.
pub(super) fn read_users(
    input: &mut dyn BufRead,
    domain: &Arc<str>,
    realm: &str,
    known: &AuthNames,
) -> Result<Vec<User>, Error> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut users = Vec::new();
    let mut named = Vec::new();
    let mut count = 0;
    let mut number = 0;
    loop {
        let lines = read_lines(input, &mut number, CHUNK * threads).map_err(Error::Read)?;
        if lines.is_empty() {
            break;
        }
        let parsed = std::thread::scope(|scope| {
            let parts: Vec<_> = lines
                .chunks(lines.len().div_ceil(threads))
                .map(|part| {
                    scope
                        .spawn(|| part.iter().map(|line| line.user(domain, realm, known)).collect())
                })
                .collect();
            parts
                .into_iter()
                .map(|part| part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<Vec<Vec<_>>>()
        });
        for (line, user) in lines.iter().zip(parsed.into_iter().flatten()) {
            match user {
                Ok(user) => users.push(user),
                Err(text) => {
                    count += 1;
                    if named.len() < MAX_NAMED_LINES {
                        named.push((line.number, text));
                    }
                }
            }
        }
    }
    if count > 0 { Err(Error::BadLines { named, count }) } else { Ok(users) }
}

/// A line of an import that is neither empty nor a comment.
struct Line {
    number: u64,
    bytes: Vec<u8>,
}

impl Line {
    fn user(&self, domain: &Arc<str>, realm: &str, known: &AuthNames) -> Result<User, String> {
        if self.bytes.len() > MAX_LINE {
            return Err(format!("longer than {MAX_LINE} bytes"));
        }
        if std::str::from_utf8(&self.bytes).is_err() || self.bytes.contains(&0) {
            return Err("not UTF-8; save the file in that encoding, with or without a byte order \
                        mark"
                .to_owned());
        }
        let colon = self.bytes.iter().position(|&byte| byte == b':');
        let (name, password) = colon
            .map(|colon| (&self.bytes[..colon], &self.bytes[colon + 1..]))
            .ok_or("expected name:password, and there is no colon")?;
        let name = std::str::from_utf8(name).map_err(|error| error.to_string())?;
        let (name, auth_name) = match name.strip_suffix('>').and_then(|name| name.split_once('<')) {
            Some((name, auth_name)) => (name, Some(auth_name)),
            None => (name, None),
        };
        check_name(name)?;
        if let Some(auth_name) = auth_name {
            check_auth_name(auth_name, domain)?;
        }
        check_password(password)?;
        Ok(user(name, domain, realm, password, auth_name.or_else(|| known.of_user(name))))
    }
}

/// Reads up to `most` lines that are neither empty nor comments. An empty result is the end of the
/// input. `number` counts all lines.
fn read_lines(input: &mut dyn BufRead, number: &mut u64, most: usize) -> io::Result<Vec<Line>> {
    let mut lines = Vec::new();
    while lines.len() < most {
        let mut bytes = Vec::new();
        // Bounds the memory for a line without end. The rest counts as further lines.
        let mut bounded = io::Read::take(&mut *input, MAX_LINE as u64 + 2);
        if bounded.read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        *number += 1;
        if *number == 1 && bytes.starts_with(BYTE_ORDER_MARK) {
            bytes.drain(..BYTE_ORDER_MARK.len());
        }
        while let Some(b'\n' | b'\r') = bytes.last() {
            bytes.pop();
        }
        if !bytes.is_empty() && bytes[0] != b'#' {
            lines.push(Line { number: *number, bytes });
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imported(text: &[u8]) -> Result<Vec<User>, Error> {
        let known = AuthNames::default();
        read_users(&mut &*text, &Arc::from("a.com"), "a.com", &known)
    }

    #[test]
    fn an_import_passes_over_comments_and_keeps_colons() {
        let users =
            imported("# users\n\nalice:se:cret\r\nbob: with space \n#x:y\ncarol:ü".as_bytes())
                .unwrap();
        let expected: [(&str, &[u8]); 3] =
            [("alice", b"se:cret"), ("bob", b" with space "), ("carol", "ü".as_bytes())];
        let domain = Arc::from("a.com");
        assert_eq!(
            users,
            expected.map(|(name, password)| user(name, &domain, "a.com", password, None))
        );
        assert_eq!(imported(b"").unwrap(), []);
    }

    #[test]
    fn a_file_is_in_utf_8_with_or_without_a_mark() {
        let marked = imported(b"\xef\xbb\xbfalice:x\n").unwrap();
        assert_eq!(marked, imported(b"alice:x\n").unwrap());
        let utf_16: Vec<u8> =
            "\u{feff}alice:x\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for (text, line) in [(&b"a:x\nalice:gr\xfcn\n"[..], 2), (&utf_16, 1)] {
            let Err(Error::BadLines { named, .. }) = imported(text) else { panic!("imported") };
            assert_eq!(named[0].0, line);
            assert!(named[0].1.contains("not UTF-8"), "{named:?}");
        }
        // A byte order mark after the start of the file is a character of the name.
        assert_eq!(imported("a:x\n\u{feff}b:x\n".as_bytes()).unwrap().len(), 2);
    }

    #[test]
    fn bad_lines_are_named_and_counted() {
        let mut text = b"alice:x\nnobody\n:x\nbob:\n\xff:x\n".to_vec();
        text.extend_from_slice(&[b'x'; 5000]);
        let Err(Error::BadLines { named, count }) = imported(&text) else { panic!("imported") };
        let numbers: Vec<u64> = named.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [2, 3, 4, 5, 6, 7]);
        assert_eq!(count, 6);
        let Err(error) = imported(&b"x\n".repeat(25)) else { panic!("imported") };
        assert!(
            error
                .to_string()
                .ends_with("line 10: expected name:password, and there is no colon\n  and 15 more"),
            "{error}"
        );
    }

    #[test]
    fn lines_beyond_one_chunk_keep_their_order() {
        let count = CHUNK * 5 + 7;
        let text: String = (0..count).map(|i| format!("u{i}:p\n")).collect();
        let users = imported(text.as_bytes()).unwrap();
        assert!(
            users
                .iter()
                .map(|user| &user.name)
                .eq((0..count).map(|i| format!("u{i}")).collect::<Vec<_>>().iter())
        );
    }
}
