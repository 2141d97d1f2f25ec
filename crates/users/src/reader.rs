//! The lines of a file, which arrives in pieces.

use crate::line::{Line, LineError, MAX_LINE};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

/// The UTF-8 byte order mark, which some editors put before the first line of a file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An incremental parser of a file of users. Its memory is at most [`MAX_LINE`].
#[derive(Clone, Debug)]
pub struct Reader {
    domain: String,
    realm: String,
    /// The start of an incomplete line.
    rest: Vec<u8>,
    /// The number of complete lines.
    lines: u64,
    /// True if the rest of the line is skipped, because the line is too long.
    is_skipping: bool,
}

/// The receiver of lines and their numbers, from 1.
type Each<'a> = &'a mut dyn FnMut(u64, Result<Line<'_>, LineError>);

impl Reader {
    /// Creates a reader of users of `domain`. A digest hash must be for `realm`.
    #[must_use]
    pub fn new(domain: &str, realm: &str) -> Self {
        let (domain, realm) = (domain.to_owned(), realm.to_owned());
        Self { domain, realm, rest: Vec::new(), lines: 0, is_skipping: false }
    }

    /// Parses more of the file. Passes each complete line to `each`, except empty lines and
    /// comments.
    pub fn read(&mut self, bytes: &[u8], each: Each<'_>) {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            // The end of a line may be CR LF.
            if !self.is_skipping && self.rest.len() + part.len() > MAX_LINE + 2 {
                each(self.lines + 1, Err(LineError::TooLong));
                self.is_skipping = true;
                self.rest.clear();
            }
            if !self.is_skipping {
                self.rest.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                self.end_line(each);
            }
        }
    }

    /// Parses the end of the file, which may be in a line.
    pub fn end(&mut self, each: Each<'_>) {
        self.end_line(each);
    }

    fn end_line(&mut self, each: Each<'_>) {
        self.lines += 1;
        if core::mem::take(&mut self.is_skipping) {
            return;
        }
        let mut line = &self.rest[..];
        if self.lines == 1 {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        while let Some(shorter) = line.strip_suffix(b"\n").or(line.strip_suffix(b"\r")) {
            line = shorter;
        }
        match line {
            [] | [b'#', ..] => {}
            line if line.len() > MAX_LINE => each(self.lines, Err(LineError::TooLong)),
            line => each(self.lines, Line::parse(line, &self.domain, &self.realm)),
        }
        self.rest.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    /// The names in `text`, or the errors, with the numbers of their lines.
    fn read(text: &[u8], piece: usize) -> Vec<(u64, Result<String, LineError>)> {
        let mut reader = Reader::new("a.com", "a.com");
        let mut found = Vec::new();
        let each = &mut |number, line: Result<Line<'_>, LineError>| {
            found.push((number, line.map(|line| line.name.to_owned())));
        };
        text.chunks(piece).for_each(|piece| reader.read(piece, each));
        reader.end(each);
        found
    }

    #[test]
    fn lines_are_the_same_in_pieces_of_any_size() {
        let text = "\u{feff}# users\r\n\r\nalice:x\nJürgen:y\r\nbob\ncarol:z".as_bytes();
        let name = |name: &str| Ok(name.to_owned());
        let expected = [
            (3, name("alice")),
            (4, name("Jürgen")),
            (5, Err(LineError::NoColon)),
            (6, name("carol")),
        ];
        for piece in [1, 2, 7, 1000] {
            assert_eq!(read(text, piece), expected);
        }
        assert_eq!(read(b"", 1), []);
        // A byte order mark after the start of the file is a character of the name.
        assert_eq!(read("a:x\n\u{feff}b:x".as_bytes(), 3)[1].1, name("\u{feff}b"));
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_as_a_whole() {
        for length in [MAX_LINE - 2, MAX_LINE - 1, MAX_LINE + 1, 3 * MAX_LINE] {
            let text = format!("a:x\nb:{}\r\nc:x\n", "x".repeat(length));
            let is_too_long = length + 2 > MAX_LINE;
            for piece in [1, 100, 100_000] {
                let found = read(text.as_bytes(), piece);
                assert_eq!(found.len(), 3);
                assert_eq!(found[1].0, 2);
                assert_eq!(found[1].1 == Err(LineError::TooLong), is_too_long, "{length}");
                assert_eq!(found[2], (3, Ok("c".to_owned())));
            }
        }
    }
}
