//! The registrar (RFC 3261 section 10.3; Path of RFC 3327; rows A1 and A2).

use crate::binding::{Binding, Extra};
use crate::config::Registrar;
use crate::counters::Counters;
use crate::event::Env;
use crate::flow::{Flow, is_sendable};
use crate::location::{AddressOfRecord, Changed, LocationService, Subscriber};
use crate::past::Undone;
use crate::proxy::{NextHop, is_flow_bound};
use crate::settings::Settings;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;
use lock_api::RawMutex;
use sip::header::{NameAddr, delta_seconds, q_value};
use sip::message::RequestHead;
use sip::uri::{UriError, is_sips};
use sip::write_decimal;
use sip::{Duration, HeaderName, Instant, Message, SipUri, Status, StatusLine, Uri};
use smallvec::SmallVec;

/// The longest contact URI, Path and instance that are kept.
const MAX_KEPT: usize = 2048;

/// What to answer a REGISTER with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// 200 with these header field lines: the bindings that there are now.
    Done(Vec<u8>),
    /// The expiry is too short: 423 with Min-Expires.
    TooBrief,
    /// Any other refusal.
    Refused(StatusLine<'static>),
}

/// One Contact of a REGISTER.
struct Contact<'m> {
    uri_bytes: &'m [u8],
    uri: SipUri<'m>,
    expires: Duration,
    q: u16,
    instance: &'m [u8],
    reg_id: u32,
    /// Whether requests to it follow the flow of the REGISTER.
    is_flow_bound: bool,
}

/// What a REGISTER asks for.
enum Wish<'m> {
    Fetch,
    RemoveAll,
    Update(SmallVec<[Contact<'m>; 1]>),
}

/// A REGISTER that is in order by itself.
struct Order<'m> {
    wish: Wish<'m>,
    /// Path as one header field value.
    path: Vec<u8>,
    flow: &'m Flow,
    /// Keyed hash of its Call-ID.
    call_id: u64,
    cseq: u32,
    now: Instant,
    /// No longer does a copy of it travel (RFC 3261 section 17.1.2.2, timer F).
    until: Instant,
}

/// Carries out a REGISTER for `address` that came on `flow`. Whoever sent it may do so.
pub(crate) fn register<R: RawMutex>(
    request: &Message<'_>,
    head: &RequestHead<'_>,
    address: &AddressOfRecord,
    flow: &Flow,
    location: &LocationService<R>,
    env: &mut Env<'_>,
) -> Outcome {
    let order = match Order::read(request, head, flow, env) {
        Ok(order) => order,
        Err(refusal) => {
            if refusal == TOO_MANY {
                env.counters.contact_limit.add();
            }
            return refusal;
        }
    };
    let config = &env.settings.config;
    let adds = matches!(&order.wish, Wish::Update(contacts)
        if contacts.iter().any(|contact| contact.expires > Duration::ZERO));
    let is_full = adds && location.registered() >= config.limits.max_registered;
    let create = adds && !config.authentication.required;
    let (max_contacts, counters) = (config.registrar.max_contacts, env.counters);
    let outcome = location.update(address, create, env.out, |subscriber| {
        if is_full && subscriber.bindings.is_empty() {
            return (
                Outcome::Refused(Status::SERVICE_UNAVAILABLE.because("Too Many Registrations")),
                Changed::No,
            );
        }
        let mut change = Change::new(&order, subscriber, counters);
        let changed = match &order.wish {
            Wish::Fetch => Ok(Changed::No),
            Wish::RemoveAll => change.remove_all(),
            Wish::Update(contacts) => change.update(contacts, max_contacts, location),
        };
        match changed {
            Ok(changed) => (Outcome::Done(change.finish()), changed),
            Err(refusal) => (refusal, Changed::No),
        }
    });
    // Without a user of that name there is nothing to fetch and nothing to remove.
    let outcome = outcome.unwrap_or_else(|| Outcome::Done(Vec::new()));
    match &outcome {
        Outcome::Done(_) => env.counters.registers.add(),
        Outcome::Refused(line) if line.status == Status::SERVICE_UNAVAILABLE => {
            env.counters.registration_limit.add();
        }
        Outcome::Refused(line) if line.status == Status::FORBIDDEN => {
            env.counters.contact_limit.add();
        }
        _ => {}
    }
    outcome
}

/// A REGISTER that changes the bindings of a user.
struct Change<'c, 'm> {
    order: &'c Order<'m>,
    subscriber: &'c mut Subscriber,
    counters: &'c Counters,
    /// Whether it is a late copy where it adds a binding, and where it removes one that it did not
    /// know.
    adds_again: bool,
    removes_again: bool,
    /// What it and others have made that is there no more.
    gone: SmallVec<[Undone; 2]>,
    /// How many bindings are its own. They stand at the end.
    own: usize,
}

impl<'c, 'm> Change<'c, 'm> {
    /// Begins with the bindings that have not expired.
    fn new(order: &'c Order<'m>, subscriber: &'c mut Subscriber, counters: &'c Counters) -> Self {
        let before = subscriber.bindings.len();
        subscriber.bindings.retain(|binding| binding.expires > order.now);
        (subscriber.bindings.len()..before).for_each(|_| counters.expired_bindings.add());
        subscriber.past.forget(order.now);
        Self {
            adds_again: subscriber.past.adds_again(order.call_id, order.cseq),
            removes_again: subscriber.past.removes_again(order.call_id, order.cseq),
            order,
            subscriber,
            counters,
            gone: SmallVec::new(),
            own: 0,
        }
    }

    fn remove_all(&mut self) -> Result<Changed, Outcome> {
        let Self { order, subscriber, .. } = &*self;
        let is_unwanted = |binding: &Binding| {
            order.is_late_for(binding) || (self.removes_again && !order.has_made(binding))
        };
        if subscriber.bindings.iter().any(is_unwanted) {
            return Err(OUT_OF_ORDER);
        }
        if !self.subscriber.bindings.is_empty() {
            self.gone.push(self.order.removal());
        }
        for binding in self.subscriber.bindings.drain(..) {
            self.gone.push(self.order.undone(&binding));
        }
        Ok(Changed::Yes)
    }

    fn update<R: RawMutex>(
        &mut self,
        contacts: &[Contact<'_>],
        max_contacts: usize,
        location: &LocationService<R>,
    ) -> Result<Changed, Outcome> {
        // All or nothing (RFC 3261 section 10.3 step 7). What is refused at its only contact
        // has changed nothing, so a copy is for several.
        let before = (contacts.len() > 1).then(|| self.subscriber.bindings.clone());
        let is_more = contacts
            .iter()
            .try_fold(false, |is_more, contact| Ok(is_more | self.update_one(contact, location)?));
        let is_more = match is_more {
            Ok(_) if self.own > max_contacts => Err(TOO_MANY),
            is_more => is_more,
        };
        let is_more = match (is_more, before) {
            (Err(refusal), Some(before)) => {
                self.subscriber.bindings = before;
                return Err(refusal);
            }
            (is_more, _) => is_more?,
        };
        // Who registers last is there; of the others that is the least certain for the oldest.
        let excess = match is_more {
            true => self.subscriber.bindings.len().saturating_sub(max_contacts),
            false => 0,
        };
        for binding in self.subscriber.bindings.drain(..excess) {
            self.counters.contact_limit.add();
            self.gone.push(self.order.undone(&binding));
        }
        Ok(Changed::Yes)
    }

    /// True where the contact is one more than there were.
    fn update_one<R: RawMutex>(
        &mut self,
        contact: &Contact<'_>,
        location: &LocationService<R>,
    ) -> Result<bool, Outcome> {
        let (order, bindings) = (self.order, &mut self.subscriber.bindings);
        let old = bindings.len() - self.own;
        let replaced = replaced_by(contact, order, bindings, old);
        let removes = contact.expires == Duration::ZERO;
        // A late copy of an earlier REGISTER must not bring back what is gone, nor take what has
        // come since.
        let is_unwanted = !removes && self.adds_again
            || replaced.iter().map(|&at| &bindings[at]).any(|binding| {
                order.is_late_for(binding)
                    || (removes && self.removes_again && !order.has_made(binding))
            });
        if is_unwanted {
            return Err(OUT_OF_ORDER);
        }
        for &at in replaced.iter().rev() {
            let binding = bindings.remove(at);
            self.own -= usize::from(at >= old);
            if binding.call_id != order.call_id {
                self.gone.push(order.undone(&binding));
            }
        }
        if removes {
            if !replaced.is_empty() {
                self.gone.push(order.removal());
            }
            return Ok(false);
        }
        let mut binding = Binding {
            contact: SmallVec::from_slice(contact.uri_bytes),
            extra: extra(&order.path, contact),
            call_id: order.call_id,
            cseq: order.cseq,
            q: contact.q,
            flow_bound: contact.is_flow_bound,
            claim: 0,
            expires: order.now + contact.expires,
            flow: *order.flow,
        };
        binding.claim = location.claim(&binding, &contact.uri);
        // Most users have one phone, and a vector takes room for four by itself.
        bindings.reserve_exact(1);
        bindings.push(binding);
        self.own += 1;
        Ok(replaced.is_empty())
    }

    /// Remembers what is gone, and returns the lines of the 200.
    fn finish(self) -> Vec<u8> {
        let Self { order, subscriber, gone, own, .. } = self;
        gone.into_iter().for_each(|undone| subscriber.past.note(undone));
        contact_lines(subscriber, own, order.now)
    }
}

impl<'m> Order<'m> {
    /// Reads a REGISTER, and refuses one that is wrong whatever bindings there are.
    fn read(
        request: &Message<'m>,
        head: &RequestHead<'m>,
        flow: &'m Flow,
        env: &Env<'_>,
    ) -> Result<Self, Outcome> {
        let mut wish = read_wish(request, env.settings)?;
        let path = read_path(request, flow, env.settings)?;
        if let Wish::Update(contacts) = &mut wish {
            for contact in contacts {
                contact.is_flow_bound =
                    path.is_empty() && is_flow_bound(request, &contact.uri, flow, env.settings);
                if let Some(refusal) = refuse_unreachable(contact, env.settings) {
                    return Err(refusal);
                }
                // Who calls a SIPS URI would be led in clear (RFC 5630 section 5.2).
                let is_secured = is_sips(head.uri_bytes) && flow.transport.is_secure();
                if contact.uri.secure && !is_secured {
                    return Err(bad_request(
                        "SIPS Contact in a REGISTER That Is Not for a SIPS URI",
                    ));
                }
            }
        }
        Ok(Self {
            wish,
            path,
            flow,
            call_id: env.keys.call_id.hash_one(head.call_id),
            cseq: head.cseq.number,
            now: env.now,
            until: env.now + env.settings.config.timers.t1.times(64),
        })
    }

    /// Whether a later REGISTER of the same Call-ID has made `binding`.
    fn is_late_for(&self, binding: &Binding) -> bool {
        binding.call_id == self.call_id && binding.cseq > self.cseq
    }

    /// Whether this REGISTER has made `binding`, when it came before.
    fn has_made(&self, binding: &Binding) -> bool {
        binding.call_id == self.call_id && binding.cseq == self.cseq
    }

    /// What made `binding`, which is there no more.
    const fn undone(&self, binding: &Binding) -> Undone {
        let Binding { call_id, cseq, .. } = *binding;
        Undone { call_id, cseq, removes: false, until: self.until }
    }

    /// This REGISTER, as one that removes bindings.
    const fn removal(&self) -> Undone {
        Undone { call_id: self.call_id, cseq: self.cseq, removes: true, until: self.until }
    }
}

/// Path as one value, where it may be given.
fn read_path(request: &Message<'_>, flow: &Flow, settings: &Settings) -> Result<Vec<u8>, Outcome> {
    let paths: SmallVec<[&[u8]; 2]> = request.values(HeaderName::Path).collect();
    let path = paths.join(&b", "[..]);
    if path.len() > MAX_KEPT {
        return Err(bad_request("Path Too Long"));
    }
    let is_path = |element| {
        matches!(
            NameAddr::parse(HeaderName::Path, element).map(|path| path.uri()),
            Ok(Ok(Uri::Sip(_)))
        )
    };
    if !request.elements(HeaderName::Path).all(is_path) {
        return Err(bad_request("Bad Path"));
    }
    // Whoever could choose one would have requests sent wherever it likes.
    if !path.is_empty() && !settings.is_trusted(flow.remote.ip()) {
        return Err(Outcome::Refused(Status::FORBIDDEN.because("Path from a Network Not Trusted")));
    }
    Ok(path)
}

/// The most contacts in one REGISTER: enough to put others in the place of all that an address of
/// record may have. Each is compared with each binding, under a lock.
const fn most_at_once(max_contacts: usize) -> usize {
    max_contacts.saturating_mul(2)
}

/// Refuses a contact to which nothing can be sent.
fn refuse_unreachable(contact: &Contact<'_>, settings: &Settings) -> Option<Outcome> {
    if contact.expires == Duration::ZERO {
        return None;
    }
    let port = contact.uri.port.unwrap_or(5060);
    if contact.uri.host.ip().is_some_and(|ip| !is_sendable(SocketAddr::new(ip, port))) {
        return Some(bad_request("Nobody Has the Address in Contact"));
    }
    let is_served = contact.is_flow_bound || NextHop::of_uri(&contact.uri, None, settings).is_ok();
    (!is_served).then_some(bad_request("No Such Transport for Contact"))
}

const fn bad_request(reason: &'static str) -> Outcome {
    Outcome::Refused(Status::BAD_REQUEST.because(reason))
}

const TOO_MANY: Outcome = Outcome::Refused(Status::FORBIDDEN.because("Too Many Contacts"));
const OUT_OF_ORDER: Outcome =
    Outcome::Refused(Status::SERVER_INTERNAL_ERROR.because("CSeq Out of Order"));

fn read_wish<'m>(request: &Message<'m>, settings: &Settings) -> Result<Wish<'m>, Outcome> {
    let policy = &settings.config.registrar;
    let default = match request.value(HeaderName::Expires) {
        // What is no number may be taken for the default (RFC 3261 section 10.2.1.1).
        Some(value) => delta_seconds(HeaderName::Expires, value)
            .map(|seconds| Duration::from_secs(seconds.into()))
            .ok(),
        None => None,
    };
    let mut contacts = SmallVec::new();
    let mut elements = request.elements(HeaderName::Contact).peekable();
    if elements.peek().is_none() {
        return Ok(Wish::Fetch);
    }
    for element in elements {
        if contacts.len() == most_at_once(policy.max_contacts) {
            return Err(TOO_MANY);
        }
        if element == b"*" {
            let alone = request.elements(HeaderName::Contact).count() == 1;
            if !alone || default != Some(Duration::ZERO) {
                return Err(bad_request("Contact * Needs to Be Alone with Expires 0"));
            }
            return Ok(Wish::RemoveAll);
        }
        contacts.push(read_contact(element, default, policy)?);
    }
    Ok(Wish::Update(contacts))
}

/// Reads one Contact; `default` is what Expires says.
fn read_contact<'m>(
    element: &'m [u8],
    default: Option<Duration>,
    policy: &Registrar,
) -> Result<Contact<'m>, Outcome> {
    let address =
        NameAddr::parse(HeaderName::Contact, element).map_err(|_| bad_request("Bad Contact"))?;
    let uri = match address.uri() {
        Ok(Uri::Sip(uri)) => uri,
        Err(UriError::TooManyParameters) => {
            return Err(bad_request("Too Many Parameters in Contact"));
        }
        _ => return Err(bad_request("Contact Is Not a SIP URI")),
    };
    let (mut expires, mut q, mut instance, mut reg_id) = (None, None, None, None);
    // The first of each counts.
    for (name, value) in address.params.iter() {
        match name.len() {
            7 if name.eq_ignore_ascii_case(b"expires") => expires = expires.or(value),
            1 if name.eq_ignore_ascii_case(b"q") => q = q.or(value),
            13 if name.eq_ignore_ascii_case(b"+sip.instance") => instance = instance.or(value),
            6 if name.eq_ignore_ascii_case(b"reg-id") => reg_id = reg_id.or(value),
            _ => {}
        }
    }
    let asked = match expires {
        Some(value) => delta_seconds(HeaderName::Contact, value)
            .map(|seconds| Duration::from_secs(seconds.into()))
            .ok(),
        None => default,
    };
    let expires = asked.unwrap_or(policy.default_expires).min(policy.max_expires);
    if expires > Duration::ZERO && expires < policy.min_expires {
        return Err(Outcome::TooBrief);
    }
    let q = match q {
        Some(value) => q_value(value).ok_or_else(|| bad_request("Bad q in Contact"))?,
        None => 1000,
    };
    let instance = instance.unwrap_or_default();
    let instance =
        instance.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(instance);
    let reg_id =
        reg_id.and_then(|value| core::str::from_utf8(value).ok()?.parse().ok()).unwrap_or(0);
    if address.uri_bytes.len() > MAX_KEPT || instance.len() > MAX_KEPT {
        return Err(bad_request("Contact Too Long"));
    }
    let uri_bytes = address.uri_bytes;
    Ok(Contact { uri_bytes, uri, expires, q, instance, reg_id, is_flow_bound: false })
}

/// The indices, in order, of the bindings that `contact` takes the place of: that of the same URI
/// (RFC 3261 section 19.1.4), unless another phone says that it is another one, elsewhere, or of
/// the same phone and flow (RFC 5626 section 6). A phone that has a new URI is the same phone also
/// where it does not number its flows: then it takes the place of all that it had, which are among
/// the first `old`; several contacts of one REGISTER stay beside one another. Call-ID and CSeq do
/// not matter: phones change them.
fn replaced_by(
    contact: &Contact<'_>,
    order: &Order<'_>,
    bindings: &[Binding],
    old: usize,
) -> SmallVec<[usize; 2]> {
    let is_of_phone = |binding: &Binding| {
        !contact.instance.is_empty()
            && binding.extra.as_ref().is_some_and(|extra| {
                extra.reg_id == contact.reg_id && *extra.instance == *contact.instance
            })
    };
    // Two phones behind two NATs may well have the same private address. Where requests would come
    // to one place there is one phone, which was set up anew or replaced.
    let is_of_other = |binding: &Binding| {
        let instance = binding.instance();
        let is_elsewhere = || {
            let follows = binding.flow_bound || contact.is_flow_bound;
            (follows && binding.flow.remote != order.flow.remote) || binding.path() != order.path
        };
        !contact.instance.is_empty()
            && !instance.is_empty()
            && *instance != *contact.instance
            && is_elsewhere()
    };
    let is_at_uri = |binding: &Binding| {
        *binding.contact == *contact.uri_bytes
            || matches!(Uri::parse(&binding.contact), Ok(Uri::Sip(uri)) if uri.is_same(&contact.uri))
    };
    let is_renewed = |binding: &Binding| {
        (contact.reg_id != 0 && is_of_phone(binding))
            || (is_at_uri(binding) && !is_of_other(binding))
    };
    let all = 0..bindings.len();
    let renewed: SmallVec<[usize; 2]> =
        all.clone().filter(|&at| is_renewed(&bindings[at])).collect();
    if contact.instance.is_empty() {
        // Of several at the URI it is the one that it looks like most.
        let likeness = |&at: &usize| {
            let binding: &Binding = &bindings[at];
            let is_same_call = binding.call_id == order.call_id;
            (binding.flow == *order.flow, is_same_call, binding.instance().is_empty())
        };
        return renewed.into_iter().max_by_key(likeness).into_iter().collect();
    }
    let is_refresh = renewed.iter().any(|&at| is_of_phone(&bindings[at]));
    if is_refresh || contact.reg_id != 0 || contact.expires == Duration::ZERO {
        return renewed;
    }
    all.filter(|&at| renewed.contains(&at) || (at < old && is_of_phone(&bindings[at]))).collect()
}

fn extra(path: &[u8], contact: &Contact<'_>) -> Option<Box<Extra>> {
    if path.is_empty() && contact.instance.is_empty() && contact.reg_id == 0 {
        return None;
    }
    Some(Box::new(Extra {
        path: path.into(),
        instance: contact.instance.into(),
        reg_id: contact.reg_id,
    }))
}

/// The Contact lines of a 200: every binding with the time it has left, the `own` of the request
/// first, which are the last of all, since some phones take the first for theirs; then from the
/// newest to the oldest.
fn contact_lines(subscriber: &Subscriber, own: usize, now: Instant) -> Vec<u8> {
    let bindings = &subscriber.bindings;
    let (others, own) = bindings.split_at(bindings.len() - own);
    let mut lines = Vec::with_capacity(bindings.len() * 100);
    for binding in own.iter().chain(others.iter().rev()).filter(|binding| binding.expires > now) {
        write_contact(&mut lines, &binding.contact, binding.q);
        lines.extend_from_slice(b";expires=");
        // A part of a second counts as one, so that a fresh binding shows what was granted.
        let left = binding.expires.since(now).as_micros().div_ceil(1_000_000);
        write_decimal(&mut lines, left);
        if let Some(extra) = &binding.extra {
            if !extra.instance.is_empty() {
                lines.extend_from_slice(b";+sip.instance=\"");
                lines.extend_from_slice(&extra.instance);
                lines.push(b'"');
            }
            if extra.reg_id != 0 {
                lines.extend_from_slice(b";reg-id=");
                write_decimal(&mut lines, extra.reg_id.into());
            }
        }
        lines.extend_from_slice(b"\r\n");
    }
    lines
}

/// Appends a Contact header field up to where more parameters may follow.
pub(crate) fn write_contact(out: &mut Vec<u8>, uri: &[u8], q: u16) {
    out.extend_from_slice(b"Contact: <");
    out.extend_from_slice(uri);
    out.push(b'>');
    if q == 1000 {
        return;
    }
    let thousandths = alloc::format!("{q:03}");
    let digits = thousandths.trim_end_matches('0');
    out.extend_from_slice(b";q=0.");
    out.extend_from_slice(if digits.is_empty() { "0" } else { digits }.as_bytes());
}
