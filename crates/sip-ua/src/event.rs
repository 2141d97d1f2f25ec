//! What the engine tells its owner, and asks of it.

use crate::config::AccountId;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use sip::locate::Destination;
use sip::{Duration, Flow, Message, StartLine, Transport};

/// Which call. Numbers are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// Which question. Numbers are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Which message of ours. Numbers are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The way that it goes.
    pub flow: Flow,
    /// The message, whole.
    pub bytes: Vec<u8>,
}

/// Where a destination is reached: the answer to [`Event::Locate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// By which transport.
    pub transport: Transport,
    /// Where.
    pub remote: SocketAddr,
    /// From where: what Via and Contact name, an address that the other end can reach as far as is
    /// known.
    pub local: SocketAddr,
}

impl Location {
    /// A flow to there.
    pub(crate) const fn flow(&self) -> Flow {
        Flow { transport: self.transport, local: self.local, remote: self.remote, connection: None }
    }
}

/// How far the registration of an account is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistrationState {
    /// It is in force for that long, and will be refreshed before it ends.
    Registered {
        /// How long, as the registrar grants.
        expires: Duration,
    },
    /// It is not in force, and is tried again after a while.
    Failed {
        /// Why.
        failure: Failure,
        /// When it is tried again; `None`: not by itself.
        retry: Option<Duration>,
    },
    /// It was ended at the owner's wish.
    Ended,
}

/// Why a request came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The other end, or a server between, has refused it.
    Refused {
        /// The status code.
        status: u16,
        /// Its reason phrase.
        reason: String,
    },
    /// The name was not found in the DNS, or no transport fits.
    NotLocated,
    /// Nobody answered.
    TimedOut,
    /// It could not be sent: no program listens there, or no connection is made.
    Unreachable,
    /// It could not be sent: this machine has no route to there, or no network.
    NoRoute,
    /// It was not sent: the other end of the connection has no certificate that is trusted.
    Untrusted,
    /// Credentials are wanted, and there are none for who asks, or they were refused.
    Unauthorized {
        /// The realm that asks.
        realm: String,
        /// Why the account's credentials do not answer.
        denial: Denial,
    },
    /// What came back is not what the protocol says.
    Protocol(&'static str),
}

/// Why credentials do not answer a challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// There is no account with a password.
    NoPassword,
    /// They were sent and refused: the name or the password is wrong.
    Wrong,
    /// They are for another realm.
    OtherRealm {
        /// That of the account.
        known: String,
    },
    /// The challenge is not of the account's own server, which alone gets them.
    Stranger,
}

impl Failure {
    /// What a response that refuses says.
    pub(crate) fn refused_by(response: &Message<'_>) -> Self {
        let (status, reason) = match response.start_line() {
            StartLine::Response { status, reason } => (status, reason),
            StartLine::Request { .. } => (0, &b""[..]),
        };
        Self::Refused { status, reason: String::from_utf8_lossy(reason).into_owned() }
    }

    /// The status that tells others of it.
    pub(crate) const fn status(&self) -> u16 {
        match self {
            Self::Refused { status, .. } => *status,
            Self::NotLocated => 404,
            Self::TimedOut => 408,
            Self::Unauthorized { .. } => 403,
            Self::Unreachable | Self::NoRoute | Self::Untrusted | Self::Protocol(_) => 503,
        }
    }
}

/// Why a call is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The owner has hung up, or taken the call back.
    HungUp,
    /// The other end has.
    HungUpByPeer {
        /// What it says of the reason (RFC 3326), if anything.
        reason: String,
    },
    /// The caller has taken it back before it was answered.
    Cancelled {
        /// What it says of the reason.
        reason: String,
    },
    /// It was not answered in time.
    NotAnswered,
    /// The owner has refused it.
    Declined,
    /// Another call has taken its place (RFC 3891).
    Replaced {
        /// That call.
        by: CallId,
    },
    /// It came to nothing.
    Failed(Failure),
}

/// How far a transfer is that this end has asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// The other end does what is asked.
    Accepted,
    /// Its call has had that provisional response.
    Progress {
        /// The status.
        status: u16,
    },
    /// Its call stands: this one is not needed any more.
    Done,
    /// It came to nothing; the call stands as it was.
    Failed(Failure),
}

/// Something that has happened, or has to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Find out where `destination` is and from where it is reached, and tell
    /// [`Agent::located`](crate::Agent::located).
    Locate {
        /// The question.
        ticket: Ticket,
        /// What is to be located. Its host may be an address.
        destination: Destination,
    },
    /// A registration has changed.
    Registration {
        /// Of which account.
        account: AccountId,
        /// How far it is.
        state: RegistrationState,
    },
    /// Somebody calls. It rings until [`Agent::answer`](crate::Agent::answer) or
    /// [`Agent::decline`](crate::Agent::decline).
    Incoming {
        /// The call.
        call: CallId,
        /// For which account, if for one.
        account: Option<AccountId>,
        /// From, as it stands in the INVITE.
        from: String,
        /// The way that it came.
        flow: Flow,
        /// The session description that it offers; `None`: an offer is wanted of us.
        offer: Option<Vec<u8>>,
        /// The call whose place it takes when it is answered (RFC 3891): whoever was transferred
        /// calls.
        replaces: Option<CallId>,
    },
    /// It rings at the other end, or there is early media.
    Ringing {
        /// The call.
        call: CallId,
        /// The status: 180, 183 and the like. 199: there, it is over (RFC 6228).
        status: u16,
        /// At which of the phones that were called at once, by the order in which they were first
        /// heard of. What the last one that sent a session description has to say counts until the
        /// call is answered.
        branch: u32,
        /// The session description, if one came: what the answer will be, or, where `is_settled`,
        /// the answer.
        session: Option<Vec<u8>>,
        /// Whether offer and answer have been exchanged, reliably (RFC 3262): from then on there
        /// may be offers.
        is_settled: bool,
    },
    /// Who was called has said to call somebody else, or the one before that did not answer.
    Redirected {
        /// The call.
        call: CallId,
        /// The URI that is called now, or the proxy that it is called by (305).
        to: String,
    },
    /// The call stands.
    Answered {
        /// The call.
        call: CallId,
        /// The other end's session description as it stands; `None` where it sent none, or an
        /// [`Event::Offer`] follows since we made none.
        session: Option<Vec<u8>>,
    },
    /// The other end wants to change the session, or makes the first offer: to be told
    /// [`Agent::accept`](crate::Agent::accept) or [`Agent::refuse`](crate::Agent::refuse).
    Offer {
        /// The call.
        call: CallId,
        /// The session description; `None`: an offer is wanted of us.
        offer: Option<Vec<u8>>,
    },
    /// The answer to an offer of ours, once it rings or the call stands.
    Answer {
        /// The call.
        call: CallId,
        /// The session description.
        answer: Vec<u8>,
    },
    /// This machine has another address: a session description with that is to be offered, by
    /// [`Agent::offer`](crate::Agent::offer). It tells the other end where signalling goes now,
    /// too.
    Moved {
        /// The call.
        call: CallId,
    },
    /// An offer of ours within the call came to nothing; the session is as it was.
    OfferFailed {
        /// The call.
        call: CallId,
        /// Why.
        failure: Failure,
    },
    /// How far the transfer is that this end has asked for.
    Transfer {
        /// The call that is transferred.
        call: CallId,
        /// How far.
        transfer: Transfer,
    },
    /// The other end wants this one to call somebody else instead: to be told
    /// [`Agent::follow`](crate::Agent::follow) or
    /// [`Agent::refuse_transfer`](crate::Agent::refuse_transfer).
    TransferAsked {
        /// The call.
        call: CallId,
        /// Who is to be called.
        to: String,
        /// Whether that takes the place of a call of theirs.
        replaces: bool,
    },
    /// The other end has pressed a key, and tells by INFO.
    Key {
        /// The call.
        call: CallId,
        /// `0` to `9`, `*`, `#`, `A` to `D`.
        key: char,
    },
    /// Somebody has sent a message (RFC 3428).
    Message {
        /// For which account, if for one.
        account: Option<AccountId>,
        /// From, as it stands in the message.
        from: String,
        /// What it says. It may hold anything but is bounded by the longest message.
        text: String,
        /// The way that it came.
        flow: Flow,
    },
    /// A server tells how many messages wait in a mailbox (RFC 3842).
    MessagesWaiting {
        /// Of which account, if of one.
        account: Option<AccountId>,
        /// Whether there are any.
        waiting: bool,
        /// New voice messages, if it is said.
        new: Option<u32>,
        /// Old ones.
        old: Option<u32>,
    },
    /// A message of ours has arrived, or has not.
    MessageSent {
        /// The message.
        message: MessageId,
        /// Why it has not.
        result: Result<(), Failure>,
    },
    /// The call is over.
    Ended {
        /// The call.
        call: CallId,
        /// Why.
        end: End,
    },
}
