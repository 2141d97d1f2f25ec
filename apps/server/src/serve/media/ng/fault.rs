//! The reasons of errors.

use ng::{Response, reason};
use relay::RelayError;
use std::fmt;

/// The reason why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The relay refuses the description.
    Relay(RelayError),
    /// No call has the Call-ID with the tags or the branch.
    UnknownCall,
    /// The interface is not configured.
    UnknownInterface(String),
    /// The interface has no address of the family.
    NoAddress,
    /// Neither the request nor the description names an address of the end.
    NoRoute,
    /// DTLS begins or ends at the relay.
    Dtls,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relay(error) => error.fmt(f),
            Self::UnknownCall => f.write_str("Call-ID not found or tags didn't match"),
            Self::UnknownInterface(name) => {
                write!(f, "no interface \"{}\" in media.ng_interfaces", name.escape_debug())
            }
            Self::NoAddress => {
                f.write_str("no address of this family in media.ng_interfaces for this interface")
            }
            Self::NoRoute => f.write_str(
                "no local address for the media: expected received-from, an address in the \
                 description, or media.ng_interfaces",
            ),
            Self::Dtls => f.write_str("DTLS passes the relay, and cannot begin or end at it"),
        }
    }
}

impl From<RelayError> for Fault {
    fn from(error: RelayError) -> Self {
        Self::Relay(error)
    }
}

impl Fault {
    /// Writes the response. Proxies ask another relay upon some reasons, and upon `load limit` if
    /// they know it.
    pub(super) fn write(&self, knows_load_limit: bool, cookie: &[u8], out: &mut Vec<u8>) {
        let reason = match self {
            Self::Relay(RelayError::TooManyCalls | RelayError::Share | RelayError::Bandwidth) => {
                reason::SESSION_LIMIT
            }
            Self::Relay(RelayError::NoPort) => reason::OUT_OF_PORTS,
            other => return Response::Error(&other.to_string()).write(cookie, out),
        };
        match knows_load_limit {
            true => Response::LoadLimit(reason).write(cookie, out),
            false => Response::Error(reason).write(cookie, out),
        }
    }
}
