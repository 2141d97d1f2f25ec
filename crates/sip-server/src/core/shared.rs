//! The state that the applications and all threads share.

use crate::core::address_of_record::AddressOfRecord;
use crate::core::admission::Admission;
use crate::core::bans::Bans;
use crate::core::event::Env;
use crate::core::keys::Key;
use crate::core::known_sources::KnownSources;
use crate::core::location::LocationService;
use crate::core::nonce::Nonces;
use crate::core::rates::Rates;
#[cfg(feature = "office")]
use crate::core::service_table::ServiceTable;
use core::sync::atomic::AtomicBool;
use lock_api::RawMutex;
use sip::SipUri;

/// Users and bindings, nonces, and the limits of strangers.
pub(crate) struct Shared<R: RawMutex> {
    pub(crate) is_draining: AtomicBool,
    /// True while there may be users that the owner could not add yet.
    pub(crate) lacks_users: AtomicBool,
    pub(crate) location: LocationService<R>,
    pub(crate) nonces: Nonces<R>,
    pub(crate) admission: Admission<R>,
    pub(crate) bans: Bans<R>,
    pub(crate) known_sources: KnownSources,
    /// Rates of registered phones and of users that log in, from sources that are shut out.
    pub(crate) flow_rates: Rates,
    /// Rates of authenticated users.
    pub(crate) user_rates: Rates,
    #[cfg(feature = "office")]
    pub(crate) services: ServiceTable<R>,
}

impl<R: RawMutex> Shared<R> {
    /// Creates the state without users. `key` derives a key for a purpose.
    pub(crate) fn new(key: impl Fn(&str) -> Key) -> Self {
        Self {
            is_draining: AtomicBool::new(false),
            lacks_users: AtomicBool::new(false),
            location: LocationService::new(key("subscribers"), key("contacts")),
            nonces: Nonces::new(key("nonce")),
            admission: Admission::new(&key("sources")),
            bans: Bans::new(key("bans")),
            known_sources: KnownSources::new(key("known-sources")),
            flow_rates: Rates::new(key("flow-rates")),
            user_rates: Rates::new(key("user-rates")),
            #[cfg(feature = "office")]
            services: ServiceTable::new(),
        }
    }

    /// The address-of-record of the local user that `uri` names, if it names one.
    pub(crate) fn address_of(&self, uri: &SipUri<'_>, env: &Env<'_>) -> Option<AddressOfRecord> {
        let (user, domain) = env.settings.user_of(uri, env.settings.domain_of(&uri.host)?)?;
        let name = env.settings.domain_name(domain);
        Some(self.location.address_of_record(&user, name))
    }
}
