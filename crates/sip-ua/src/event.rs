//! The events and queries of the engine.

use crate::config::AccountId;
use crate::violation::Violation;
use alloc::string::String;
use alloc::vec::Vec;
use sip::locate::Destination;
use sip::message::reason_phrase;
use sip::{Duration, Flow, Message, StartLine};

/// The identifier of a call. It is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// The identifier of a query. It is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The identifier of a sent message. It is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

/// The identifier of a request of the owner: one that passes from one call to another, or an
/// OPTIONS. It is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The state of the registration of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistrationState {
    /// The binding exists, and is refreshed before it expires.
    Registered {
        /// Its duration, as the registrar grants it.
        expires: Duration,
    },
    /// No binding exists.
    Failed {
        /// The reason.
        failure: Failure,
        /// The time until the next attempt. `None` if there is no automatic attempt.
        retry: Option<Duration>,
    },
    /// The owner has ended the registration.
    Ended,
}

/// The reason for the failure of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The other end, or a server on the path, has rejected the request.
    Refused {
        /// The status code.
        status: u16,
        /// The reason phrase.
        reason: String,
    },
    /// The name is not in the DNS, or no transport is usable.
    NotLocated,
    /// No final response arrived in time.
    TimedOut,
    /// The request could not be sent: no listener at the destination, or no connection.
    Unreachable,
    /// The request could not be sent: no route to the destination, or no network.
    NoRoute,
    /// The request was not sent: the certificate of the other end is not trusted.
    Untrusted,
    /// The request needs credentials that the account does not have, or the credentials were
    /// rejected.
    Unauthorized {
        /// The realm of the challenge.
        realm: String,
        /// The reason why the challenge is not answered.
        denial: Denial,
    },
    /// A message of the other end violates the protocol.
    Protocol(Violation),
}

/// The reason why a challenge is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denial {
    /// There is no account with a password.
    NoPassword,
    /// The credentials were sent and rejected: the user name or the password is wrong.
    Wrong,
    /// The credentials are for another realm.
    OtherRealm {
        /// The realm of the account.
        known: String,
    },
    /// The challenge is not from the account's own server. Credentials are sent to that server
    /// only.
    Stranger,
}

impl Failure {
    /// Returns the failure for a rejecting response.
    pub(crate) fn refused_by(response: &Message<'_>) -> Self {
        let (status, reason) = match response.start_line() {
            StartLine::Response { status, reason } => (status, reason),
            StartLine::Request { .. } => (0, &b""[..]),
        };
        Self::Refused { status, reason: String::from_utf8_lossy(reason).into_owned() }
    }

    /// Returns the failure of a request that is cancelled without a final response.
    pub(crate) fn cancelled() -> Self {
        Self::Refused { status: 487, reason: reason_phrase(487).into() }
    }

    /// Returns the status code that reports the failure to another party.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self {
            Self::Refused { status, .. } => *status,
            Self::NotLocated => 404,
            Self::TimedOut => 408,
            Self::Unauthorized { .. } => 403,
            Self::Unreachable | Self::NoRoute | Self::Untrusted | Self::Protocol(_) => 503,
        }
    }
}

/// The reason for the end of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// The owner has hung up, or cancelled the call.
    HungUp,
    /// The other end has hung up.
    HungUpByPeer {
        /// Its Reason header field (RFC 3326), or empty.
        reason: String,
    },
    /// The caller has cancelled the call before it was answered.
    Cancelled {
        /// Its Reason header field, or empty.
        reason: String,
    },
    /// The call was not answered in time.
    NotAnswered,
    /// The owner has rejected the call.
    Declined,
    /// Another call has replaced it (RFC 3891).
    Replaced {
        /// That call.
        by: CallId,
    },
    /// The call has failed.
    Failed(Failure),
}

/// The progress of a transfer that this end has requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// The other end has accepted the request.
    Accepted,
    /// The call of the other end has received a provisional response.
    Progress {
        /// The status code.
        status: u16,
    },
    /// The call of the other end is established. This call is no longer needed.
    Done,
    /// The transfer has failed. This call continues.
    Failed(Failure),
}

/// An event, or a query of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Query for the locations of `destination`. The owner answers with
    /// [`Agent::located`](crate::Agent::located).
    Locate {
        /// The identifier of the query.
        ticket: Ticket,
        /// The destination to locate. Its host may be an address.
        destination: Destination,
    },
    /// The state of a registration has changed.
    Registration {
        /// The account.
        account: AccountId,
        /// The new state.
        state: RegistrationState,
    },
    /// An incoming call. It rings until [`Agent::answer`](crate::Agent::answer) or
    /// [`Agent::decline`](crate::Agent::decline).
    Incoming {
        /// The call.
        call: CallId,
        /// The called account, if any.
        account: Option<AccountId>,
        /// The value of From in the INVITE.
        from: String,
        /// The flow of the INVITE.
        flow: Flow,
        /// The offered session description. `None`: the local end makes the offer.
        offer: Option<Vec<u8>>,
        /// The call that this call replaces when it is answered (RFC 3891). The caller was
        /// transferred.
        replaces: Option<CallId>,
    },
    /// The other end rings, or sends early media.
    Ringing {
        /// The call.
        call: CallId,
        /// The status code, such as 180 or 183. 199 ends the branch (RFC 6228).
        status: u16,
        /// The branch of a forked call, numbered in the order of their first responses. Until the
        /// call is answered, the session of the branch that last sent a session description is
        /// current.
        branch: u32,
        /// The session description, if any: a preview of the answer, or the answer if `is_settled`.
        session: Option<Vec<u8>>,
        /// True if offer and answer were exchanged reliably (RFC 3262). From then on new offers are
        /// allowed.
        is_settled: bool,
    },
    /// The callee has redirected the call, or the previous target did not answer.
    Redirected {
        /// The call.
        call: CallId,
        /// The next target URI, or the proxy to call through (305).
        to: String,
    },
    /// The call is established.
    Answered {
        /// The call.
        call: CallId,
        /// The current session description of the other end. `None` if it sent none, or if an
        /// [`Event::Offer`] follows because the local end has made no offer.
        session: Option<Vec<u8>>,
    },
    /// The other end requests a change of the session, or makes the first offer. The owner answers
    /// with [`Agent::accept`](crate::Agent::accept) or [`Agent::refuse`](crate::Agent::refuse).
    Offer {
        /// The call.
        call: CallId,
        /// The session description. `None`: the local end makes the offer.
        offer: Option<Vec<u8>>,
    },
    /// The other end has cancelled the re-INVITE of an [`Event::Offer`] that is not answered (RFC
    /// 3261 section 9.2). It got a 487, and needs no answer any more. The session is unchanged.
    OfferCancelled {
        /// The call.
        call: CallId,
    },
    /// The answer to a local offer within a ringing or established call.
    Answer {
        /// The call.
        call: CallId,
        /// The session description.
        answer: Vec<u8>,
    },
    /// The local address has changed. The owner offers a session description with the new address
    /// by [`Agent::offer`](crate::Agent::offer). That offer also tells the other end the new
    /// address for signalling.
    Moved {
        /// The call.
        call: CallId,
    },
    /// The other end has rejected a local offer because of one of its own (491), which was answered
    /// meanwhile. The owner makes its offer now, if it is still wanted, by
    /// [`Agent::offer`](crate::Agent::offer) with a description of the current session (RFC 3261
    /// section 14.1).
    OfferDue {
        /// The call.
        call: CallId,
    },
    /// A local offer within the call has failed. The session is unchanged.
    OfferFailed {
        /// The call.
        call: CallId,
        /// The reason.
        failure: Failure,
    },
    /// The progress of a transfer that this end has requested.
    Transfer {
        /// The transferred call.
        call: CallId,
        /// The progress.
        transfer: Transfer,
    },
    /// The other end requests a transfer: this end is to call another target. The owner answers
    /// with [`Agent::follow`](crate::Agent::follow) or
    /// [`Agent::refuse_transfer`](crate::Agent::refuse_transfer).
    TransferAsked {
        /// The call.
        call: CallId,
        /// The target URI.
        to: String,
        /// True if the new call replaces an existing call of the target.
        replaces: bool,
    },
    /// The other end has pressed a key, reported by INFO.
    Key {
        /// The call.
        call: CallId,
        /// `0` to `9`, `*`, `#`, `A` to `D`.
        key: char,
    },
    /// A received message (RFC 3428).
    Message {
        /// The account it is addressed to, if any.
        account: Option<AccountId>,
        /// The value of From.
        from: String,
        /// The text. It may contain any characters. Its length is bounded by that of a SIP message.
        text: String,
        /// The flow of the message.
        flow: Flow,
    },
    /// The message counts of a mailbox, from a server (RFC 3842).
    MessagesWaiting {
        /// The account of the mailbox, if any.
        account: Option<AccountId>,
        /// True if messages are waiting.
        waiting: bool,
        /// The number of new voice messages, if known.
        new: Option<u32>,
        /// The number of old voice messages, if known.
        old: Option<u32>,
    },
    /// The result of [`Agent::options`](crate::Agent::options).
    Options {
        /// The request.
        request: RequestId,
        /// The reason if the response is not a 2xx.
        result: Result<(), Failure>,
    },
    /// The result of a sent message.
    MessageSent {
        /// The message.
        message: MessageId,
        /// The reason if it was not delivered.
        result: Result<(), Failure>,
    },
    /// The message that causes the next event of the call: a request or response with an offer or
    /// answer, a response that rejects one of its requests, or the BYE or CANCEL that ends it or
    /// its offer. Only if [`Config::passes`](crate::Config::passes) is set.
    Received {
        /// The call.
        call: CallId,
        /// The message.
        message: Vec<u8>,
    },
    /// A request within the call: INFO, MESSAGE, REFER or NOTIFY. The owner answers with
    /// [`Agent::respond`](crate::Agent::respond). Only if
    /// [`Config::passes`](crate::Config::passes) is set.
    Request {
        /// The call.
        call: CallId,
        /// The identifier for the response.
        request: RequestId,
        /// The message.
        message: Vec<u8>,
    },
    /// The final response to [`Agent::request`](crate::Agent::request).
    Response {
        /// The request.
        request: RequestId,
        /// The message, or the reason why there is none.
        response: Result<Vec<u8>, Failure>,
    },
    /// The call has ended.
    Ended {
        /// The call.
        call: CallId,
        /// The reason.
        end: End,
    },
}

impl Event {
    /// Returns the call of the event, if it has one.
    #[must_use]
    pub const fn call(&self) -> Option<CallId> {
        match self {
            Self::Incoming { call, .. }
            | Self::Ringing { call, .. }
            | Self::Redirected { call, .. }
            | Self::Answered { call, .. }
            | Self::Offer { call, .. }
            | Self::OfferCancelled { call }
            | Self::Answer { call, .. }
            | Self::Moved { call }
            | Self::OfferDue { call }
            | Self::OfferFailed { call, .. }
            | Self::Transfer { call, .. }
            | Self::TransferAsked { call, .. }
            | Self::Key { call, .. }
            | Self::Received { call, .. }
            | Self::Request { call, .. }
            | Self::Ended { call, .. } => Some(*call),
            Self::Locate { .. }
            | Self::Registration { .. }
            | Self::Message { .. }
            | Self::MessagesWaiting { .. }
            | Self::Options { .. }
            | Self::MessageSent { .. }
            | Self::Response { .. } => None,
        }
    }
}
