//! Call transfer: the remote end is held first, and resumed if the transfer fails. Other phones
//! lose calls in both cases.

use super::Phone;
use crate::call::{Call, Stage, Target};
use crate::outcome::Outcome;
use crate::random::random;
use crate::report::{PhoneEvent, TransferState};
use sip_ua::{End, Transfer};

impl Phone {
    /// Transfers a call to `uri`.
    pub(crate) fn transfer(&mut self, number: u64, uri: &str) -> Result<(), String> {
        let account = self.calls.get(&number).and_then(|call| call.account);
        let uri = self.dialled(uri, account);
        match sip::Uri::parse(uri.as_bytes()) {
            Ok(sip::Uri::Sip(_)) => self.begin_transfer(number, Target::Uri(uri)),
            _ => Err(format!("{uri}: expected a URI such as sip:bob@example.org")),
        }
    }

    /// Connects the remote ends of two calls, and leaves both.
    pub(crate) fn transfer_to(&mut self, number: u64, other: u64) -> Result<(), String> {
        let is_standing = |number| {
            self.calls.get(&number).is_some_and(|call: &Call| call.stage == Stage::Talking)
        };
        if number == other || !is_standing(other) {
            return Err(format!("there is no other call {other} that is answered"));
        }
        self.begin_transfer(number, Target::Call(other))
    }

    fn begin_transfer(&mut self, number: u64, target: Target) -> Result<(), String> {
        let call = self.calls.get_mut(&number).ok_or(format!("there is no call {number}"))?;
        if call.transfer.is_some() {
            return Err(format!("call {number} is being transferred already"));
        }
        call.transfer = Some(target);
        if call.holds() {
            self.refer(number);
            return Ok(());
        }
        let held = self.hold(number, true);
        if let (Err(_), Some(call)) = (&held, self.calls.get_mut(&number)) {
            call.transfer = None;
        }
        held
    }

    /// Sends the REFER for a call that is held by now.
    pub(super) fn refer(&mut self, number: u64) {
        let Some(call) = self.calls.get(&number) else { return };
        let (Some(id), Some(target)) = (call.id(), &call.transfer) else { return };
        let now = self.clock.now();
        let asked = match target {
            Target::Uri(uri) => self.agent.transfer(now, id, uri).map_err(|e| e.to_string()),
            Target::Call(other) => match self.calls.get(other).and_then(Call::id) {
                Some(other) => {
                    self.agent.transfer_to(now, id, other).map_err(|error| error.to_string())
                }
                None => Err(format!("call {other} is over")),
            },
        };
        if let Err(cause) = asked {
            self.give_up_transfer(number, cause);
        }
    }

    /// Ends a failed transfer and resumes the call.
    pub(super) fn give_up_transfer(&mut self, number: u64, cause: String) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        if call.transfer.take().is_none() {
            return;
        }
        let state = TransferState::Failed;
        self.tell(PhoneEvent::Transfer { call: number, state, cause: Some(cause) });
        let _ = self.hold(number, false);
    }

    pub(super) fn on_transfer(&mut self, number: u64, transfer: Transfer) {
        let state = match transfer {
            Transfer::Accepted | Transfer::Progress { status: 100 } => TransferState::Accepted,
            Transfer::Progress { .. } => TransferState::Ringing,
            Transfer::Done => TransferState::Done,
            Transfer::Failed(failure) => {
                let party = self.calls.get(&number).map_or("", |call| &call.party);
                let cause = Outcome::of_end(&End::Failed(failure), party).to_string();
                return self.give_up_transfer(number, cause);
            }
        };
        self.tell(PhoneEvent::Transfer { call: number, state, cause: None });
        if state == TransferState::Done {
            let _ = self.hang_up(number);
        }
    }

    /// Calls the transfer target that the remote end has requested. Returns the number of that
    /// call.
    pub(crate) fn follow(&mut self, number: u64) -> Result<u64, String> {
        let call = self.calls.get_mut(&number).ok_or(format!("there is no call {number}"))?;
        let nobody = || format!("the other end of call {number} has not requested a transfer");
        let to = call.wish.take().ok_or_else(nobody)?;
        let (Some(id), Some(leg), account) = (call.id(), &call.leg, call.account) else {
            return Err(nobody());
        };
        let local = leg.local();
        let mut leg = self.leg(local).map_err(|outcome| outcome.to_string())?;
        let now = self.clock.now();
        let new = leg.call.follow(&mut self.agent, now, id, &mut random);
        new.map_err(|error| format!("call {number}: {error}"))?;
        self.last += 1;
        let follower = self.last;
        self.calls.insert(follower, Call::new(to.clone(), account, Stage::Calling));
        self.set_leg(follower, leg);
        self.tell(PhoneEvent::Following { call: number, by: follower, to });
        Ok(follower)
    }

    /// Refuses the requested transfer.
    pub(crate) fn refuse_transfer(&mut self, number: u64) -> Result<(), String> {
        let id = self.id_of(number)?;
        if let Some(call) = self.calls.get_mut(&number) {
            call.wish = None;
        }
        let refused = self.agent.refuse_transfer(self.clock.now(), id, 603);
        refused.map_err(|error| format!("call {number}: {error}"))
    }
}
