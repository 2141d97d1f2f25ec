//! Import of user lists, and computation of their hashes on all processors.

use super::error::{BadLine, Error};
use super::logins::{AuthNames, user};
use std::io::{self, BufRead, Read};
use std::sync::Arc;
use store::User;
use users::{Credentials, LineError, MAX_LINE, Reader};

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
    let mut file = File::new(domain, realm);
    let mut users = Vec::new();
    loop {
        let lines = file.read(input, CHUNK * threads).map_err(Error::Read)?;
        if lines.is_empty() {
            break;
        }
        let hash = |line: &Line| {
            let auth_name = line.auth_name.as_deref().or_else(|| known.of_user(&line.name));
            user(&line.name, domain, realm, &line.password, auth_name)
        };
        let hashed = std::thread::scope(|scope| {
            let parts: Vec<_> = lines
                .chunks(lines.len().div_ceil(threads))
                .map(|part| scope.spawn(|| part.iter().map(hash).collect()))
                .collect();
            parts
                .into_iter()
                .map(|part| part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<Vec<Vec<_>>>()
        });
        users.extend(hashed.into_iter().flatten());
    }
    let File { named, count, .. } = file;
    if count > 0 { Err(Error::BadLines { named, count }) } else { Ok(users) }
}

/// A line with a user and a password.
struct Line {
    name: String,
    auth_name: Option<String>,
    password: Vec<u8>,
}

impl Line {
    /// The line of a user with a password. `None` if it has an HA1.
    fn of(line: &users::Line<'_>) -> Option<Self> {
        let Credentials::Password(password) = line.credentials else { return None };
        Some(Self {
            name: line.name.to_owned(),
            auth_name: line.auth_name.map(str::to_owned),
            password: password.to_owned(),
        })
    }
}

/// The message about an HA1 in place of a password.
const HASHED: &str = "an HA1 serves one algorithm only; expected name:password";
/// The UTF-8 byte order mark.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The maximum number of bytes that are passed to the reader at once: a whole line with its end.
const PIECE: u64 = MAX_LINE as u64 + 2;

/// A file that is being read.
struct File {
    reader: Reader,
    /// The last line, or a part of a line that is too long.
    piece: Vec<u8>,
    /// The first of the invalid lines.
    named: Vec<BadLine>,
    /// The total number of invalid lines.
    count: u64,
    is_at_end: bool,
}

impl File {
    fn new(domain: &str, realm: &str) -> Self {
        let reader = Reader::new(domain, realm);
        Self { reader, piece: Vec::new(), named: Vec::new(), count: 0, is_at_end: false }
    }

    /// Returns about `most` valid lines. An empty result is the end of the input.
    fn read(&mut self, input: &mut dyn BufRead, most: usize) -> io::Result<Vec<Line>> {
        let Self { reader, piece, named, count, is_at_end } = self;
        let mut lines = Vec::new();
        while lines.len() < most && !*is_at_end {
            let mut next = Vec::new();
            *is_at_end = input.take(PIECE).read_until(b'\n', &mut next)? == 0;
            if !*is_at_end {
                *piece = next;
            }
            let each = &mut |number, line: Result<users::Line<'_>, LineError>| {
                let text = match line.as_ref().map(Line::of) {
                    Ok(Some(line)) => return lines.push(line),
                    Ok(None) => HASHED.to_owned(),
                    Err(error) => error.to_string(),
                };
                // A byte order mark is no character of the first line.
                let written = match number {
                    1 => piece.strip_prefix(BYTE_ORDER_MARK).unwrap_or(piece),
                    _ => &piece[..],
                };
                let column = users::column(written, line.as_ref().err());
                *count += 1;
                if named.len() < MAX_NAMED_LINES {
                    named.push(BadLine { line: number, column, text });
                }
            };
            match *is_at_end {
                true => reader.end(each),
                false => reader.read(piece, each),
            }
        }
        Ok(lines)
    }
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
            assert_eq!(named[0].line, line);
            assert!(named[0].text.contains("not UTF-8"), "{named:?}");
        }
        // A byte order mark after the start of the file is a character of the name.
        assert_eq!(imported("a:x\n\u{feff}b:x\n".as_bytes()).unwrap().len(), 2);
    }

    #[test]
    fn bad_lines_are_named_and_counted() {
        let mut text = b"alice:x\nnobody\n:x\nbob:\n\xff:x\n".to_vec();
        text.extend_from_slice(&[b'x'; 5000]);
        let Err(Error::BadLines { named, count }) = imported(&text) else { panic!("imported") };
        let places: Vec<_> = named.iter().map(|it| (it.line, it.column)).collect();
        assert_eq!(places, [(2, 7), (3, 1), (4, 5), (5, 1), (6, 4097)]);
        assert_eq!(count, 5);
        let Err(error) = imported(&b"x\n".repeat(25)) else { panic!("imported") };
        assert!(
            error.to_string().ends_with(
                "line 10, column 2: expected name:password, found no colon\n  and 15 more"
            ),
            "{error}"
        );
    }

    #[test]
    fn a_hash_is_not_taken_for_a_password() {
        let text = format!("alice:a.com:MD5:{}\n", "0".repeat(32));
        let Err(error) = imported(text.as_bytes()) else { panic!("imported") };
        assert!(
            error.to_string().contains("line 1, column 7: an HA1 serves one algorithm only"),
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
