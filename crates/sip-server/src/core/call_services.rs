//! The call services of users, and groups of users, as the owner sets them.

use alloc::string::String;
use alloc::vec::Vec;
use sip::Duration;

/// The call services of a user: forwards, and do not disturb.
///
/// A target is `name@domain` with a served domain: a user or a group. It is called as the user
/// would call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallServices {
    /// The target of all calls.
    pub always: Option<String>,
    /// The target of calls that a phone of the user answers 486 or 600, and of calls that
    /// `do_not_disturb` keeps from the phones.
    pub busy: Option<String>,
    /// The target of calls that no phone answers within `no_answer_after`.
    pub no_answer: Option<String>,
    /// The time that the phones ring before `no_answer`.
    pub no_answer_after: Duration,
    /// The target of calls for which no phone is registered, or none responds. Without it,
    /// `no_answer` is used.
    pub unreachable: Option<String>,
    /// True if calls do not reach the phones.
    pub do_not_disturb: bool,
}

impl Default for CallServices {
    fn default() -> Self {
        Self {
            always: None,
            busy: None,
            no_answer: None,
            no_answer_after: Self::DEFAULT_RINGING,
            unreachable: None,
            do_not_disturb: false,
        }
    }
}

impl CallServices {
    /// The time that phones ring before a call goes on, unless another one is set.
    pub const DEFAULT_RINGING: Duration = Duration::from_secs(20);
    /// The shortest such time.
    pub const MIN_RINGING: Duration = Duration::from_secs(1);
    /// The longest such time, less than timer C may be.
    pub const MAX_RINGING: Duration = Duration::from_secs(180);

    /// True if calls go to the phones of the user only.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { always, busy, no_answer, unreachable, do_not_disturb, .. } = self;
        !do_not_disturb && [always, busy, no_answer, unreachable].iter().all(|it| it.is_none())
    }
}

/// The order of the members of a group in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// All members at once.
    Together,
    /// One member after the other, each time from the first one.
    InTurn,
    /// One member after the other. Each call begins with the member after the one that the call
    /// before began with.
    RoundRobin,
}

/// A group: calls to its name go to several users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// `name@domain`. It takes precedence over a user of that name.
    pub name: String,
    /// The members, users as `name@domain`.
    pub members: Vec<String>,
    /// The order of the members.
    pub strategy: Strategy,
    /// The time that a member rings, or that all members ring together.
    pub timeout: Duration,
    /// The target of calls that no member answers: a user or another group, as `name@domain`.
    pub fallback: Option<String>,
    /// True if the forwards of members apply to calls of the group. Do not disturb always does.
    pub forwards: bool,
}

impl Group {
    /// The maximum number of members.
    pub const MAX_MEMBERS: usize = 50;
}
