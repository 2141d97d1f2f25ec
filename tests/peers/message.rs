//! SIP messages as the small user agent of the tests takes them, independent of the server's parser.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;

/// A SIP message as it came.
#[derive(Clone, Debug)]
pub struct Message {
    text: String,
    /// Where it came from.
    pub source: SocketAddr,
}

impl Display for Message {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "from {}: {}", self.source, self.text)
    }
}

impl Message {
    /// What came from `source`.
    #[must_use]
    pub fn new(text: String, source: SocketAddr) -> Self {
        Self { text, source }
    }

    /// The request line or the status line.
    #[must_use]
    pub fn start_line(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }

    /// The status code of a response.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.start_line().strip_prefix("SIP/2.0 ")?.get(..3)?.parse().ok()
    }

    /// The method of a request.
    #[must_use]
    pub fn method(&self) -> &str {
        self.start_line().split(' ').next().unwrap_or_default()
    }

    /// The request URI.
    #[must_use]
    pub fn request_uri(&self) -> &str {
        self.start_line().split(' ').nth(1).unwrap_or_default()
    }

    /// The method in CSeq.
    #[must_use]
    pub fn cseq_method(&self) -> &str {
        self.value("CSeq").split_whitespace().nth(1).unwrap_or_default()
    }

    /// The values of the header fields of this name, by line.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        let header = self.text.split("\r\n\r\n").next().unwrap_or_default();
        header.lines().skip(1).filter_map(move |line| {
            let (found, value) = line.split_once(':')?;
            found.trim_end().eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    /// The value of the first header field of this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.values(name).next()
    }

    /// The value of the first header field of this name.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn value(&self, name: &str) -> &str {
        self.header(name).unwrap_or_else(|| panic!("no {name} {self}"))
    }

    /// The elements of all header fields of this name, whose values are addresses in angle brackets.
    #[must_use]
    pub fn elements(&self, name: &str) -> Vec<String> {
        let elements = self.values(name).flat_map(|value| value.split(','));
        elements.map(|element| element.trim().to_owned()).collect()
    }
}

/// The URI in an address, with or without angle brackets.
#[must_use]
pub fn uri_of(address: &str) -> &str {
    match address.split_once('<') {
        Some((_, rest)) => rest.split('>').next().unwrap_or(rest),
        None => address.split(';').next().unwrap_or(address),
    }
}

/// The tag in the value of From or To.
#[must_use]
pub fn tag_of(address: &str) -> Option<&str> {
    let parameters = address.split('>').next_back()?;
    parameters.split(';').find_map(|parameter| parameter.trim().strip_prefix("tag="))
}
