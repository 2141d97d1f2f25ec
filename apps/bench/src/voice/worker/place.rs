//! The beginning of calls: the registration of the caller, if it registers, and the INVITE.

use super::Worker;
use crate::voice::end::{CALLEE, CALLER};
use crate::voice::plan::Callees;
use crate::voice::side::random;
use sip::{Duration, Instant};
use sip_ua::AccountId;
use std::ops::Range;

impl Worker {
    /// Places the calls that are due at `now`.
    pub(super) fn place_due(&mut self, now: Instant, start: Instant, measured: Range<Instant>) {
        loop {
            let at = self.next_start(start);
            let number = self.next_call * self.plan.workers as u64 + self.index as u64;
            if at > now || self.plan.most.is_some_and(|most| number >= most) {
                return;
            }
            self.place(at, measured.contains(&at));
        }
    }

    /// Returns the scheduled time of the next call of this worker.
    fn next_start(&self, start: Instant) -> Instant {
        let number = self.next_call * self.plan.workers as u64 + self.index as u64;
        let micros = number as f64 * 1e6 / self.plan.rate;
        start + Duration::from_micros(micros as u64)
    }

    /// Places the next call, which was due at `at`.
    fn place(&mut self, at: Instant, is_measured: bool) {
        let number = self.next_call * self.plan.workers as u64 + self.index as u64;
        self.next_call += 1;
        let counts = &mut self.air.found.counts;
        counts.offered += u64::from(is_measured);
        let now = self.now();
        let index = match self.open_end(CALLER, now) {
            Ok(index) => index,
            Err(error) => return self.fail(is_measured, &format!("no socket: {error}")),
        };
        let Some(end) = &mut self.ends[index] else { return };
        (end.number, end.scheduled, end.is_measured) = (number, at, is_measured);
        let serial = end.serial;
        let account = self.sides[CALLER].accounts.get(self.user_of(number)).copied();
        let registers = self.plan.callees.are_called_after_registration();
        let Some(account) = account.filter(|_| registers) else { return self.invite(index, now) };
        self.air.found.counts.started += u64::from(is_measured);
        // The call before of the same user may have no answer to its registration yet.
        let before = self.registering.insert(account, (now, (index, serial)));
        if let Some((_, (index, serial))) = before {
            self.give_up(index, serial, "its registration has no answer");
        }
        self.sides[CALLER].agent.register(now, account);
    }

    /// Returns the index of the caller of a call among the users of this worker.
    fn user_of(&self, number: u64) -> usize {
        (number / self.plan.workers as u64) as usize % self.users.len()
    }

    /// Sends the INVITE of a call.
    fn invite(&mut self, index: usize, now: Instant) {
        let Some(number) = self.ends[index].as_ref().map(|end| end.number) else { return };
        let user = self.user_of(number);
        let (caller, callee) = &self.users[user];
        let callee = self.called.get(user).unwrap_or(&callee.0);
        let uri = match &self.plan.callees {
            Callees::Direct => format!("sip:{callee}@{}", self.sides[CALLEE].link.address()),
            Callees::Registered { domain, .. } => format!("sip:{callee}@{domain}"),
            Callees::Uri { uri, .. } => uri.clone(),
        };
        let caller = caller.0.clone();
        let Some(end) = &mut self.ends[index] else { return };
        end.placed = now;
        let is_measured = end.is_measured;
        let side = &mut self.sides[CALLER];
        let account = side.accounts.get(user).copied();
        match end.call.place(&mut side.agent, now, account, &uri, &mut random) {
            Ok(id) => {
                side.calls.insert(id, index);
                self.current.insert(caller, (index, end.serial));
                if !self.plan.callees.are_called_after_registration() {
                    self.air.found.counts.started += u64::from(is_measured);
                }
            }
            Err(error) => {
                self.fail(is_measured, &error.to_string());
                self.remove(index);
            }
        }
    }

    /// Handles the result of a registration of a caller: the call begins, or has failed.
    pub(super) fn on_caller_registration(
        &mut self,
        account: AccountId,
        at: Instant,
        failure: Option<&str>,
    ) {
        // Without an entry it is a refresh, or one after a failure.
        let Some((asked, (index, serial))) = self.registering.remove(&account) else { return };
        if let Some(reason) = failure {
            return self.give_up(index, serial, &format!("its registration failed: {reason}"));
        }
        let end = self.ends[index].as_ref().filter(|end| end.serial == serial);
        let Some(is_measured) = end.map(|end| end.is_measured) else { return };
        if is_measured {
            self.air.found.registration.record(at.since(asked));
        }
        self.invite(index, at);
    }

    /// Ends a call that has not been placed, as failed.
    fn give_up(&mut self, index: usize, serial: u64, reason: &str) {
        if let Some(is_measured) = self.drop_unplaced(index, serial) {
            self.air.found.counts.lost += u64::from(is_measured);
            self.fail(is_measured, reason);
        }
    }

    /// Ends the calls that wait for a registration at the end of the load. They have neither
    /// succeeded nor failed.
    pub(super) fn drop_waiting(&mut self) {
        for (_, (index, serial)) in std::mem::take(&mut self.registering).into_values() {
            if self.drop_unplaced(index, serial) == Some(true) {
                self.air.found.counts.offered -= 1;
                self.air.found.counts.started -= 1;
            }
        }
    }

    /// Removes the end of a call that has not been placed. Returns true if it is measured.
    fn drop_unplaced(&mut self, index: usize, serial: u64) -> Option<bool> {
        let end = self.ends[index].as_ref().filter(|end| end.serial == serial)?;
        let is_measured = end.is_measured;
        self.remove(index);
        Some(is_measured)
    }
}
