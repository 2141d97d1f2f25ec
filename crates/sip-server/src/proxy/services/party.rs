//! The party that calls a user with call services. A forward needs to know it: a mailbox shows the
//! caller, and a stranger has limits of its own on a trunk.

use super::itinerary::Itinerary;
use crate::core::address_of_record::AddressOfRecord;
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::settings::Trust;
use crate::core::shared::Shared;
use crate::proxy::media_services::NewCall;
use crate::proxy::pass::OnTrunk;
use crate::proxy::sender::{Authorization, speaker};
use crate::proxy::token::Identity;
use alloc::boxed::Box;
use alloc::vec::Vec;
use lock_api::RawMutex;
use sip::Uri;

/// The party that calls.
pub(crate) enum Party {
    /// A user that has proved its name.
    User(AddressOfRecord),
    /// Another party that is known: a trunk, or a host of a trusted network.
    Known,
    /// A party without a proof.
    Stranger,
}

impl Party {
    fn new(user: Option<AddressOfRecord>, is_known: bool) -> Self {
        match user {
            Some(user) => Self::User(user),
            None if is_known => Self::Known,
            None => Self::Stranger,
        }
    }

    /// The party of a new call.
    pub(super) fn of_call<R: RawMutex>(call: &NewCall<'_, '_, R>, env: &Env<'_>) -> Self {
        let is_known = call.authorization.proved().is_some()
            || call.incoming.trust == Trust::Trusted
            || call.pass.is_some_and(|pass| {
                pass.payers.user.is_some() || matches!(pass.trunk, Some(OnTrunk::From(_)))
            });
        Self::new(call.caller(env), is_known)
    }

    /// The user, if the party is one.
    pub(super) const fn user(&self) -> Option<&AddressOfRecord> {
        match self {
            Self::User(user) => Some(user),
            Self::Known | Self::Stranger => None,
        }
    }
}

/// A call between two of its stages.
pub(crate) struct Led {
    pub(crate) itinerary: Box<Itinerary>,
    /// True if the request URI is a SIPS URI.
    pub(crate) is_for_sips: bool,
    /// The flow of the caller.
    pub(crate) flow: Flow,
    /// The URI in From.
    pub(crate) from: Vec<u8>,
    /// The name that the caller has proved.
    pub(crate) identity: Identity,
    /// True for a party that is no stranger.
    pub(crate) is_known: bool,
}

impl Led {
    /// The party that calls.
    pub(crate) fn party<R: RawMutex>(&self, shared: &Shared<R>, env: &Env<'_>) -> Party {
        let authorization = Authorization::Dialog(self.identity);
        let from = Uri::parse(&self.from).ok().filter(|_| self.is_known);
        let user = from.and_then(|from| speaker(shared, &authorization, &from, env));
        Party::new(user, self.is_known)
    }
}
