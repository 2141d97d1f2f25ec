//! Status codes (RFC 3261 section 21 and its extensions).

use crate::message::reason_phrase;

/// A status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Status(pub u16);

/// A status code with a reason phrase (RFC 3261 section 7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusLine<'r> {
    /// The status code.
    pub status: Status,
    /// The reason phrase.
    pub reason: &'r str,
}

macro_rules! constants {
    ($($name:ident = $code:literal;)*) => {
        impl Status {
            $(
                #[doc = concat!("`", stringify!($code), "`")]
                pub const $name: Self = Self($code);
            )*
        }
    };
}

constants! {
    TRYING = 100;
    OK = 200;
    MOVED_TEMPORARILY = 302;
    BAD_REQUEST = 400;
    UNAUTHORIZED = 401;
    FORBIDDEN = 403;
    NOT_FOUND = 404;
    METHOD_NOT_ALLOWED = 405;
    PROXY_AUTHENTICATION_REQUIRED = 407;
    REQUEST_TIMEOUT = 408;
    UNSUPPORTED_URI_SCHEME = 416;
    BAD_EXTENSION = 420;
    INTERVAL_TOO_BRIEF = 423;
    FLOW_FAILED = 430;
    FIRST_HOP_LACKS_OUTBOUND_SUPPORT = 439;
    MAX_BREADTH_EXCEEDED = 440;
    TEMPORARILY_UNAVAILABLE = 480;
    CALL_DOES_NOT_EXIST = 481;
    LOOP_DETECTED = 482;
    TOO_MANY_HOPS = 483;
    REQUEST_TERMINATED = 487;
    BAD_EVENT = 489;
    SERVER_INTERNAL_ERROR = 500;
    NOT_IMPLEMENTED = 501;
    NOT_ACCEPTABLE_HERE = 488;
    SERVICE_UNAVAILABLE = 503;
    MESSAGE_TOO_LARGE = 513;
}

impl Status {
    /// The status code as a number.
    #[must_use]
    pub const fn code(self) -> u16 {
        self.0
    }

    /// The reason phrase of the RFCs.
    #[must_use]
    pub const fn reason_phrase(self) -> &'static str {
        reason_phrase(self.0)
    }

    /// The status code with another reason phrase.
    #[must_use]
    pub const fn with_reason(self, reason: &str) -> StatusLine<'_> {
        StatusLine { status: self, reason }
    }
}

impl From<Status> for StatusLine<'_> {
    fn from(status: Status) -> Self {
        status.with_reason(status.reason_phrase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_a_default_reason_phrase_and_accepts_another() {
        let line = StatusLine::from(Status::CALL_DOES_NOT_EXIST);
        assert_eq!((line.status.code(), line.reason), (481, "Call/Transaction Does Not Exist"));
        let line = Status::FORBIDDEN.with_reason("Relaying Denied");
        assert_eq!((line.status, line.reason), (Status(403), "Relaying Denied"));
    }
}
