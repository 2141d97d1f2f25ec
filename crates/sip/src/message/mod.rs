//! SIP messages as views of received bytes (RFC 3261 section 7).
//!
//! [`Message::parse`] finds the parts of a message in one pass and validates only its framing: a
//! faulty request can still be answered. [`Message::validate_request`] checks a request. Typed
//! values are parsed on demand by [`crate::header`].
//!
//! The limits of a message are here: [`MAX_FIELDS`] and the constants beside it.

mod body;
mod check;
mod follow;
mod parse;
mod start_line;
mod write;
mod writer;

pub use check::{RequestFault, RequestHead};
pub use parse::ParseError;
pub(crate) use parse::skip_line_ends;
pub use start_line::StartLine;
pub use write::{Response, reason_phrase};
pub use writer::Writer;

use crate::header::{HeaderError, HeaderName, Via};
use crate::lex;
use crate::method::Method;
use smallvec::SmallVec;

/// The maximum length of a message in bytes (64 KiB less one, because offsets have 16 bits).
pub const MAX_MESSAGE: usize = 65_535;

/// The maximum number of header field lines in a message.
pub const MAX_FIELDS: usize = 512;

/// A flaw in the framing of a message that does not prevent parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FramingFault {
    /// A line does not end with CR LF, or contains a CR or LF.
    LineEnd,
    /// A header field line has no name or no colon.
    FieldLine,
    /// The start line has white space beyond the grammar.
    StartLine,
    /// Content-Length is not a number, is repeated with different values, or exceeds the datagram.
    ContentLength,
    /// The datagram ends after a header field line, without the empty line.
    EmptyLine,
}

/// The position of a header field.
#[derive(Clone, Copy, Debug)]
struct Span {
    name: HeaderName,
    /// The start of the line, which ends at the start of the next.
    line: u16,
    value: u16,
    value_end: u16,
}

/// A set of names, which quickly answers queries for absent header fields.
#[derive(Clone, Copy, Debug, Default)]
struct Names {
    present: u64,
    repeated: u64,
}

impl Names {
    fn add(&mut self, name: HeaderName) {
        self.repeated |= self.present & name.bit();
        self.present |= name.bit();
    }
}

/// A header field line, including its folds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Field<'a> {
    /// The name.
    pub name: HeaderName,
    /// The trimmed value. Folds in it are white space.
    pub value: &'a [u8],
    /// The complete line or lines, including the final CR LF.
    pub line: &'a [u8],
    /// The offset of `line` in the message.
    pub offset: usize,
}

impl<'a> Field<'a> {
    /// The name as received.
    #[must_use]
    pub fn raw_name(&self) -> &'a [u8] {
        lex::split_while(self.line, lex::is_token).0
    }
}

/// A message in a buffer.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    start_line: StartLine<'a>,
    /// The offset of the first header field line.
    fields_start: u16,
    /// The offset of the end of the last header field line.
    fields_end: u16,
    spans: SmallVec<[Span; 32]>,
    /// The names that are present, and those that are repeated.
    names: Names,
    /// The offset of the body.
    body_start: u16,
    flaw: Option<FramingFault>,
    /// Cached, because it is read several times per message.
    top_via: Result<Via<'a>, HeaderError>,
}

impl<'a> Message<'a> {
    /// The start line.
    #[must_use]
    pub const fn start_line(&self) -> StartLine<'a> {
        self.start_line
    }

    /// The method, if this is a request.
    #[must_use]
    pub const fn method(&self) -> Option<Method<'a>> {
        match self.start_line {
            StartLine::Request { method, .. } => Some(method),
            StartLine::Response { .. } => None,
        }
    }

    /// The Request-URI as received, if this is a request.
    #[must_use]
    pub const fn request_uri(&self) -> Option<&'a [u8]> {
        match self.start_line {
            StartLine::Request { uri, .. } => Some(uri),
            StartLine::Response { .. } => None,
        }
    }

    /// The status code, if this is a response.
    #[must_use]
    pub const fn status(&self) -> Option<u16> {
        match self.start_line {
            StartLine::Request { .. } => None,
            StartLine::Response { status, .. } => Some(status),
        }
    }

    /// The flaw in the framing, if any.
    #[must_use]
    pub const fn framing_fault(&self) -> Option<FramingFault> {
        self.flaw
    }

    /// The complete message, up to the end of its body.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The start line, including its line end.
    #[must_use]
    pub fn start_line_bytes(&self) -> &'a [u8] {
        &self.bytes[..self.fields_start.into()]
    }

    /// All header field lines, without the empty line.
    #[must_use]
    pub fn fields_bytes(&self) -> &'a [u8] {
        &self.bytes[self.fields_start.into()..self.fields_end()]
    }

    /// The offset of the end of the last header field line.
    #[must_use]
    pub fn fields_end(&self) -> usize {
        self.fields_end.into()
    }

    /// The body, with the length given by Content-Length.
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[self.body_start.into()..]
    }

    /// All header fields in order.
    pub fn fields(&self) -> impl Iterator<Item = Field<'a>> + '_ {
        (0..self.spans.len()).map(|number| self.field(number))
    }

    /// The header fields with any of these names, in order.
    pub fn fields_of(&self, names: &[HeaderName]) -> impl Iterator<Item = Field<'a>> + '_ {
        let wanted = names.iter().fold(0, |wanted, name| wanted | name.bit());
        let spans = self.spans.iter().enumerate();
        spans
            .filter(move |(_, span)| span.name.bit() & wanted != 0)
            .map(|(number, _)| self.field(number))
    }

    /// The first header field with this name.
    #[must_use]
    pub fn first(&self, name: HeaderName) -> Option<Field<'a>> {
        if !self.has(name) {
            return None;
        }
        let number = self.spans.iter().position(|span| span.name == name)?;
        Some(self.field(number))
    }

    /// The value of the first header field with this name.
    #[must_use]
    pub fn value(&self, name: HeaderName) -> Option<&'a [u8]> {
        self.values(name).next()
    }

    /// The values of all header fields with this name, one per line.
    pub fn values(&self, name: HeaderName) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.spans_of(name).map(|span| self.span_value(span))
    }

    /// Returns true if there is a header field with this name.
    #[must_use]
    pub const fn has(&self, name: HeaderName) -> bool {
        self.names.present & name.bit() != 0
    }

    /// Returns true if there are several header fields with this name.
    #[must_use]
    pub const fn is_repeated(&self, name: HeaderName) -> bool {
        self.names.repeated & name.bit() != 0
    }

    /// The comma-separated elements of all header fields with this name (RFC 3261 section 7.3.1).
    pub fn elements(&self, name: HeaderName) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.values(name).flat_map(lex::split_list)
    }

    /// The topmost Via.
    ///
    /// # Errors
    /// [`HeaderError`] if it is missing or malformed.
    pub const fn top_via(&self) -> Result<Via<'a>, HeaderError> {
        self.top_via
    }

    fn spans_of(&self, name: HeaderName) -> impl Iterator<Item = &Span> {
        let spans = if self.has(name) { &self.spans[..] } else { &[] };
        spans.iter().filter(move |span| span.name == name)
    }

    fn field(&self, number: usize) -> Field<'a> {
        let span = &self.spans[number];
        let end = self.spans.get(number + 1).map_or(self.fields_end, |next| next.line);
        Field {
            name: span.name,
            value: self.span_value(span),
            line: &self.bytes[span.line.into()..end.into()],
            offset: span.line.into(),
        }
    }

    fn span_value(&self, span: &Span) -> &'a [u8] {
        &self.bytes[span.value.into()..span.value_end.into()]
    }
}
