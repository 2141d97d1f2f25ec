//! Names of keys and flags: a space, an underscore and a hyphen are equal, and so are the cases of
//! a letter.

/// The maximum length of a known name in bytes.
const MAX_NAME: usize = 24;

/// A name in lower case, with hyphens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    bytes: [u8; MAX_NAME],
    length: usize,
}

impl Name {
    /// Normalizes `text`. A text that is longer than every known name becomes the empty name, which
    /// is not known either.
    pub(crate) fn new(text: &[u8]) -> Self {
        let mut name = Self { bytes: [0; MAX_NAME], length: 0 };
        if text.len() <= MAX_NAME && text.is_ascii() {
            name.length = text.len();
            for (normal, &byte) in name.bytes.iter_mut().zip(text) {
                *normal = normalized(byte);
            }
        }
        name
    }

    pub(crate) fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

/// The text behind `prefix`, which is normalized.
pub(crate) fn strip_prefix<'a>(text: &'a [u8], prefix: &str) -> Option<&'a [u8]> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.iter().map(|&byte| normalized(byte)).eq(prefix.bytes()).then_some(rest)
}

const fn normalized(byte: u8) -> u8 {
    match byte {
        b' ' | b'_' => b'-',
        _ => byte.to_ascii_lowercase(),
    }
}
