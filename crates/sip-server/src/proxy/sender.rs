//! The sender of a request: its authorization, and the user that From names.

use super::token::Identity;
use crate::core::address_of_record::AddressOfRecord;
use crate::core::event::Env;
use crate::core::incoming::Incoming;
use crate::core::settings::{DomainIndex, Trust};
use crate::core::shared::Shared;
use crate::core::trunks::TrunkId;
use alloc::vec::Vec;
use lock_api::RawMutex;
use sip::Uri;

/// The authorization of a request to be forwarded.
pub(crate) enum Authorization {
    /// An authenticated local user.
    User(AddressOfRecord),
    /// A dialog that began here. This local name may be given in From: the name that the caller
    /// proved, or the name of the called user. The caller chose the latter.
    Dialog(Identity),
    /// A call from this trunk: it may call what the numbers of the owner allow, and nothing else.
    Trunk(TrunkId),
    /// Not authenticated: the request is for a local user, or the server does not authenticate.
    Unproved,
}

/// The sender that From names.
pub(super) enum Claim {
    /// A user of another domain.
    Foreign,
    /// This user of this local domain.
    User(AddressOfRecord, DomainIndex),
    /// A local name in a form that cannot be authenticated.
    Unprovable,
}

impl Authorization {
    /// The authenticated user.
    pub(crate) const fn proved(&self) -> Option<&AddressOfRecord> {
        match self {
            Self::User(user) => Some(user),
            Self::Dialog(_) | Self::Trunk(_) | Self::Unproved => None,
        }
    }

    /// True if the sender of `incoming` is a stranger: it has proved no name, and is not trusted.
    pub(crate) fn is_of_stranger(&self, incoming: &Incoming<'_, '_>) -> bool {
        let is_stranger = incoming.trust == Trust::Stranger && !incoming.flow.is_internal();
        matches!(self, Self::Unproved) && is_stranger
    }

    /// The local name that may be given in From, also later in the dialog.
    pub(crate) fn identity(&self, env: &Env<'_>) -> Identity {
        match self {
            Self::User(user) => Identity::new(&env.keys.token, user.as_bytes()),
            Self::Dialog(identity) => *identity,
            Self::Trunk(_) | Self::Unproved => Identity::NONE,
        }
    }
}

/// Returns the sender that `from` names.
pub(super) fn claim<R: RawMutex>(shared: &Shared<R>, from: &Uri<'_>, env: &Env<'_>) -> Claim {
    let user_of = |user: &[u8], domain| {
        let name = env.settings.domain_name(domain);
        shared.location.address_of_record(user, name)
    };
    match from {
        Uri::Sip(uri) => match env.settings.domain_of(&uri.host) {
            Some(domain) => match env.settings.user_of(uri, domain) {
                Some((user, domain)) => Claim::User(user_of(&user, domain), domain),
                None => Claim::Unprovable,
            },
            None => Claim::Foreign,
        },
        // A number may belong to any party, but not to a user of any local domain: phones show it
        // without its context.
        Uri::Tel(tel) => {
            let mut number = Vec::new();
            tel.write_canonical_number(&mut number);
            let default = DomainIndex::DEFAULT;
            let likely = env.settings.domain_of_number(tel, default).unwrap_or(default);
            let mut domains = core::iter::once(likely).chain(env.settings.domains());
            let user = domains.find_map(|domain| {
                let user = user_of(&number, domain);
                let is_there = shared.location.look_up(&user, |found| found.is_some());
                is_there.then_some(Claim::User(user, domain))
            });
            user.unwrap_or(Claim::Foreign)
        }
        // Phones show im:alice@example.com like any other name.
        Uri::Other { scheme, uri } => {
            let like_sip = [b"sip", &uri[scheme.len()..]].concat();
            match Uri::parse(&like_sip) {
                Ok(Uri::Sip(uri)) if env.settings.domain_of(&uri.host).is_some() => {
                    Claim::Unprovable
                }
                _ => Claim::Foreign,
            }
        }
    }
}

/// The user of this server that a request with this `from` and `authorization` comes from, as far
/// as it is known.
pub(super) fn speaker<R: RawMutex>(
    shared: &Shared<R>,
    authorization: &Authorization,
    from: &Uri<'_>,
    env: &Env<'_>,
) -> Option<AddressOfRecord> {
    let claimed = || match claim(shared, from, env) {
        Claim::User(user, _) => Some(user),
        Claim::Foreign | Claim::Unprovable => None,
    };
    match authorization {
        Authorization::User(user) => Some(user.clone()),
        Authorization::Dialog(identity) => {
            claimed().filter(|it| Identity::new(&env.keys.token, it.as_bytes()) == *identity)
        }
        Authorization::Unproved => {
            claimed().filter(|_| !env.settings.config.authentication.required)
        }
        Authorization::Trunk(_) => None,
    }
}
