//! Front ends: they control the phone. One runs at a time.

mod control;
mod judge;
mod once;
mod run;
mod screen;

pub(crate) use control::Control;
pub(crate) use judge::Judge;
pub(crate) use once::{Answer, Call};
pub(crate) use run::Run;
pub(crate) use screen::Screen;

use crate::outcome::Outcome;
use crate::phone::Phone;
use crate::report::PhoneEvent;
use sip_ua::AccountId;
use std::io::Stdin;
use std::os::fd::BorrowedFd;
use std::sync::LazyLock;
use std::time::Instant;

/// The standard input, for polling.
static STDIN: LazyLock<Stdin> = LazyLock::new(std::io::stdin);

/// A user interface, which controls the phone.
pub(crate) trait Interface {
    /// Starts.
    fn begin(&mut self, phone: &mut Phone);

    /// Handles an event.
    fn hear(&mut self, phone: &mut Phone, told: &PhoneEvent);

    /// Reads user input and does what is due. Returns the outcome when the program is to end.
    fn turn(&mut self, phone: &mut Phone) -> Option<Outcome>;

    /// The descriptors of user input.
    fn inputs(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// The time of the next timer.
    fn due(&self, _phone: &Phone) -> Option<Instant> {
        None
    }
}

/// The account with this name, or the first one.
fn account_of(phone: &Phone, name: Option<&str>) -> Result<Option<AccountId>, String> {
    let Some(name) = name else { return Ok((!phone.lines().is_empty()).then_some(AccountId(0))) };
    let wanted = crate::config::with_scheme(name);
    let place = phone.lines().iter().position(|line| line.uri == wanted);
    place.map(|place| Some(AccountId(place))).ok_or(format!("there is no account {wanted}"))
}

/// Runs `phone` under the control of `interface` until the end.
pub(crate) fn run(mut phone: Phone, interface: &mut dyn Interface) -> Outcome {
    interface.begin(&mut phone);
    loop {
        loop {
            phone.settle();
            let Some(told) = phone.poll() else { break };
            interface.hear(&mut phone, &told);
        }
        if let Some(outcome) = interface.turn(&mut phone) {
            phone.say_goodbye();
            while let Some(told) = phone.poll() {
                interface.hear(&mut phone, &told);
            }
            return outcome;
        }
        phone.settle();
        if phone.has_news() {
            continue;
        }
        phone.wait(&interface.inputs(), interface.due(&phone));
        phone.turn();
    }
}
