//! Calls on the side of the caller (RFC 3261 section 13.2).

use super::session::{Phase, Session};
use super::{Phone, Purpose};
use crate::wire;
use sip::dialog::Dialog;
use sip::transaction::TransactionKind;
use sip::{Duration, Instant, Message, Method};

/// The intentions of a caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallPlan {
    /// The time to let it ring.
    pub(crate) patience: Duration,
    /// The duration of the call.
    pub(crate) talk: Duration,
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) callee: String,
    /// The result of the INVITE.
    pub(crate) outcome: Option<Outcome>,
    pub(crate) was_cancelled: bool,
    /// The dialogs of all 2xx, with the ACK of each.
    pub(crate) sessions: Vec<(Session, Vec<u8>)>,
    plan: CallPlan,
    /// The common fields of its INVITEs.
    requests: Dialog,
    /// The key of the transaction.
    invite: String,
    is_proceeding: bool,
    /// The time at which the caller cancels, and then the time at which the caller stops waiting
    /// for the effect of the CANCEL.
    limit: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A 2xx arrived.
    Answered,
    /// This final response arrived.
    Refused(u16),
    /// No response arrived (timer B).
    Silence,
    /// No final response came after the CANCEL.
    GivenUp,
    /// The phone was switched off.
    Off,
}

/// The waiting time of a phone: 64*T1 of RFC 3261.
const PATIENCE: Duration = Duration::from_secs(32);

impl Call {
    /// True if no further event is expected.
    pub(crate) fn is_over(&self) -> bool {
        self.outcome.is_some()
            && self.sessions.iter().all(|(session, _)| session.phase == Phase::Over)
    }

    pub(super) fn sessions_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.sessions.iter_mut().map(|(session, _)| session)
    }

    pub(super) fn power_off(&mut self) {
        self.outcome = self.outcome.or(Some(Outcome::Off));
        self.sessions_mut().for_each(|session| session.phase = Phase::Over);
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        let limit = self.outcome.is_none().then_some(self.limit);
        let sessions = self.sessions.iter().filter_map(|(session, _)| session.next_timer());
        limit.filter(|limit| *limit < Instant::MAX).into_iter().chain(sessions).min()
    }
}

impl Phone {
    /// Calls a user.
    pub(crate) fn call(&mut self, now: Instant, user: &str, plan: CallPlan) {
        let call_id = self.token("call");
        let call = Call {
            callee: user.to_owned(),
            outcome: None,
            was_cancelled: false,
            sessions: Vec::new(),
            limit: now + plan.patience,
            plan,
            requests: self.begin(&call_id, user),
            invite: String::new(),
            is_proceeding: false,
        };
        self.calls.insert(call_id.clone(), call);
        self.invite(now, &call_id);
    }

    fn invite(&mut self, now: Instant, call_id: &str) {
        let lines = format!("Contact: <{}>\r\n", self.contact());
        let Some(call) = self.calls.get_mut(call_id) else { return };
        call.is_proceeding = false;
        let mut requests = call.requests.clone();
        let purpose = Purpose::Invite(call_id.to_owned());
        let key = self.send_request(now, &mut requests, Method::Invite, &lines, purpose);
        if let Some(call) = self.calls.get_mut(call_id) {
            call.invite = key;
            call.requests = requests;
        }
    }

    pub(super) fn on_invite_response(
        &mut self,
        now: Instant,
        call_id: &str,
        key: &str,
        response: &Message<'_>,
    ) {
        let Some(call) = self.calls.get_mut(call_id) else { return };
        match response.status().expect("a response") {
            ..200 => {
                call.is_proceeding = true;
                if call.was_cancelled && call.limit == Instant::MAX {
                    self.cancel(now, call_id);
                }
            }
            200..300 => self.on_success(now, call_id, response),
            // A retransmitted rejection of an earlier INVITE of the call.
            _ if call.invite != key => {}
            407 if !call.was_cancelled => self.invite(now, call_id),
            status => call.outcome = call.outcome.or(Some(Outcome::Refused(status))),
        }
    }

    fn on_success(&mut self, now: Instant, call_id: &str, response: &Message<'_>) {
        let Some(call) = self.calls.get_mut(call_id) else { return };
        let id = wire::dialog_id(response);
        if let Some((_, ack)) = call.sessions.iter().find(|(known, _)| known.dialog.id() == id) {
            self.outbox.push_back(ack.clone());
            return;
        }
        let is_wanted = call.sessions.is_empty() && !call.was_cancelled && call.outcome.is_none();
        let phase = Phase::Up(if is_wanted { now + call.plan.talk } else { now });
        call.outcome = Some(Outcome::Answered);
        let dialog = Dialog::from_response(response).expect("a 2xx makes a dialog");
        let ack = self.ack(&dialog);
        self.outbox.push_back(ack.clone());
        if let Some(call) = self.calls.get_mut(call_id) {
            call.sessions.push((Session { dialog, phase }, ack));
        }
    }

    pub(super) fn on_invite_timeout(&mut self, call_id: &str) {
        if let Some(call) = self.calls.get_mut(call_id) {
            call.outcome = call.outcome.or(Some(Outcome::Silence));
        }
    }

    fn cancel(&mut self, now: Instant, call_id: &str) {
        let Some(call) = self.calls.get_mut(call_id) else { return };
        if !call.is_proceeding {
            // The CANCEL is sent after the first response (RFC 3261 section 9.1), or timer B ends
            // the call.
            call.limit = Instant::MAX;
            call.was_cancelled = true;
            return;
        }
        call.was_cancelled = true;
        call.limit = now + PATIENCE;
        let Some(client) = self.clients.get(&call.invite) else { return };
        let mut cancel = Vec::new();
        let invite = Message::parse(&client.request).expect("an own request");
        invite.write_cancel(b"", &mut cancel);
        self.start_client(now, TransactionKind::NonInvite, cancel, Purpose::Cancel);
    }

    pub(super) fn poll_calls(&mut self, now: Instant) {
        let due: Vec<String> = self
            .calls
            .iter()
            .filter(|(_, call)| call.next_timer().is_some_and(|next| next <= now))
            .map(|(call_id, _)| call_id.clone())
            .collect();
        for call_id in due {
            let Some(call) = self.calls.get_mut(&call_id) else { continue };
            if call.outcome.is_none() && call.limit <= now {
                if call.was_cancelled && call.is_proceeding {
                    call.outcome = Some(Outcome::GivenUp);
                    self.clients.remove(&call.invite);
                } else {
                    self.cancel(now, &call_id);
                }
            }
            let Some(call) = self.calls.get_mut(&call_id) else { continue };
            let mut sessions = std::mem::take(&mut call.sessions);
            for (session, _) in &mut sessions {
                if session.next_timer().is_some_and(|next| next <= now) {
                    self.bye(now, session);
                }
            }
            if let Some(call) = self.calls.get_mut(&call_id) {
                call.sessions = sessions;
            }
        }
    }
}
