//! Start lines.

use crate::method::Method;

/// The start line of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartLine<'a> {
    /// `METHOD request-uri SIP/2.0`
    Request {
        /// The method.
        method: Method<'a>,
        /// The Request-URI as received, not validated.
        uri: &'a [u8],
        /// The protocol version as received.
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
