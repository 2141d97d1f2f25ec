//! The token in the Record-Route of this server, which later requests of the dialog return. It
//! proves that this server forwarded the first request, and names the one destination that its
//! holder may reach with it (RFC 3261 section 16.6 step 4, RFC 5626 section 5.3).

use crate::core::flow::Flow;
use crate::core::journal_record::{put_flow, take, take_flow};
use crate::core::keys::Key;
use crate::core::reach::Scope;
use crate::core::ticket::Handle;
use alloc::vec::Vec;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sip::dialog::DialogId;
use sip::header::NameAddr;
use sip::{Duration, HeaderName, Instant, SipUri, Uri};
use smallvec::SmallVec;

/// The content of a Record-Route user part. Its holder, the *user*, may send requests to one *end*
/// of one dialog with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// Time of creation in seconds.
    pub(super) issued: u32,
    pub(crate) life: Life,
    pub(crate) end: End,
    /// The only name in our domains that the user of the token may give in From.
    pub(crate) identity: Identity,
    /// In a request: the data on the sender that is needed for the token in the response.
    pub(crate) sender: Option<Sender>,
}

/// The lifetime of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// [`Token::LIFETIME`] after the creation of the token or the last 2xx of the dialog.
    Dialog,
    /// Until this request has a final response.
    Transaction(Handle),
    /// [`Token::EARLY_LIFETIME`], in stateless mode.
    Early,
}

/// The end of a dialog that a token leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// Hash of the expected request URI.
    pub(crate) target: TargetHash,
    /// Hash of the expected Route elements after that of this server, 0 for none.
    pub(crate) routes: u32,
    /// The flow to the end, if messages must follow it.
    pub(crate) flow: Option<Flow>,
    /// Without such a flow: the connection on which the end answered. It is used while it is open.
    pub(crate) carrier: Option<Flow>,
    /// The network scope of the end.
    pub(crate) scope: Scope,
}

/// The data on the sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    /// The authenticated name in From, if any.
    pub(crate) identity: Identity,
    /// The flow on which the request is forwarded, if later requests must follow it.
    pub(crate) onward: Option<Flow>,
    /// The network scope that the request is forwarded to.
    pub(crate) scope: Scope,
}

/// Keyed hash of a local address-of-record. Zero if there is no authenticated user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity(u32);

/// Keyed hash of a remote target (RFC 3261 section 12). If messages follow a flow, only the user
/// part counts, because a NAT may change host and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TargetHash(u32);

/// A token has at least 26 bytes. Shorter user parts are not decoded. Two flows on IPv6 connections
/// make 124 bytes, which are 166 characters.
const MIN_TEXT: usize = 35;
pub(super) const MAX_TEXT: usize = 166;

const END_FLOW: u8 = 1;
const USER_TAG: u8 = 2;
const SENDER: u8 = 4;
const ONWARD: u8 = 8;
const LIFE: u8 = 0b11 << 4;
/// The flow of the end is its `carrier`.
const CARRIER: u8 = 64;

impl Identity {
    pub(crate) const NONE: Self = Self(0);

    /// Returns the identity of an address-of-record, `user@domain` in canonical form.
    pub(crate) fn new(key: &Key, address_of_record: &[u8]) -> Self {
        Self(key.proof(&[b"identity", address_of_record]) as u32 | 1)
    }

    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

impl TargetHash {
    /// Matches no request URI.
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn new(key: &Key, uri: &SipUri<'_>, follows_flow: bool) -> Self {
        let mut bytes: SmallVec<[u8; 64]> = SmallVec::new();
        bytes.extend_from_slice(&sip::uri::unescape(uri.user.unwrap_or_default()));
        // A GRUU contains a domain, which no NAT changes.
        let gruu = uri.params.get("gr");
        if !follows_flow || gruu.is_some() {
            put_place(&mut bytes, uri);
        }
        if let Some(instance) = gruu {
            bytes.extend_from_slice(b";gr=");
            bytes.extend_from_slice(&sip::uri::unescape(instance.unwrap_or_default()));
        }
        Self(key.proof(&[b"target", &bytes]) as u32 | 1)
    }

    /// Returns the hash of the URI in a Contact element.
    pub(crate) fn of_contact(key: &Key, contact: Option<&[u8]>, follows_flow: bool) -> Self {
        match contact.and_then(|contact| uri_of(HeaderName::Contact, contact)) {
            Some(uri) => Self::new(key, &uri, follows_flow),
            None => Self::NONE,
        }
    }
}

/// Hash of the elements of Route or Record-Route, in the order of the Route of a request. 0 for
/// none.
pub(crate) fn routes_hash<'a>(key: &Key, elements: impl Iterator<Item = &'a [u8]>) -> u32 {
    let mut bytes: SmallVec<[u8; 128]> = SmallVec::new();
    for element in elements {
        let start = bytes.len();
        bytes.extend_from_slice(&[0; 4]);
        match uri_of(HeaderName::Route, element) {
            Some(uri) => {
                bytes.push(uri.is_loose().into());
                bytes.extend_from_slice(&sip::uri::unescape(uri.user.unwrap_or_default()));
                put_place(&mut bytes, &uri);
            }
            None => bytes.extend_from_slice(element),
        }
        let length = (bytes.len() - start) as u32;
        bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }
    if bytes.is_empty() { 0 } else { key.proof(&[b"routes", &bytes]) as u32 | 1 }
}

fn uri_of(name: HeaderName, element: &[u8]) -> Option<SipUri<'_>> {
    match NameAddr::parse(name, element).ok()?.uri() {
        Ok(Uri::Sip(uri)) => Some(uri),
        _ => None,
    }
}

/// Appends the parts of `uri` that determine the next hop, in an unambiguous form.
fn put_place<const N: usize>(bytes: &mut SmallVec<[u8; N]>, uri: &SipUri<'_>)
where
    [u8; N]: smallvec::Array<Item = u8>,
{
    bytes.extend_from_slice(&[b'@', uri.secure.into()]);
    bytes.extend_from_slice(&uri.host.canonical());
    bytes.extend_from_slice(&[u8::from(uri.port.is_some())]);
    bytes.extend_from_slice(&uri.port.unwrap_or_default().to_be_bytes());
    for name in ["transport", "maddr"] {
        bytes.push(b';');
        let value = uri.params.value(name).unwrap_or_default();
        bytes.extend(value.iter().map(u8::to_ascii_lowercase));
    }
}

impl Token {
    /// Lifetime of a token after the last 2xx of its dialog.
    pub(crate) const LIFETIME: Duration = Duration::from_secs(24 * 3600);
    /// Lifetime of a token from a provisional response in stateless mode.
    pub(crate) const EARLY_LIFETIME: Duration = Duration::from_secs(3600);

    pub(crate) fn new(
        now: Instant,
        life: Life,
        end: End,
        identity: Identity,
        sender: Option<Sender>,
    ) -> Self {
        let issued = (now.as_micros() / 1_000_000) as u32;
        Self { issued, life, end, identity, sender }
    }

    /// True if the token is younger than its lifetime. A token from the future, after the clock was
    /// set back, is limited in the same way.
    pub(crate) fn is_recent(&self, now: Instant) -> bool {
        let lifetime = match self.life {
            Life::Dialog => Self::LIFETIME,
            Life::Early => Self::EARLY_LIFETIME,
            Life::Transaction(_) => return false,
        };
        let now = (now.as_micros() / 1_000_000) as u32;
        u64::from(now.abs_diff(self.issued)) <= lifetime.as_secs()
    }

    /// Returns the user part for the dialog `id`, as seen from the end that the token leads to. The
    /// remote tag, that of the user of the token, is not known yet in a token for the answerer of
    /// the first request.
    pub(crate) fn text(&self, key: &Key, id: &DialogId<'_>) -> SmallVec<[u8; MAX_TEXT]> {
        let mut bytes = Vec::with_capacity(MAX_TEXT);
        let life = match self.life {
            Life::Dialog => 0,
            Life::Transaction(_) => 1,
            Life::Early => 2,
        };
        let onward = self.sender.and_then(|sender| sender.onward);
        let flag = |flag: u8, is_set: bool| if is_set { flag } else { 0 };
        bytes.push(
            flag(END_FLOW, self.end.flow.or(self.end.carrier).is_some())
                + flag(CARRIER, self.end.flow.is_none() && self.end.carrier.is_some())
                + flag(USER_TAG, !id.remote_tag.is_empty())
                + flag(SENDER, self.sender.is_some())
                + flag(ONWARD, onward.is_some())
                + (life << 4),
        );
        let onward_scope = self.sender.map_or(0, |sender| sender.scope.to_bits());
        bytes.push(self.end.scope.to_bits() | (onward_scope << 2));
        for number in [self.issued, self.end.target.0, self.end.routes, self.identity.0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        if let Some(flow) = &self.end.flow.or(self.end.carrier) {
            put_flow(&mut bytes, flow);
        }
        if let Life::Transaction(handle) = self.life {
            bytes.push(handle.shard);
            bytes.extend_from_slice(&handle.slot.to_le_bytes());
            bytes.extend_from_slice(&handle.id.to_le_bytes()[..6]);
        }
        if let Some(sender) = &self.sender {
            bytes.extend_from_slice(&sender.identity.0.to_le_bytes());
        }
        if let Some(flow) = &onward {
            put_flow(&mut bytes, flow);
        }
        let proof = proof(key, &bytes, id);
        bytes.extend_from_slice(&proof.to_le_bytes());
        let mut text = SmallVec::from_elem(0, MAX_TEXT);
        let length = URL_SAFE_NO_PAD.encode_slice(&bytes, &mut text).unwrap_or(0);
        text.truncate(length);
        text
    }

    /// Parses the user part, if this server wrote it for the dialog `id`.
    pub(crate) fn parse(key: &Key, id: &DialogId<'_>, user: &[u8]) -> Option<Self> {
        if !(MIN_TEXT..=MAX_TEXT).contains(&user.len()) {
            return None;
        }
        let mut bytes = [0; MAX_TEXT];
        let length = URL_SAFE_NO_PAD.decode_slice(user, &mut bytes).ok()?;
        let (bytes, theirs) = bytes[..length].split_last_chunk::<8>()?;
        let (&[flags, scopes], mut rest) = bytes.split_first_chunk()?;
        let has = |flag: u8| flags & flag != 0;
        let user_tag = if has(USER_TAG) { id.remote_tag } else { &[] };
        if proof(key, bytes, &DialogId { remote_tag: user_tag, ..*id })
            != u64::from_le_bytes(*theirs)
        {
            return None;
        }
        let rest = &mut rest;
        let mut number = || take::<4>(rest).map(u32::from_le_bytes);
        let (issued, target, routes, identity) = (number()?, number()?, number()?, number()?);
        let flow = if has(END_FLOW) { Some(take_flow(rest)?) } else { None };
        let (flow, carrier) = if has(CARRIER) { (None, flow) } else { (flow, None) };
        let life = match (flags & LIFE) >> 4 {
            0 => Life::Dialog,
            1 => {
                let [shard] = take::<1>(rest)?;
                let slot = u32::from_le_bytes(take(rest)?);
                let id = take::<6>(rest)?;
                let id = id.iter().rev().fold(0, |id, &byte| id << 8 | u64::from(byte));
                Life::Transaction(Handle { shard, slot, id })
            }
            2 => Life::Early,
            _ => return None,
        };
        let sender = if has(SENDER) {
            let identity = Identity(u32::from_le_bytes(take(rest)?));
            let onward = if has(ONWARD) { Some(take_flow(rest)?) } else { None };
            Some(Sender { identity, onward, scope: Scope::from_bits(scopes >> 2) })
        } else {
            None
        };
        rest.is_empty().then_some(Self {
            issued,
            life,
            end: End {
                target: TargetHash(target),
                routes,
                flow,
                carrier,
                scope: Scope::from_bits(scopes),
            },
            identity: Identity(identity),
            sender,
        })
    }
}

fn proof(key: &Key, bytes: &[u8], id: &DialogId<'_>) -> u64 {
    key.proof(&[bytes, id.call_id, id.local_tag, id.remote_tag])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::flow::Connection;
    use core::num::NonZeroU64;
    use sip::Transport;

    const ID: DialogId<'_> = DialogId { call_id: b"call-1", local_tag: b"a", remote_tag: b"b" };

    fn key() -> Key {
        Key::derive(&[9; 32], "token")
    }

    fn flow(connection: u64) -> Flow {
        Flow {
            transport: Transport::Tcp,
            local: "[2001:db8::1]:5060".parse().unwrap(),
            remote: "[2001:db8::2]:50000".parse().unwrap(),
            connection: NonZeroU64::new(connection).map(Connection),
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_micros(1_800_000_000_000_000) + Duration::from_secs(seconds)
    }

    fn token(life: Life, end: Option<Flow>, sender: Option<Sender>) -> Token {
        let end = End {
            target: TargetHash(77),
            routes: 5,
            flow: end,
            carrier: None,
            scope: Scope::Private,
        };
        Token::new(at(0), life, end, Identity(3), sender)
    }

    #[test]
    fn tokens_come_back_and_cannot_be_changed_or_moved() {
        let handle = Handle { shard: 3, slot: 0x0102_0304, id: 0xffff_ffff_fffe };
        let sender = |onward| Some(Sender { identity: Identity(9), onward, scope: Scope::Link });
        for token in [
            token(Life::Dialog, None, None),
            token(Life::Dialog, Some(flow(7)), sender(Some(flow(8)))),
            token(Life::Dialog, None, sender(None)),
            token(Life::Transaction(handle), Some(flow(7)), None),
            token(Life::Early, Some(flow(7)), None),
            {
                let token = token(Life::Dialog, None, None);
                Token { end: End { carrier: Some(flow(9)), ..token.end }, ..token }
            },
        ] {
            let key = key();
            let user = token.text(&key, &ID);
            assert!((MIN_TEXT..=MAX_TEXT).contains(&user.len()), "{}", user.len());
            assert_eq!(Token::parse(&key, &ID, &user), Some(token));
            for other in [
                DialogId { call_id: b"call-2", ..ID },
                DialogId { local_tag: b"b", remote_tag: b"a", ..ID },
                DialogId { local_tag: b"c", ..ID },
                DialogId { remote_tag: b"c", ..ID },
                DialogId { remote_tag: b"", ..ID },
            ] {
                assert_eq!(Token::parse(&key, &other, &user), None, "{other:?}");
            }
            for at in 0..user.len() {
                let mut changed = user.clone();
                changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
                assert_eq!(Token::parse(&key, &ID, &changed), None, "{at}");
            }
        }
        assert_eq!(Token::parse(&key(), &ID, b"alice"), None);
        assert_eq!(Token::parse(&key(), &ID, b""), None);
    }

    #[test]
    fn the_answerer_s_token_does_not_know_the_answerer_s_tag() {
        let token = token(Life::Dialog, None, None);
        let user = token.text(&key(), &DialogId { remote_tag: b"", ..ID });
        assert_eq!(Token::parse(&key(), &ID, &user), Some(token));
        let to_another = DialogId { local_tag: b"b", remote_tag: b"a", ..ID };
        assert_eq!(Token::parse(&key(), &to_another, &user), None);
    }

    #[test]
    fn tokens_hold_for_their_time_also_where_the_clock_is_set_back() {
        let lasting = token(Life::Dialog, None, None);
        let day = 24 * 3600;
        assert!(lasting.is_recent(at(day)) && !lasting.is_recent(at(day + 1)));
        let early = token(Life::Early, None, None);
        assert!(early.is_recent(at(3600)) && !early.is_recent(at(3601)));
        let before = Instant::from_micros(at(0).as_micros() - (day + 1) * 1_000_000);
        assert!(!lasting.is_recent(before));
    }

    #[test]
    fn a_target_is_the_same_however_it_is_written_and_another_is_not() {
        let hash = |uri: &str, follows_flow| match Uri::parse(uri.as_bytes()) {
            Ok(Uri::Sip(uri)) => TargetHash::new(&key(), &uri, follows_flow),
            other => panic!("{other:?}"),
        };
        let one = hash("sip:bob@192.0.2.5:5070;transport=tcp;ob", false);
        assert_eq!(hash("sip:b%6fb@192.0.2.5:5070;x=y;transport=TCP", false), one);
        for other in [
            "sips:bob@192.0.2.5:5070;transport=tcp",
            "sip:rob@192.0.2.5:5070;transport=tcp",
            "sip:bob@192.0.2.6:5070;transport=tcp",
            "sip:bob@192.0.2.5:5071;transport=tcp",
            "sip:bob@192.0.2.5;transport=tcp",
            "sip:bob@192.0.2.5:5070",
            "sip:bob@192.0.2.5:5070;transport=tcp;maddr=192.0.2.9",
        ] {
            assert_ne!(hash(other, false), one, "{other}");
        }
        let followed = hash("sip:bob@192.168.1.5", true);
        assert_eq!(hash("sip:bob@203.0.113.9:1024;transport=tcp", true), followed);
        assert_ne!(hash("sip:00900123@192.168.1.5", true), followed);
    }

    #[test]
    fn routes_count_in_their_order() {
        let hash = |routes: &[&str]| routes_hash(&key(), routes.iter().map(|r| r.as_bytes()));
        let one = hash(&["<sip:a@p1;lr>", "<sip:p2:5070;lr;ftag=x>"]);
        assert_eq!(hash(&[]), 0);
        assert_eq!(hash(&["<sip:%61@p1;lr>", "<sip:p2:5070;lr>"]), one);
        assert_eq!(hash(&["<sip:a@P1;lr=on>", "\"x\" <sip:p2:5070;ftag=x;lr>"]), one);
        for other in [
            &["<sip:p2:5070;lr;ftag=x>", "<sip:a@p1;lr>"][..],
            &["<sip:a@p1;lr>"],
            &["<sip:b@p1;lr>", "<sip:p2:5070;lr;ftag=x>"],
            &["<sip:a@p1;lr>", "<sip:p2:5070>"],
            &["<sip:a@p1;lr>", "<sip:p3:5070;lr>"],
        ] {
            assert_ne!(hash(other), one, "{other:?}");
        }
    }
}
