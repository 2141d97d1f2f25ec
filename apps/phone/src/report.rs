//! The phone's events: text on standard error for people, JSON lines on standard output for
//! programs.

use crate::exchange::Proof;
use crate::figures::Media;
use crate::impression::Impression;
use crate::outcome::Outcome;
use crate::pcm;
use crate::terminal;
use media::{Keying, Session};
use serde::Serialize;
use srtp::Suite;
use srtp::timings::{Step, Timings};
use zrtp::Continuity;

/// An event. The names and fields are documented in docs/phone.md and are stable.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum PhoneEvent {
    Listening {
        address: String,
    },
    Registered {
        account: String,
        seconds: u64,
    },
    RegistrationFailed {
        account: String,
        cause: String,
        retry_seconds: Option<u64>,
        #[serde(skip)]
        outcome: Outcome,
    },
    Unregistered {
        account: String,
    },
    Calling {
        call: u64,
        to: String,
    },
    Incoming {
        call: u64,
        from: String,
        account: Option<String>,
    },
    /// An incoming call that was refused because its media are not acceptable.
    Refused {
        call: u64,
        from: String,
        cause: String,
    },
    Ringing {
        call: u64,
        status: u16,
        early_media: bool,
    },
    Answered(Answered),
    /// The handshake of an answered call has yielded its keys.
    Secured {
        call: u64,
        #[serde(flatten)]
        security: Security,
    },
    Dtmf {
        call: u64,
        digit: char,
    },
    Held {
        call: u64,
        held: bool,
        /// True if this end holds, false if the remote end does.
        here: bool,
    },
    /// A sound device is not available; calls go on without it.
    Device {
        cause: String,
    },
    /// The call is redirected.
    Redirected {
        call: u64,
        to: String,
    },
    /// The network has changed: the call has moved to another address.
    Moved {
        call: u64,
        address: String,
    },
    /// ICE has found a way for media, or another one.
    Path {
        call: u64,
        /// The address of the remote end.
        remote: String,
        /// The TURN server that relays, if this end uses one.
        #[serde(skip_serializing_if = "Option::is_none")]
        turn: Option<String>,
    },
    /// The time of the SRTP steps in a call.
    Timings {
        call: u64,
        suite: &'static str,
        steps: Vec<StepTaken>,
    },
    /// The state of the transfer that this end has requested.
    Transfer {
        call: u64,
        state: TransferState,
        /// The cause of a failure.
        #[serde(skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
    },
    /// The remote end has requested a transfer.
    TransferAsked {
        call: u64,
        to: String,
    },
    /// The requested transfer is followed by another call.
    Following {
        call: u64,
        by: u64,
        to: String,
    },
    Message {
        from: String,
        text: String,
        account: Option<String>,
    },
    /// Message-waiting indication of a mailbox (RFC 3842).
    MessagesWaiting {
        account: Option<String>,
        waiting: bool,
        new: Option<u32>,
        old: Option<u32>,
    },
    MessageSent {
        message: u64,
        /// The cause of a failure; `None` if the message has arrived.
        cause: Option<String>,
    },
    /// A change of the call failed.
    Unchanged {
        call: u64,
        cause: String,
    },
    Media(Media),
    /// A command was executed or started; its result follows as events.
    Done {
        /// The id of the command.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<serde_json::Value>,
        /// The number of the placed call.
        #[serde(skip_serializing_if = "Option::is_none")]
        call: Option<u64>,
        /// The number of the message sent.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<u64>,
    },
    /// A command failed.
    Failed {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<serde_json::Value>,
        cause: String,
    },
    State(State),
    /// A result of `check`.
    Check {
        what: String,
        works: bool,
        found: String,
        /// Advice if it does not work.
        advice: Option<String>,
    },
    /// A step of a script.
    Step {
        /// The number of the step, counted from one.
        step: usize,
        line: usize,
        does: String,
        state: StepState,
        seconds: Option<f64>,
        /// The cause of a failure.
        cause: Option<String>,
    },
    /// An expectation for an ended call, and the observation.
    Expected {
        call: u64,
        met: bool,
        expected: String,
        heard: String,
    },
    Ended {
        call: u64,
        cause: String,
        status: u8,
        /// True if the remote end hung up.
        by_peer: bool,
        /// The SIP status of the rejection.
        sip_status: Option<u16>,
        /// Seconds since the answer; `None` without an answer.
        seconds: Option<f64>,
        totals: Option<Media>,
        /// `None` without media.
        heard: Option<Impression>,
        /// Missing and dropped raw samples; `None` without raw samples.
        pcm: Option<pcm::Lacks>,
        #[serde(skip)]
        outcome: Outcome,
    },
}

/// The time of an SRTP step.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StepTaken {
    pub(crate) step: &'static str,
    pub(crate) count: u64,
    pub(crate) mean_ns: u64,
}

impl PhoneEvent {
    /// The timings of the steps of `suite`.
    pub(crate) fn timings(call: u64, suite: Suite, timings: &Timings) -> Self {
        let steps = Step::ALL.iter().map(|&step| {
            let timing = timings.get(step);
            let mean_ns = timing.nanoseconds / timing.count.max(1);
            StepTaken { step: step.name(), count: timing.count, mean_ns }
        });
        Self::Timings { call, suite: suite.name(), steps: steps.collect() }
    }
}

/// The state of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TransferState {
    Accepted,
    Ringing,
    Done,
    Failed,
}

/// The state of a script step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StepState {
    Begun,
    Passed,
    Failed,
}

/// The state of accounts and calls.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct State {
    pub(crate) accounts: Vec<StateOfAccount>,
    pub(crate) calls: Vec<StateOfCall>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct StateOfAccount {
    pub(crate) account: String,
    pub(crate) registered: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct StateOfCall {
    pub(crate) call: u64,
    pub(crate) party: String,
    pub(crate) stage: &'static str,
    /// Seconds since the beginning of the call.
    pub(crate) seconds: u64,
    pub(crate) held_here: bool,
    pub(crate) held_there: bool,
}

/// The media of an answered call.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Answered {
    pub(crate) call: u64,
    pub(crate) codec: &'static str,
    #[serde(flatten)]
    pub(crate) security: Security,
    /// Sample rate of raw input and output in hertz.
    pub(crate) pcm_rate: Option<u32>,
    pub(crate) remote: String,
}

/// The encryption of a call's media.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Security {
    /// The SRTP crypto suite; `None`: in clear, or the keys are not known yet.
    pub(crate) srtp: Option<&'static str>,
    /// The name of the SRTP+ scheme.
    pub(crate) srtp_plus: Option<String>,
    /// The protocol of the agreement on keys, `sdes`, `dtls` or `zrtp`; `None`: in clear.
    pub(crate) keys: Option<&'static str>,
    /// The proof that the keys are those of the other end: `signalling` if they, or the fingerprint
    /// of the certificate or the hash of ZRTP, came over encrypted signalling; `sas` if the users
    /// have compared the short authentication string.
    pub(crate) verified_by: Option<&'static str>,
    /// True if the keys themselves came over unencrypted signalling.
    pub(crate) keys_in_clear: bool,
    /// The short authentication string of ZRTP, which the users compare.
    pub(crate) sas: Option<String>,
    /// The relation of ZRTP's secrets to earlier calls: `new`, `continued`, or `broken` if the
    /// other end does not have those of the earlier calls.
    pub(crate) continuity: Option<&'static str>,
}

impl Security {
    /// The security of `session`. `is_secured` is true if the signalling is encrypted.
    pub(crate) fn of(session: &Session, is_secured: bool, proof: Option<&Proof>) -> Self {
        let keying = &session.stream().keying;
        let keys = match keying {
            Keying::Sdes(_) => Some("sdes"),
            Keying::Dtls(_) => Some("dtls"),
            Keying::Zrtp(_) => Some("zrtp"),
            _ => None,
        };
        let plus = keying.sdes().and_then(|agreed| agreed.send.policy.plus);
        let srtp = session.suite().map(Suite::name);
        let by_sas = proof.filter(|proof| proof.is_verified).map(|_| "sas");
        Self {
            srtp,
            srtp_plus: plus.map(|plus| plus.scheme.name().to_owned()),
            keys,
            verified_by: by_sas.or(srtp.filter(|_| is_secured).map(|_| "signalling")),
            keys_in_clear: keying.sdes().is_some() && !is_secured,
            sas: proof.map(|proof| proof.sas.clone()),
            continuity: proof.map(|proof| match proof.continuity {
                Continuity::New => "new",
                Continuity::Continued => "continued",
                Continuity::Broken => "broken",
            }),
        }
    }
}

impl std::fmt::Display for Security {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.srtp, self.keys) {
            (None, None) => f.write_str("NOT SECURE: in clear"),
            (None, Some(_)) => f.write_str("SRTP as soon as the handshake has yielded its keys"),
            (Some(suite), _) if self.keys_in_clear => {
                write!(f, "SRTP {suite}, but the keys came over signalling in clear")
            }
            (Some(suite), Some("dtls")) if self.verified_by.is_none() => {
                write!(f, "SRTP {suite}, but the fingerprint came over signalling in clear")
            }
            (Some(suite), Some("zrtp")) => {
                let sas = self.sas.as_deref().unwrap_or_default();
                match (self.verified_by, self.continuity) {
                    (Some("sas"), _) => write!(f, "SRTP {suite}, verified by voice: {sas}"),
                    (_, Some("broken")) => write!(
                        f,
                        "SRTP {suite}, but the other end lost the secrets of earlier calls, or a \
                         host between listens: compare {sas} by voice"
                    ),
                    _ => write!(f, "SRTP {suite}, compare {sas} by voice"),
                }
            }
            (Some(suite), _) => write!(f, "SRTP {suite}"),
        }
    }
}

impl Answered {
    pub(crate) fn new(
        call: u64,
        session: &Session,
        remote: &str,
        is_secured: bool,
        proof: Option<&Proof>,
    ) -> Self {
        Self {
            call,
            codec: session.stream().codec.name(),
            security: Security::of(session, is_secured, proof),
            pcm_rate: pcm::rate_in_use(),
            remote: remote.to_owned(),
        }
    }
}

impl std::fmt::Display for PhoneEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Listening { address } => write!(f, "listening on {address}"),
            Self::Registered { account, seconds } => {
                write!(f, "{account} is registered for {seconds} s")
            }
            Self::RegistrationFailed { account, cause, retry_seconds, .. } => {
                write!(f, "{account} is not registered: {cause}")?;
                retry_seconds.map_or(Ok(()), |seconds| write!(f, "; again in {seconds} s"))
            }
            Self::Unregistered { account } => write!(f, "{account} is not registered any more"),
            Self::Calling { to, .. } => write!(f, "calling {to}"),
            Self::Incoming { from, .. } => write!(f, "{from} calls"),
            Self::Refused { from, cause, .. } => write!(f, "a call of {from} is refused: {cause}"),
            Self::Ringing { status, early_media: false, .. } => write!(f, "it rings ({status})"),
            Self::Ringing { status, .. } => write!(f, "it rings, with early media ({status})"),
            Self::Answered(Answered { codec, security, remote, .. }) => {
                write!(f, "in a call with {remote}: {codec}, {security}")
            }
            Self::Secured { security, .. } => security.fmt(f),
            Self::Dtmf { digit, .. } => write!(f, "key {digit}"),
            Self::Held { held: true, here, .. } => {
                let who = if *here { "this end" } else { "the other end" };
                write!(f, "{who} holds the call")
            }
            Self::Held { .. } => f.write_str("the call goes on"),
            Self::Device { cause } => write!(f, "no sound: {cause}"),
            Self::Redirected { to, .. } => write!(f, "the call is sent to {to}"),
            Self::Moved { address, .. } => write!(f, "the call goes on from {address}"),
            Self::Path { remote, turn: None, .. } => write!(f, "media go to {remote}"),
            Self::Path { remote, turn: Some(turn), .. } => {
                write!(f, "media go to {remote} through the TURN server {turn}")
            }
            Self::Timings { suite, steps, .. } => {
                write!(f, "SRTP {suite}:")?;
                steps.iter().try_for_each(|StepTaken { step, count, mean_ns }| {
                    write!(f, " {step} {mean_ns} ns ({count})")
                })
            }
            Self::Transfer { state, cause, .. } => {
                let state = match state {
                    TransferState::Accepted => "the other end calls",
                    TransferState::Ringing => "it rings there",
                    TransferState::Done => "transferred",
                    TransferState::Failed => "the transfer has failed",
                };
                f.write_str(state)?;
                cause.as_ref().map_or(Ok(()), |cause| write!(f, ": {cause}"))
            }
            Self::TransferAsked { to, .. } => write!(f, "the other end asks for a call to {to}"),
            Self::Following { to, .. } => write!(f, "calling {to}, as the other end asks"),
            Self::Message { from, text, .. } => write!(f, "{from} writes: {text}"),
            Self::MessagesWaiting { waiting, new, old, .. } => {
                f.write_str(if *waiting { "messages wait" } else { "no messages wait" })?;
                match (new, old) {
                    (Some(new), Some(old)) => write!(f, ": {new} new, {old} old"),
                    _ => Ok(()),
                }
            }
            Self::MessageSent { cause: None, .. } => f.write_str("the message has arrived"),
            Self::MessageSent { cause: Some(cause), .. } => {
                write!(f, "the message has not arrived: {cause}")
            }
            Self::Unchanged { cause, .. } => write!(f, "the call stays as it was: {cause}"),
            Self::Media(media) => write!(f, "{media}"),
            Self::Done { .. } => f.write_str("done"),
            Self::Failed { cause, .. } => f.write_str(cause),
            Self::State(state) => write!(f, "{} calls", state.calls.len()),
            Self::Check { what, works, found, advice } => {
                let verdict = if *works { "ok" } else { "FAILS" };
                write!(f, "{verdict:5} {what}: {found}")?;
                advice.as_ref().map_or(Ok(()), |advice| write!(f, "; {advice}"))
            }
            Self::Step { step, does, state, cause, .. } => {
                let state = match state {
                    StepState::Begun => "...",
                    StepState::Passed => ": passed",
                    StepState::Failed => ": FAILED",
                };
                write!(f, "step {step}, {does}{state}")?;
                cause.as_ref().map_or(Ok(()), |cause| write!(f, ": {cause}"))
            }
            Self::Expected { met, expected, heard, .. } => {
                let verdict = if *met { "met" } else { "NOT MET" };
                write!(f, "{verdict}: expected {expected}; heard {heard}")
            }
            Self::Ended { cause, totals: Some(media), .. } => write!(f, "ended: {cause}; {media}"),
            Self::Ended { cause, .. } => write!(f, "ended: {cause}"),
        }
    }
}

/// The destination of events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    json: bool,
    /// True if the standard output has another use.
    to_error: bool,
    /// True if text for people is omitted.
    quiet: bool,
}

impl Report {
    pub(crate) const fn new(json: bool, to_error: bool) -> Self {
        Self { json, to_error, quiet: false }
    }

    /// The same destination; without text for people if `quiet`.
    pub(crate) const fn quietly(self, quiet: bool) -> Self {
        Self { quiet, ..self }
    }

    pub(crate) fn tell(&self, told: &PhoneEvent) {
        match self.json {
            true => {
                let line = serde_json::to_string(told).unwrap_or_default();
                terminal::print_json(&line, self.to_error);
            }
            false if self.quiet => {}
            false => terminal::print(told),
        }
    }
}
