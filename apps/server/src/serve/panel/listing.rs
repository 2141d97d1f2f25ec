//! Pages of registrations, by address-of-record and contact.

use crate::serve::desk::Running;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// At most `most` registrations behind `after`, of `user` if it is given, with `search` in their
/// address-of-record or contact.
pub(super) fn registrations(
    desk: &Running,
    user: Option<&str>,
    search: &str,
    after: Option<&(String, String)>,
    most: usize,
) -> Vec<Value> {
    let (now, search) = (desk.hub.clock.now(), search.to_ascii_lowercase());
    let has = |text: &str| text.to_ascii_lowercase().contains(&search);
    // The first ones so far, by their key.
    let mut found = BTreeMap::new();
    desk.hub.engine.for_each_binding(now, &mut |binding| {
        let address_of_record = String::from_utf8_lossy(binding.address_of_record);
        if user.is_some_and(|user| user != address_of_record) {
            return;
        }
        let contact = String::from_utf8_lossy(binding.contact);
        if !search.is_empty() && !has(&address_of_record) && !has(&contact) {
            return;
        }
        let key = (address_of_record.into_owned(), contact.into_owned());
        let is_before = after.is_some_and(|after| key <= *after);
        let is_behind = found.len() >= most && found.last_key_value().is_some_and(|it| key > *it.0);
        if is_before || is_behind {
            return;
        }
        let row = json!({
            "address_of_record": key.0,
            "contact": key.1,
            "flow": binding.flow.to_string(),
            "expires_in": binding.expires.since(now).as_secs(),
            "q": binding.q,
        });
        found.insert(key, row);
        if found.len() > most {
            found.pop_last();
        }
    });
    found.into_values().collect()
}
