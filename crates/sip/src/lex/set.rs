//! Sets of bytes.

/// A set of bytes.
#[derive(Clone, Copy)]
pub(crate) struct Set(u16);

/// The intersection of the sets of all inspected bytes.
#[derive(Clone, Copy)]
pub(crate) struct Common(u16);

impl Set {
    /// The characters of a `token`.
    pub(crate) const TOKEN: Self = Self(1 << 0);
    /// The characters of an unquoted parameter value: a token or a host, including an IPv6
    /// reference. Some phones send URIs and base64 here, which is unambiguous.
    pub(crate) const VALUE: Self = Self(1 << 1);
    /// The delimiters of parameters and of their parts.
    pub(crate) const PARAM_STOP: Self = Self(1 << 2);
    /// The characters of an unquoted display name, including non-ASCII bytes that phones send.
    pub(crate) const DISPLAY: Self = Self(1 << 3);
    /// The characters of a URI.
    pub(crate) const URI: Self = Self(1 << 4);
    /// The characters that phones send in a user part: all printable ones except its delimiters.
    /// `#` and others should be escaped, but dialled feature codes are sent unescaped.
    pub(crate) const USER: Self = Self(1 << 5);
    /// The characters of a domain name.
    pub(crate) const HOST_NAME: Self = Self(1 << 6);
    /// The characters of a quoted string that need no escape and are not line ends.
    pub(crate) const PLAIN: Self = Self(1 << 7);
    /// The delimiters of the parts of a SIP URI.
    pub(crate) const URI_STOP: Self = Self(1 << 8);
    /// All bytes except letters, digits, hyphens and dots.
    pub(super) const MARK: Self = Self(1 << 9);
    /// The characters of an unquoted Digest parameter.
    pub(crate) const DIGEST_VALUE: Self = Self(1 << 10);

    /// Returns true if `byte` is in the set.
    pub(crate) fn has(self, byte: u8) -> bool {
        SETS[usize::from(byte)] & self.0 != 0
    }
}

impl Common {
    /// The intersection of no bytes.
    pub(crate) const ALL: Self = Self(u16::MAX);

    /// The sets that contain `byte`.
    pub(crate) fn of(byte: u8) -> Self {
        Self(SETS[usize::from(byte)])
    }

    /// The intersection of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns true if `set` is included.
    pub(crate) fn has(self, set: Set) -> bool {
        self.0 & set.0 != 0
    }
}

/// The sets that contain each byte.
static SETS: [u16; 256] = {
    let mut sets = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        sets[byte] = sets_of(byte as u8);
        byte += 1;
    }
    sets
};

const fn sets_of(byte: u8) -> u16 {
    let is_token = byte.is_ascii_alphanumeric()
        || matches!(byte, b'-' | b'.' | b'!' | b'%' | b'*' | b'_' | b'+' | b'`' | b'\'' | b'~');
    let is_value = is_token
        || matches!(byte, b'[' | b']' | b':' | b'/' | b'@' | b'=' | b'$' | b'&' | b'(' | b')')
        || byte >= 0x80;
    let is_uri = byte.is_ascii_graphic() && !matches!(byte, b'<' | b'>');
    let mut sets = 0;
    if is_token {
        sets |= Set::TOKEN.0;
    }
    if is_value {
        sets |= Set::VALUE.0;
    }
    if matches!(byte, b';' | b'=' | b'"') {
        sets |= Set::PARAM_STOP.0;
    }
    if is_token || is_space(byte) || byte >= 0x80 {
        sets |= Set::DISPLAY.0;
    }
    if is_uri {
        sets |= Set::URI.0;
    }
    if is_uri && !matches!(byte, b'"' | b'@' | b'\\' | b'^') {
        sets |= Set::USER.0;
    }
    if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_') {
        sets |= Set::HOST_NAME.0;
    }
    if matches!(byte, b'@' | b':' | b';' | b'?') {
        sets |= Set::URI_STOP.0;
    }
    if !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.')) {
        sets |= Set::MARK.0;
    }
    if byte > b' ' && !matches!(byte, b',' | b'"' | b'\\' | 0x7f) {
        sets |= Set::DIGEST_VALUE.0;
    }
    if !matches!(byte, b'"' | b'\\' | b'\r' | b'\n' | 0) {
        sets |= Set::PLAIN.0;
    }
    sets
}

/// Returns true for white space within a header field value, including folds.
pub(crate) const fn is_space(byte: u8) -> bool {
    // Most bytes are greater, which takes one comparison.
    byte <= b' ' && matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}
