//! Pages of registrations, by address-of-record and contact; the last refusals and messages.

use crate::admin::desk::Desk;
use crate::history;
use crate::serve::desk::{Running, registration};
use crate::trace::{FoundRow, Search};
use crate::traces;
use serde_json::Value;
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
        found.insert(key, registration(&binding, now));
        if found.len() > most {
            found.pop_last();
        }
    });
    found.into_values().map(|row| serde_json::to_value(row).unwrap_or_default()).collect()
}

/// At most `most` refusals that fit `target`, the latest first.
pub(super) fn refusals(desk: &Running, target: &str, most: usize) -> Vec<Value> {
    let legs = desk.hub.trace.recent.legs(&desk.call_id(target));
    let found = desk.hub.refusals.find(target, &legs, &history::user(target));
    let latest = found.into_iter().rev().take(most);
    latest.map(|row| serde_json::to_value(row).unwrap_or_default()).collect()
}

/// The calls with messages of the last minutes that fit `target`.
pub(super) fn traces(desk: &Running, target: &str) -> Vec<Value> {
    let (call_id, user) = (desk.call_id(target), history::user(target));
    let search = Search { target, call_id: &call_id, user: &user, since: 0 };
    let found = desk.hub.trace.recent.find(&search);
    let messages = found.rows().filter_map(|row| match row {
        FoundRow::Message(message) => Some(message),
        FoundRow::LeftOut(_) => None,
    });
    traces::calls(&messages.collect::<Vec<_>>())
}
