//! The screens of the server and their keys.

mod calls;
mod clock;
mod list;
mod pages;
mod rates;
mod state;
#[cfg(test)]
mod tests;
mod view;

use super::{Phase, Server};
use crate::screen::console::Consoles;
pub use rates::Rates;
use sip::Instant;
pub use state::View;

/// The screens of the server.
pub type Screens = Consoles<View>;

impl Server {
    /// Fetches the users again, if there is an address and no transfer is running.
    fn fetch_users(&mut self, now: Instant) {
        match self.phase {
            Phase::Users | Phase::Ready if !self.accounts.is_busy() => self.next_fetch = Some(now),
            Phase::Users | Phase::Ready => self.log.say(format_args!("the users are on their way")),
            Phase::Link | Phase::Address => {
                self.log.say(format_args!("no address yet to fetch the users by"));
            }
        }
    }
}
