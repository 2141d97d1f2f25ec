//! The requests of the engine to its owner, and the replies.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use sip_ua::CallId;

/// The number of a message in a mailbox. It is never reused in that mailbox.
pub type MessageId = u64;

/// A request to the owner of a [`MediaServer`](crate::MediaServer).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A call needs a port of RTP, and the next one for RTCP. The owner answers with
    /// [`MediaServer::open`](crate::MediaServer::open).
    Open {
        /// The call.
        call: CallId,
        /// The local address at which the other end reaches this host.
        local: IpAddr,
        /// The address of the other end's signalling. The owner sends no packets where a party at
        /// this address may not send itself.
        remote: IpAddr,
        /// The mailbox that a message is to be recorded for. The owner refuses the call if the
        /// mailbox has no room for the longest message.
        deposit: Option<String>,
        /// True if the caller has authenticated.
        is_proved: bool,
    },
    /// A call needs something of a mailbox. The owner answers with
    /// [`MediaServer::reply`](crate::MediaServer::reply), unless the request has no reply.
    Ask {
        /// The call.
        call: CallId,
        /// The mailbox, `user@domain`.
        mailbox: String,
        /// The request.
        ask: Ask,
    },
    /// The call has ended. Its ports are closed. A request of the call may be pending: it is
    /// carried out, and its reply is ignored.
    Closed {
        /// The call.
        call: CallId,
    },
}

/// A request about a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The messages: [`Reply::Listed`].
    List,
    /// The sound of a message: [`Reply::Loaded`].
    Load(MessageId),
    /// To store a message: [`Reply::Done`].
    Keep(Recording),
    /// To delete a message: [`Reply::Done`].
    Delete(MessageId),
    /// To note that a message was heard. No reply.
    MarkHeard(MessageId),
}

/// A recorded message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The URI in From, or the address-of-record of a caller that has authenticated.
    pub caller: String,
    /// True if the caller has authenticated.
    pub is_proved: bool,
    /// The samples, at [`RATE`](crate::RATE).
    pub samples: Vec<i16>,
}

/// A message in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The message.
    pub id: MessageId,
    /// True if it was heard.
    pub is_heard: bool,
}

/// The reply to a request about a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The messages in the order of playing.
    Listed(Vec<Summary>),
    /// The samples of a message at [`RATE`](crate::RATE). `None` if it cannot be read.
    Loaded(Option<Arc<[i16]>>),
    /// True if the request was carried out.
    Done(bool),
}

/// The answer to [`Event::Open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// The local address of RTP.
    At(SocketAddr),
    /// There is no free port.
    NoPort,
    /// The mailbox has no room.
    MailboxFull,
}
