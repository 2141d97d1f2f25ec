//! SIP messages as views over the bytes that came in (RFC 3261 section 7).
//!
//! [`Message::parse`] finds where things are, in one pass, and judges nothing but the frame: a
//! message that is wrong can still be answered. [`Message::check`] says what is wrong with a
//! request. Typed values are read by the parsers of [`crate::header`] when somebody asks.

mod check;
mod follow;
mod parse;
mod write;
mod writer;

pub use check::{Fault, RequestHead};
pub use parse::ParseError;
pub(crate) use parse::skip_line_ends;
pub use write::{Response, reason_phrase};
pub use writer::Writer;

use crate::header::{HeaderError, HeaderName, Via};
use crate::lex;
use crate::method::Method;
use smallvec::SmallVec;

/// The longest message, in bytes (64 KiB less one: offsets are 16 bits).
pub const MAX_MESSAGE: usize = 65_535;

/// The most header field lines that a message may have.
pub const MAX_FIELDS: usize = 512;

/// The first line of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartLine<'a> {
    /// `METHOD request-uri SIP/2.0`
    Request {
        /// The method.
        method: Method<'a>,
        /// The request URI as it stands; not checked.
        uri: &'a [u8],
        /// The protocol version as it stands.
        version: &'a [u8],
    },
    /// `SIP/2.0 status reason`
    Response {
        /// The status code, 100 to 699.
        status: u16,
        /// The reason phrase, which may be empty.
        reason: &'a [u8],
    },
}

/// Something wrong with the frame of a message that does not hinder reading the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flaw {
    /// A line ends with something else than CR LF, or a CR or LF stands in a line.
    LineEnd,
    /// A header field line has no name and colon.
    FieldLine,
    /// The start line has white space that is not in the grammar.
    StartLine,
    /// Content-Length is no number, is there twice with different values, or is larger than the
    /// datagram.
    ContentLength,
    /// The datagram ends after a header field line, without the empty line.
    EmptyLine,
}

/// Where a header field stands.
#[derive(Clone, Copy, Debug)]
struct Span {
    name: HeaderName,
    /// Where the line begins: it ends where the next one does.
    line: u16,
    value: u16,
    value_end: u16,
}

/// A set of names, for most questions are about header fields that are not there.
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

/// One header field line, with its folds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Field<'a> {
    /// The name.
    pub name: HeaderName,
    /// The value without white space around it. Folds in it are white space.
    pub value: &'a [u8],
    /// The whole line or lines, with the final CR LF.
    pub line: &'a [u8],
    /// Where `line` begins, counted from the first byte of the message.
    pub offset: usize,
}

impl<'a> Field<'a> {
    /// The name as it stands.
    #[must_use]
    pub fn raw_name(&self) -> &'a [u8] {
        lex::split_while(self.line, lex::is_token).0
    }
}

/// A message as it stands in a buffer.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    start_line: StartLine<'a>,
    /// Where the first header field line begins.
    fields_start: u16,
    /// Where the last one ends.
    fields_end: u16,
    spans: SmallVec<[Span; 32]>,
    /// The names that are there at all, and those that are there more than once.
    names: Names,
    /// Where the body begins.
    body_start: u16,
    flaw: Option<Flaw>,
    /// Kept since whoever handles a message asks for it several times.
    top_via: Result<Via<'a>, HeaderError>,
}

impl<'a> Message<'a> {
    /// The first line.
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

    /// The request URI as it is written, if this is a request.
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

    /// What is wrong with the frame, if anything.
    #[must_use]
    pub const fn flaw(&self) -> Option<Flaw> {
        self.flaw
    }

    /// The whole message, from its first byte to the end of its body.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The request line or status line, with its line end.
    #[must_use]
    pub fn start_line_bytes(&self) -> &'a [u8] {
        &self.bytes[..self.fields_start.into()]
    }

    /// The header field lines, all of them, without the empty line.
    #[must_use]
    pub fn fields_bytes(&self) -> &'a [u8] {
        &self.bytes[self.fields_start.into()..self.fields_end()]
    }

    /// Where the last header field line ends, counted from the first byte of the message.
    #[must_use]
    pub fn fields_end(&self) -> usize {
        self.fields_end.into()
    }

    /// The body, as long as Content-Length says.
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[self.body_start.into()..]
    }

    /// Every header field, in order.
    pub fn fields(&self) -> impl Iterator<Item = Field<'a>> + '_ {
        (0..self.spans.len()).map(|number| self.field(number))
    }

    /// The header fields that are called one of `names`, in order.
    pub fn fields_of(&self, names: &[HeaderName]) -> impl Iterator<Item = Field<'a>> + '_ {
        let wanted = names.iter().fold(0, |wanted, name| wanted | name.bit());
        let spans = self.spans.iter().enumerate();
        spans
            .filter(move |(_, span)| span.name.bit() & wanted != 0)
            .map(|(number, _)| self.field(number))
    }

    /// The first header field called `name`.
    #[must_use]
    pub fn first(&self, name: HeaderName) -> Option<Field<'a>> {
        if !self.has(name) {
            return None;
        }
        let number = self.spans.iter().position(|span| span.name == name)?;
        Some(self.field(number))
    }

    /// The value of the first header field called `name`.
    #[must_use]
    pub fn value(&self, name: HeaderName) -> Option<&'a [u8]> {
        self.values(name).next()
    }

    /// The values of all header fields called `name`, a line each.
    pub fn values(&self, name: HeaderName) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.spans_of(name).map(|span| self.span_value(span))
    }

    /// Whether there is a header field called `name`.
    #[must_use]
    pub const fn has(&self, name: HeaderName) -> bool {
        self.names.present & name.bit() != 0
    }

    /// Whether there is more than one header field called `name`.
    #[must_use]
    pub const fn is_repeated(&self, name: HeaderName) -> bool {
        self.names.repeated & name.bit() != 0
    }

    /// The comma-separated elements of all header fields called `name` (RFC 3261 section 7.3.1).
    pub fn elements(&self, name: HeaderName) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.values(name).flat_map(lex::split_list)
    }

    /// The topmost Via.
    ///
    /// # Errors
    /// [`HeaderError`] where there is none or it is malformed.
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
