//! A call that is to be routed, and the decision.

use crate::class::ClassId;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The index of a trunk in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrunkId(pub u8);

/// The origin of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller<'a> {
    /// A proved user, as `name@domain`.
    User(&'a str),
    /// A trunk: the call comes from outside.
    Trunk(TrunkId),
    /// A caller without a proof.
    Stranger,
}

/// A call that is to be routed.
pub struct Query<'a> {
    /// The user part of the request URI, without escapes.
    pub dialed: &'a [u8],
    /// The origin of the call.
    pub caller: Caller<'a>,
    /// Returns true if a trunk takes no calls now.
    pub unavailable: &'a dyn Fn(TrunkId) -> bool,
}

impl fmt::Debug for Query<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dialed, caller, .. } = self;
        f.debug_struct("Query").field("dialed", dialed).field("caller", caller).finish()
    }
}

/// The destination of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The plan has no rule for it: the proxy proceeds as without a plan.
    Name,
    /// A user, as `name` or `name@domain`.
    User(String),
    /// A group of users.
    Group(String),
    /// A service of the server.
    Service(Service),
    /// Trunks, in order of preference. Never empty.
    Trunks(Vec<Attempt>),
    /// The call is refused.
    Refused(Refusal),
}

/// A service of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// The mailbox of the caller.
    Voicemail,
    /// A message for a user.
    Mailbox(String),
    /// A conference room.
    Conference(String),
    /// The call that rings at a user; empty: in a group of the caller.
    Pickup(String),
    /// An announcement.
    Announcement(String),
    /// Music on hold.
    Music,
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Voicemail => f.write_str("voicemail"),
            Self::Mailbox(user) => write!(f, "mailbox of {user}"),
            Self::Conference(room) => write!(f, "conference {room}"),
            Self::Pickup(user) if user.is_empty() => f.write_str("pickup in a group of the caller"),
            Self::Pickup(user) => write!(f, "pickup of a call to {user}"),
            Self::Announcement(name) => write!(f, "announcement {name}"),
            Self::Music => f.write_str("music"),
        }
    }
}

/// A call through a trunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The trunk.
    pub trunk: TrunkId,
    /// The number as the provider expects it.
    pub number: String,
    /// The number of the caller. `None`: the trunk has a default.
    pub identity: Option<String>,
    /// The class of the destination.
    pub class: ClassId,
}

/// The reason for which a call is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The name of the rule.
    pub rule: String,
    /// The status code of the response (RFC 3261 section 21).
    pub status: u16,
    /// The reason in words, for the log.
    pub text: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.rule, self.text, self.status)
    }
}

/// A step of a decision, for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The step in words.
    pub text: String,
}

/// The decision about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destination.
    pub outcome: Outcome,
    /// The steps that led to it, in their order.
    pub steps: Vec<Step>,
}
