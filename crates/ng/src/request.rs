//! Requests.

use crate::argument::{Argument, key_and_value};
use crate::bencode::{BencodeError, Dictionary, Value};
use crate::cookie::{self, MAX_COOKIE};
use crate::name::Name;
use crate::options::Options;
use crate::response::Response;
use alloc::string::ToString as _;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;

/// The maximum length of a Call-ID and of a tag in bytes.
pub const MAX_IDENTIFIER: usize = 512;

/// The maximum number of calls in the response to `list`, if the request names none.
pub const DEFAULT_LIST: usize = 32;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The cookie, which the response repeats.
    pub cookie: &'a [u8],
    /// The command.
    pub command: Command<'a>,
    /// The options.
    pub options: Options<'a>,
}

/// A command with its required keys. A tag is never empty.
///
/// `from_tag` is the tag of the offerer, in the answer, too, and `to_tag` that of the other party.
/// If the called party changes the session, its tag is `from_tag`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Tests if the relay works.
    Ping,
    /// Rewrites an offer.
    Offer {
        /// The Call-ID.
        call_id: &'a [u8],
        /// The tag of the offerer.
        from_tag: &'a [u8],
        /// The tag of the other party, within a dialog.
        to_tag: Option<&'a [u8]>,
        /// The session description.
        sdp: &'a [u8],
    },
    /// Rewrites an answer.
    Answer {
        /// The Call-ID.
        call_id: &'a [u8],
        /// The tag of the offerer.
        from_tag: &'a [u8],
        /// The tag of the party that answers.
        to_tag: &'a [u8],
        /// The session description.
        sdp: &'a [u8],
    },
    /// Ends a call, or one of its dialogs.
    Delete {
        /// The Call-ID.
        call_id: &'a [u8],
        /// The tag of a party.
        from_tag: Option<&'a [u8]>,
        /// The tag of the other party, which restricts the deletion to one dialog.
        to_tag: Option<&'a [u8]>,
    },
    /// Reports the state and the counters of a call.
    Query {
        /// The Call-ID.
        call_id: &'a [u8],
        /// The tag of a party.
        from_tag: Option<&'a [u8]>,
        /// The tag of the other party.
        to_tag: Option<&'a [u8]>,
    },
    /// Lists the Call-IDs of the calls.
    List {
        /// The maximum number of Call-IDs.
        limit: usize,
    },
}

/// A datagram that is not a valid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestError<'a> {
    /// The cookie, if it was read. Without one no response is possible.
    pub cookie: Option<&'a [u8]>,
    /// The fault.
    pub fault: RequestFault<'a>,
}

/// The fault of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestFault<'a> {
    /// The datagram does not begin with a cookie.
    Cookie,
    /// The document is not valid.
    Bencode(BencodeError),
    /// The document is not a dictionary.
    NotADictionary,
    /// The command is not known.
    Command(&'a [u8]),
    /// A required key is missing, empty, or not a string.
    Missing {
        /// The key.
        key: &'static str,
        /// The command that requires it; empty if the key is the command.
        command: &'static str,
    },
    /// The value of a key is longer than [`MAX_IDENTIFIER`].
    TooLong {
        /// The key.
        key: &'static str,
        /// The length of the value in bytes.
        length: usize,
    },
}

impl fmt::Display for RequestFault<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cookie => {
                write!(f, "expected a cookie of 1 to {MAX_COOKIE} visible characters and a space")
            }
            Self::Bencode(error) => error.fmt(f),
            Self::NotADictionary => f.write_str("expected a dictionary behind the cookie"),
            Self::Command(command) => {
                let shown = command[..command.len().min(40)].escape_ascii();
                write!(
                    f,
                    "unknown command \"{shown}\", expected ping, offer, answer, delete, query or \
                     list"
                )
            }
            Self::Missing { key, command: "" } => write!(f, "no {key} in the message"),
            Self::Missing { key, command } => write!(f, "no {key} in {command}"),
            Self::TooLong { key, length } => {
                write!(f, "{key} of {length} bytes, expected at most {MAX_IDENTIFIER}")
            }
        }
    }
}

impl fmt::Display for RequestError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)
    }
}

impl Error for RequestError<'_> {}

impl RequestError<'_> {
    /// Appends the response to `out`. Returns false if the datagram has no cookie, and no response
    /// is to be sent.
    pub fn respond(&self, out: &mut Vec<u8>) -> bool {
        let Some(cookie) = self.cookie else { return false };
        Response::Error(&self.fault.to_string()).write(cookie, out);
        true
    }
}

/// The keys that describe the dialog.
#[derive(Default)]
struct Keys<'a> {
    command: &'a [u8],
    call_id: &'a [u8],
    from_tag: &'a [u8],
    to_tag: &'a [u8],
    sdp: &'a [u8],
    limit: Option<i64>,
    /// The tag does not restrict a deletion. With a string of flags the proxy sends the tag in any
    /// case, without one only if it restricts the deletion.
    ignores_to_tag: bool,
}

impl<'a> Request<'a> {
    /// Parses a datagram.
    ///
    /// # Errors
    /// See [`RequestFault`].
    pub fn parse(datagram: &'a [u8]) -> Result<Self, RequestError<'a>> {
        let Some((cookie, document)) = cookie::split(datagram) else {
            return Err(RequestError { cookie: None, fault: RequestFault::Cookie });
        };
        Self::read(cookie, document).map_err(|fault| RequestError { cookie: Some(cookie), fault })
    }

    fn read(cookie: &'a [u8], document: &'a [u8]) -> Result<Self, RequestFault<'a>> {
        let value = Value::parse(document).map_err(RequestFault::Bencode)?;
        let dictionary = value.as_dictionary().ok_or(RequestFault::NotADictionary)?;
        let (keys, options) = keys_and_options(dictionary);
        let command = keys.command()?;
        Ok(Self { cookie, command, options })
    }
}

fn keys_and_options(dictionary: Dictionary<'_>) -> (Keys<'_>, Options<'_>) {
    let (mut keys, mut options) = (Keys::default(), Options::default());
    let mut raw_flags = None;
    for (key, value) in dictionary.entries() {
        let value = Argument::Value(value);
        match Name::new(key).as_str() {
            "flags" => {
                for element in value.elements() {
                    match element.text() {
                        Some(flag) if keys.set_flag(flag) => {}
                        Some(flag) => options.set_flag(flag),
                        None => options.unrecognized.push(key, None),
                    }
                }
            }
            "rtpp-flags" => raw_flags = value.text(),
            // It repeats the difference between offer and answer.
            "sip-message-type" => {}
            _ if keys.set(key, value) => {}
            _ => options.set(key, value),
        }
    }
    // The controlling proxy takes the other keys from the SIP message, and the script that writes
    // these flags overrides them.
    if let Some(flags) = raw_flags {
        keys.ignores_to_tag = true;
        options.set_flags(flags, |flag| keys.set_flag(flag));
    }
    (keys, options)
}

impl<'a> Keys<'a> {
    /// Sets a key. Returns false if it is an option.
    fn set(&mut self, key: &'a [u8], value: Argument<'a>) -> bool {
        let text = value.text().unwrap_or_default();
        match Name::new(key).as_str() {
            "command" => self.command = text,
            "sdp" => self.sdp = text,
            "limit" => self.limit = value.integer(),
            _ => return self.set_identifier(key, value),
        }
        true
    }

    /// Sets the key of a flag. Returns false if it is an option.
    fn set_flag(&mut self, flag: &'a [u8]) -> bool {
        if Name::new(flag).as_str() == "to-tag" {
            self.ignores_to_tag = false;
            return true;
        }
        key_and_value(flag)
            .is_some_and(|(key, value)| self.set_identifier(key, Argument::Raw(value)))
    }

    /// Sets the Call-ID or a tag. Returns false if it is another key.
    fn set_identifier(&mut self, key: &'a [u8], value: Argument<'a>) -> bool {
        let identifier = match Name::new(key).as_str() {
            "call-id" => &mut self.call_id,
            "from-tag" => &mut self.from_tag,
            "to-tag" => &mut self.to_tag,
            _ => return false,
        };
        *identifier = value.text().unwrap_or_default();
        true
    }

    fn command(&self) -> Result<Command<'a>, RequestFault<'a>> {
        let identifiers =
            [("call-id", self.call_id), ("from-tag", self.from_tag), ("to-tag", self.to_tag)];
        for (key, value) in identifiers {
            if value.len() > MAX_IDENTIFIER {
                return Err(RequestFault::TooLong { key, length: value.len() });
            }
        }
        let optional = |value: &'a [u8]| (!value.is_empty()).then_some(value);
        let required =
            |command, key, value| optional(value).ok_or(RequestFault::Missing { key, command });
        let (from_tag, to_tag) = (optional(self.from_tag), optional(self.to_tag));
        match required("", "command", self.command)? {
            b"ping" => Ok(Command::Ping),
            b"offer" => Ok(Command::Offer {
                call_id: required("offer", "call-id", self.call_id)?,
                from_tag: required("offer", "from-tag", self.from_tag)?,
                to_tag,
                sdp: required("offer", "sdp", self.sdp)?,
            }),
            b"answer" => Ok(Command::Answer {
                call_id: required("answer", "call-id", self.call_id)?,
                from_tag: required("answer", "from-tag", self.from_tag)?,
                to_tag: required("answer", "to-tag", self.to_tag)?,
                sdp: required("answer", "sdp", self.sdp)?,
            }),
            b"delete" => Ok(Command::Delete {
                call_id: required("delete", "call-id", self.call_id)?,
                from_tag,
                to_tag: to_tag.filter(|_| !self.ignores_to_tag),
            }),
            b"query" => Ok(Command::Query {
                call_id: required("query", "call-id", self.call_id)?,
                from_tag,
                to_tag,
            }),
            b"list" => {
                let limit = self.limit.and_then(|limit| usize::try_from(limit).ok());
                Ok(Command::List { limit: limit.unwrap_or(DEFAULT_LIST) })
            }
            other => Err(RequestFault::Command(other)),
        }
    }
}
