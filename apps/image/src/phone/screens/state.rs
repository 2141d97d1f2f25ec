//! The state of one screen.

use super::form::Form;
use crate::phone::{Login, Phone};
use alloc::string::String;
use sip::Instant;

/// A page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    /// Log in to a server, or call a peer directly.
    Login,
    /// The main menu.
    Menu,
    /// Input of the URI to call.
    Dial,
    /// Input of the transfer target.
    Transfer,
    /// The call, and its security.
    Call,
    /// The lease, and the public addresses of our ports.
    Network,
    /// The log.
    Log,
    /// The keys and their actions.
    Keys,
}

/// The state of one screen.
#[derive(Debug)]
pub struct View {
    pub(super) page: Page,
    pub(super) login: Form<3>,
    pub(super) dial: Form<1>,
    pub(super) is_asking: bool,
    pub(super) is_stale: bool,
    /// True if there was a call at the last drawing, so that a new one is shown.
    pub(super) had_call: bool,
    /// True if there was an account at the last drawing, so that the login page is left.
    pub(super) was_known: bool,
    pub(super) drawn: Instant,
    pub(super) seen: u64,
}

impl Default for View {
    fn default() -> Self {
        Self {
            page: Page::Login,
            login: Form::new([
                ("address", "sip:"),
                ("password", ""),
                ("server, if not that of the address", ""),
            ]),
            dial: Form::new([("call", "sip:")]),
            is_asking: false,
            is_stale: true,
            had_call: false,
            was_known: false,
            drawn: Instant::ZERO,
            seen: 0,
        }
    }
}

/// The state of the account as text.
pub(super) fn login(phone: &Phone) -> String {
    match phone.login() {
        Login::None => "calls are direct".into(),
        Login::Asking => "logging in".into(),
        Login::Registered => "registered".into(),
        Login::Failed(why) => alloc::format!("not registered: {why}"),
    }
}
