//! One branch of a request in progress: its client transaction, its timer C and its CANCEL (RFC
//! 3261 sections 9.1, 16.6 to 16.8 and 17.1).

use crate::core::event::Env;
use crate::core::flow::Flow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use sip::transaction::{ClientTransaction, State, TimerAction, TransactionKind};
use sip::{HeaderName, Instant, Message, Status};

pub(super) struct Fork {
    /// The [`seal`](super::via_branch::seal) in the branch parameter of its request.
    pub(super) seal: u64,
    pub(super) state: ForkState,
    /// Expiry of timer C, if it runs.
    pub(super) timer_c: Option<Instant>,
    pub(super) cancel: Cancel,
}

pub(super) enum ForkState {
    /// A DNS lookup is pending.
    Locating,
    /// The request has been sent.
    Sent(Sent),
    /// No further response is expected.
    Over,
}

pub(super) struct Sent {
    pub(super) flow: Flow,
    pub(super) client: ClientTransaction,
    /// The request as it was sent. After a final response other than 2xx, the ACK.
    pub(super) message: Vec<u8>,
    /// A final response has arrived, or none is expected any more: the transaction of a request
    /// that was given up goes on.
    pub(super) is_final: bool,
    pub(super) is_provisional: bool,
    /// The time until which a first response is awaited, if that is less than the transaction
    /// takes.
    pub(super) patience: Option<Instant>,
}

pub(super) enum Cancel {
    No,
    /// A CANCEL with these lines is sent after the first provisional response (RFC 3261 section
    /// 9.1).
    Wanted(Box<[u8]>),
    Sent(Box<SentCancel>),
}

pub(super) struct SentCancel {
    pub(super) client: ClientTransaction,
    flow: Flow,
    message: Vec<u8>,
    give_up: Instant,
}

impl Fork {
    /// The memory that the branch uses, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let request = match &self.state {
            ForkState::Sent(sent) => sent.message.capacity(),
            ForkState::Locating | ForkState::Over => 0,
        };
        let cancel = match &self.cancel {
            Cancel::Sent(cancel) => size_of::<SentCancel>() + cancel.message.capacity(),
            Cancel::Wanted(reason) => reason.len(),
            Cancel::No => 0,
        };
        size_of::<Self>() + request + cancel
    }

    /// True if no further final response is expected.
    pub(super) fn has_ended(&self) -> bool {
        match &self.state {
            ForkState::Locating => false,
            ForkState::Sent(sent) => sent.is_final,
            ForkState::Over => true,
        }
    }

    /// True if the transaction of the request has had no final response.
    fn awaits_final(&self) -> bool {
        matches!(&self.state, ForkState::Sent(sent) if !sent.client.only_waits())
    }

    /// True if the branch can be dropped.
    pub(super) fn is_over(&self) -> bool {
        let request = match &self.state {
            ForkState::Locating => false,
            ForkState::Sent(sent) => sent.client.state() == State::Terminated,
            ForkState::Over => true,
        };
        let cancel = match &self.cancel {
            Cancel::No | Cancel::Wanted(_) => true,
            Cancel::Sent(cancel) => cancel.client.state() == State::Terminated,
        };
        request && cancel
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        let request = match &self.state {
            ForkState::Sent(sent) => {
                let patience = sent.patience.filter(|_| sent.is_silent());
                sent.client.next_timer().into_iter().chain(patience).min()
            }
            _ => None,
        };
        let cancel = match &self.cancel {
            Cancel::Sent(cancel) => {
                let give_up = self.awaits_final().then_some(cancel.give_up);
                cancel.client.next_timer().into_iter().chain(give_up).min()
            }
            _ => None,
        };
        request.into_iter().chain(cancel).chain(self.timer_c).min()
    }

    /// Runs the timers of the request. A retransmission is sent if `affords` returns true for the
    /// flow and the length. Returns true if the request has timed out.
    pub(super) fn poll(
        &mut self,
        env: &mut Env<'_>,
        mut affords: impl FnMut(&Flow, usize, &Env<'_>) -> bool,
    ) -> bool {
        let ForkState::Sent(sent) = &mut self.state else { return false };
        let timers = env.settings.config.timers;
        let has_patience = sent.patience.is_none_or(|patience| patience > env.now);
        if cfg!(feature = "office") && sent.is_silent() && !has_patience {
            // The request may have arrived. The transaction goes on, so that the first provisional
            // response gets a CANCEL (RFC 3261 sections 9.1 and 16.8).
            sent.is_final = true;
            self.timer_c = None;
            let is_invite = sent.client.kind() == TransactionKind::Invite;
            if is_invite && matches!(self.cancel, Cancel::No) {
                self.cancel = Cancel::Wanted(reason_line(Status::REQUEST_TIMEOUT).into());
            }
            return true;
        }
        loop {
            match sent.client.poll(&timers, env.now) {
                TimerAction::None => return false,
                TimerAction::Retransmit => {
                    if affords(&sent.flow, sent.message.len(), env) {
                        env.counters.retransmissions_sent.add();
                        env.out.send(sent.flow, |bytes| bytes.extend_from_slice(&sent.message));
                    }
                }
                TimerAction::TimedOut if !sent.is_final => {
                    sent.is_final = true;
                    self.timer_c = None;
                    return true;
                }
                TimerAction::TimedOut | TimerAction::Terminated => sent.message = Vec::new(),
            }
        }
    }

    /// Cancels the branch with the Reason lines `reason`.
    pub(super) fn request_cancel(&mut self, reason: &[u8], env: &mut Env<'_>) {
        if !matches!(self.cancel, Cancel::No) {
            return;
        }
        match &self.state {
            ForkState::Locating => self.state = ForkState::Over,
            ForkState::Sent(sent) if !sent.is_final => {
                self.cancel = Cancel::Wanted(reason.into());
                if sent.is_provisional {
                    self.send_cancel(env);
                }
            }
            _ => {}
        }
    }

    /// Sends the CANCEL, if one is pending.
    pub(super) fn send_cancel(&mut self, env: &mut Env<'_>) {
        let ForkState::Sent(sent) = &self.state else { return };
        let Cancel::Wanted(reason) = &self.cancel else { return };
        let Ok(forwarded) = Message::parse(&sent.message) else { return };
        let range = env.out.send(sent.flow, |bytes| {
            forwarded.write_cancel(reason, bytes);
        });
        env.counters.forwarded.add();
        let timers = &env.settings.config.timers;
        let reliable = sent.flow.transport.is_stream();
        self.cancel = Cancel::Sent(Box::new(SentCancel {
            flow: sent.flow,
            client: ClientTransaction::new(TransactionKind::NonInvite, reliable, timers, env.now),
            message: env.out.bytes[range.unwrap_or_default()].to_vec(),
            // RFC 3261 section 9.1.
            give_up: env.now + timers.t1.times(64),
        }));
    }

    /// Handles a provisional response. For an INVITE and a response other than 100, `timer_c` is
    /// the new expiry of timer C.
    pub(super) fn on_provisional(&mut self, timer_c: Option<Instant>, env: &mut Env<'_>) {
        if let ForkState::Sent(sent) = &mut self.state {
            sent.is_provisional = true;
        }
        self.send_cancel(env);
        self.timer_c = timer_c.or(self.timer_c);
    }

    /// Handles a final response. The message is kept if `keeps_message`, because an ACK that
    /// replaced the request may have to be retransmitted. Otherwise it is returned.
    pub(super) fn on_final(&mut self, keeps_message: bool) -> Vec<u8> {
        self.timer_c = None;
        let ForkState::Sent(sent) = &mut self.state else { return Vec::new() };
        sent.is_final = true;
        if keeps_message { Vec::new() } else { core::mem::take(&mut sent.message) }
    }

    /// Runs the timers of the CANCEL, also after the end of the branch: each timer in
    /// [`Fork::next_timer`] has to be run.
    pub(super) fn poll_cancel(&mut self, env: &mut Env<'_>) {
        let awaits_final = self.awaits_final();
        let Cancel::Sent(cancel) = &mut self.cancel else { return };
        let SentCancel { client, flow, message, give_up } = &mut **cancel;
        let timers = env.settings.config.timers;
        loop {
            match client.poll(&timers, env.now) {
                TimerAction::None => break,
                TimerAction::Retransmit => {
                    env.counters.retransmissions_sent.add();
                    env.out.send(*flow, |bytes| bytes.extend_from_slice(message));
                }
                TimerAction::TimedOut | TimerAction::Terminated => {}
            }
        }
        if *give_up <= env.now && awaits_final {
            self.state = ForkState::Over;
            self.timer_c = None;
        }
    }
}

impl Sent {
    /// True if there was no response.
    const fn is_silent(&self) -> bool {
        !self.is_provisional && !self.is_final
    }

    /// Acknowledges a final response other than 2xx. The ACK replaces the request, because only the
    /// ACK is retransmitted from then on.
    pub(super) fn acknowledge(&mut self, response: &Message<'_>, env: &mut Env<'_>) {
        let is_ack = self.message.starts_with(b"ACK ");
        if !is_ack {
            let Ok(forwarded) = Message::parse(&self.message) else { return };
            // Without the body the ACK is much shorter than the request.
            let mut ack = Vec::new();
            forwarded.write_ack(response, &mut ack);
            self.message = ack;
        }
        env.out.send(self.flow, |bytes| bytes.extend_from_slice(&self.message));
    }
}

/// Maximum length in bytes of the Reason lines that are forwarded in a CANCEL.
const MAX_REASON: usize = 1024;

/// The Reason lines of `cancel`.
pub(super) fn reason_lines(cancel: &Message<'_>) -> Vec<u8> {
    let mut lines = Vec::new();
    for field in cancel.fields_of(&[HeaderName::Reason]) {
        if lines.len() + field.line.len() <= MAX_REASON {
            lines.extend_from_slice(field.line);
        }
    }
    lines
}

/// The Reason line for the branches that did not answer the call. Without it their phones would
/// list the call as missed (RFC 3326 section 3.1).
pub(super) const ELSEWHERE: &[u8] = b"Reason: SIP;cause=200;text=\"Call completed elsewhere\"\r\n";

/// A Reason line that names the response for which a branch is cancelled (RFC 3326 section 2).
pub(super) fn reason_line(status: Status) -> Vec<u8> {
    let (status, text) = (status.code(), status.reason_phrase());
    alloc::format!("Reason: SIP;cause={status};text=\"{text}\"\r\n").into_bytes()
}
