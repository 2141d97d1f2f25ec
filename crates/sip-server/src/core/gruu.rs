//! Globally routable URIs that lead to one phone of a user (GRUU, RFC 5627).
//!
//! A public GRUU is the address-of-record with the instance of the phone. A temporary GRUU contains
//! both in encrypted form, so this server needs no state for it. It ends with the registrations of
//! the Call-ID that it was given for (RFC 5627 section 3.1.2).

use crate::core::address_of_record::AddressOfRecord;
use crate::core::binding::Binding;
use crate::core::keys::Key;
use alloc::borrow::Cow;
use alloc::vec::Vec;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sip::SipUri;
use sip::uri::{escape_param, escape_user, unescape};

/// The prefix of the user part of a temporary GRUU.
const PREFIX: &[u8] = b"tgruu.";

/// The phone that a GRUU leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gruu<'u> {
    /// The phone with this instance.
    Public(Cow<'u, [u8]>),
    /// The phone with this mark. `address` is the hash of the address-of-record of its user.
    Temporary { address: u64, mark: u64 },
    /// Not a GRUU of this server.
    Unknown,
}

impl<'u> Gruu<'u> {
    /// Returns the GRUU in `uri`, a URI of a local domain. Returns `None` if it is not a GRUU.
    pub(crate) fn of(uri: &SipUri<'u>, key: &Key) -> Option<Self> {
        if !uri.params.has("gr") {
            return None;
        }
        Some(match uri.params.value("gr") {
            Some(instance) => Self::Public(unescape(instance)),
            None => temporary(uri.user.unwrap_or_default(), key).unwrap_or(Self::Unknown),
        })
    }

    /// Returns the instance that the GRUU leads to, among those of `bindings`. All flows to the
    /// phone are meant, although each may have been registered with its own Call-ID.
    pub(crate) fn instance<'b>(
        &self,
        mut bindings: impl Iterator<Item = &'b Binding>,
        key: &Key,
    ) -> Option<&'b [u8]> {
        let leads_to = |binding: &&Binding| match self {
            Self::Public(instance) => bare(binding.instance()).eq_ignore_ascii_case(instance),
            Self::Temporary { mark, .. } => mark_of(binding, key) == *mark,
            Self::Unknown => false,
        };
        bindings.find(leads_to).map(Binding::instance).filter(|instance| !instance.is_empty())
    }
}

/// Parses the user part of a temporary GRUU.
fn temporary<'u>(user: &[u8], key: &Key) -> Option<Gruu<'u>> {
    let mut bytes = [0; 33];
    let length = URL_SAFE_NO_PAD.decode_slice(user.strip_prefix(PREFIX)?, &mut bytes).ok()?;
    let (numbers, []) = bytes.get(..length)?.as_chunks::<8>() else { return None };
    let &[salt, address, mark, theirs] = numbers else { return None };
    if key.proof(&[b"gruu", &salt, &address, &mark]).to_le_bytes() != theirs {
        return None;
    }
    Some(Gruu::Temporary {
        address: u64::from_le_bytes(address) ^ key.proof(&[b"gruu-address", &salt]),
        mark: u64::from_le_bytes(mark) ^ key.proof(&[b"gruu-mark", &salt]),
    })
}

/// The mark of the phone of `binding`, which is constant while it registers with the same Call-ID.
fn mark_of(binding: &Binding, key: &Key) -> u64 {
    key.proof(&[b"gruu-phone", bare(binding.instance()), &binding.call_id.to_le_bytes()])
}

/// An instance without its angle brackets.
fn bare(instance: &[u8]) -> &[u8] {
    instance.strip_prefix(b"<").and_then(|rest| rest.strip_suffix(b">")).unwrap_or(instance)
}

/// Creates the GRUUs for the phones of one user.
#[derive(Clone, Copy)]
pub(crate) struct Giver<'a> {
    pub(crate) address: &'a AddressOfRecord,
    /// True if the GRUUs are SIPS URIs.
    pub(crate) is_sips: bool,
    pub(crate) key: &'a Key,
}

impl Giver<'_> {
    /// Appends the Contact parameters for `binding`. Appends nothing if the phone has no instance.
    pub(crate) fn write(&self, binding: &Binding, out: &mut Vec<u8>) {
        if binding.instance().is_empty() {
            return;
        }
        let address = self.address.as_bytes();
        let at = memchr::memrchr(b'@', address).unwrap_or(0);
        let (user, domain) = address.split_at(at);
        let scheme = if self.is_sips { &b"sips:"[..] } else { b"sip:" };
        for piece in [
            b";pub-gruu=\"",
            scheme,
            &escape_user(user),
            domain,
            b";gr=",
            &escape_param(bare(binding.instance())),
            b"\";temp-gruu=\"",
            scheme,
            PREFIX,
            self.temporary(binding).as_bytes(),
            domain,
            b";gr\"",
        ] {
            out.extend_from_slice(piece);
        }
    }

    /// Returns the rest of the user part of a temporary GRUU. Each REGISTER gets another one, and
    /// an observer cannot see that two belong to the same phone.
    fn temporary(&self, binding: &Binding) -> alloc::string::String {
        let Self { address, key, .. } = self;
        let Binding { call_id, cseq, expires, .. } = binding;
        let salt = key
            .proof(&[
                b"gruu-salt",
                binding.instance(),
                &call_id.to_le_bytes(),
                &cseq.to_le_bytes(),
                &expires.as_micros().to_le_bytes(),
            ])
            .to_le_bytes();
        let masked =
            |purpose: &[u8], number: u64| (number ^ key.proof(&[purpose, &salt])).to_le_bytes();
        let user = masked(b"gruu-address", address.hash());
        let mark = masked(b"gruu-mark", mark_of(binding, key));
        let proof = key.proof(&[b"gruu", &salt, &user, &mark]).to_le_bytes();
        URL_SAFE_NO_PAD.encode([salt, user, mark, proof].concat())
    }
}
