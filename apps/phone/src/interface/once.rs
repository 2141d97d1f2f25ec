//! The `call` and `answer` commands: one task, with its result as exit status.

use super::{Interface, Judge, STDIN};
use crate::call::Stage;
use crate::outcome::Outcome;
use crate::phone::Phone;
use crate::report::{PhoneEvent, Report};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sip_ua::AccountId;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Places one call.
pub(crate) struct Call {
    uri: String,
    duration: Option<Duration>,
    report: Report,
    /// The number of the call once it is placed.
    number: Option<u64>,
    outcome: Option<Outcome>,
    judge: Judge,
}

impl Call {
    pub(crate) const fn new(
        uri: String,
        duration: Option<Duration>,
        report: Report,
        judge: Judge,
    ) -> Self {
        Self { uri, duration, report, number: None, outcome: None, judge }
    }

    fn over(&self, phone: &Phone) -> Option<Instant> {
        let call = phone.calls().get(&self.number?)?;
        Some(call.answered? + self.duration?)
    }
}

impl Interface for Call {
    fn begin(&mut self, phone: &mut Phone) {
        let registers = phone.lines().first().is_some_and(|line| line.registers);
        match registers {
            true => phone.register(),
            false => {
                let account = (!phone.lines().is_empty()).then_some(AccountId(0));
                self.number = Some(phone.call(&self.uri, account));
            }
        }
    }

    fn hear(&mut self, phone: &mut Phone, told: &PhoneEvent) {
        match told {
            // This command takes no calls.
            PhoneEvent::Listening { .. } => return,
            PhoneEvent::Registered { .. } if self.number.is_none() => {
                self.report.tell(told);
                self.number = Some(phone.call(&self.uri, Some(AccountId(0))));
                return;
            }
            PhoneEvent::RegistrationFailed { outcome, .. } if self.number.is_none() => {
                self.outcome = Some(outcome.clone());
            }
            PhoneEvent::Incoming { call, .. } => drop(phone.decline(*call, 486)),
            // The caller follows a transfer.
            PhoneEvent::TransferAsked { call, .. } if Some(*call) == self.number => {
                if let Ok(follower) = phone.follow(*call) {
                    self.number = Some(follower);
                }
            }
            PhoneEvent::Ended { call, outcome, .. } if Some(*call) == self.number => {
                self.outcome.get_or_insert(outcome.clone());
            }
            _ => {}
        }
        self.report.tell(told);
        if matches!(told, PhoneEvent::Ended { call, .. } if Some(*call) == self.number) {
            self.judge.hear(told);
        }
    }

    fn turn(&mut self, phone: &mut Phone) -> Option<Outcome> {
        let is_over = self.over(phone).is_some_and(|end| end <= Instant::now());
        if let Some(number) = self.number.filter(|_| is_over || phone.was_interrupted()) {
            let _ = phone.hang_up(number);
        } else if self.number.is_none() && phone.was_interrupted() {
            self.outcome = Some(Outcome::Done);
        }
        self.outcome.take().map(|outcome| self.judge.end(outcome))
    }

    fn due(&self, phone: &Phone) -> Option<Instant> {
        self.over(phone)
    }
}

/// Takes calls.
pub(crate) struct Answer {
    /// True if calls are answered automatically; otherwise the return key answers.
    auto: bool,
    /// The number of calls to take.
    calls: Option<u64>,
    taken: u64,
    report: Report,
    judge: Judge,
}

impl Answer {
    pub(crate) const fn new(auto: bool, calls: Option<u64>, report: Report, judge: Judge) -> Self {
        Self { auto, calls, taken: 0, report, judge }
    }

    fn take(&mut self, phone: &mut Phone, number: u64) {
        let is_enough = self.calls.is_some_and(|calls| self.taken >= calls);
        if is_enough {
            let _ = phone.decline(number, 486);
        } else if phone.answer(number).is_ok() {
            self.taken += 1;
        }
    }
}

impl Interface for Answer {
    fn begin(&mut self, phone: &mut Phone) {
        phone.register();
    }

    fn hear(&mut self, phone: &mut Phone, told: &PhoneEvent) {
        self.report.tell(told);
        if matches!(told, PhoneEvent::Ended { seconds: Some(_), .. }) {
            self.judge.hear(told);
        }
        match told {
            PhoneEvent::Incoming { call, .. } if self.auto => self.take(phone, *call),
            // Otherwise strangers could place calls at the owner's cost.
            PhoneEvent::TransferAsked { call, .. } => match self.auto {
                true => drop(phone.refuse_transfer(*call)),
                false => drop(phone.follow(*call)),
            },
            _ => {}
        }
    }

    fn turn(&mut self, phone: &mut Phone) -> Option<Outcome> {
        if !self.auto && was_return_pressed() {
            let ringing = phone.calls().iter().filter(|(_, call)| call.stage == Stage::RingingHere);
            let ringing: Vec<u64> = ringing.map(|(number, _)| *number).collect();
            ringing.into_iter().for_each(|number| self.take(phone, number));
        }
        let is_enough = self.calls.is_some_and(|calls| self.taken >= calls);
        let is_over = is_enough && phone.calls().is_empty();
        if !is_over && phone.was_interrupted() {
            // The statistics of established calls are reported when they end.
            self.calls = Some(self.taken);
            let calls: Vec<u64> = phone.calls().keys().copied().collect();
            calls.into_iter().for_each(|number| drop(phone.hang_up(number)));
            return phone.calls().is_empty().then(|| self.judge.end(Outcome::Done));
        }
        is_over.then(|| self.judge.end(Outcome::Done))
    }

    fn inputs(&self) -> Vec<BorrowedFd<'_>> {
        if self.auto {
            return Vec::new();
        }
        vec![STDIN.as_fd()]
    }
}

fn was_return_pressed() -> bool {
    let mut fds = [PollFd::new(STDIN.as_fd(), PollFlags::POLLIN)];
    let is_ready = poll(&mut fds, PollTimeout::ZERO).is_ok_and(|count| count > 0);
    let mut line = String::new();
    is_ready && STDIN.read_line(&mut line).is_ok_and(|length| length > 0)
}
