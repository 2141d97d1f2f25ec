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
    let now = desk.hub.clock.now();
    let user = user.map(str::as_bytes);
    // The first ones so far, by their key. Most bindings are passed over without a copy.
    let mut found: BTreeMap<(String, String), _> = BTreeMap::new();
    desk.hub.engine.for_each_binding(now, &mut |binding| {
        if user.is_some_and(|user| user != binding.address_of_record) {
            return;
        }
        let address_of_record = String::from_utf8_lossy(binding.address_of_record);
        let contact = String::from_utf8_lossy(binding.contact);
        let key = (&*address_of_record, &*contact);
        let is_before = after.is_some_and(|after| key <= (after.0.as_str(), after.1.as_str()));
        let last = found.last_key_value().filter(|_| found.len() >= most);
        let is_behind = last.is_some_and(|(last, _)| key > (last.0.as_str(), last.1.as_str()));
        let has = |text: &str| contains(text, search);
        if is_before || is_behind || !has(&address_of_record) && !has(&contact) {
            return;
        }
        let key = (address_of_record.into_owned(), contact.into_owned());
        found.insert(key, registration(&binding, now));
        if found.len() > most {
            found.pop_last();
        }
    });
    found.into_values().map(|row| serde_json::to_value(row).unwrap_or_default()).collect()
}

/// Returns true if `text` has `part`, in any case of ASCII letters.
fn contains(text: &str, part: &str) -> bool {
    let mut places = text.as_bytes().windows(part.len().max(1));
    part.is_empty() || places.any(|place| place.eq_ignore_ascii_case(part.as_bytes()))
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

#[cfg(test)]
mod tests {
    use super::contains;

    #[test]
    fn a_part_is_found_in_any_case() {
        for part in ["", "alice", "LICE@A", "a.com", "m"] {
            assert!(contains("Alice@a.com", part), "{part}");
        }
        for part in ["bob", "Alice@a.com.", "ü"] {
            assert!(!contains("Alice@a.com", part), "{part}");
        }
        assert!(contains("", "") && !contains("", "a"));
    }
}
