//! Parsing of a REGISTER, and the checks that do not depend on the existing bindings.

use super::outcome::{Outcome, TOO_MANY};
use crate::core::address_of_record::AddressOfRecord;
use crate::core::binding::Binding;
use crate::core::config::{Network, Registrar};
use crate::core::event::Env;
use crate::core::flow::{Flow, is_sendable};
use crate::core::gruu;
use crate::core::location::tombstones::Tombstone;
use crate::core::next_hop::{NextHop, is_flow_bound};
#[cfg(feature = "office")]
use crate::core::push::{self, PushParams};
use crate::core::settings::Settings;
use alloc::vec::Vec;
use core::net::SocketAddr;
#[cfg(feature = "office")]
use sip::StatusLine;
use sip::header::{NameAddr, delta_seconds, q_value};
use sip::message::RequestHead;
use sip::uri::{UriError, is_sips};
use sip::{Duration, HeaderName, Instant, Message, SipUri, Status, Uri};
use smallvec::SmallVec;

/// The maximum length in bytes of a stored contact URI, Path and instance.
const MAX_KEPT: usize = 2048;

/// The maximum length in bytes of the stored start of a User-Agent.
const MAX_AGENT: usize = 64;

/// One Contact of a REGISTER.
pub(super) struct Contact<'m> {
    pub(super) uri_bytes: &'m [u8],
    pub(super) uri: SipUri<'m>,
    pub(super) expires: Duration,
    pub(super) q: u16,
    pub(super) instance: &'m [u8],
    pub(super) reg_id: u32,
    /// Set if the phone may sleep: the time until which it is awake on UDP.
    pub(super) awake_until: Option<Instant>,
    /// True if requests to the contact follow the flow of the REGISTER.
    pub(super) is_flow_bound: bool,
}

impl Contact<'_> {
    /// True if the contact alone exceeds the limit for all contacts of an address-of-record.
    pub(super) fn is_over(&self, bounds: &Registrar) -> bool {
        // The Path adds at most [`MAX_KEPT`].
        self.uri_bytes.len() + self.instance.len() + MAX_KEPT > bounds.max_bytes
    }
}

/// The operation that a REGISTER requests.
pub(super) enum Wish<'m> {
    Fetch,
    RemoveAll,
    Update(SmallVec<[Contact<'m>; 1]>),
}

/// A valid REGISTER.
pub(super) struct Order<'m> {
    pub(super) wish: Wish<'m>,
    /// The Path as one header field value.
    pub(super) path: Vec<u8>,
    /// The start of User-Agent. Empty for none.
    pub(super) agent: &'m [u8],
    pub(super) flow: &'m Flow,
    /// Creates the GRUUs, if the phone has asked for them (RFC 5627).
    pub(super) gruus: Option<gruu::Giver<'m>>,
    /// True if the rules of RFC 5626 for several flows to a phone apply.
    pub(super) has_outbound: bool,
    /// Keyed hash of the Call-ID.
    pub(super) call_id: u64,
    pub(super) cseq: u32,
    pub(super) now: Instant,
    /// The time after which no copy of the REGISTER is expected (RFC 3261 section 17.1.2.2, timer
    /// F).
    until: Instant,
}

impl<'m> Order<'m> {
    /// Parses a REGISTER, and rejects one that is invalid independently of the bindings.
    pub(super) fn read(
        request: &Message<'m>,
        head: &RequestHead<'m>,
        address: &'m AddressOfRecord,
        flow: &'m Flow,
        env: &Env<'m>,
    ) -> Result<Self, Outcome> {
        let mut wish = read_wish(request, env.settings)?;
        let path = read_path(request, flow, env.settings)?;
        // If the operator has configured it, phones are reached by their contact even if they ask
        // for outbound.
        let by_contact = &env.settings.config.registrar.by_contact;
        let follows = !path.is_empty() || !Network::any_contains(by_contact, flow.remote.ip());
        let has_outbound = follows && wish.numbers_flows() && supports(request, OUTBOUND);
        if has_outbound && !is_first_hop_capable(request) {
            return Err(Outcome::Refused(Status::FIRST_HOP_LACKS_OUTBOUND_SUPPORT.into()));
        }
        let gives_gruus = env.settings.config.registrar.gruu && supports(request, GRUU);
        let gruus = gives_gruus.then(|| gruu::Giver {
            address,
            is_sips: is_sips(head.uri_bytes),
            key: &env.keys.gruu,
        });
        if let Wish::Update(contacts) = &mut wish {
            for contact in contacts {
                contact.is_flow_bound = path.is_empty()
                    && ((has_outbound && contact.reg_id != 0)
                        || is_flow_bound(request, &contact.uri, flow, env.settings));
                if let Some(refusal) = refuse_unreachable(contact, env.settings) {
                    return Err(refusal);
                }
                contact.awake_until = awake_until(contact, env)?;
                // Otherwise a call to a SIPS URI would be sent unencrypted (RFC 5630 section 5.2).
                // Some phones on TLS send a SIPS Contact with any request URI, and are reached on
                // TLS.
                let is_alone =
                    || path.is_empty() && request.elements(HeaderName::Via).nth(1).is_none();
                let is_secured =
                    || flow.transport.is_secure() && (is_sips(head.uri_bytes) || is_alone());
                if contact.uri.secure && !is_secured() {
                    return Err(bad_request(
                        "SIPS Contact in a REGISTER That Is Not for a SIPS URI",
                    ));
                }
            }
        }
        Ok(Self {
            wish,
            path,
            agent: agent(request),
            flow,
            gruus,
            has_outbound,
            call_id: env.keys.call_id.hash_one(head.call_id),
            cseq: head.cseq.number,
            now: env.now,
            until: env.now + env.settings.config.timers.t1.times(64),
        })
    }

    /// True if a phone of the REGISTER may sleep.
    #[cfg(feature = "office")]
    pub(super) fn may_sleep(&self) -> bool {
        matches!(&self.wish, Wish::Update(contacts)
            if contacts.iter().any(|contact| contact.awake_until.is_some()))
    }

    /// True if a later REGISTER with the same Call-ID has created `binding`.
    pub(super) fn is_late_for(&self, binding: &Binding) -> bool {
        binding.call_id == self.call_id && binding.cseq > self.cseq
    }

    /// True if an earlier copy of this REGISTER has created `binding`.
    pub(super) fn has_made(&self, binding: &Binding) -> bool {
        binding.call_id == self.call_id && binding.cseq == self.cseq
    }

    /// The tombstone of `binding`, which has been removed.
    pub(super) const fn tombstone_of(&self, binding: &Binding) -> Tombstone {
        let Binding { call_id, cseq, .. } = *binding;
        Tombstone { call_id, cseq, removes: false, until: self.until }
    }

    /// The tombstone of this REGISTER, which removes bindings.
    pub(super) const fn removal(&self) -> Tombstone {
        Tombstone { call_id: self.call_id, cseq: self.cseq, removes: true, until: self.until }
    }
}

/// The time until which the phone of `contact` is awake on UDP, if it may sleep.
#[cfg(feature = "office")]
fn awake_until(contact: &Contact<'_>, env: &Env<'_>) -> Result<Option<Instant>, Outcome> {
    let config = &env.settings.config;
    let params = PushParams::of(&contact.uri).filter(|_| contact.expires > Duration::ZERO);
    let (Some(push), Some(params)) = (&config.push, params) else { return Ok(None) };
    match push::is_provider(config, params.provider) {
        true => Ok(contact.is_flow_bound.then_some(env.now + push.awake)),
        false => Err(Outcome::Refused(NO_SUCH_SERVICE)),
    }
}

#[cfg(not(feature = "office"))]
const fn awake_until(_: &Contact<'_>, _: &Env<'_>) -> Result<Option<Instant>, Outcome> {
    Ok(None)
}

/// The status line for a push notification service that is not configured (RFC 8599 section 5.3).
#[cfg(feature = "office")]
const NO_SUCH_SERVICE: StatusLine<'static> =
    Status(555).with_reason("Push Notification Service Not Supported");

/// The stored start of the User-Agent of `request`.
fn agent<'m>(request: &Message<'m>) -> &'m [u8] {
    if !cfg!(feature = "office") {
        return &[];
    }
    let agent = request.value(HeaderName::UserAgent).unwrap_or_default();
    &agent[..agent.len().min(MAX_AGENT)]
}

impl Wish<'_> {
    /// True if a contact is a numbered flow of a phone with an instance.
    fn numbers_flows(&self) -> bool {
        let is_flow = |contact: &Contact<'_>| contact.reg_id != 0 && !contact.instance.is_empty();
        matches!(self, Self::Update(contacts) if contacts.iter().any(is_flow))
    }
}

/// Option tags of RFC 5626 and RFC 5627.
pub(super) const OUTBOUND: &[u8] = b"outbound";
pub(super) const GRUU: &[u8] = b"gruu";

/// True if the sender of `request` supports the extension `option`.
fn supports(request: &Message<'_>, option: &[u8]) -> bool {
    let mut options =
        request.elements(HeaderName::Supported).chain(request.elements(HeaderName::Require));
    options.any(|supported| supported.eq_ignore_ascii_case(option))
}

/// True if the first hop of the phone supports outbound: this server does, and a proxy says so in
/// the first Path (RFC 5626 section 6).
fn is_first_hop_capable(request: &Message<'_>) -> bool {
    if request.elements(HeaderName::Via).nth(1).is_none() {
        return true;
    }
    let first = request.elements(HeaderName::Path).last();
    let first = first.and_then(|path| NameAddr::parse(HeaderName::Path, path).ok());
    matches!(first.map(|path| path.uri()), Some(Ok(Uri::Sip(uri))) if uri.params.has("ob"))
}

/// Returns the Path as one value, if it is valid and allowed.
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
    // A Path from an untrusted sender could direct requests anywhere.
    if !path.is_empty() && !settings.is_trusted(flow) {
        return Err(Outcome::Refused(
            Status::FORBIDDEN.with_reason("Path from a Network Not Trusted"),
        ));
    }
    Ok(path)
}

/// The maximum number of contacts in one REGISTER: enough to replace all contacts of an
/// address-of-record. Each is compared with each binding, under a lock.
const fn most_at_once(max_contacts: usize) -> usize {
    max_contacts.saturating_mul(2)
}

/// Rejects a contact that cannot be a destination.
fn refuse_unreachable(contact: &Contact<'_>, settings: &Settings) -> Option<Outcome> {
    if contact.expires == Duration::ZERO {
        return None;
    }
    let port = contact.uri.port.unwrap_or(5060);
    // With a flow the address does not matter. Some phones send the address that they listen on,
    // 0.0.0.0.
    let is_nowhere = |ip| !is_sendable(SocketAddr::new(ip, port));
    if !contact.is_flow_bound && contact.uri.host.ip().is_some_and(is_nowhere) {
        return Some(bad_request("Nobody Has the Address in Contact"));
    }
    let is_served = contact.is_flow_bound || NextHop::of_uri(&contact.uri, None, settings).is_ok();
    (!is_served).then_some(bad_request("No Such Transport for Contact"))
}

const fn bad_request(reason: &'static str) -> Outcome {
    Outcome::Refused(Status::BAD_REQUEST.with_reason(reason))
}

fn read_wish<'m>(request: &Message<'m>, settings: &Settings) -> Result<Wish<'m>, Outcome> {
    let policy = &settings.config.registrar;
    let default = match request.value(HeaderName::Expires) {
        // An invalid number may be treated as the default (RFC 3261 section 10.2.1.1).
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

/// Parses one Contact. `default` is the value of Expires.
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
    // The first parameter of each name counts.
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
        Some(value) => {
            q_value(HeaderName::Contact, value).map_err(|_| bad_request("Bad q in Contact"))?
        }
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
    let (awake_until, is_flow_bound) = (None, false);
    Ok(Contact { uri_bytes, uri, expires, q, instance, reg_id, awake_until, is_flow_bound })
}
