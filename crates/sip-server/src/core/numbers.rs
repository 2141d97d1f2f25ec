//! The numbers of the owner, as the proxy asks about them: the way of a call by the number that it
//! is for.

use crate::core::trunks::TrunkId;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The party that calls a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller<'a> {
    /// A user that has proved its name, `name@domain`.
    User(&'a [u8]),
    /// A call that came through a trunk.
    Trunk(TrunkId),
    /// Any other party.
    Stranger,
}

/// The way of a call by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dialed {
    /// Not a number of the plan: the proxy goes on as without a plan.
    Name,
    /// A user or a group of this server, `name@domain`.
    User(Vec<u8>),
    /// Trunks, in order of preference.
    Trunks(Vec<TrunkAttempt>),
    /// The call is refused.
    Refused(DialedRefusal),
}

/// The refusal of a call by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialedRefusal {
    /// The status of the response, 400 to 699.
    pub status: u16,
    /// The rule in words: the text of the log and of the record, and the reason phrase of the
    /// response to a user of this server.
    pub words: Box<str>,
}

impl DialedRefusal {
    /// The value of Reason (RFC 3326) that names the rule.
    pub(crate) fn reason(&self) -> String {
        let words = self.words.replace(['"', '\\'], "'");
        format!("SIP;cause={};text=\"{words}\"", self.status)
    }
}

/// An attempt to reach a number through a trunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrunkAttempt {
    /// The trunk.
    pub trunk: TrunkId,
    /// The number as the trunk expects it: the user part of the request URI.
    pub number: String,
    /// The number of the caller. `None`: that of the trunk's account.
    pub identity: Option<String>,
    /// True for an emergency call, which no limit holds up.
    pub is_emergency: bool,
    /// The user that the call counts for in limits of use, `name@domain`.
    pub payer: Option<String>,
    /// The name of the class of the number, for the limits of use.
    pub class: Option<String>,
    /// The source of a stranger, if the payer forwards its call: the call counts for the limits of
    /// strangers in place of those of the payer.
    pub stranger: Option<String>,
}

/// The numbers of the owner. The methods must not call the server.
pub trait Numbers: Send + Sync {
    /// Returns the way of a call by `caller` to the user part `dialed` of a request URI in a domain
    /// of this server, without escapes.
    fn route(&self, dialed: &[u8], caller: Caller<'_>) -> Dialed;
}
