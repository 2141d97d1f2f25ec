//! What the phone tells: for people on standard error, for programs as JSON lines on standard output.

use media::{Statistics, Stream};
use serde::Serialize;
use std::io::Write;

/// Something that is told.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Told<'a> {
    Listening { address: String },
    Registered { account: &'a str, seconds: u64 },
    RegistrationFailed { account: &'a str, cause: &'a str },
    Incoming { call: u64, from: &'a str },
    Ringing { call: u64, status: u16, early_media: bool },
    Answered(Answered<'a>),
    Dtmf { call: u64, digit: char },
    Held { call: u64, held: bool },
    Media(Media),
    Ended { call: u64, cause: &'a str, status: u8, totals: Option<Media> },
}

/// How a call is carried.
#[derive(Debug, Serialize)]
pub(crate) struct Answered<'a> {
    pub(crate) call: u64,
    pub(crate) codec: &'static str,
    /// The suite of SRTP; `None`: in clear.
    pub(crate) srtp: Option<&'static str>,
    /// The scheme of SRTP+, by its name.
    pub(crate) srtp_plus: Option<String>,
    /// The keys came over signalling that others can read.
    pub(crate) keys_in_clear: bool,
    pub(crate) remote: &'a str,
}

impl<'a> Answered<'a> {
    pub(crate) fn new(call: u64, stream: &Stream, remote: &'a str) -> Self {
        let policy = stream.security.as_ref().map(|agreed| &agreed.send.policy);
        Self {
            call,
            codec: stream.codec.name(),
            srtp: policy.map(|policy| policy.suite.name()),
            srtp_plus: policy
                .and_then(|policy| policy.plus)
                .map(|plus| format!("{:?}", plus.scheme)),
            keys_in_clear: policy.is_some(),
            remote,
        }
    }
}

/// Figures of a stream.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Media {
    pub(crate) call: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) lost: u64,
    pub(crate) refused: u64,
    pub(crate) strangers: u64,
    pub(crate) jitter_ms: f64,
    pub(crate) max_jitter_ms: f64,
    pub(crate) mean_delta_ms: f64,
    pub(crate) max_delta_ms: f64,
    /// `None` until something was heard.
    pub(crate) mos: Option<f64>,
}

impl Media {
    pub(crate) fn new(call: u64, statistics: &Statistics) -> Self {
        let millis = |time: std::time::Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
        Self {
            call,
            sent: statistics.sent,
            received: statistics.received,
            lost: statistics.lost(),
            refused: statistics.refused,
            strangers: statistics.strangers,
            jitter_ms: millis(statistics.jitter),
            max_jitter_ms: millis(statistics.max_jitter),
            mean_delta_ms: millis(statistics.mean_delta),
            max_delta_ms: millis(statistics.max_delta),
            mos: (statistics.received > 0).then(|| (statistics.mos * 100.0).round() / 100.0),
        }
    }
}

impl std::fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Listening { address } => write!(f, "listening on {address}"),
            Self::Registered { account, seconds } => {
                write!(f, "{account} is registered for {seconds} s")
            }
            Self::RegistrationFailed { account, cause } => {
                write!(f, "{account} is not registered: {cause}")
            }
            Self::Incoming { from, .. } => write!(f, "{from} calls"),
            Self::Ringing { status, early_media: false, .. } => write!(f, "it rings ({status})"),
            Self::Ringing { status, .. } => write!(f, "it rings, with early media ({status})"),
            Self::Answered(Answered { codec, srtp, remote, .. }) => match srtp {
                Some(suite) => write!(
                    f,
                    "in a call with {remote}: {codec}, SRTP {suite}, but the keys came over signalling in clear"
                ),
                None => write!(f, "in a call with {remote}: {codec}, NOT SECURE: in clear"),
            },
            Self::Dtmf { digit, .. } => write!(f, "key {digit}"),
            Self::Held { held: true, .. } => f.write_str("the other end holds the call"),
            Self::Held { .. } => f.write_str("the call goes on"),
            Self::Media(media) => write!(f, "{media}"),
            Self::Ended { cause, totals: Some(media), .. } => write!(f, "ended: {cause}; {media}"),
            Self::Ended { cause, .. } => write!(f, "ended: {cause}"),
        }
    }
}

impl std::fmt::Display for Media {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { sent, received, lost, jitter_ms, max_delta_ms, .. } = self;
        write!(
            f,
            "sent {sent}, received {received}, lost {lost}, jitter {jitter_ms} ms, longest delta {max_delta_ms} ms"
        )?;
        self.mos.map_or(Ok(()), |mos| write!(f, ", MOS {mos}"))
    }
}

/// Where it is told.
pub(crate) struct Report {
    json: bool,
}

impl Report {
    pub(crate) const fn new(json: bool) -> Self {
        Self { json }
    }

    pub(crate) fn tell(&self, told: &Told<'_>) {
        // Whoever has closed the output wants to hear no more.
        let _ = match self.json {
            true => {
                let line = serde_json::to_string(told).unwrap_or_default();
                writeln!(std::io::stdout().lock(), "{line}")
            }
            false => writeln!(std::io::stderr().lock(), "{told}"),
        };
    }
}
