//! Messages (RFC 3428) for users without a reachable phone: they are stored, and delivered in order
//! when a phone of the user registers.

mod delivery;
mod shared;

pub(super) use delivery::{ACCEPTED, Outcome, Request, deliver, respond};
pub(super) use shared::Input;
pub(crate) use shared::SharedKeeper;
