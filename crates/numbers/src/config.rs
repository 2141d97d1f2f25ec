//! The values that a plan is built from, as plain data.

use crate::number::Dialing;
use crate::usage::{Account, Limit};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;

/// The default emergency numbers: of the ITU (E.161.1), for offices with a trunk.
pub const DEFAULT_EMERGENCY: [&str; 2] = ["112", "911"];

/// The default rights of users.
pub const DEFAULT_RIGHTS: [&str; 2] = ["internal", "national"];

/// The default limits of a user on trunks.
pub const DEFAULT_LIMIT: Limit = Limit { calls: Some(10), minutes: Some(600), duration: None };

/// The values that a plan is built from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanConfig {
    /// The domain of users that are named without one. Empty: any domain.
    pub domain: String,
    /// The names of the trunks, by their [`TrunkId`](crate::TrunkId).
    pub trunks: Vec<String>,
    /// The rules for dialing.
    pub dialing: Dialing,
    /// The emergency numbers.
    pub emergency: Vec<String>,
    /// The trunks for emergency calls, in order of preference. Empty: all.
    pub emergency_trunks: Vec<String>,
    /// The beginnings of the numbers of classes.
    pub classes: Vec<NamedPrefixes>,
    /// The classes that users may call.
    pub default_rights: Vec<String>,
    /// The classes that some users may call.
    pub rights: Vec<RightsConfig>,
    /// The numbers that users show outside.
    pub identities: Vec<IdentityConfig>,
    /// The rules for dialed numbers, in any order.
    pub rules: Vec<RuleConfig>,
    /// The destinations of incoming calls, in any order.
    pub did: Vec<DidConfig>,
    /// The limits of use. The most special pattern of users is valid for a user.
    pub limits: Vec<LimitConfig>,
}

impl Default for PlanConfig {
    fn default() -> Self {
        Self {
            domain: String::new(),
            trunks: Vec::new(),
            dialing: Dialing::default(),
            emergency: DEFAULT_EMERGENCY.map(ToOwned::to_owned).to_vec(),
            emergency_trunks: Vec::new(),
            classes: Vec::new(),
            default_rights: DEFAULT_RIGHTS.map(ToOwned::to_owned).to_vec(),
            rights: Vec::new(),
            identities: Vec::new(),
            rules: Vec::new(),
            did: Vec::new(),
            limits: vec![LimitConfig {
                account: Account::User("*".to_owned()),
                limit: DEFAULT_LIMIT,
            }],
        }
    }
}

/// A class, and the beginnings of its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPrefixes {
    /// The name of the class.
    pub name: String,
    /// The beginnings, as `+49900`.
    pub prefixes: Vec<String>,
}

/// The classes that some users may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RightsConfig {
    /// The users: `alice`, `alice@example.org`, `1*`, `*@example.org`.
    pub users: String,
    /// The names of the classes.
    pub classes: Vec<String>,
}

/// The number that some users show outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityConfig {
    /// The users, as of [`RightsConfig::users`].
    pub users: String,
    /// The E.164 number. A `*` at its end stands for the name of the user, if that has only digits.
    pub number: String,
}

/// The limits of an account, or of the users that match a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitConfig {
    /// The account. Users are a pattern, as of [`RightsConfig::users`]; each has these limits.
    pub account: Account,
    /// The limits.
    pub limit: Limit,
}

/// The numbers of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Range {
    /// This number.
    Number(String),
    /// The numbers that begin so.
    Prefix(String),
    /// All numbers; only of incoming calls.
    All,
}

/// Digits removed and added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digits {
    /// The beginning that is removed. The number or the prefix of the rule begins with it.
    pub remove: String,
    /// The beginning that is added then.
    pub add: String,
}

/// A rule for dialed numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleConfig {
    /// The name. Empty: it is named after its numbers.
    pub name: String,
    /// The numbers.
    pub range: Range,
    /// Digits removed and added; a trunk may have its own.
    pub digits: Digits,
    /// The destination.
    pub target: TargetConfig,
}

/// A rule for incoming calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DidConfig {
    /// The name. Empty: it is named after its numbers.
    pub name: String,
    /// The trunk. `None`: all trunks.
    pub trunk: Option<String>,
    /// The numbers.
    pub range: Range,
    /// Digits removed and added.
    pub digits: Digits,
    /// The destination, which is not a trunk.
    pub target: TargetConfig,
}

/// The destination of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetConfig {
    /// Trunks, in order of preference.
    Trunks(Vec<TrunkUse>),
    /// A user.
    User(String),
    /// A group.
    Group(String),
    /// A service. Its argument is that of the rule, else the number.
    Service(ServiceKind, Option<String>),
    /// The number, with its digits removed and added, as an internal one.
    Inside,
    /// No call.
    Refuse,
}

/// A trunk of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrunkUse {
    /// The name of the trunk.
    pub trunk: String,
    /// Digits removed and added for it. `None`: those of the rule.
    pub digits: Option<Digits>,
}

/// A kind of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceKind {
    /// The mailbox of the caller.
    Voicemail,
    /// A message for a user.
    Mailbox,
    /// A conference room.
    Conference,
    /// A call that rings at another user.
    Pickup,
    /// An announcement.
    Announcement,
    /// Music on hold.
    Music,
}

/// The place of an error: a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// [`Dialing::country`].
    Country,
    /// [`Dialing::international`].
    International,
    /// [`Dialing::national`].
    National,
    /// [`Dialing::outside`].
    Outside,
    /// An element of [`Dialing::local`].
    Local(usize),
    /// An element of [`PlanConfig::emergency`].
    Emergency(usize),
    /// An element of [`PlanConfig::emergency_trunks`].
    EmergencyTrunk(usize),
    /// A prefix of an element of [`PlanConfig::classes`].
    Class(usize, usize),
    /// An element of [`PlanConfig::default_rights`].
    DefaultRight(usize),
    /// An element of [`PlanConfig::rights`].
    Rights(usize),
    /// An element of [`PlanConfig::identities`].
    Identity(usize),
    /// An element of [`PlanConfig::rules`].
    Rule(usize, Part),
    /// An element of [`PlanConfig::did`].
    Did(usize, Part),
    /// An element of [`PlanConfig::limits`].
    Limit(usize),
}

/// The place of an error in a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The name.
    Name,
    /// The trunk of a rule for incoming calls.
    Trunk,
    /// The number or the prefix.
    Range,
    /// The digits removed and added.
    Digits,
    /// The destination.
    Target,
}

/// The error of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// The value.
    pub place: Place,
    /// The error: the thing, the expected value, the remedy.
    pub text: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for PlanError {}
