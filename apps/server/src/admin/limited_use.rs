//! The use of trunks within their limits, as the administration shows it.

use numbers::usage::{Limit, Use};
use serde::{Deserialize, Serialize};

/// The calls through trunks of a user, a trunk, a class of numbers, or of strangers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LimitedUse {
    /// The party in words, such as `user alice@example.com`.
    pub(crate) account: String,
    /// The calls at present.
    pub(crate) calls: u32,
    /// The maximum number of calls at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_calls: Option<u32>,
    /// The minutes of today (UTC).
    pub(crate) minutes: u32,
    /// The maximum number of minutes a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_minutes: Option<u32>,
    /// The maximum duration of a call in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_duration: Option<u32>,
}

impl From<Use> for LimitedUse {
    fn from(Use { account, calls, minutes, limit }: Use) -> Self {
        let Limit { calls: max_calls, minutes: max_minutes, duration: max_duration } = limit;
        let account = account.to_string();
        Self { account, calls, max_calls, minutes, max_minutes, max_duration }
    }
}
