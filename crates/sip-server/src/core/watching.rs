//! The subscriptions to the states of users, which the owner's notifier serves, and the calls that
//! they are about.

use crate::core::flow::Flow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use sip::Duration;

/// The subscriptions that go to the owner's notifier, on the internal flow of
/// [`Endpoint::Notifier`](sip::Endpoint::Notifier). Other ones go to the phones of the user. The
/// states of calls need [`Mode::Proxy`](super::config::Mode::Proxy),
/// [`State::Stateful`](super::config::State::Stateful) and `record_route`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watching {
    /// True if users may subscribe to the message counts of their own mailbox (RFC 3842).
    pub messages: bool,
    /// The subscriptions to the calls of users (RFC 4235).
    pub calls: Watch,
    /// The characters before a user name that pick up the call that rings there. Empty for none.
    pub pickup: String,
}

/// The rights of users to watch the calls of other users of their domain. Users may watch their
/// own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Watch {
    /// No calls are watched.
    #[default]
    Off,
    /// The state of each call is told.
    State,
    /// The other party of each call is told as well, and ringing calls may be picked up.
    Calls,
}

/// A party of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedParty {
    /// `user@domain`, if it is a user of this server. The callee may be a group.
    pub user: Option<Box<str>>,
    /// The URI in From or To.
    pub identity: Box<[u8]>,
}

/// A change of a call from or to a user of this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallChange {
    /// A new INVITE is forwarded.
    Begun {
        /// The number of its transaction.
        transaction: u128,
        /// The Call-ID.
        call_id: Box<[u8]>,
        /// The tag of the caller.
        caller_tag: Box<[u8]>,
        /// The caller and the callee.
        parties: [WatchedParty; 2],
        /// The place of the caller.
        caller: CallerPlace,
        /// True if the callee is a group: the call is led to its members.
        is_to_group: bool,
    },
    /// The call is retargeted to other users: their phones ring.
    Retargeted {
        /// The call.
        call: RetargetedCall,
        /// The users, `user@domain`.
        users: Vec<Box<str>>,
    },
    /// The owner's B2BUA continues the unanswered call from a trunk with this Call-ID: it may be
    /// picked up behind the B2BUA, which counts it for the trunk.
    Continued {
        /// The Call-ID of the caller.
        call_id: Box<[u8]>,
        /// The number of the transaction of the B2BUA.
        transaction: u128,
    },
    /// The caller gets a response.
    Response {
        /// The number of the transaction.
        transaction: u128,
        /// The status.
        status: u16,
        /// The tag of the callee, or empty.
        callee_tag: Box<[u8]>,
        /// The session interval (RFC 4028).
        interval: Option<Duration>,
    },
    /// A request within the dialog is forwarded that refreshes the session.
    Refreshed {
        /// The Call-ID.
        call_id: Box<[u8]>,
        /// The tags of both ends.
        tags: [Box<[u8]>; 2],
        /// The session interval.
        interval: Option<Duration>,
    },
    /// A BYE is forwarded.
    Ended {
        /// The Call-ID.
        call_id: Box<[u8]>,
        /// The tags of both ends.
        tags: [Box<[u8]>; 2],
    },
}

/// The call that is retargeted to other users (RFC 7044 section 2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetargetedCall {
    /// That of the transaction with this number.
    Transaction(u128),
    /// The unanswered one with this Call-ID, which the owner's B2BUA continues.
    CallId(Box<[u8]>),
}

/// The place where a caller is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerPlace {
    /// The URI in Contact.
    pub uri: Box<[u8]>,
    /// The elements of Record-Route, as the value of a Route.
    pub routes: Box<[u8]>,
    /// The flow of the INVITE.
    pub flow: Flow,
    /// True if the caller takes an INVITE with Replaces (RFC 3891).
    pub takes_replaces: bool,
}

/// A call that rings, as a third party takes it over (RFC 3891).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingingCall {
    /// The place of the caller, which gets the INVITE.
    pub caller: CallerPlace,
    /// The value of Replaces.
    pub replaces: Vec<u8>,
    /// The number of the transaction of the INVITE, or of that of the B2BUA for a call from a
    /// trunk.
    pub transaction: u128,
    /// True for a call from a trunk.
    pub is_from_trunk: bool,
}

/// The calls of users, as the owner has them from [`CallChange`]s. The methods must not call the
/// server.
pub trait WatchedCalls: Send + Sync {
    /// Returns the call that rings `user`, which is `user@domain`.
    fn ringing(&self, user: &[u8]) -> Option<RingingCall>;

    /// Returns the ringing call that `replaces`, a value of Replaces (RFC 3891), names, and a user
    /// that it rings, `user@domain`. The value names the caller's end of the call, or either end of
    /// a call from a trunk.
    fn named(&self, replaces: &[u8]) -> Option<(RingingCall, Box<str>)>;
}
