//! The targets of a request (RFC 3261 section 16.5).

use super::pass::Chosen;
use super::retargeting::Retargeted;
#[cfg(feature = "office")]
use crate::core::asleep::Asleep;
use crate::core::binding::Binding;
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::next_hop::{NextHop, NoRoute, first_route};
use crate::core::numbers::TrunkAttempt;
use crate::core::reach::Scope;
use crate::core::settings::{DomainIndex, Settings};
use crate::core::trunks::TrunkId;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use memchr::memchr;
use relay::Keying;
use sip::Uri;
use sip::uri::is_sips;
use smallvec::SmallVec;

/// One destination of a forked request.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The URI as registered or as received.
    pub(crate) uri: SmallVec<[u8; 80]>,
    /// The Path to the target, to be written as Route. Empty for none.
    pub(crate) path: Vec<u8>,
    pub(crate) next_hop: NextHop,
    /// The q value in thousandths.
    pub(crate) q: u16,
    /// True if later requests of the dialog must follow the flow in `next_hop`.
    pub(crate) flow_bound: bool,
    /// The network scope of the party that named the target.
    pub(crate) origin: Scope,
    /// True if this is a binding of a local user.
    pub(crate) is_registered: bool,
    /// The SRTP keys in the offer, if they differ from those of the configuration.
    pub(crate) keying: Option<Keying>,
    /// True for a call of the B2BUA whose caller takes digits by INFO.
    pub(crate) takes_digits: bool,
    /// Set if this is the B2BUA of the owner.
    pub(crate) detour: Option<Box<Detour>>,
    /// Set if this is one of the flows to a phone.
    pub(crate) flows: Option<Box<Flows>>,
    /// Set if this is a phone that sleeps.
    #[cfg(feature = "office")]
    pub(crate) asleep: Option<Box<Asleep>>,
    /// Set if call services have led the call to the user of the target.
    pub(crate) retargeted: Option<Arc<Retargeted>>,
    /// Set if the request takes over a call.
    pub(crate) takeover: Option<Box<Takeover>>,
}

/// The call that a request takes over (RFC 3891).
#[derive(Clone, Debug)]
pub(crate) struct Takeover {
    /// Complete header field lines that the request gets.
    pub(super) lines: Vec<u8>,
}

/// The call that the owner's B2BUA makes for the request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Detour {
    /// The only one of the targets that it calls. `None` stands for all.
    pub(super) only: Option<Chosen>,
    /// True if the callee gets an offer with other SRTP keys than those of the caller.
    pub(super) changes_keys: bool,
    /// The target that is tried if the callee refuses the offer of the B2BUA. It has refused that
    /// of the caller before.
    pub(super) instead_of: Option<Box<Target>>,
    /// The trunks that it calls, in order of preference. Empty for a callee of this server.
    pub(super) attempts: Vec<TrunkAttempt>,
    /// The trunk that the call came from.
    pub(super) from_trunk: Option<TrunkId>,
}

/// A phone with numbered flows (RFC 5626).
#[derive(Clone, Debug)]
pub(crate) struct Flows {
    /// A hash of the user, to tell phones of several users apart. `phone` is the instance.
    pub(crate) user: u64,
    phone: Box<[u8]>,
    /// The flows to be tried in turn after this one fails, the newest first.
    further: Vec<Target>,
}

/// The destinations of a request. There is nearly always one.
pub(crate) type Targets = SmallVec<[Target; 1]>;

/// The destination of a binding.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is read at once, and a box would cost each call")]
pub(crate) enum Leads {
    /// A phone or another server.
    Away(Target),
    /// A user of this server, without escapes, in this domain.
    Back(Vec<u8>, DomainIndex),
}

/// The memory of an attempt, in bytes.
fn attempt_bytes(attempt: &TrunkAttempt) -> usize {
    let identity = attempt.identity.as_ref().map_or(0, alloc::string::String::capacity);
    size_of::<TrunkAttempt>() + attempt.number.capacity() + identity
}

impl Target {
    /// Returns the target `uri` at `next_hop`, for a request of a party in the scope `origin`. It
    /// is neither a binding nor the B2BUA, and has no Path.
    pub(super) fn new(uri: &[u8], next_hop: NextHop, origin: Scope) -> Self {
        Self {
            uri: SmallVec::from_slice(uri),
            path: Vec::new(),
            next_hop,
            q: 1000,
            flow_bound: false,
            origin,
            is_registered: false,
            keying: None,
            takes_digits: false,
            detour: None,
            flows: None,
            #[cfg(feature = "office")]
            asleep: None,
            retargeted: None,
            takeover: None,
        }
    }

    /// Returns the target of a binding.
    pub(crate) fn of_binding(binding: &Binding, settings: &Settings) -> Result<Leads, NoRoute> {
        let near = Some(binding.flow.local);
        let next_hop = if binding.flow_bound {
            NextHop::Flow(binding.flow)
        } else if let Some(route) = first_route(binding.path()) {
            NextHop::of_uri(&route, near, settings)?
        } else {
            let Ok(Uri::Sip(uri)) = Uri::parse(&binding.contact) else {
                return Err(NoRoute::Scheme);
            };
            if binding.path().is_empty()
                && let Some(domain) = settings.is_us(&uri.host, uri.port)
            {
                let (user, domain) = settings.user_of(&uri, domain).ok_or(NoRoute::Scheme)?;
                return Ok(Leads::Back(user.into_owned(), domain));
            }
            NextHop::of_uri(&uri, near, settings)?
        };
        let flows = binding
            .phone_of_flow()
            .map(|phone| Box::new(Flows { user: 0, phone: phone.into(), further: Vec::new() }));
        Ok(Leads::Away(Self {
            path: binding.path().to_vec(),
            q: binding.q,
            flow_bound: binding.flow_bound,
            is_registered: true,
            flows,
            ..Self::new(&binding.contact, next_hop, settings.scope_of(&binding.flow))
        }))
    }
}

impl Target {
    /// Returns the same target on `flow`, with the original target as the next to try.
    pub(crate) fn first_on(self, flow: Flow) -> Self {
        let flows = Flows { user: 0, phone: Box::default(), further: alloc::vec![self.clone()] };
        Self { next_hop: NextHop::Flow(flow), flows: Some(Box::new(flows)), ..self }
    }

    /// Removes and returns the next of the further flows to the phone. It takes over the remaining
    /// ones.
    pub(super) fn next_flow(&mut self) -> Option<Self> {
        let mut further = core::mem::take(&mut self.flows.as_mut()?.further).into_iter();
        let mut next = further.next()?;
        if let Some(flows) = &mut next.flows {
            flows.further = further.collect();
        }
        Some(next)
    }

    /// The URI of the user of this phone, for a request to `uri`.
    pub(super) fn called<'u>(&'u self, uri: &'u [u8]) -> &'u [u8] {
        self.retargeted.as_ref().map_or(uri, |it| it.uri())
    }

    /// True if both are phones of the same user.
    pub(super) fn is_of_user_of(&self, other: &Self) -> bool {
        match (&self.retargeted, &other.retargeted) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }

    /// The hash by which a pass names the target.
    pub(super) fn chosen(&self, env: &Env<'_>) -> Chosen {
        Chosen::new(&env.keys.pass, &self.uri, &self.next_hop)
    }

    /// The memory that the target uses, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let flows = self.flows.as_ref().map_or(0, |flows| {
            let further: usize = flows.further.iter().map(Self::bytes).sum();
            size_of::<Flows>() + flows.phone.len() + further
        });
        let detour = self.detour.as_ref().map_or(0, |detour| {
            let direct = detour.instead_of.as_ref();
            let attempts = detour.attempts.iter().map(attempt_bytes).sum::<usize>();
            size_of::<Detour>() + attempts + direct.map_or(0, |direct| direct.bytes())
        });
        let takeover = self.takeover.as_ref();
        let takeover = takeover.map_or(0, |it| size_of::<Takeover>() + it.lines.len());
        let retargeted =
            self.retargeted.as_ref().map_or(0, |it| size_of::<Retargeted>() + it.bytes());
        let own = size_of::<Self>() + self.uri.len() + self.path.len();
        #[cfg(feature = "office")]
        let own = own + self.asleep.as_ref().map_or(0, |asleep| asleep.bytes());
        own + flows + detour + retargeted + takeover
    }

    /// The request URI to forward with. A contact may contain header fields, a request URI may not
    /// (RFC 3261 sections 16.6 step 2 and 19.1.1).
    pub(crate) fn request_uri(&self) -> &[u8] {
        if memchr(b'?', &self.uri).is_none() {
            return &self.uri;
        }
        // A question mark may stand in the user part.
        let host = memchr(b'@', &self.uri).unwrap_or(0);
        let end = memchr(b'?', &self.uri[host..]);
        end.map_or(&self.uri, |end| &self.uri[..host + end])
    }
}

/// Keeps the targets that the scheme of the request URI allows (RFC 5630 section 5.3). A request to
/// a SIPS URI goes to SIPS URIs only, over TLS. A request to a SIP URI goes to a registered SIPS
/// URI as the otherwise equal SIP URI, so that both ends of the dialog use the same scheme.
pub(crate) fn keep_scheme(targets: &mut Targets, is_for_sips: bool) {
    match is_for_sips {
        true => targets.retain(|target| is_sips(&target.uri) && target.next_hop.is_secure()),
        false => targets.iter_mut().filter(|target| is_sips(&target.uri)).for_each(|target| {
            target.uri.remove(b"sip".len());
        }),
    }
}

/// Sorts `targets` by preference, the best last. Equal ones keep their order.
pub(crate) fn sort(targets: &mut [Target]) {
    targets.sort_by_key(|target| target.q);
}

/// Joins the flows to one phone into one target. Its further flows are tried in turn, so that the
/// phone rings once (RFC 5626 section 7).
pub(crate) fn join_flows(targets: &mut Targets) {
    if targets.len() < 2 {
        return;
    }
    let mut firsts = Targets::new();
    for target in targets.drain(..) {
        let phone = target.flows.as_ref().map(|flows| (flows.user, &flows.phone));
        let mut known = firsts.iter_mut().filter_map(|first| first.flows.as_mut());
        match known.find(|first| Some((first.user, &first.phone)) == phone) {
            Some(first) => first.further.push(target),
            None => firsts.push(target),
        }
    }
    *targets = firsts;
}
