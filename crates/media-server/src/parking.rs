//! Calls that wait in slots: parked ones, and those that are picked up.

use crate::invitation::{Invitation, Service};
use crate::line::Line;
use crate::program::Program;
use crate::server::MediaServer;
use crate::slot::{PassedTransfer, Waiting, candidates};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use sip::{Duration, Instant};
use sip_ua::{CallError, CallId, Transfer};

/// The time that a call waits for the one that it is to meet.
const LONELY: Duration = Duration::from_secs(20);
/// The time for the result of a transfer that passes, as the subscription of a REFER has it.
const TRANSFER: Duration = Duration::from_secs(180);
/// The status of a transfer that has no result in that time.
const REQUEST_TIMEOUT: u16 = 408;
/// The status of a transfer if its call has ended before.
const REQUEST_TERMINATED: u16 = 487;

impl MediaServer {
    /// The slot for a new call. `None` without a free one.
    pub(crate) fn slot_for(
        &self,
        invitation: &Invitation,
        replaces: Option<CallId>,
    ) -> Option<String> {
        let (slots, is_transferred) = match &invitation.service {
            Service::Park(name) => (candidates(name), invitation.referrer.is_some()),
            Service::Meet(name) => ([name.clone()].into(), false),
            _ => return None,
        };
        // A party that was transferred takes the place of the one that has transferred it.
        if let Some(slot) = replaces.and_then(|replaced| self.slots.slot_of(replaced)) {
            return Some(slot.into());
        }
        let is_over_share = self.is_over_share(invitation);
        let most = if is_transferred || slots.len() > 1 { 0 } else { 1 };
        let arriving = |slot: &String| {
            self.arrivals.values().filter(|it| it.slot.as_ref() == Some(slot)).count()
        };
        slots.into_iter().find(|slot| match self.slots.count(slot) + arriving(slot) {
            0 => !is_over_share,
            count => count <= most,
        })
    }

    /// True if the calls of the caller, a proved name, are in as many slots as those of one
    /// user may be. Referred-By proves nothing: the share of the party that it names does not
    /// count.
    fn is_over_share(&self, invitation: &Invitation) -> bool {
        let (Service::Park(_), Some(caller)) = (&invitation.service, &invitation.caller) else {
            return false;
        };
        let arriving = self.arrivals.values().filter(|arrival| {
            arrival.slot.is_some() && arrival.invitation.caller.as_ref() == Some(caller)
        });
        let waiting = self.lines.values().filter(
            |line| matches!(&line.program, Program::Slot(it) if it.caller.as_ref() == Some(caller)),
        );
        arriving.count() + waiting.count() >= self.config.slots_of_user
    }

    /// Adds the call `id` to `slot`, in the place of the call that it `replaces`.
    pub(crate) fn wait_in(
        &mut self,
        now: Instant,
        id: CallId,
        (slot, replaces): (String, Option<CallId>),
        invitation: &Invitation,
    ) -> Program {
        let replaced = replaces.and_then(|call| self.lines.get(&call));
        let former = replaced.and_then(|line| match &line.program {
            Program::Slot(waiting) => waiting.owner.clone(),
            _ => None,
        });
        let is_transferred = replaces.is_some() || invitation.referrer.is_some();
        let is_park = matches!(invitation.service, Service::Park(_));
        let own = || invitation.caller.as_ref().map(|caller| ["sip:", caller].concat());
        let owner = match is_transferred {
            true => former.or_else(|| invitation.referrer.clone()),
            false => own(),
        };
        let other = self.slots.join(&slot, id, replaces);
        let mut waiting = Waiting::new(slot, owner.filter(|_| is_park));
        waiting.caller.clone_from(&invitation.caller);
        match other {
            Some(other) => {
                waiting.is_alone = false;
                if let Some(Line { program: Program::Slot(known), .. }) = self.lines.get_mut(&other)
                {
                    known.is_alone = false;
                }
                if let Some(slot) = self.slots.get_mut(&waiting.slot) {
                    slot.room.join();
                }
            }
            None if !is_park => {
                waiting.returns_at = Some(now + LONELY);
            }
            None if is_transferred => {
                self.counters.parked += 1;
                waiting.returns_at = Some(now + self.config.park_time);
            }
            None => waiting.announce(&self.sounds),
        }
        Program::Slot(Box::new(waiting))
    }

    /// Passes the transfer that the party of `call` requests to the party that it talks to. A party
    /// that is alone gets a refusal.
    pub(crate) fn on_transfer_asked(&mut self, now: Instant, call: CallId) {
        let status = match self.partner(call) {
            Some(other) => match self.agent.pass_transfer(now, call, other) {
                Ok(()) => {
                    let passed = PassedTransfer { referrer: call, until: now + TRANSFER };
                    self.transfers.insert(other, passed);
                    return;
                }
                Err(CallError::TransferPending) => 491,
                Err(_) => 603,
            },
            None => 603,
        };
        let _ = self.agent.refuse_transfer(now, call, status);
    }

    /// Processes the progress of the transfer of `call`: one that passes, or the return of a parked
    /// call.
    pub(crate) fn on_transfer(&mut self, now: Instant, call: CallId, transfer: &Transfer) {
        let status = match transfer {
            Transfer::Accepted => 100,
            Transfer::Progress { status } => *status,
            Transfer::Done => 200,
            Transfer::Failed(failure) => failure.status(),
        };
        self.report_transfer(now, call, status);
        if *transfer == Transfer::Done {
            let _ = self.agent.hang_up(now, call);
        }
    }

    /// Reports the status of the transfer of `call` to the party that has requested it. Without
    /// that party the call ends with the transfer.
    fn report_transfer(&mut self, now: Instant, call: CallId, status: u16) {
        let Some(PassedTransfer { referrer, .. }) = self.transfers.get(&call).copied() else {
            return;
        };
        self.agent.report_transfer(now, referrer, status);
        if status >= 200 {
            self.transfers.remove(&call);
            if !self.lines.contains_key(&referrer) {
                let _ = self.agent.hang_up(now, call);
            }
        }
    }

    /// Ends the call `other`, which talked to `ended` in a slot. While it is being transferred by
    /// that party it goes on.
    pub(crate) fn leave_alone(&mut self, now: Instant, other: CallId, ended: CallId) {
        if self.transfers.get(&other).is_none_or(|passed| passed.referrer != ended) {
            let _ = self.agent.hang_up(now, other);
        }
    }

    /// Ends the transfer of `call`, which has ended without a result.
    pub(crate) fn end_transfer_of(&mut self, now: Instant, call: CallId) {
        if let Some(PassedTransfer { referrer, .. }) = self.transfers.remove(&call) {
            self.agent.report_transfer(now, referrer, REQUEST_TERMINATED);
        }
    }

    /// Ends the transfers without a result.
    pub(crate) fn end_late_transfers(&mut self, now: Instant) {
        let is_late = |passed: &PassedTransfer| passed.until <= now;
        let late = self.transfers.iter().filter(|(_, passed)| is_late(passed));
        for call in late.map(|(call, _)| *call).collect::<Vec<_>>() {
            self.report_transfer(now, call, REQUEST_TIMEOUT);
        }
    }

    /// The call that `call` talks to in a slot.
    fn partner(&self, call: CallId) -> Option<CallId> {
        let Program::Slot(waiting) = &self.lines.get(&call)?.program else { return None };
        self.slots.partner(&waiting.slot, call)
    }

    /// Returns the calls that have waited for long to the parties that have parked them.
    pub(crate) fn return_calls(&mut self, now: Instant) {
        let park_time = self.config.park_time;
        let mut due: Vec<(CallId, Option<String>)> = Vec::new();
        for (id, line) in &mut self.lines {
            if let Program::Slot(waiting) = &mut line.program
                && waiting.is_alone
                && waiting.returns_at.is_some_and(|at| at <= now)
            {
                // A party that does not answer is tried again.
                waiting.returns_at = Some(now + park_time);
                due.push((*id, waiting.owner.clone()));
            }
        }
        for (call, owner) in due {
            match owner {
                Some(owner) => {
                    if self.agent.transfer(now, call, &owner).is_ok() {
                        self.counters.returned += 1;
                    }
                }
                // The call that it was to meet has not come.
                None => _ = self.agent.hang_up(now, call),
            }
        }
    }
}
