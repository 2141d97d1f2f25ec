//! Relayed calls as text: the quality of a direction, and the line of the log at the end of a call.

use alloc::string::String;
use core::fmt;
use core::time::Duration;
use relay::Direction;
use sip_server::{CallRecord, Party};

/// A time in milliseconds with one decimal.
pub(super) struct Milliseconds(pub(super) Duration);

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.0.as_micros() / 100;
        write!(f, "{}.{}", tenths / 10, tenths % 10)
    }
}

/// A mean opinion score with two decimals.
pub(super) struct Score(pub(super) f64);

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = (self.0 * 100.0) as u32;
        write!(f, "{}.{:02}", hundredths / 100, hundredths % 100)
    }
}

/// The codec, or else the media type.
pub(super) fn codec(direction: &Direction) -> &str {
    direction.codec.as_deref().unwrap_or(&direction.media_type)
}

/// The packets of one direction.
struct Packets<'a>(&'a Direction);

impl fmt::Display for Packets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} packets", codec(self.0), self.0.packets)?;
        if let (Some(lost), Some(jitter)) = (self.0.lost, self.0.jitter) {
            write!(f, ", {lost} lost, jitter {} ms", Milliseconds(jitter))?;
        }
        self.0.mean_opinion_score.map_or(Ok(()), |score| write!(f, ", MOS {}", Score(score)))
    }
}

/// A party, as its URI without the scheme.
pub(super) fn party(uri: &[u8]) -> String {
    let text = String::from_utf8_lossy(uri);
    text.strip_prefix("sip:").unwrap_or(&text).into()
}

/// The line of the log at the end of a call.
pub(super) struct Ended<'a>(pub(super) &'a CallRecord);

impl fmt::Display for Ended<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = self.0;
        let [caller, callee] = &record.report.parties;
        write!(f, "call from {} to {} ", party(caller), party(callee))?;
        let by = match record.ended_by {
            Party::Caller => "the caller",
            Party::Callee => "the callee",
            Party::Server | Party::Limit => "the server",
        };
        match (record.answered, &record.response) {
            (Some(answered), _) => {
                write!(f, "ended by {by} after {} s", record.ended.since(answered).as_secs())?;
            }
            (None, Some((status, phrase))) => {
                write!(f, "failed: {status} {}", String::from_utf8_lossy(phrase))?;
            }
            (None, None) => write!(f, "not answered, ended by {by}")?,
        }
        for [caller, callee] in &record.report.streams {
            write!(f, "; caller: {}; callee: {}", Packets(caller), Packets(callee))?;
        }
        Ok(())
    }
}
