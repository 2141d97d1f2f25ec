//! The bindings, as the registrar's responses list them.

use super::places::{Place, nearness};
use super::received::{Names, Received};
use sip::header::NameAddr;
use sip::{Duration, HeaderName, Instant, Message};
use sip_server::Flow;
use std::net::SocketAddr;

/// All present and former bindings.
#[derive(Default)]
pub(super) struct Bindings(Vec<Binding>);

struct Binding {
    user: String,
    contact: String,
    place: Place,
    flow: Flow,
    since: Instant,
    until: Instant,
}

impl Bindings {
    /// Records the current bindings from the 200 to a REGISTER of `user`.
    pub(super) fn note(
        &mut self,
        user: &str,
        register: &Received,
        answer: &Message<'_>,
        now: Instant,
    ) {
        let request = register.message();
        let contacts = |message: &Message<'_>| -> Vec<(String, Option<u64>)> {
            let elements = message.elements(HeaderName::Contact);
            let addresses = elements.filter_map(|it| NameAddr::parse(HeaderName::Contact, it).ok());
            let number = |value: &[u8]| std::str::from_utf8(value).ok()?.parse().ok();
            addresses
                .map(|it| {
                    let expires = it.params.value("expires").and_then(number);
                    (String::from_utf8_lossy(it.uri_bytes).into_owned(), expires)
                })
                .collect()
        };
        let requested = contacts(&request);
        let mut next = Vec::new();
        for (contact, expires) in contacts(answer) {
            let Some(place) = Place::of(&contact) else { continue };
            let known = self.0.iter().rev().find(|it| it.user == user && it.contact == contact);
            let is_new = requested.iter().any(|(it, _)| *it == contact);
            let flow = match known {
                Some(known) if !is_new => known.flow,
                _ => register.flow,
            };
            let until = now + Duration::from_secs(expires.unwrap_or(0));
            next.push(Binding { user: user.into(), contact, place, flow, since: now, until });
        }
        for binding in self.0.iter_mut().filter(|binding| binding.user == user) {
            binding.until = binding.until.min(now);
        }
        self.0.extend(next);
    }

    /// The user with a binding for `uri` at `remote` that was valid at one of the times `then`.
    pub(super) fn find(
        &self,
        uri: &Place,
        flow: &Flow,
        then: &[Instant],
        names: &Names,
    ) -> Option<&str> {
        let leads = |binding: &&Binding| {
            let on_flow = (binding.flow.transport, binding.flow.remote);
            let is_near =
                |remote: SocketAddr| nearness(remote.ip()) <= nearness(binding.flow.remote.ip());
            then.iter().any(|then| (binding.since..=binding.until).contains(then))
                && binding.place.is_same_phone(uri)
                && (on_flow == (flow.transport, flow.remote)
                    || (names.leads(&binding.place, flow.remote) && is_near(flow.remote)))
        };
        self.0.iter().find(leads).map(|binding| &*binding.user)
    }
}
