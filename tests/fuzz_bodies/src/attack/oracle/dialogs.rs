//! The addresses of dialog ends, as announced in messages that the server forwarded.

use super::places::{Place, nearness};
use super::received::{Names, Received};
use crate::attack::draft::{tag_of, value};
use sip::{Duration, HeaderName, Instant, Message};
use sip_server::Flow;

/// The time after the last 2xx during which requests other than the end of a dialog are allowed,
/// plus a second for rounding.
const LIFETIME: Duration = Duration::from_secs(24 * 3600 + 1);
/// The same after a provisional response, in stateless mode.
const EARLY: Duration = Duration::from_secs(3601);

/// The address announced by an end of a dialog.
struct Announcement {
    call_id: String,
    tag: String,
    /// The tag of the other end, if known.
    other_tag: Option<String>,
    contact: Option<Place>,
    flow: Flow,
    /// The proxies between this server and the end.
    routes: Vec<Option<Place>>,
    life: Validity,
}

/// The validity of an announced address.
enum Validity {
    Until(Instant),
    /// Valid until the final response of the request with this number.
    Invite(usize),
}

/// All announced addresses, and the last 2xx of each dialog.
#[derive(Default)]
pub(super) struct Dialogs {
    is_stateless: bool,
    announced: Vec<Announcement>,
    confirmed: Vec<(String, [String; 2], Instant)>,
}

/// Returns true for methods of target refresh requests.
fn is_target_refresh(method: &str) -> bool {
    matches!(method, "INVITE" | "SUBSCRIBE" | "REFER" | "NOTIFY" | "UPDATE")
}

fn contact(message: &Message<'_>) -> Option<Place> {
    Place::of_element(message.elements(HeaderName::Contact).next()?)
}

/// The Route values that do not refer to this server, and the effective Request-URI (RFC 3261
/// section 16.4).
pub(super) fn way(request: &Message<'_>) -> (Option<Place>, Vec<Option<Place>>) {
    let mut routes: Vec<_> = request.elements(HeaderName::Route).map(Place::of_element).collect();
    let mut uri = Place::of(&super::super::draft::request_uri(request));
    let is_own = |place: &Option<Place>| place.as_ref().is_some_and(Place::is_ours);
    let is_strict = is_own(&uri) && uri.as_ref().is_some_and(|uri| uri.user.len() >= 35);
    if is_strict && let Some(last) = routes.pop() {
        uri = last;
    }
    let own = routes.iter().take_while(|place| is_own(place)).count();
    routes.drain(..own);
    (uri, routes)
}

impl Dialogs {
    pub(super) fn new(is_stateless: bool) -> Self {
        Self { is_stateless, ..Self::default() }
    }

    /// Records a forwarded request, which announces the address of its sender.
    pub(super) fn note_request(&mut self, received: &Received, now: Instant) {
        let request = received.message();
        if !is_target_refresh(&received.method) {
            return;
        }
        let Some(tag) = tag_of(&request, HeaderName::From) else { return };
        self.announced.push(Announcement {
            call_id: value(&request, HeaderName::CallId),
            tag,
            other_tag: tag_of(&request, HeaderName::To),
            contact: contact(&request),
            flow: received.flow,
            routes: request.elements(HeaderName::RecordRoute).map(Place::of_element).collect(),
            life: Validity::Until(now + LIFETIME),
        });
    }

    /// Records a response to the request `serial`, which was forwarded on `flow`.
    pub(super) fn note_response(
        &mut self,
        response: &Message<'_>,
        method: &str,
        flow: Flow,
        serial: usize,
        now: Instant,
    ) {
        let status = response.status().unwrap_or(0);
        let tags = [HeaderName::From, HeaderName::To].map(|name| tag_of(response, name));
        let [Some(from), Some(to)] = tags else { return };
        if !(101..300).contains(&status) || !is_target_refresh(method) {
            return;
        }
        let call_id = value(response, HeaderName::CallId);
        let mut routes: Vec<_> = response
            .elements(HeaderName::RecordRoute)
            .map(Place::of_element)
            .take_while(|place| !place.as_ref().is_some_and(Place::is_ours))
            .collect();
        routes.reverse();
        let life = match status {
            200.. => Validity::Until(now + LIFETIME),
            _ if self.is_stateless => Validity::Until(now + EARLY),
            _ => Validity::Invite(serial),
        };
        let (tag, other_tag, contact) = (to, Some(from), contact(response));
        self.announced.push(Announcement { call_id, tag, other_tag, contact, flow, routes, life });
    }

    /// Records a 2xx to a request with this method.
    pub(super) fn confirm(&mut self, response: &Message<'_>, method: &str, now: Instant) {
        let tags = [HeaderName::From, HeaderName::To].map(|name| tag_of(response, name));
        let is_success = response.status().is_some_and(|status| (200..300).contains(&status));
        if let ([Some(from), Some(to)], true) = (tags, is_success && is_target_refresh(method)) {
            let mut pair = [from, to];
            pair.sort();
            self.confirmed.push((value(response, HeaderName::CallId), pair, now));
        }
    }

    /// Returns true if `received` may be forwarded on `flow` as a request within a dialog.
    pub(super) fn lead(
        &self,
        received: &Received,
        flow: &Flow,
        requests: &[Received],
        names: &Names,
    ) -> bool {
        let request = received.message();
        let tags = [HeaderName::From, HeaderName::To].map(|name| tag_of(&request, name));
        let [from, Some(to)] = tags else { return false };
        let call_id = value(&request, HeaderName::CallId);
        let (uri, routes) = way(&request);
        let Some(uri) = uri else { return false };
        let mut pair = [from.clone().unwrap_or_default(), to.clone()];
        pair.sort();
        let is_confirmed = self.confirmed.iter().any(|(call, tags, at)| {
            *call == call_id
                && *tags == pair
                && received.came.iter().any(|now| *now <= *at + LIFETIME)
        });
        let state = value(&request, HeaderName::SubscriptionState).to_ascii_lowercase();
        let ends = matches!(&*received.method, "BYE" | "ACK")
            || (received.method == "NOTIFY" && state.starts_with("terminated"));
        let of_end: Vec<_> = self
            .announced
            .iter()
            .filter(|announced| {
                announced.call_id == call_id
                    && announced.tag == to
                    && (announced.other_tag.is_none() || announced.other_tag == from)
            })
            .collect();
        let came_by = |end: Instant| received.came.iter().any(|now| *now <= end);
        // The route set does not change within a dialog (RFC 3261 section 12.2).
        of_end.iter().any(|announced| announced.routes == routes)
            && of_end.iter().any(|announced| {
                let is_alive = match announced.life {
                    Validity::Until(end) => came_by(end),
                    Validity::Invite(serial) => requests[serial].answered.is_none_or(came_by),
                };
                (is_alive || is_confirmed || ends)
                    && announced.leads(&uri, routes.first(), flow, names)
            })
    }
}

impl Announcement {
    /// Returns true if a request to `uri` reaches the end on `flow`, which is at most as near as
    /// the end.
    fn leads(
        &self,
        uri: &Place,
        first: Option<&Option<Place>>,
        flow: &Flow,
        names: &Names,
    ) -> bool {
        let Some(contact) = &self.contact else { return false };
        let on_flow = (self.flow.transport, self.flow.remote) == (flow.transport, flow.remote);
        if on_flow && contact.user == uri.user {
            return true;
        }
        let hop = match first {
            Some(Some(route)) => route,
            Some(None) => return false,
            None => contact,
        };
        let nearest = nearness(self.flow.remote.ip());
        let is_near = nearness(flow.remote.ip()) <= nearest;
        let is_same = contact.without_lr() == uri.without_lr();
        is_same && is_near && names.leads(hop, flow.remote)
    }
}
