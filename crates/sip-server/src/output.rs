//! What the engine asks its owner to do.

use crate::flow::{Flow, is_sendable};
use crate::location::Undo;
use crate::proxy::Payers;
use crate::reach::Scope;
use crate::source::Source;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};
use core::net::SocketAddr;
use core::ops::Range;
use sip::locate::Destination;
use sip::message::MAX_MESSAGE;
use sip::{Duration, Transport};

/// Characters of what a stranger wrote that a [`Notice`] shows.
const MAX_QUOTED: usize = 128;

/// A message to send: bytes of [`Output::bytes`] and the flow to send them on.
#[derive(Clone, Debug)]
pub struct Transmit {
    /// Where to send.
    pub flow: Flow,
    /// The message, as a range of [`Output::bytes`].
    pub range: Range<usize>,
    /// Whether it says that something was kept which is in [`Output::journal`]. It must not be sent
    /// where that could not be stored.
    pub is_promise: bool,
    /// The accounts to charge for a connection that is opened for it.
    pub payers: Payers,
}

/// Something that the owner has to do, beside sending messages.
#[derive(Clone, Debug)]
pub enum Event {
    /// Find out where `destination` is (RFC 3263, [`sip::locate::Locator`]) and tell
    /// [`Worker::located`](crate::Worker::located) with the same ticket.
    Locate {
        /// What to locate.
        destination: Destination,
        /// To be given back.
        ticket: Ticket,
        /// What is charged for it.
        payers: Payers,
    },
    /// Something that the operator may want to read.
    Notice(Notice),
}

/// Something that the operator may want to read. It is text only once it is displayed: one line of
/// at most some 300 bytes, without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A request had credentials of ours that are wrong.
    LoginFailed {
        /// The beginning of the URI in From: what is shown of it, and one byte more if there is
        /// more.
        from: Box<[u8]>,
        /// How the request came.
        flow: Flow,
    },
    /// Nothing is taken from this source for a while.
    Banned {
        /// The source.
        source: Source,
        /// For how long.
        time: Duration,
        /// After how many failures.
        failures: u32,
        /// Within which time they were.
        window: Duration,
    },
}

impl Notice {
    pub(crate) fn login_failed(from: &[u8], flow: Flow) -> Self {
        Self::LoginFailed { from: from[..from.len().min(MAX_QUOTED + 1)].into(), flow }
    }

    /// A name for what it is about, as a limit for each kind of notice needs one.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::LoginFailed { .. } => "login",
            Self::Banned { .. } => "ban",
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LoginFailed { from, flow } => {
                let mut escaped = from.escape_ascii();
                for byte in escaped.by_ref().take(MAX_QUOTED) {
                    f.write_char(byte.into())?;
                }
                let mark = if escaped.next().is_some() { "..." } else { "" };
                write!(f, "{mark} at {flow} did not log in: wrong user or password")
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

/// What waits for a location.
#[derive(Clone, Debug)]
pub struct Ticket(pub(crate) TicketKind);

#[derive(Clone, Debug)]
pub(crate) enum TicketKind {
    /// A branch of a transaction.
    Branch { handle: crate::proxy::via_branch::Handle, index: u8 },
    /// A message to be forwarded without a transaction, written for the given end of ours, on the
    /// wish of somebody in a network of scope `origin`, perhaps by the transport that is best for
    /// its length.
    Message {
        bytes: Vec<u8>,
        arrived_on: Flow,
        origin: Scope,
        leaves_transport: bool,
        payers: Payers,
    },
}

/// One place where a destination can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// By which transport.
    pub transport: Transport,
    /// Where.
    pub remote: SocketAddr,
    /// Our address for it, if the owner knows; not a wildcard, with the port of the listener.
    pub local: Option<SocketAddr>,
}

/// Buffers that the owner keeps and the engine fills. The owner first appends `journal` to its
/// storage, then sends `transmits`, so that no binding is answered before it is kept; then calls
/// [`Output::clear`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Output {
    /// The bytes of all messages.
    pub bytes: Vec<u8>,
    /// The messages, in the order to send them.
    pub transmits: Vec<Transmit>,
    /// Changes of bindings ([`record`](crate::journal_record)), to be appended to storage as they
    /// are.
    pub journal: Vec<u8>,
    /// Everything else.
    pub events: Vec<Event>,
    /// How what [`Output::journal`] says of REGISTERs is taken back where it cannot be stored.
    pub(crate) undo: Vec<Undo>,
}

impl Output {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.transmits.is_empty() && self.journal.is_empty() && self.events.is_empty()
    }

    /// Forgets what was handed out, and keeps the buffers.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.transmits.clear();
        self.journal.clear();
        self.events.clear();
        self.undo.clear();
    }

    /// Sends what `write` appends, and returns where it stands. Nothing is sent to an address that
    /// nobody has. `None` where it is longer than a message may be, and so is not sent.
    pub(crate) fn send(
        &mut self,
        flow: Flow,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Range<usize>> {
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.push(flow, start)
    }

    /// Sends what was appended from `start` on, likewise.
    pub(crate) fn push(&mut self, flow: Flow, start: usize) -> Option<Range<usize>> {
        let range = start..self.bytes.len();
        if range.len() > MAX_MESSAGE {
            self.bytes.truncate(start);
            return None;
        }
        if is_sendable(flow.remote) {
            let (range, payers) = (range.clone(), Payers::NONE);
            self.transmits.push(Transmit { flow, range, is_promise: false, payers });
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
