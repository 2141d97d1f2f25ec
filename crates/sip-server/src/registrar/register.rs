//! The execution of a REGISTER on the bindings of a user (RFC 3261 section 10.3).

use super::order::{Contact, Order, Wish};
use super::outcome::{Outcome, TOO_MANY};
use crate::core::address_of_record::AddressOfRecord;
use crate::core::binding::{Binding, Extra};
use crate::core::config::Registrar;
use crate::core::counters::Counters;
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::gruu;
use crate::core::lines::write_contact;
use crate::core::location::tombstones::Tombstone;
use crate::core::location::{Changed, LocationService, Replaced, Subscriber};
#[cfg(feature = "office")]
use crate::core::output::Event;
use crate::core::push::PushParams;
use alloc::boxed::Box;
use alloc::vec::Vec;
use lock_api::RawMutex;

use sip::message::RequestHead;
use sip::write_decimal;
use sip::{Duration, Instant, Message, Status, Uri};
use smallvec::SmallVec;

const OUT_OF_ORDER: Outcome =
    Outcome::Refused(Status::SERVER_INTERNAL_ERROR.with_reason("CSeq Out of Order"));

/// Executes an authorized REGISTER for `address` that came on `flow`.
pub(super) fn register<R: RawMutex>(
    request: &Message<'_>,
    head: &RequestHead<'_>,
    address: &AddressOfRecord,
    flow: &Flow,
    location: &LocationService<R>,
    env: &mut Env<'_>,
) -> Outcome {
    let order = match Order::read(request, head, address, flow, env) {
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
    let (bounds, counters) = (&config.registrar, env.counters);
    let outcome = location.update(address, create, env.out, |subscriber| {
        if is_full && subscriber.bindings.is_empty() {
            return (
                Outcome::Refused(Status::SERVICE_UNAVAILABLE.with_reason("Too Many Registrations")),
                Changed::No,
            );
        }
        let mut change = Change::new(&order, subscriber, counters);
        let changed = match &order.wish {
            Wish::Fetch => Ok(false),
            Wish::RemoveAll => change.remove_all().map(|()| true),
            Wish::Update(contacts) => change.update(contacts, bounds, location).map(|()| true),
        };
        match changed {
            Ok(is_changed) => {
                let has_outbound = order.has_outbound;
                let bindings = core::mem::take(&mut change.removed);
                let replaced = Replaced { call_id: order.call_id, bindings };
                let changed = if is_changed { Changed::Undoable(replaced) } else { Changed::No };
                (Outcome::Done { lines: change.finish(), has_outbound }, changed)
            }
            Err(refusal) => (refusal, Changed::No),
        }
    });
    // Without such a user there is nothing to fetch or to remove.
    let nothing = Outcome::Done { lines: Vec::new(), has_outbound: false };
    let outcome = outcome.unwrap_or(nothing);
    #[cfg(feature = "office")]
    if adds && outcome.is_done() && (order.may_sleep() || config.keeps_messages) {
        env.out.events.push(Event::Registered(address.as_bytes().into()));
    }
    match &outcome {
        Outcome::Done { .. } => env.counters.registers.add(),
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
    /// True if the REGISTER is a late copy: in case it adds a binding, and in case it removes a
    /// binding that it did not create.
    adds_again: bool,
    removes_again: bool,
    /// The REGISTERs of removed bindings.
    gone: SmallVec<[Tombstone; 2]>,
    /// The number of bindings of this REGISTER. They are the last ones.
    own: usize,
    /// The bindings that the REGISTER removed or replaced.
    removed: Vec<Binding>,
}

impl<'c, 'm> Change<'c, 'm> {
    /// Begins with the bindings that have not expired.
    fn new(order: &'c Order<'m>, subscriber: &'c mut Subscriber, counters: &'c Counters) -> Self {
        let before = subscriber.bindings.len();
        subscriber.bindings.retain(|binding| binding.expires > order.now);
        (subscriber.bindings.len()..before).for_each(|_| counters.expired_bindings.add());
        subscriber.tombstones.forget(order.now);
        Self {
            adds_again: subscriber.tombstones.adds_again(order.call_id, order.cseq),
            removes_again: subscriber.tombstones.removes_again(order.call_id, order.cseq),
            order,
            subscriber,
            counters,
            gone: SmallVec::new(),
            own: 0,
            removed: Vec::new(),
        }
    }

    fn remove_all(&mut self) -> Result<(), Outcome> {
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
            self.gone.push(self.order.tombstone_of(&binding));
            self.removed.push(binding);
        }
        Ok(())
    }

    fn update<R: RawMutex>(
        &mut self,
        contacts: &[Contact<'_>],
        bounds: &Registrar,
        location: &LocationService<R>,
    ) -> Result<(), Outcome> {
        // All or nothing (RFC 3261 section 10.3 step 7). A REGISTER that is rejected at its only
        // contact has changed nothing, so a copy is needed only for several.
        let may_be_more = contacts.len() > 1 || contacts.iter().any(|it| it.is_over(bounds));
        let before = may_be_more.then(|| self.subscriber.bindings.clone());
        let is_more = contacts
            .iter()
            .try_fold(false, |is_more, contact| Ok(is_more | self.update_one(contact, location)?));
        let is_more = match is_more {
            Ok(_) if self.own > bounds.max_contacts || self.own_bytes() > bounds.max_bytes => {
                Err(TOO_MANY)
            }
            is_more => is_more,
        };
        let is_more = match (is_more, before) {
            (Err(refusal), Some(before)) => {
                self.subscriber.bindings = before;
                self.removed.clear();
                return Err(refusal);
            }
            (is_more, _) => is_more?,
        };
        // The contact that was registered last is the most certain to be reachable, and the oldest
        // is the least.
        let excess = match is_more {
            true => self.subscriber.bindings.len().saturating_sub(bounds.max_contacts),
            false => 0,
        };
        let excess = excess.max(self.too_long(bounds.max_bytes));
        for binding in self.subscriber.bindings.drain(..excess) {
            self.counters.contact_limit.add();
            self.gone.push(self.order.tombstone_of(&binding));
            self.removed.push(binding);
        }
        Ok(())
    }

    fn own_bytes(&self) -> usize {
        let bindings = &self.subscriber.bindings;
        bindings[bindings.len() - self.own..].iter().map(Binding::bytes).sum()
    }

    /// The number of the oldest bindings to remove so that all together have at most `max_bytes`.
    fn too_long(&self, max_bytes: usize) -> usize {
        let bindings = &self.subscriber.bindings;
        let mut bytes = bindings.iter().map(Binding::bytes).sum::<usize>();
        let others = bindings[..bindings.len() - self.own].iter();
        others
            .take_while(|binding| {
                let is_over = bytes > max_bytes;
                bytes -= binding.bytes();
                is_over
            })
            .count()
    }

    /// Updates the binding of one contact. Returns true if it is an additional one.
    fn update_one<R: RawMutex>(
        &mut self,
        contact: &Contact<'_>,
        location: &LocationService<R>,
    ) -> Result<bool, Outcome> {
        let (order, bindings) = (self.order, &mut self.subscriber.bindings);
        let old = bindings.len() - self.own;
        let replaced = replaced_by(contact, order, bindings, old);
        let removes = contact.expires == Duration::ZERO;
        // A late copy of an earlier REGISTER must neither restore a removed binding nor remove a
        // newer one.
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
                self.gone.push(order.tombstone_of(&binding));
            }
            self.removed.push(binding);
        }
        if removes {
            if !replaced.is_empty() {
                self.gone.push(order.removal());
            }
            return Ok(false);
        }
        let mut binding = Binding {
            contact: SmallVec::from_slice(contact.uri_bytes),
            extra: extra(order, contact),
            call_id: order.call_id,
            cseq: order.cseq,
            q: contact.q,
            flow_bound: contact.is_flow_bound,
            id: 0,
            claim: 0,
            expires: order.now + contact.expires,
            flow: *order.flow,
        };
        let same = self.removed.iter().find(|old| {
            (&old.contact, old.flow_bound, old.flow)
                == (&binding.contact, binding.flow_bound, binding.flow)
        });
        binding.claim =
            same.map_or_else(|| location.claim(&binding, &contact.uri), |old| old.claim);
        // Most users have one phone. By default a vector allocates space for four.
        bindings.reserve_exact(1);
        bindings.push(binding);
        self.own += 1;
        Ok(replaced.is_empty())
    }

    /// Records the removed bindings, and returns the lines of the 200.
    fn finish(self) -> Vec<u8> {
        let Self { order, subscriber, gone, own, .. } = self;
        gone.into_iter().for_each(|tombstone| subscriber.tombstones.note(tombstone));
        contact_lines(subscriber, own, order.gruus.as_ref(), order.now)
    }
}

/// The indices, in ascending order, of the bindings that `contact` replaces:
///
/// - the binding of the same URI (RFC 3261 section 19.1.4), unless it belongs to another phone at
///   another place;
/// - the binding of the same phone and flow (RFC 5626 section 6);
/// - for a phone without numbered flows that registers a new URI, all its bindings among the first
///   `old`. Several contacts of one REGISTER do not replace one another.
///
/// Call-ID and CSeq do not matter, because phones change them.
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
    // Two phones behind two NATs may have the same private address. If requests would go to the
    // same place, there is one phone, which was set up anew or replaced.
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
            || matches!(Uri::parse(&binding.contact), Ok(Uri::Sip(uri)) if uri.is_equivalent(&contact.uri))
    };
    // All flows to a phone may have the same URI.
    let is_other_flow = |binding: &Binding| {
        contact.reg_id != 0
            && !is_of_phone(binding)
            && binding.phone_of_flow() == Some(contact.instance)
    };
    // The push notification service names a phone whatever its contact.
    let params = PushParams::of(&contact.uri);
    let is_pushed = |binding: &Binding| {
        contact.reg_id == 0
            && params.is_some_and(|params| {
                let known = PushParams::of_contact(&binding.contact);
                known.is_some_and(|known| known.is_same_phone(&params))
            })
    };
    let is_renewed = |binding: &Binding| {
        (contact.reg_id != 0 && is_of_phone(binding))
            || is_pushed(binding)
            || (is_at_uri(binding) && !is_of_other(binding) && !is_other_flow(binding))
    };
    let all = 0..bindings.len();
    let renewed: SmallVec<[usize; 2]> =
        all.clone().filter(|&at| is_renewed(&bindings[at])).collect();
    if contact.instance.is_empty() {
        // Among several bindings at the URI, the most similar one is replaced.
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

fn extra(order: &Order<'_>, contact: &Contact<'_>) -> Option<Box<Extra>> {
    let &Contact { reg_id, awake_until, .. } = contact;
    let texts = [&*order.path, contact.instance, order.agent];
    if texts.iter().all(|text| text.is_empty()) && reg_id == 0 && awake_until.is_none() {
        return None;
    }
    Some(Box::new(Extra {
        path: (*order.path).into(),
        instance: contact.instance.into(),
        reg_id,
        #[cfg(feature = "office")]
        agent: order.agent.into(),
        #[cfg(feature = "office")]
        awake_until,
    }))
}

/// The Contact lines of a 200, with the remaining time of every binding. The `own` last bindings,
/// which belong to the request, come first, because some phones take the first contact for theirs.
/// The others follow from the newest to the oldest.
fn contact_lines(
    subscriber: &Subscriber,
    own: usize,
    gruus: Option<&gruu::Giver<'_>>,
    now: Instant,
) -> Vec<u8> {
    let bindings = &subscriber.bindings;
    let (others, own) = bindings.split_at(bindings.len() - own);
    let mut lines = Vec::with_capacity(bindings.len() * 100);
    for binding in own.iter().chain(others.iter().rev()).filter(|binding| binding.expires > now) {
        write_contact(&mut lines, &binding.contact, binding.q);
        lines.extend_from_slice(b";expires=");
        // Rounds up, so that a new binding shows the granted expiry.
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
            if let Some(gruus) = gruus {
                gruus.write(binding, &mut lines);
            }
        }
        lines.extend_from_slice(b"\r\n");
    }
    lines
}
