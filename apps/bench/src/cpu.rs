//! The CPU time of a thread.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use serde::{Deserialize, Serialize};

/// CPU time of a thread, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cpu {
    pub(crate) user_us: u64,
    pub(crate) system_us: u64,
}

impl Cpu {
    /// Returns the CPU time of the calling thread so far.
    pub(crate) fn of_thread() -> Self {
        let micros = |time: TimeVal| time.num_microseconds().unsigned_abs();
        getrusage(UsageWho::RUSAGE_THREAD).map_or_else(
            |_| Self::default(),
            |usage| Self {
                user_us: micros(usage.user_time()),
                system_us: micros(usage.system_time()),
            },
        )
    }

    /// Returns the difference to the earlier reading `before`.
    pub(crate) const fn since(self, before: Self) -> Self {
        Self {
            user_us: self.user_us.saturating_sub(before.user_us),
            system_us: self.system_us.saturating_sub(before.system_us),
        }
    }

    /// Returns the sum of user and system time.
    pub(crate) const fn total(self) -> u64 {
        self.user_us + self.system_us
    }
}
