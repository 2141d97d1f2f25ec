//! The messages of a call as a ladder diagram: a column for each party, an arrow for each message.

use super::calls::{Call, CallOutcome, Step};
use std::fmt::Write as _;
use std::net::SocketAddr;

/// The most columns.
const COLUMNS: usize = 8;
/// The width of a column in characters.
const COLUMN: usize = 24;

/// A ladder diagram.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// The parties of the columns, from left to right.
    pub(crate) parties: Vec<SocketAddr>,
    /// The messages, in chronological order.
    pub(crate) arrows: Vec<Arrow>,
}

/// A message in a ladder.
#[derive(Clone, Debug)]
pub(crate) struct Arrow {
    /// The time in microseconds since the start of the capture.
    pub(crate) at_us: u64,
    /// The label, such as `200 INVITE SDP (again)`.
    pub(crate) what: String,
    /// True for a retransmission.
    pub(crate) again: bool,
    /// The columns of sender and receiver; `None` if a party has no column, and `what` names both.
    pub(crate) between: Option<(usize, usize)>,
}

impl Flow {
    /// Returns the ladder of a call in a capture that began at `started`, limited to the first
    /// `most` messages.
    pub(crate) fn of(call: &Call, started: u64, most: usize) -> Self {
        let mut parties: Vec<SocketAddr> = Vec::new();
        let steps = &call.flow[..call.flow.len().min(most)];
        for party in steps.iter().flat_map(|step| [step.source, step.destination]) {
            if parties.len() < COLUMNS && !parties.contains(&party) {
                parties.push(party);
            }
        }
        let arrow = |step: &Step| Arrow::of(step, &parties, started);
        Self { arrows: steps.iter().map(arrow).collect(), parties }
    }

    /// Returns the ladder as text.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("  {:>13} ", "s");
        for party in &self.parties {
            let _ = write!(text, "{:<COLUMN$}", party.to_string());
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        for Arrow { at_us, what, between, .. } in &self.arrows {
            let _ = write!(text, "  {:>13} ", seconds(*at_us));
            let _ = match *between {
                Some((from, to)) if from < to => {
                    let width = (to - from) * COLUMN - 2;
                    writeln!(text, "{:indent$}|{what:-<width$}>", "", indent = from * COLUMN)
                }
                Some((from, to)) => {
                    let width = (from - to) * COLUMN - 2;
                    writeln!(text, "{:indent$}<{what:->width$}|", "", indent = to * COLUMN)
                }
                None => writeln!(text, "{what}"),
            };
        }
        text
    }
}

impl Arrow {
    fn of(step: &Step, parties: &[SocketAddr], started: u64) -> Self {
        let Step { source, destination, retransmission: again, .. } = *step;
        let copy = if again { " (again)" } else { "" };
        let sdp = if step.sdp { " SDP" } else { "" };
        let column = |party| parties.iter().position(|&one| one == party);
        let between = column(source).zip(column(destination)).filter(|(from, to)| from != to);
        let way = match between {
            Some(_) => String::new(),
            None => format!("{source} -> {destination}: "),
        };
        let what = format!("{way}{}{sdp}{copy}", step.what);
        Self { at_us: step.at_us.saturating_sub(started), what, again, between }
    }
}

impl Call {
    /// Returns the outcome in words.
    pub(crate) fn outcome_in_words(&self) -> &'static str {
        match self.outcome {
            CallOutcome::Established => "established",
            CallOutcome::Answered => "answered, no ACK seen",
            CallOutcome::Cancelled => "cancelled",
            CallOutcome::Refused => "refused",
            CallOutcome::Unfinished => "no final response",
            CallOutcome::Lost => "no response",
            CallOutcome::Pending => "no response yet",
        }
    }

    /// Yields the known times by name, in microseconds since the Unix epoch.
    pub(crate) fn named_times(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let times = &self.times;
        [
            ("TInv1", times.inv1_us),
            ("TInv1 authorised", times.authorised_us),
            ("TInv2", times.inv2_us),
            ("TRng", times.rng_us),
            ("TSDP_OK1", times.sdp_ok1_us),
            ("TSDP_OK2", times.sdp_ok2_us),
            ("TAck", times.ack_us),
            ("BYE", times.bye_us),
            ("2xx BYE", times.bye_ok_us),
        ]
        .into_iter()
        .filter_map(|(name, time)| Some((name, time?)))
    }
}

/// Formats microseconds as seconds.
pub(crate) fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}
