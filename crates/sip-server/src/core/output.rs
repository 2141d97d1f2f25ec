//! The output of the engine: the work for its owner.

use crate::core::call_record::CallRecord;
use crate::core::flow::{Flow, is_sendable};
use crate::core::payers::Payers;
use crate::core::source::Source;
use crate::core::ticket::{Handle, Ticket};
use crate::core::undo::Undo;
use crate::core::watching::CallChange;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};
use core::ops::Range;
use sip::Duration;
use sip::locate::Destination;
use sip::message::MAX_MESSAGE;

/// The maximum number of received characters that a [`Notice`] shows.
const MAX_QUOTED: usize = 128;

/// A message to send: bytes of [`Output::bytes`] and the flow to send them on.
#[derive(Clone, Debug)]
pub struct OutputMessage {
    /// The flow to send the message on. On an [internal flow](Flow::internal) it goes to the B2BUA
    /// of the owner.
    pub flow: Flow,
    /// The message, as a range of [`Output::bytes`].
    pub range: Range<usize>,
    /// True if the message confirms a change in [`Output::journal`]. It must not be sent if the
    /// journal could not be stored.
    pub is_promise: bool,
    /// The accounts to charge for a connection that is opened for it.
    pub payers: Payers,
}

/// Work for the owner other than sending messages.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// Locate `destination` (RFC 3263, [`sip::locate::Locator`]) and call
    /// [`Worker::located`](crate::Worker::located) with the same ticket.
    Locate {
        /// The destination to locate.
        destination: Destination,
        /// The ticket to return.
        ticket: Ticket,
        /// The accounts that are charged for the lookup.
        payers: Payers,
    },
    /// A message for the operator.
    Notice(Notice),
    /// A relayed call has ended, or a call was refused where each one is relayed.
    CallEnded(Box<CallRecord>),
    /// A call has changed, for the owner's notifier.
    Call(Box<CallChange>),
    /// A request waits for a phone that sleeps.
    #[cfg(feature = "office")]
    Wake(Box<Wake>),
    /// A phone of this user (`name@domain`) has registered, which may sleep, or any phone if the
    /// owner keeps messages. The tickets that wait for phones of the user are to be passed to
    /// [`Worker::woken`](crate::Worker::woken).
    #[cfg(feature = "office")]
    Registered(Box<[u8]>),
}

/// A phone that sleeps, and is to be woken by a push notification (RFC 8599). The owner keeps the
/// ticket. When the user has [registered](Event::Registered), it calls
/// [`Worker::woken`](crate::Worker::woken), and if that takes too long or the notification fails,
/// [`Worker::not_woken`](crate::Worker::not_woken). The request may end without the owner:
/// [`Worker::is_waiting`](crate::Worker::is_waiting).
#[cfg(feature = "office")]
#[derive(Clone, Debug)]
pub struct Wake {
    /// The request that waits.
    pub ticket: Ticket,
    /// The user of the phone, `name@domain`.
    pub user: Box<[u8]>,
    /// `pn-provider` of its contact, the push notification service.
    pub provider: Box<[u8]>,
    /// `pn-prid`, the phone in that service.
    pub prid: Box<[u8]>,
    /// `pn-param`. Empty for none.
    pub param: Box<[u8]>,
    /// The kind of request.
    pub reason: WakeReason,
    /// The accounts that are charged for the request.
    pub payers: Payers,
}

/// The kind of request that waits for a phone.
#[cfg(feature = "office")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeReason {
    /// The INVITE of a call.
    Call,
    /// A MESSAGE.
    Message,
    /// A request within a dialog of the phone.
    Dialog,
}

/// A message for the operator. It is formatted when it is displayed: one line of at most some 300
/// bytes, without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A request had wrong credentials for a realm of this server.
    LoginFailed {
        /// The start of the URI in From: the part that is shown, and one byte more if the URI is
        /// longer.
        from: Box<[u8]>,
        /// The flow that the request came on.
        flow: Flow,
    },
    /// A REGISTER was refused because its domain is not served.
    UnservedDomain {
        /// The start of the Request-URI, as in [`Notice::LoginFailed`].
        uri: Box<[u8]>,
        /// The flow that the request came on.
        flow: Flow,
        /// The name of the default domain.
        served: Box<str>,
    },
    /// The numbers of the owner refused a call.
    NumberRefused {
        /// The start of the URI in From, as in [`Notice::LoginFailed`].
        from: Box<[u8]>,
        /// The start of the number, as in [`Notice::LoginFailed`].
        number: Box<[u8]>,
        /// The rule in words.
        words: Box<str>,
        /// The flow that the request came on.
        flow: Flow,
    },
    /// A source was banned.
    Banned {
        /// The source.
        source: Source,
        /// The duration of the ban.
        time: Duration,
        /// The number of failures.
        failures: u32,
        /// The period of the failures.
        window: Duration,
    },
}

impl Notice {
    pub(crate) fn login_failed(from: &[u8], flow: Flow) -> Self {
        Self::LoginFailed { from: start_of(from), flow }
    }

    pub(crate) fn unserved_domain(uri: &[u8], flow: Flow, served: &str) -> Self {
        Self::UnservedDomain { uri: start_of(uri), flow, served: served.into() }
    }

    pub(crate) fn number_refused(from: &[u8], number: &[u8], words: &str, flow: Flow) -> Self {
        Self::NumberRefused {
            from: start_of(from),
            number: start_of(number),
            words: words.into(),
            flow,
        }
    }

    /// The name of the kind of notice, for a rate limit by kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::LoginFailed { .. } => "login",
            Self::UnservedDomain { .. } => "unserved",
            Self::NumberRefused { .. } => "number",
            Self::Banned { .. } => "ban",
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LoginFailed { from, flow } => {
                quote(from, f)?;
                write!(f, " at {flow} did not log in: wrong user or password")
            }
            Self::UnservedDomain { uri, flow, served } => {
                write!(f, "a phone at {flow} did not log in: it registers at ")?;
                quote(uri, f)?;
                write!(
                    f,
                    ", which is no domain of this server; the default domain is {served}, and \
                     `domains` adds others"
                )
            }
            Self::NumberRefused { from, number, words, flow } => {
                f.write_str("a call of ")?;
                quote(from, f)?;
                write!(f, " at {flow} to ")?;
                quote(number, f)?;
                write!(f, " is refused: {words}")
            }
            Self::Banned { source, time, failures, window } => write!(
                f,
                "{source} is banned for {} s: {failures} failed authentications or unknown users within {} s",
                time.as_secs(),
                window.as_secs(),
            ),
        }
    }
}

/// The start of received bytes: the part that a notice shows, and one byte more.
fn start_of(bytes: &[u8]) -> Box<[u8]> {
    bytes[..bytes.len().min(MAX_QUOTED + 1)].into()
}

/// Writes received bytes in printable form, cut to [`MAX_QUOTED`] characters.
fn quote(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut escaped = bytes.escape_ascii();
    for byte in escaped.by_ref().take(MAX_QUOTED) {
        f.write_char(byte.into())?;
    }
    f.write_str(if escaped.next().is_some() { "..." } else { "" })
}

/// The output buffers, which the owner keeps and the engine fills. The owner first appends
/// `journal` to its storage and then sends `transmits`, so that no binding is confirmed before it
/// is stored. Then it calls [`Output::clear`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Output {
    /// The bytes of all messages.
    pub bytes: Vec<u8>,
    /// The messages, in sending order.
    pub transmits: Vec<OutputMessage>,
    /// Changes of bindings ([`record`](crate::journal_record)), to be appended to storage
    /// unchanged.
    pub journal: Vec<u8>,
    /// The DNS look-ups to make, the messages for the operator, and the records of calls.
    pub events: Vec<Event>,
    /// The data to revert the REGISTERs in [`Output::journal`] if it cannot be stored.
    pub(crate) undo: Vec<Undo>,
    /// The requests in progress with an ended stage of call services. The worker leads them on
    /// before it returns.
    pub(crate) ended_stages: Vec<Handle>,
    /// The ringing calls that are picked up. The worker leads them away before it returns.
    #[cfg(feature = "office")]
    pub(crate) meetings: Vec<Meeting>,
}

/// A ringing call that meets the call that picks it up at the owner's media server.
#[cfg(feature = "office")]
#[derive(Debug)]
pub(crate) struct Meeting {
    /// The ringing call.
    pub(crate) transaction: Handle,
    /// The name of the place where the calls meet.
    pub(crate) name: alloc::string::String,
    /// The user that picks it up, `user@domain`.
    pub(crate) user: Box<str>,
}

impl Output {
    /// True if there is no work.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.transmits.is_empty() && self.journal.is_empty() && self.events.is_empty()
    }

    /// Clears the output and keeps the buffers.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.transmits.clear();
        self.journal.clear();
        self.events.clear();
        self.undo.clear();
    }

    /// Sends the bytes that `write` appends, and returns their range. Nothing is sent to an address
    /// that is not a valid destination. Returns `None`, without sending, if the message is longer
    /// than a message may be.
    pub(crate) fn send(
        &mut self,
        flow: Flow,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Range<usize>> {
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.push(flow, start)
    }

    /// Like [`Output::send`], for the bytes from `start` on.
    pub(crate) fn push(&mut self, flow: Flow, start: usize) -> Option<Range<usize>> {
        let range = start..self.bytes.len();
        if range.len() > MAX_MESSAGE {
            self.bytes.truncate(start);
            return None;
        }
        if is_sendable(flow.remote) {
            let (range, payers) = (range.clone(), Payers::NONE);
            self.transmits.push(OutputMessage { flow, range, is_promise: false, payers });
        }
        Some(range)
    }

    /// Charges `payers` for what is sent beyond the first `count` messages.
    pub(crate) fn charge_after(&mut self, count: usize, payers: Payers) {
        self.transmits.iter_mut().skip(count).for_each(|transmit| transmit.payers = payers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use sip::Transport;

    #[test]
    fn what_a_stranger_wrote_is_quoted_in_one_short_line() {
        let address = ([192, 0, 2, 1], 5060).into();
        let flow =
            Flow { transport: Transport::Udp, local: address, remote: address, connection: None };
        let said = |from: &[u8]| Notice::login_failed(from, flow).to_string();
        let rest = " at udp:192.0.2.1:5060 did not log in: wrong user or password";
        assert_eq!(said(b"sip:a@b"), alloc::format!("sip:a@b{rest}"));
        assert_eq!(said(b"a\r\n\x1b'\xff"), alloc::format!("a\\r\\n\\x1b\\'\\xff{rest}"));
        assert_eq!(said(&[b'x'; 60_000]), alloc::format!("{}...{rest}", "x".repeat(MAX_QUOTED)));
        assert_eq!(
            said(&[0xff; 100]),
            alloc::format!("{}...{rest}", "\\xff".repeat(MAX_QUOTED / 4))
        );
    }
}
