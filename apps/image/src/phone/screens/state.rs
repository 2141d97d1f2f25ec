//! What is remembered of one screen.

use super::form::Form;
use crate::phone::{Login, Phone};
use alloc::string::String;
use sip::Instant;

/// A page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    /// Log in to a server, or call a peer directly.
    Login,
    /// What the phone can do.
    Menu,
    /// Whom to call.
    Dial,
    /// Whom the other end is to call instead.
    Transfer,
    /// The call, and its security.
    Call,
    /// The lease, and what a NAT makes of our ports.
    Network,
    /// What was said.
    Log,
    /// The keys, and what they do.
    Keys,
}

/// What one screen shows.
#[derive(Debug)]
pub struct View {
    pub(super) page: Page,
    pub(super) login: Form<3>,
    pub(super) dial: Form<1>,
    pub(super) is_asking: bool,
    pub(super) is_stale: bool,
    /// Whether the call was there when the page was drawn, so that one that comes is shown.
    pub(super) had_call: bool,
    /// Whether somebody was logging in then, so that the first screen does not ask who it is.
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

/// How far the account is, in words.
pub(super) fn login(phone: &Phone) -> String {
    match phone.login() {
        Login::None => "calls are direct".into(),
        Login::Asking => "logging in".into(),
        Login::Registered => "registered".into(),
        Login::Failed(why) => alloc::format!("not registered: {why}"),
    }
}
