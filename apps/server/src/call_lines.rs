//! Relayed calls in JSON: the records of those that have ended, and the list of those that stand.
//! A value that was not measured is null.

use crate::output::printable;
use relay::{CallReport, Direction};
use sdp::negotiation::Profile;
use serde::{Deserialize, Serialize};
use sip::{Instant, Uri};
use sip_server::{CallRecord, Party, caller_call_id, trunk_of};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use store::StoredCall;

/// The record of a call: a line of the file of records, and a row of the database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// The Call-ID, as the caller knows it.
    pub(crate) call_id: String,
    /// That of the second leg of a call through the B2BUA.
    #[serde(default)]
    pub(crate) callee_call_id: Option<String>,
    /// The URI in From.
    pub(crate) caller: String,
    /// The URI in To.
    pub(crate) callee: String,
    /// The addresses that the signalling came from.
    pub(crate) caller_address: String,
    /// `None` if the call was refused before it reached a phone.
    pub(crate) callee_address: Option<String>,
    /// `proxy` or `b2bua`.
    #[serde(default = "through_proxy")]
    pub(crate) through: String,
    /// The name of the trunk of the call. Not written for a call on none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trunk: Option<String>,
    /// Times in UTC (RFC 3339).
    pub(crate) created: String,
    pub(crate) ringing: Option<String>,
    pub(crate) answered: Option<String>,
    pub(crate) ended: String,
    /// Seconds from the answer to the end.
    pub(crate) duration: Option<f64>,
    /// `caller`, `callee`, `server` or `limit`.
    pub(crate) ended_by: String,
    /// The final response that the caller got, if it is no 2xx.
    pub(crate) status: Option<u16>,
    pub(crate) phrase: Option<String>,
    /// The value of Reason.
    pub(crate) reason: Option<String>,
    /// The user that was called last, if call services have led the call there.
    #[serde(default)]
    pub(crate) forwarded_to: Option<String>,
    /// The reason: `always`, `busy`, `do-not-disturb`, `no-answer`, `unreachable`, `deflected`, or
    /// `group` for a member of the called group.
    #[serde(default)]
    pub(crate) forward_reason: Option<String>,
    /// The user or group that the called number belongs to. Not written for a call by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) number_of: Option<String>,
    /// True if no packet came within 5 seconds after the answer.
    pub(crate) no_media: Option<bool>,
    pub(crate) streams: Vec<Stream>,
}

/// A call that stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Call {
    /// Names the call for `barebell calls end`.
    pub(crate) id: String,
    /// The Call-ID, as the caller knows it.
    pub(crate) call_id: String,
    /// That of the second leg of a call through the B2BUA.
    pub(crate) callee_call_id: Option<String>,
    pub(crate) caller: String,
    pub(crate) callee: String,
    /// The name of the trunk of the call. Not written for a call on none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trunk: Option<String>,
    /// Seconds since the answer.
    pub(crate) duration: Option<f64>,
    /// Seconds since the last packet of either end, or since the answer.
    #[serde(default)]
    pub(crate) silent: Option<f64>,
    pub(crate) no_media: Option<bool>,
    pub(crate) streams: Vec<Stream>,
}

/// A medium of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stream {
    pub(crate) from_caller: Packets,
    pub(crate) from_callee: Packets,
}

/// The packets from one end, as they arrived at the relay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Packets {
    /// The keys on the leg of this end: `none`, `sdes` or `dtls`.
    pub(crate) keying: Option<String>,
    /// The agreed codec and its clock rate, such as `PCMU/8000`.
    pub(crate) codec: Option<String>,
    /// The conversion of the codec, if there is or was one.
    pub(crate) converted: Option<Converted>,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Packets of another source, forged, or not agreed.
    pub(crate) refused: u64,
    /// Packets that the relay could not send on.
    pub(crate) unsent: u64,
    /// Packets lost before the relay.
    pub(crate) lost: Option<u64>,
    /// The same in percent.
    pub(crate) loss: Option<f64>,
    /// The maximum interarrival jitter in milliseconds.
    pub(crate) jitter: Option<f64>,
    /// The longest time between two packets in milliseconds.
    pub(crate) max_delta: Option<f64>,
    /// The mean opinion score.
    pub(crate) mos: Option<f64>,
    /// The last report of the other end about these packets.
    pub(crate) reported: Option<Reported>,
}

/// A conversion, and the packets that it did not convert.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Converted {
    /// The codec of the packets as they are sent on.
    pub(crate) to: Option<String>,
    /// Packets that came after later ones, or twice.
    pub(crate) late: u64,
    pub(crate) repeated: u64,
    /// Packets that did not come in time.
    pub(crate) missing: u64,
    /// Packets over the limit of sound for each second of time.
    pub(crate) excess: u64,
    /// Packets that are not of their codec.
    pub(crate) unusable: u64,
}

/// A receiver report of an end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reported {
    /// The packets lost since the beginning.
    pub(crate) lost: i32,
    /// The packets lost since the report before, in percent.
    pub(crate) loss: f64,
    /// The interarrival jitter in milliseconds.
    pub(crate) jitter: f64,
}

impl From<&CallRecord> for Record {
    fn from(record: &CallRecord) -> Self {
        let report = &record.report;
        let [caller, callee] = report.ends.each_ref().map(|end| end.signalling);
        let seconds = |since: Instant| record.ended.since(since).as_micros() as f64 / 1e6;
        let (call_id, callee_call_id) = call_ids(report);
        Self {
            call_id,
            callee_call_id,
            caller: shown(&report.parties[0]),
            callee: shown(&report.parties[1]),
            caller_address: caller.to_string(),
            callee_address: record.unreached.is_none().then(|| callee.to_string()),
            through: if record.is_joined { "b2bua".to_owned() } else { through_proxy() },
            trunk: record.trunk.as_deref().map(printable),
            created: time(record.created),
            ringing: record.ringing.map(time),
            answered: record.answered.map(time),
            ended: time(record.ended),
            duration: record.answered.map(|since| rounded(seconds(since))),
            ended_by: match record.ended_by {
                Party::Caller => "caller",
                Party::Callee => "callee",
                Party::Server => "server",
                Party::Limit => "limit",
            }
            .to_owned(),
            status: record.response.as_ref().map(|(status, _)| *status),
            phrase: record.response.as_ref().map(|(_, phrase)| shown(phrase)),
            reason: record.reason.as_deref().map(shown),
            forwarded_to: record.retargeted.as_ref().map(|it| printable(&it.user)),
            forward_reason: record.retargeted.as_ref().map(|it| it.reason.to_string()),
            number_of: record.owner.as_deref().map(printable),
            no_media: report.no_media,
            streams: streams(report),
        }
    }
}

impl Record {
    /// The record as it is stored. `None` if the time of the end cannot be read.
    pub(crate) fn stored(&self) -> Option<StoredCall> {
        let ended = humantime::parse_rfc3339(&self.ended).ok()?;
        Some(StoredCall {
            ended: instant(ended),
            parties: [&self.caller, &self.callee].map(|uri| party(uri)),
            led_to: self.forwarded_to.clone(),
            number_of: self.number_of.clone(),
            is_failed: self.answered.is_none() || self.no_media == Some(true),
            record: serde_json::to_string(self).ok()?,
        })
    }
}

/// The time of day `at`.
pub(crate) fn instant(at: SystemTime) -> Instant {
    Instant::ZERO + sip::Duration::from(at.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// The name of a party. That of a call of an NG client is not known.
pub(crate) fn name(uri: &str) -> String {
    if uri.is_empty() { "-".to_owned() } else { printable(uri) }
}

/// The party of a SIP URI as `user@domain`, the domain in lower case; another URI without its
/// parameters.
pub(crate) fn party(uri: &str) -> String {
    match Uri::parse(uri.as_bytes()) {
        Ok(Uri::Sip(uri)) => {
            let user = uri.user.map(String::from_utf8_lossy).unwrap_or_default();
            format!("{user}@{}", uri.host.to_string().to_ascii_lowercase())
        }
        _ => uri.split(';').next().unwrap_or_default().to_owned(),
    }
}

fn through_proxy() -> String {
    "proxy".to_owned()
}

/// The keys of a leg, as far as its transport protocol or the relay tells them.
fn keying(direction: &Direction) -> Option<&'static str> {
    Some(match Profile::of(&direction.protocol)? {
        _ if direction.has_handshake => "dtls",
        Profile::Dtls => "dtls",
        Profile::Secure => "sdes",
        Profile::Plain if direction.has_keys => "sdes",
        Profile::Plain => "none",
    })
}

impl Call {
    /// The call of `report` with this `id`, at the time `now` of the relay.
    pub(crate) fn new(id: String, report: &CallReport, now: Duration) -> Self {
        let answered = report.answered;
        let since = |at| rounded(now.saturating_sub(at).as_secs_f64());
        let (call_id, callee_call_id) = call_ids(report);
        Self {
            id,
            call_id,
            callee_call_id,
            caller: shown(&report.parties[0]),
            callee: shown(&report.parties[1]),
            trunk: trunk_of(report).map(printable),
            duration: answered.map(since),
            silent: answered.map(|answered| since(report.last_packet.unwrap_or(answered))),
            no_media: report.no_media,
            streams: streams(report),
        }
    }
}

impl Call {
    /// The call `report` of the B2BUA with this `id`, which is not relayed.
    pub(crate) fn of_b2bua(id: String, report: &b2bua::CallReport, now: Instant) -> Self {
        let [call_id, callee_call_id] = report.call_ids.each_ref().map(|id| shown(id));
        let [caller, callee] = report.parties.each_ref().map(|uri| shown(uri));
        let seconds = |since: Instant| now.since(since).as_micros() as f64 / 1e6;
        Self {
            id,
            call_id,
            callee_call_id: Some(callee_call_id).filter(|id| !id.is_empty()),
            caller,
            callee,
            trunk: report.trunk.clone(),
            duration: report.answered.map(|since| rounded(seconds(since))),
            silent: None,
            no_media: None,
            streams: Vec::new(),
        }
    }
}

/// The Call-ID of a call as the caller knows it, and that of the second leg if there is one.
fn call_ids(report: &CallReport) -> (String, Option<String>) {
    let call_id = shown(&report.call_id);
    match caller_call_id(report) {
        Some(caller) if !caller.is_empty() => (printable(caller), Some(call_id)),
        _ => (call_id, None),
    }
}

fn streams(report: &CallReport) -> Vec<Stream> {
    let stream = |[caller, callee]: &[Direction; 2]| Stream {
        from_caller: Packets::from(caller),
        from_callee: Packets::from(callee),
    };
    report.streams.iter().map(stream).collect()
}

impl From<&Direction> for Packets {
    fn from(direction: &Direction) -> Self {
        let share = |lost: u64, expected: u64| rounded(100.0 * lost as f64 / expected as f64);
        Self {
            keying: keying(direction).map(str::to_owned),
            codec: direction.codec.as_deref().map(printable),
            converted: direction.conversions.map(|counts| Converted {
                to: direction.converted_to.as_deref().map(printable),
                late: counts.late,
                repeated: counts.repeated,
                missing: counts.missing,
                excess: counts.excess,
                unusable: counts.unusable,
            }),
            packets: direction.packets,
            bytes: direction.bytes,
            refused: direction.refused,
            unsent: direction.unsent,
            lost: direction.lost,
            loss: direction.lost.zip(direction.expected).map(|(lost, of)| share(lost, of)),
            jitter: direction.jitter.map(milliseconds),
            max_delta: direction.max_delta.map(milliseconds),
            mos: direction.mean_opinion_score.map(|score| (score * 100.0).round() / 100.0),
            reported: direction.reported.map(|reported| Reported {
                lost: reported.lost,
                loss: rounded(100.0 * reported.fraction_lost),
                jitter: milliseconds(reported.jitter),
            }),
        }
    }
}

/// Text of a peer, without control characters.
fn shown(text: &[u8]) -> String {
    printable(&String::from_utf8_lossy(text))
}

fn time(at: Instant) -> String {
    let at = UNIX_EPOCH + Duration::from_micros(at.as_micros());
    humantime::format_rfc3339_millis(at).to_string()
}

fn milliseconds(duration: Duration) -> f64 {
    rounded(duration.as_secs_f64() * 1000.0)
}

/// `number` with three decimals.
fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_documentation_has_every_field() {
        let page = include_str!("../../../docs/running.md");
        let lines: Vec<&str> =
            page.lines().filter(|line| line.starts_with("{\"call_id\":")).collect();
        let [line] = lines[..] else { panic!("one example is expected: {lines:?}") };
        let record: Record = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&record).unwrap(), line);
        let section = page.split("## Records of calls").nth(1).expect("a section");
        let section = section.split("\n## ").next().expect("its text");
        let value = serde_json::to_value(&record).unwrap();
        let mut left = vec![&value];
        while let Some(value) = left.pop() {
            for (name, value) in value.as_object().into_iter().flatten() {
                assert!(section.contains(&format!("`{name}`")), "{name} is not described");
                left.push(value);
            }
            left.extend(value.as_array().into_iter().flatten());
        }
    }

    #[test]
    fn text_of_peers_has_no_control_characters() {
        assert_eq!(
            shown(b"sip:a\r\n\x1b\x7f\xc2\x9b@b\xff"),
            "sip:a\\r\\n\\u{1b}\\u{7f}\\u{9b}@b\u{fffd}"
        );
    }

    #[test]
    fn times_are_in_utc() {
        assert_eq!(time(Instant::from_micros(1_700_000_000_123_999)), "2023-11-14T22:13:20.123Z");
    }
}
