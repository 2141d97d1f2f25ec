//! The redirection of calls (RFC 3261 sections 8.1.3.4 and 21.3).

use crate::uac::split_headers;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cmp::Reverse;
use sip::header::{NameAddr, q_value};
use sip::{HeaderName, Message, Uri};

/// The targets of a redirected call, in their order.
pub(super) struct Redirects {
    /// The number of redirections still allowed.
    left: usize,
    /// The previous and future targets. No target is used twice.
    known: Vec<Vec<u8>>,
    ahead: VecDeque<Place>,
}

/// A target URI of a redirection.
pub(super) struct Place {
    pub(super) uri: Vec<u8>,
    /// True if it is a proxy on the path and not the target (305).
    pub(super) is_proxy: bool,
}

/// Returns the URI in a Contact as a request URI. If `secure`, only a SIPS URI is accepted.
fn target_of(contact: &NameAddr<'_>, secure: bool) -> Option<Vec<u8>> {
    let Ok(Uri::Sip(uri)) = Uri::parse(contact.uri_bytes) else { return None };
    if secure && !uri.secure {
        return None;
    }
    // The header fields after the `?` would go into the request. A peer must not choose them.
    split_headers(contact.uri_bytes).map(|(uri, _)| uri.to_vec())
}

fn is_same(one: &[u8], other: &[u8]) -> bool {
    match (Uri::parse(one), Uri::parse(other)) {
        (Ok(Uri::Sip(one)), Ok(Uri::Sip(other))) => one.is_equivalent(&other),
        _ => one == other,
    }
}

impl Redirects {
    /// Returns the targets of a call to `uri` with at most `left` redirections.
    pub(super) fn new(uri: &[u8], left: usize) -> Self {
        Self { left, known: [uri.to_vec()].into(), ahead: VecDeque::new() }
    }

    /// Adds the targets in `response`, a 3xx, in front of the remaining ones, the preferred first.
    pub(super) fn note(&mut self, response: &Message<'_>, secure: bool) {
        let is_proxy = response.status() == Some(305);
        let elements = response.elements(HeaderName::Contact);
        let mut contacts: Vec<_> = elements
            .filter_map(|element| {
                let contact = NameAddr::parse(HeaderName::Contact, element).ok()?;
                let q = contact.params.value("q").map(|q| q_value(HeaderName::Contact, q));
                let q = q.and_then(Result::ok).unwrap_or(1000);
                Some((Reverse(q), target_of(&contact, secure)?))
            })
            .collect();
        contacts.sort_by_key(|(q, _)| *q);
        let mut places = VecDeque::new();
        for (_, uri) in contacts {
            if places.len() < self.left && !self.known.iter().any(|known| is_same(known, &uri)) {
                self.known.push(uri.clone());
                places.push_back(Place { uri, is_proxy });
            }
        }
        places.append(&mut self.ahead);
        self.ahead = places;
    }

    pub(super) fn next(&mut self) -> Option<Place> {
        self.left = self.left.checked_sub(1)?;
        self.ahead.pop_front()
    }
}
