//! The pass of a call through the owner's B2BUA. An INVITE to the B2BUA has it in Route. The INVITE
//! with which the B2BUA continues the call returns it, and has the rights of the first one by it.

use super::record_route::write_own_end;
use super::token::Identity;
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::journal_record::{put_flow, take};
use crate::core::keys::Key;
use crate::core::next_hop::NextHop;
use crate::core::payers::Payers;
use crate::core::trunks::TrunkId;
use alloc::vec::Vec;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sip::{Duration, Instant, SipUri, Uri};

/// The length in bytes, without the encoding.
const LENGTH: usize = 28;
/// The length of the text in characters.
const TEXT: usize = (LENGTH * 8).div_ceil(6);
/// The time in which the B2BUA returns the pass. It does so at once, and again with other keys
/// after the callee has refused the first offer.
const LIFETIME: Duration = Duration::from_secs(60);
/// That time if the call goes to a trunk: other trunks are tried before, each until it is silent.
const LIFETIME_TO_TRUNK: Duration = Duration::from_secs(600);
/// The URI parameter for [`Pass::changes_keys`]. It has no proof: the B2BUA may add it to a pass.
const OTHER_KEYS: (&str, &[u8]) = ("keys", b"other");

/// The URI parameter for [`Pass::is_last_offer`]. It has no proof, as `OTHER_KEYS`.
const LAST_OFFER: (&str, &[u8]) = ("offer", b"last");

/// The URI parameter for [`Pass::takes_digits`]. It has no proof, either.
const DIGITS: (&str, &[u8]) = ("digits", b"info");

/// The rights of the INVITE that the B2BUA sends for another INVITE. They hold on the internal flow
/// of the caller and for one request URI only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    /// The name in our domains that the caller has proved.
    pub(crate) identity: Identity,
    /// The accounts that are charged for the call.
    pub(crate) payers: Payers,
    /// The only one of the targets that is called. `None` stands for all.
    pub(crate) only: Option<Chosen>,
    /// True if the callee gets an offer with other SRTP keys than those of the caller.
    pub(crate) changes_keys: bool,
    /// True if the callee has refused that offer, too.
    pub(crate) is_last_offer: bool,
    /// True if the caller takes digits by INFO.
    pub(crate) takes_digits: bool,
    /// The trunk of the call, if there is one.
    pub(crate) trunk: Option<OnTrunk>,
}

/// The trunk of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnTrunk {
    /// The call goes to it, and to no other place.
    To(TrunkId),
    /// The call came from it.
    From(TrunkId),
}

impl OnTrunk {
    const TO: u8 = 1;
    const FROM: u8 = 2;

    const fn bytes(self) -> [u8; 2] {
        match self {
            Self::To(TrunkId(number)) => [Self::TO, number],
            Self::From(TrunkId(number)) => [Self::FROM, number],
        }
    }

    const fn of_bytes(bytes: [u8; 2]) -> Option<Self> {
        match bytes {
            [Self::TO, number] => Some(Self::To(TrunkId(number))),
            [Self::FROM, number] => Some(Self::From(TrunkId(number))),
            _ => None,
        }
    }

    /// The trunk.
    #[cfg(feature = "office")]
    pub(super) const fn id(self) -> TrunkId {
        match self {
            Self::To(trunk) | Self::From(trunk) => trunk,
        }
    }

    /// The URI parameter that tells the B2BUA of the trunk. It has no proof: the pass names it.
    const fn param(self) -> (&'static [u8], TrunkId) {
        match self {
            Self::To(trunk) => (b";to-trunk=", trunk),
            Self::From(trunk) => (b";from-trunk=", trunk),
        }
    }
}

/// Keyed hash of a target: its URI, and its flow if it is reached on one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chosen(u32);

impl Chosen {
    pub(crate) fn new(key: &Key, uri: &[u8], next_hop: &NextHop) -> Self {
        let mut flow = Vec::new();
        if let NextHop::Flow(to) = next_hop {
            put_flow(&mut flow, to);
        }
        // Zero stands for all targets.
        Self(key.proof(&[b"chosen", uri, &flow]) as u32 | 1)
    }

    pub(super) const fn bits(self) -> u32 {
        self.0
    }
}

impl Pass {
    /// The trunk that the call goes to.
    pub(super) const fn to_trunk(self) -> Option<TrunkId> {
        match self.trunk {
            Some(OnTrunk::To(trunk)) => Some(trunk),
            _ => None,
        }
    }

    /// The Route with the pass, for a request to `uri` on the internal flow `flow`, with the URI
    /// parameters `more`. For a call to a trunk `uri` is the number, the user part of its URI.
    pub(super) fn route(&self, uri: &[u8], flow: &Flow, more: &[u8], env: &Env<'_>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.extend_from_slice(&seconds(env.now).to_le_bytes());
        bytes.extend_from_slice(&self.identity.bits().to_le_bytes());
        bytes.extend_from_slice(&self.only.map_or(0, |chosen| chosen.0).to_le_bytes());
        for account in [self.payers.source, self.payers.user] {
            bytes.push(account.is_some().into());
            bytes.extend_from_slice(&account.unwrap_or_default().to_le_bytes());
        }
        bytes.extend_from_slice(&self.trunk.map_or([0; 2], OnTrunk::bytes));
        let proof = proof(&env.keys.pass, &bytes, uri, flow);
        bytes.extend_from_slice(&proof.to_le_bytes());
        let mut route = b"<sip:".to_vec();
        route.extend_from_slice(URL_SAFE_NO_PAD.encode(bytes).as_bytes());
        write_own_end(flow, flow.local, false, &mut route);
        let params = [
            (self.changes_keys, OTHER_KEYS),
            (self.is_last_offer, LAST_OFFER),
            (self.takes_digits, DIGITS),
        ];
        for (_, (name, value)) in params.into_iter().filter(|(is_set, _)| *is_set) {
            route.extend_from_slice(&[b";", name.as_bytes(), b"=", value].concat());
        }
        if let Some((name, TrunkId(number))) = self.trunk.map(OnTrunk::param) {
            route.extend_from_slice(name);
            sip::write_decimal(&mut route, number.into());
        }
        route.extend_from_slice(more);
        route.push(b'>');
        route
    }

    /// Parses the pass in the Route element `route`, which names this server, of a request to `uri`
    /// on `flow`. Only an internal flow can have one.
    pub(super) fn of_route(
        route: &SipUri<'_>,
        uri: &[u8],
        flow: &Flow,
        env: &Env<'_>,
    ) -> Option<Self> {
        let user = sip::uri::unescape(route.user?);
        if !cfg!(feature = "office") || !flow.is_internal() || user.len() != TEXT {
            return None;
        }
        let mut bytes = [0; LENGTH];
        URL_SAFE_NO_PAD.decode_slice(&user[..], &mut bytes).ok()?;
        let (bytes, theirs) = bytes.split_last_chunk::<8>()?;
        let trunk = OnTrunk::of_bytes(*bytes.last_chunk()?);
        let number = match (trunk, Uri::parse(uri)) {
            (Some(OnTrunk::To(_)), Ok(Uri::Sip(uri))) => Some(sip::uri::unescape(uri.user?)),
            (Some(OnTrunk::To(_)), _) => return None,
            _ => None,
        };
        let uri = number.as_deref().unwrap_or(uri);
        if proof(&env.keys.pass, bytes, uri, flow) != u64::from_le_bytes(*theirs) {
            return None;
        }
        let rest = &mut &bytes[..];
        let issued = u32::from_le_bytes(take(rest)?);
        let identity = Identity::from_bits(u32::from_le_bytes(take(rest)?));
        let only = u32::from_le_bytes(take(rest)?);
        let mut account = || {
            let [is_some] = take(rest)?;
            let number = u16::from_le_bytes(take(rest)?);
            Some((is_some != 0).then_some(number))
        };
        let payers = Payers { source: account()?, user: account()? };
        let age = Duration::from_secs(seconds(env.now).abs_diff(issued).into());
        let lifetime = match trunk {
            Some(OnTrunk::To(_)) => LIFETIME_TO_TRUNK,
            _ => LIFETIME,
        };
        (age <= lifetime).then_some(Self {
            identity,
            payers,
            only: (only != 0).then_some(Chosen(only)),
            changes_keys: route.params.value(OTHER_KEYS.0) == Some(OTHER_KEYS.1),
            is_last_offer: route.params.value(LAST_OFFER.0) == Some(LAST_OFFER.1),
            takes_digits: route.params.value(DIGITS.0) == Some(DIGITS.1),
            trunk,
        })
    }
}

fn proof(key: &Key, bytes: &[u8], uri: &[u8], flow: &Flow) -> u64 {
    let mut end = Vec::new();
    put_flow(&mut end, flow);
    key.proof(&[bytes, uri, &end])
}

fn seconds(now: Instant) -> u32 {
    (now.as_micros() / 1_000_000) as u32
}
