//! The record of a relayed call that has ended.

use alloc::boxed::Box;
use core::time::Duration;
use relay::{CallReport, WebFault};
use sip::{Instant, Message, StartLine};

/// The label of an end at an internal flow. The Call-ID of the other leg follows it.
pub(crate) const INTERNAL: &str = "internal flow ";

/// The character between that and the name of the trunk of the call.
pub(crate) const TRUNK: char = '\n';
/// The label of a called end to which call services have led the call. The reason and the user
/// follow it.
pub(crate) const RETARGETED: &str = "retargeted ";

/// The text in the label of a called end before the user or group that the called number belongs
/// to.
pub(crate) const OWNER: &str = "\nowner ";

/// The Reason of a BYE of the owner's B2BUA to an end that does not answer its check. The B2BUA
/// does not pass this Reason from one leg to the other.
pub const LOST_REASON: &str = "SIP;cause=408;text=\"No response\"";

/// The Reasons of a BYE of the owner's B2BUA to a call through a trunk that has used up the minutes
/// of the day, and to one that has lasted for as long as a limit allows. The B2BUA does not pass
/// them from one leg to the other.
pub const NO_MINUTES_REASON: &str = "SIP;cause=403;text=\"No Minutes Left Today\"";
/// See [`NO_MINUTES_REASON`].
pub const TOO_LONG_REASON: &str = "SIP;cause=403;text=\"Maximum Duration Reached\"";

/// The Reason of a call that had no packets, of one on hold without a sign of its ends, of one that
/// was not answered, of one that a browser does not consent to any more or has no keys for, and of
/// one that an end has left by an RTCP BYE (ITU-T Q.850: normal call clearing).
const NO_MEDIA: &str = "SIP;cause=408;text=\"No media\"";
const HOLD_TIMEOUT: &str = "SIP;cause=408;text=\"Hold timeout\"";
const NO_ANSWER: &str = "SIP;cause=408;text=\"No answer\"";
const NO_CONSENT: &str = "SIP;cause=408;text=\"No consent\"";
const NO_KEYS: &str = "SIP;cause=488;text=\"No keys by DTLS\"";
const RTCP_BYE: &str = "Q.850;cause=16;text=\"RTCP BYE\"";

/// The maximum length of a reason phrase or a Reason in a record, in bytes. The rest is not kept.
const MAX_TEXT: usize = 256;

/// A party of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// The end that began the call.
    Caller,
    /// The end that was called.
    Callee,
    /// This server.
    Server,
    /// This server, for a limit of the use of trunks.
    Limit,
}

/// A call that was refused before it reached a phone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unreached {
    /// True if the caller is an authenticated user, or at an address of a trusted network. The
    /// owner limits the records of others.
    pub is_proven: bool,
    /// True for the leg of the caller of a call that the B2BUA has got. If there is a second leg,
    /// that has the record of the call.
    pub is_first_leg: bool,
}

/// The record of a relayed call, or of one that was refused before. A call that was forked, or sent
/// to several places one after the other, has one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CallRecord {
    /// The report of the relay. Its times are those of the owner's clock.
    pub report: CallReport,
    /// The time of day of the first INVITE.
    pub created: Instant,
    /// The time of day of the first 18x.
    pub ringing: Option<Instant>,
    /// The time of day of the 2xx.
    pub answered: Option<Instant>,
    /// The time of day of the end.
    pub ended: Instant,
    /// The party that ended the call.
    pub ended_by: Party,
    /// True if an end of the call is the B2BUA beside the proxy.
    pub is_joined: bool,
    /// The Call-ID of the other leg of such a call, that of the caller.
    pub caller_call_id: Option<Box<str>>,
    /// The name of the trunk of the call.
    pub trunk: Option<Box<str>>,
    /// The final response that the caller got, if it is no 2xx: its status and reason phrase.
    pub response: Option<(u16, Box<[u8]>)>,
    /// The first Reason (RFC 3326) of the BYE, the CANCEL or the final response.
    pub reason: Option<Box<[u8]>>,
    /// Set if the call was refused before it reached a phone. It was not relayed then.
    pub unreached: Option<Unreached>,
    /// Set if call services have led the call to another user than the called one.
    pub retargeted: Option<Retargeting>,
    /// The user or group that the called number belongs to, `name@domain`.
    pub owner: Option<Box<str>>,
}

/// The last retargeting of a call by call services.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retargeting {
    /// The reason of the last forward, such as `busy` or `no-answer`; `group` without one.
    pub reason: Box<str>,
    /// The user that was called last, `name@domain`.
    pub user: Box<str>,
}

impl Retargeting {
    /// That of the called end in `report`.
    fn of(report: &CallReport) -> Option<Self> {
        let label = report.ends[1].label.as_deref()?.strip_prefix(RETARGETED)?;
        let label = label.split_once(OWNER).map_or(label, |(way, _)| way);
        let (reason, user) = label.split_once(' ')?;
        Some(Self { reason: reason.into(), user: user.into() })
    }
}

impl Unreached {
    /// A call of one leg that was refused. `is_proven` is [`Unreached::is_proven`].
    #[must_use]
    pub const fn new(is_proven: bool) -> Self {
        Self { is_proven, is_first_leg: false }
    }
}

impl CallRecord {
    /// The record of a call that `ended_by` ended at `now`. `clock_offset` is the offset of the
    /// time of day from the time of the owner's clock, in microseconds.
    #[must_use]
    pub fn new(report: CallReport, ended_by: Party, now: Instant, clock_offset: i64) -> Self {
        let time_of_day =
            |micros: u64| Instant::from_micros(micros.saturating_add_signed(clock_offset));
        let at = |time: Duration| time_of_day(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        let caller_call_id: Option<Box<str>> = caller_call_id(&report).map(Box::from);
        Self {
            is_joined: caller_call_id.is_some(),
            caller_call_id: caller_call_id.filter(|it| !it.is_empty()),
            trunk: trunk_of(&report).map(Box::from),
            created: at(report.created),
            ringing: report.ringing.map(at),
            answered: report.answered.map(at),
            ended: time_of_day(now.as_micros()),
            retargeted: Retargeting::of(&report),
            owner: owner_of(&report).map(Box::from),
            report,
            ended_by,
            response: None,
            reason: None,
            unreached: None,
        }
    }

    /// The record of a call that is over at `now` by the limits of the relay. Its Reason says why.
    #[must_use]
    pub fn of_expired(report: CallReport, now: Instant, clock_offset: i64) -> Self {
        let (by, reason) = match (report.answered, report.has_left) {
            (None, _) => (Party::Server, NO_ANSWER),
            _ if report.web_fault == Some(WebFault::Keys) => (Party::Server, NO_KEYS),
            _ if report.web_fault.is_some() => (Party::Server, NO_CONSENT),
            _ if report.on_hold => (Party::Server, HOLD_TIMEOUT),
            (_, [false, false]) => (Party::Server, NO_MEDIA),
            (_, [true, false]) => (Party::Caller, RTCP_BYE),
            (_, [false, true]) => (Party::Callee, RTCP_BYE),
            // Which of them was the first is not known.
            (_, [true, true]) => (Party::Server, RTCP_BYE),
        };
        Self::new(report, by, now, clock_offset).with_reason(Some(reason.as_bytes()))
    }

    /// Adds the final response that the caller got.
    pub(crate) fn with_response(mut self, response: &Message<'_>) -> Self {
        if let StartLine::Response { status, reason } = response.start_line() {
            self.response = Some((status, cut(reason)));
        }
        self
    }

    /// Adds the value of a Reason.
    #[must_use]
    pub fn with_reason(mut self, reason: Option<&[u8]>) -> Self {
        self.reason = reason.map(cut);
        self
    }
}

/// The Call-ID of the other leg of a call through the B2BUA beside the proxy, that of the caller.
/// Empty if it is not known, `None` for another call.
#[must_use]
pub fn caller_call_id(report: &CallReport) -> Option<&str> {
    let label = internal_label(report)?;
    Some(label.split_once(TRUNK).map_or(label, |(call_id, _)| call_id))
}

/// The name of the trunk of a call.
#[must_use]
pub fn trunk_of(report: &CallReport) -> Option<&str> {
    Some(internal_label(report)?.split_once(TRUNK)?.1)
}

/// The user or group that the called number of a call belongs to.
fn owner_of(report: &CallReport) -> Option<&str> {
    Some(report.ends[1].label.as_deref()?.split_once(OWNER)?.1)
}

/// The label of the B2BUA beside the proxy.
fn internal_label(report: &CallReport) -> Option<&str> {
    let mut labels = report.ends.iter().filter_map(|end| end.label.as_deref());
    labels.find_map(|label| label.strip_prefix(INTERNAL))
}

/// True for the Reason of a call that a limit of the use of trunks has ended.
pub(crate) fn is_of_limit(reason: &[u8]) -> bool {
    [NO_MINUTES_REASON, TOO_LONG_REASON].iter().any(|it| it.as_bytes() == reason)
}

/// The beginning of `text` that a record keeps.
pub(crate) fn cut(text: &[u8]) -> Box<[u8]> {
    text[..text.len().min(MAX_TEXT)].into()
}
