//! The display names of callers within the house: phones show them in place of the name that the
//! phone of the caller has chosen.

use crate::core::address_of_record::{AddressOfRecord, uri_of};
use crate::core::event::Env;
use alloc::vec::Vec;
use sip::Encode;

/// The value of P-Asserted-Identity (RFC 3325) of a call of `user` to another user, if `user` has a
/// display name.
pub(super) fn asserted(user: &AddressOfRecord, env: &Env<'_>) -> Option<Vec<u8>> {
    let name = env.settings.config.caller_names.get(user.name())?;
    let mut value = Vec::new();
    ("\"", name.as_str(), "\" <", &*uri_of(user.as_bytes()), ">").encode(&mut value);
    Some(value)
}
