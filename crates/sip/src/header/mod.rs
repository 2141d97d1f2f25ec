//! Header fields: their names, and the typed values that a proxy, a registrar and a user agent
//! read.

mod cseq;
mod date;
mod name;
mod name_addr;
mod simple;
mod via;

pub use cseq::{CSeq, RAck};
pub use date::write_date;
pub use name::{HeaderError, HeaderName};
pub use name_addr::NameAddr;
pub use simple::{
    MediaType, RetryAfter, SessionExpires, Timestamp, delta_seconds, media_type, number, q_value,
    retry_after, session_expires, timestamp, tokens,
};
pub use via::{MAGIC_COOKIE, Via};

use crate::lex;

/// The trimmed elements of a comma-separated header field value (RFC 3261 section 7.3.1). Commas in
/// quoted strings and angle brackets do not separate. Empty elements are returned; the parser of
/// the element rejects them.
pub fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    lex::split_list(value)
}
