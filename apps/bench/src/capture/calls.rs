//! Calls in a capture: INVITE transactions on every hop, ACK, BYE, and the message flow.

use super::captured::{Captured, Keys, text};
use super::transactions::{Owner, Place};
use serde::Serialize;
use sip::Method;
use sip::header::HeaderName;
use std::collections::HashMap;
use std::net::SocketAddr;

/// An INVITE transaction of a call on one hop. Times are microseconds since the Unix epoch; times
/// of messages that are not in the capture are absent.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Hop {
    /// The sender of the INVITE.
    pub(crate) source: SocketAddr,
    /// The receiver of the INVITE.
    pub(crate) destination: SocketAddr,
    /// The number of Via values of the INVITE: 1 from the caller, more from a proxy.
    pub(crate) vias: u16,
    /// The first INVITE.
    pub(crate) invite_us: Option<u64>,
    /// The first 100.
    pub(crate) trying_us: Option<u64>,
    /// The first provisional response other than 100.
    pub(crate) progress_us: Option<u64>,
    /// The first 180.
    pub(crate) ringing_us: Option<u64>,
    /// The first final response.
    pub(crate) final_us: Option<u64>,
    /// The status of the final response.
    pub(crate) status: Option<u16>,
    /// Retransmissions of the INVITE.
    pub(crate) retransmissions: u64,
}

/// A message of a call.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Step {
    /// The time in microseconds since the Unix epoch.
    pub(crate) at_us: u64,
    /// The sender.
    pub(crate) source: SocketAddr,
    /// The receiver.
    pub(crate) destination: SocketAddr,
    /// The label: `INVITE`, or `180 INVITE`.
    pub(crate) what: String,
    /// True if the body is or contains a session description.
    pub(crate) sdp: bool,
    /// True if the message is a retransmission.
    pub(crate) retransmission: bool,
}

/// The outcome of a call, from the hop nearest to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CallOutcome {
    /// A 2xx and its ACK.
    Established,
    /// A 2xx; its ACK is not in the capture.
    Answered,
    /// 487: the caller gave up.
    Cancelled,
    /// Another final response.
    Refused,
    /// Provisional responses, but no final one by the end of the capture.
    Unfinished,
    /// No response.
    Lost,
    /// No response, but the INVITE is so near the end of the capture that one may follow.
    Pending,
}

/// The message times of a call (see docs/sources.md) and those for RFC 6076, in microseconds since
/// the Unix epoch. Times of messages that are not in the capture are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct CallTimes {
    /// TInv1: the caller's first INVITE.
    pub(crate) inv1_us: Option<u64>,
    /// The INVITE with which the caller answered a challenge.
    pub(crate) authorised_us: Option<u64>,
    /// TInv2: the INVITE of the server to the callee.
    pub(crate) inv2_us: Option<u64>,
    /// TRng: the first 180.
    pub(crate) rng_us: Option<u64>,
    /// TSDP_OK1: the 2xx of the callee to the server.
    pub(crate) sdp_ok1_us: Option<u64>,
    /// TSDP_OK2: the 2xx of the server to the caller.
    pub(crate) sdp_ok2_us: Option<u64>,
    /// TAck: the first ACK to the 2xx.
    pub(crate) ack_us: Option<u64>,
    /// The first BYE.
    pub(crate) bye_us: Option<u64>,
    /// The 2xx to the BYE, on the hop with the first BYE.
    pub(crate) bye_ok_us: Option<u64>,
}

/// A call: the messages with one Call-ID.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Call {
    /// The Call-ID, as far as it fits in 128 bytes.
    pub(crate) call_id: String,
    /// The address-of-record of the caller, from From.
    pub(crate) from: String,
    /// The address-of-record of the callee, from To.
    pub(crate) to: String,
    /// The outcome.
    pub(crate) outcome: CallOutcome,
    /// The final status on the hop nearest to the caller.
    pub(crate) status: Option<u16>,
    /// The times of its messages.
    pub(crate) times: CallTimes,
    /// If the call is the second leg of a back-to-back user agent: the Call-ID of the first.
    pub(crate) leg_of: Option<String>,
    /// The initial INVITE transactions, in chronological order.
    pub(crate) hops: Vec<Hop>,
    /// The messages, in chronological order.
    pub(crate) flow: Vec<Step>,
    /// The CSeq of the INVITE that was answered with 2xx.
    #[serde(skip)]
    answered: Option<u32>,
    /// The number of Via values of the first BYE in the capture.
    #[serde(skip)]
    bye_vias: u16,
}

/// The limit of calls.
const CALLS: usize = 100_000;
/// The limit of INVITE transactions per call.
const HOPS: usize = 64;
/// The limit of messages in the flows of all calls.
const STEPS: usize = 1_000_000;

/// The calls of a capture during reading.
#[derive(Default)]
pub(super) struct CallBook {
    pub(super) calls: Vec<Call>,
    /// Calls beyond the limit.
    pub(super) left_out: u64,
    /// Messages of calls that are not in a flow because of the limit.
    pub(super) steps_left_out: u64,
    numbers: HashMap<u128, usize>,
    keys: Keys,
    steps: usize,
}

impl CallBook {
    /// Adds a message of a call. Returns the owner of a new transaction. `acknowledges_failure` is
    /// true for an ACK that is part of its INVITE's transaction.
    pub(super) fn take(
        &mut self,
        seen: &Captured<'_>,
        place: &Place,
        acknowledges_failure: bool,
    ) -> Option<Owner> {
        let number = self.number(seen)?;
        let call = &mut self.calls[number];
        if self.steps < STEPS {
            self.steps += 1;
            call.flow.push(Step::new(seen, place.repeated));
        } else {
            self.steps_left_out += 1;
        }
        match (place.owner, seen.status, seen.method) {
            (Some(Owner::Invite(_, hop)), None, _) => {
                call.hops[hop].retransmissions += 1;
                None
            }
            (Some(Owner::Invite(_, hop)), Some(status), _) => {
                call.hops[hop].respond(status, seen.time);
                if (200..300).contains(&status) {
                    call.answered.get_or_insert(seen.cseq);
                }
                None
            }
            (None, status, Method::Invite)
                if place.stray || status.is_none() && seen.to_tag.is_none() =>
            {
                call.begin_hop(number, seen)
            }
            (_, None, Method::Ack) => {
                let is_to_success = match call.answered {
                    Some(cseq) => cseq == seen.cseq,
                    None => !acknowledges_failure && call.hops.iter().all(Hop::is_open),
                };
                if is_to_success {
                    call.times.ack_us.get_or_insert(seen.time);
                }
                None
            }
            (None, None, Method::Bye) => {
                if call.times.bye_us.is_none() {
                    call.times.bye_us = Some(seen.time);
                    call.bye_vias = seen.vias;
                }
                (call.bye_vias == seen.vias).then_some(Owner::Bye(number))
            }
            (Some(Owner::Bye(_)), Some(200..300), _) => {
                call.times.bye_ok_us.get_or_insert(seen.time);
                None
            }
            _ => None,
        }
    }

    /// Returns the index of the call of a message. A call begins with an INVITE outside of a
    /// dialog, or with the response to one that is not in the capture.
    fn number(&mut self, seen: &Captured<'_>) -> Option<usize> {
        let key = self.keys.of(seen.call_id);
        if let Some(&number) = self.numbers.get(&key) {
            return Some(number);
        }
        if seen.method != Method::Invite || seen.status.is_none() && seen.to_tag.is_some() {
            return None;
        }
        if self.calls.len() >= CALLS {
            self.left_out += 1;
            return None;
        }
        self.calls.push(Call {
            call_id: text(seen.call_id),
            from: seen.address_of_record(HeaderName::From),
            to: seen.address_of_record(HeaderName::To),
            outcome: CallOutcome::Lost,
            status: None,
            times: CallTimes::default(),
            leg_of: None,
            hops: Vec::new(),
            flow: Vec::new(),
            answered: None,
            bye_vias: 0,
        });
        self.numbers.insert(key, self.calls.len() - 1);
        Some(self.calls.len() - 1)
    }
}

impl Call {
    fn begin_hop(&mut self, number: usize, seen: &Captured<'_>) -> Option<Owner> {
        // Without its request, a response to a re-INVITE looks like one to the initial INVITE,
        // unless the call was answered before.
        if self.hops.len() >= HOPS || seen.status.is_some() && self.answered.is_some() {
            return None;
        }
        let (source, destination) = match seen.status {
            None => (seen.source, seen.destination),
            Some(_) => (seen.destination, seen.source),
        };
        let mut hop = Hop {
            source,
            destination,
            vias: seen.vias,
            invite_us: seen.status.is_none().then_some(seen.time),
            trying_us: None,
            progress_us: None,
            ringing_us: None,
            final_us: None,
            status: None,
            retransmissions: 0,
        };
        if let Some(status) = seen.status {
            hop.respond(status, seen.time);
            if (200..300).contains(&status) {
                self.answered = Some(seen.cseq);
            }
        }
        self.hops.push(hop);
        Some(Owner::Invite(number, self.hops.len() - 1))
    }
}

impl Hop {
    fn respond(&mut self, status: u16, now: u64) {
        match status {
            100 => {
                self.trying_us.get_or_insert(now);
            }
            101..200 => {
                self.progress_us.get_or_insert(now);
                if status == 180 {
                    self.ringing_us.get_or_insert(now);
                }
            }
            _ => {
                if self.final_us.is_none() {
                    self.final_us = Some(now);
                    self.status = Some(status);
                }
            }
        }
    }

    fn is_open(&self) -> bool {
        self.final_us.is_none()
    }

    /// Returns true if it was answered with 2xx.
    pub(super) fn is_answered(&self) -> bool {
        matches!(self.status, Some(200..300))
    }

    /// Returns true if it was challenged.
    pub(super) fn is_challenged(&self) -> bool {
        matches!(self.status, Some(401 | 407))
    }

    /// Returns true if a response is in the capture.
    pub(super) fn has_response(&self) -> bool {
        self.trying_us.or(self.progress_us).or(self.final_us).is_some()
    }
}

impl Step {
    fn new(seen: &Captured<'_>, retransmission: bool) -> Self {
        Self {
            at_us: seen.time,
            source: seen.source,
            destination: seen.destination,
            what: seen.label(),
            sdp: seen.sdp.is_some(),
            retransmission,
        }
    }
}
