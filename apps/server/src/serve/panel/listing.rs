//! Pages of registrations, by address-of-record and contact; the last refusals and messages.

use crate::admin::Registration;
use crate::admin::desk::Desk;
use crate::history;
use crate::serve::desk::{Running, registration};
use crate::serve::local::Engine;
use crate::trace::{FoundRow, Search};
use crate::traces;
use serde_json::Value;
use sip::Instant;
use std::borrow::Cow;
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
    let (engine, now) = (&desk.hub.engine, desk.hub.clock.now());
    let after = after.map(|(user, contact)| (user.into(), contact.into()));
    let mut page = Page { search, after, most, rows: BTreeMap::new() };
    match user {
        Some(user) => page.add_user(engine, user.as_bytes(), now),
        None => page.add_all(engine, now),
    }
    page.rows.into_values().map(|row| serde_json::to_value(row).unwrap_or_default()).collect()
}

/// The address-of-record and the contact of a registration.
type Key<'k> = (Cow<'k, str>, Cow<'k, str>);

/// A page of registrations, with the first ones so far.
struct Page<'p> {
    search: &'p str,
    after: Option<Key<'p>>,
    most: usize,
    rows: BTreeMap<Key<'static>, Registration>,
}

impl Page<'_> {
    /// Returns true if a registration with `key` is on the page so far.
    fn takes(&self, key: &Key<'_>) -> bool {
        let last = self.rows.last_key_value().filter(|_| self.rows.len() >= self.most);
        let is_behind = last.is_some_and(|(last, _)| key > last);
        let is_before = self.after.as_ref().is_some_and(|after| key <= after);
        let has = |text: &str| contains(text, self.search);
        !is_before && !is_behind && (has(&key.0) || has(&key.1))
    }

    /// Adds `row`, if it is on the page.
    fn add(&mut self, row: Registration) {
        let key = (row.address_of_record.clone().into(), row.contact.clone().into());
        if self.takes(&key) {
            self.rows.insert(key, row);
        }
        if self.rows.len() > self.most {
            self.rows.pop_last();
        }
    }

    /// Adds the registrations of `user`.
    fn add_user(&mut self, engine: &Engine, user: &[u8], now: Instant) {
        engine.for_each_binding_of_user(user, now, &mut |it| self.add(registration(&it, now)));
    }

    /// Adds the registrations of all users. Workers wait for a part of them only as long as its
    /// keys are copied: they are compared afterwards.
    fn add_all(&mut self, engine: &Engine, now: Instant) {
        let mut keys = Keys::default();
        for part in 0..Engine::PARTS {
            keys.copy(engine, part, now);
            let all = keys.iter().map(|raw| (raw.map(String::from_utf8_lossy).into(), raw));
            let mut taken: Vec<(Key<'_>, _)> = all.filter(|(key, _)| self.takes(key)).collect();
            taken.sort_unstable();
            for (key, [user, contact]) in taken {
                // The following ones are behind it.
                if !self.takes(&key) {
                    break;
                }
                engine.for_each_binding_of_user(user, now, &mut |it| {
                    if it.contact == contact {
                        self.add(registration(&it, now));
                    }
                });
            }
        }
    }
}

/// Copies of addresses-of-record and contacts, one after the other.
#[derive(Default)]
struct Keys {
    bytes: Vec<u8>,
    /// The lengths of each pair.
    lengths: Vec<[usize; 2]>,
}

impl Keys {
    /// Replaces the keys by those of a part of the registrations.
    fn copy(&mut self, engine: &Engine, part: usize, now: Instant) {
        self.bytes.clear();
        self.lengths.clear();
        engine.for_each_binding_of(part, now, &mut |it| {
            let pair = [it.address_of_record, it.contact];
            pair.into_iter().for_each(|bytes| self.bytes.extend_from_slice(bytes));
            self.lengths.push(pair.map(<[u8]>::len));
        });
    }

    fn iter(&self) -> impl Iterator<Item = [&[u8]; 2]> {
        let mut rest = &self.bytes[..];
        self.lengths.iter().map(move |lengths| {
            lengths.map(|length| {
                let (bytes, after) = rest.split_at(length);
                rest = after;
                bytes
            })
        })
    }
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
    use super::*;
    use sip::Transport;
    use sip_server::Flow;
    use sip_server::config::Config;
    use sip_server::journal_record::{self as record, StoredBinding};

    const NOW: Instant = Instant::from_micros(1_800_000_000_000_000);

    /// An engine with two registrations of each of 200 users.
    fn engine() -> Engine {
        let engine = Engine::new(Config::default(), &[7; 32]);
        let address = ([192, 0, 2, 2], 5060).into();
        let flow =
            Flow { transport: Transport::Udp, local: address, remote: address, connection: None };
        for user in 0..200 {
            let contacts = [0, 1].map(|it| format!("sip:u{user:03}@192.0.2.2;n={it}"));
            let bindings = contacts.iter().map(|contact| StoredBinding {
                contact: contact.as_bytes(),
                path: b"",
                instance: b"",
                call_id: 1,
                cseq: 1,
                q: 1000,
                reg_id: 0,
                expires: NOW + sip::Duration::from_secs(60),
                flow,
                flow_bound: true,
                agent: b"",
            });
            let mut bytes = Vec::new();
            record::write(&mut bytes, 1, format!("U{user:03}@a.com").as_bytes(), bindings);
            record::read(&bytes).for_each(|record| engine.restore(&record.unwrap(), NOW));
        }
        engine
    }

    fn page<'p>(search: &'p str, after: Option<[&'p str; 2]>, most: usize) -> Page<'p> {
        let after = after.map(|pair| pair.map(Cow::from).into());
        Page { search, after, most, rows: BTreeMap::new() }
    }

    /// The contacts of a page.
    fn contacts(page: &Page<'_>) -> Vec<String> {
        page.rows.values().map(|row| row.contact.clone()).collect()
    }

    #[test]
    fn pages_follow_each_other_and_have_what_is_searched() {
        let engine = engine();
        let all = |mut page: Page<'_>| {
            page.add_all(&engine, NOW);
            contacts(&page)
        };
        let whole = all(page("", None, 1000));
        assert_eq!(whole.len(), 400);
        assert!(whole.is_sorted());
        assert_eq!(all(page("", None, 51)), whole[..51]);
        let last = ["U025@a.com", &whole[50]];
        assert_eq!(all(page("", Some(last), 51)), whole[51..102]);
        assert_eq!(all(page("u1", None, 51)), whole[200..251]);
        assert_eq!(all(page("u19", Some(["U198@a.com", ""]), 51)), whole[396..]);
        assert_eq!(all(page("nothing", None, 51)), [""; 0]);
    }

    #[test]
    fn a_page_of_a_user_has_the_registrations_of_the_user() {
        let engine = engine();
        let of = |user: &str, mut page: Page<'_>| {
            page.add_user(&engine, user.as_bytes(), NOW);
            contacts(&page)
        };
        let both = [0, 1].map(|it| format!("sip:u007@192.0.2.2;n={it}"));
        assert_eq!(of("U007@a.com", page("", None, 50)), both);
        assert_eq!(of("U007@a.com", page("", None, 1)), both[..1]);
        assert_eq!(of("U007@a.com", page("N=1", None, 50)), both[1..]);
        assert_eq!(of("U007@a.com", page("", Some(["U007@a.com", &both[0]]), 50)), both[1..]);
        assert_eq!(of("u007@a.com", page("", None, 50)), [""; 0]);
    }

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
