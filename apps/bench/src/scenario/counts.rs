//! The counts of a scenario.

use crate::record::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The cause of the failure of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cause {
    /// A message came that the scenario does not expect.
    UnexpectedMessage,
    /// An expected message did not come in time.
    Timeout,
    /// A message was retransmitted as often as allowed.
    Retransmissions,
    /// A regular expression with `check_it` did not match, or one with `check_it_inverse` did.
    Mismatch,
    /// There was no challenge for `[authentication]`, or none that can be answered.
    Authentication,
    /// The scenario stopped the call.
    Stopped,
    /// The scenario ran through too many steps without waiting.
    Loop,
    /// The call had not ended when the program did.
    Unfinished,
}

impl Cause {
    /// Returns the words for tables.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::UnexpectedMessage => "unexpected message",
            Self::Timeout => "no message in time",
            Self::Retransmissions => "retransmitted in vain",
            Self::Mismatch => "regular expression",
            Self::Authentication => "no challenge to answer",
            Self::Stopped => "stopped by the scenario",
            Self::Loop => "endless loop",
            Self::Unfinished => "unfinished at the end",
        }
    }
}

/// The counts of a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StepCounts {
    /// The text in the table; `None` if the step is not in it.
    pub(crate) label: Option<String>,
    /// True if an empty line follows in the table.
    #[serde(skip)]
    pub(crate) is_spaced: bool,
    /// Messages sent or received, without retransmissions; of other steps, the times they began.
    pub(crate) count: u64,
    /// Retransmissions sent or received.
    pub(crate) retransmitted: u64,
    /// The times that a message did not come in time, or was retransmitted in vain.
    pub(crate) timed_out: u64,
    /// Unexpected messages while the call waited at the step.
    pub(crate) unexpected: u64,
    /// Messages that were dropped on purpose.
    pub(crate) lost: u64,
}

/// The counts of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Calls that were started, or came in.
    pub(crate) started: u64,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    /// The failed calls by cause.
    pub(crate) causes: BTreeMap<Cause, u64>,
    /// The unexpected messages by method or status.
    pub(crate) unexpected: BTreeMap<String, u64>,
    /// The highest number of simultaneous calls.
    pub(crate) peak: u64,
    /// Messages of no call.
    pub(crate) out_of_call: u64,
    /// Messages of calls that had ended.
    pub(crate) late: u64,
    /// Data that is no SIP message.
    pub(crate) malformed: u64,
    /// Calls that were not started, since as many as allowed were in progress.
    pub(crate) held_back: u64,
    /// Requests within calls that were answered without the scenario (`--answer-others`).
    pub(crate) answered: u64,
    pub(crate) steps: Vec<StepCounts>,
    /// The response times by name, and the length of calls.
    pub(crate) response_times: BTreeMap<String, Histogram>,
    pub(crate) call_length: Histogram,
    /// The counters of the scenario by name.
    pub(crate) counters: BTreeMap<String, u64>,
}

/// The limit of distinct unexpected messages that are counted.
const DISTINCT: usize = 64;

impl Counts {
    /// Counts an unexpected message.
    pub(super) fn note_unexpected(&mut self, name: &str) {
        let is_known = self.unexpected.contains_key(name);
        let name = if is_known || self.unexpected.len() < DISTINCT { name } else { "others" };
        *self.unexpected.entry(name.to_owned()).or_default() += 1;
    }

    /// Counts a failed call.
    pub(super) fn note_failure(&mut self, cause: Cause) {
        self.failed += 1;
        *self.causes.entry(cause).or_default() += 1;
    }

    /// Adds the counts of another worker. Its calls were at their highest number at the same time
    /// at worst.
    pub(super) fn merge(&mut self, other: &Self) {
        for (own, new) in [
            (&mut self.started, other.started),
            (&mut self.succeeded, other.succeeded),
            (&mut self.failed, other.failed),
            (&mut self.peak, other.peak),
            (&mut self.out_of_call, other.out_of_call),
            (&mut self.late, other.late),
            (&mut self.malformed, other.malformed),
            (&mut self.held_back, other.held_back),
            (&mut self.answered, other.answered),
        ] {
            *own += new;
        }
        add(&mut self.causes, &other.causes);
        add(&mut self.unexpected, &other.unexpected);
        add(&mut self.counters, &other.counters);
        for (own, new) in self.steps.iter_mut().zip(&other.steps) {
            own.count += new.count;
            own.retransmitted += new.retransmitted;
            own.timed_out += new.timed_out;
            own.unexpected += new.unexpected;
            own.lost += new.lost;
        }
        for (name, times) in &other.response_times {
            self.response_times.entry(name.clone()).or_default().merge(times);
        }
        self.call_length.merge(&other.call_length);
    }
}

/// Adds the counts of another map.
fn add<K: Ord + Clone>(own: &mut BTreeMap<K, u64>, other: &BTreeMap<K, u64>) {
    for (key, count) in other {
        *own.entry(key.clone()).or_default() += count;
    }
}
