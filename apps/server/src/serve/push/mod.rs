//! Push notifications to phones that sleep (RFC 8599): the calls and messages that wait, and the
//! hook that requests the notifications.

mod hook;
mod shared;
mod waiting;

pub(super) use hook::{Notification, Reason};
pub(crate) use shared::SharedPush;
