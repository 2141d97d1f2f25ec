//! The lookup of the user that logs in. It makes the same memory accesses for existing and absent
//! users, and the following computation depends on them: the time of a cache miss would reveal
//! which users exist.

use super::{LocationService, Subscriber};
use crate::core::address_of_record::AddressOfRecord;
use crate::core::logins::Logins;
use core::hint::black_box;
use lock_api::RawMutex;
use sip::digest::{Algorithm, Ha1Set};
use smallvec::SmallVec;

/// The maximum number of buckets of the hash table that are searched for a substitute for an absent
/// user. About half of the buckets are occupied, or more, once the table has grown.
const MOST_BUCKETS: usize = 16;

/// The attempt of a user to log in.
#[derive(Debug)]
pub(crate) struct Login {
    pub(crate) user: AddressOfRecord,
    /// The secret of the user. It belongs to another user, or is absent, if the user does not
    /// exist.
    pub(crate) secret: Option<SmallVec<[u8; 32]>>,
    /// True if the user exists and has this secret.
    pub(crate) exists: bool,
}

impl<R: RawMutex> LocationService<R> {
    /// Returns the result of `look` for the subscriber and true. If there is no subscriber, `look`
    /// examines another one.
    fn look_up_evenly<T>(
        &self,
        address: &AddressOfRecord,
        look: impl FnOnce(&Subscriber) -> Option<T>,
    ) -> (Option<T>, bool) {
        let shard = self.shard(address.hash()).lock();
        let table = &shard.table;
        let is_it = |found: &Subscriber| found.address_of_record[..] == *address.as_bytes();
        let another = || {
            let count = table.num_buckets();
            let buckets = (0..MOST_BUCKETS.min(count))
                .map(|step| (address.hash() as usize).wrapping_add(step) % count);
            buckets.filter_map(|bucket| table.get_bucket(bucket)).next()
        };
        let examined = table.find(address.hash(), is_it).or_else(another);
        let exists = black_box(examined.is_some_and(is_it));
        (examined.and_then(look), exists)
    }

    /// Looks up the user that logs in as `name` in `domain`, and the secret for `algorithm`. The
    /// caller has to compute a response with the secret, if there is one, also for an absent user.
    pub(crate) fn log_in(&self, name: &[u8], domain: &str, algorithm: Algorithm) -> Login {
        let secret = |user: AddressOfRecord, choose: &dyn Fn(&Logins) -> Option<&Ha1Set>| {
            let (secret, exists) = self.look_up_evenly(&user, |subscriber| {
                let ha1 = choose(subscriber.logins.as_ref()?)?;
                Some(SmallVec::from_slice(ha1.get(algorithm)))
            });
            Login { user, exists: exists && secret.is_some(), secret }
        };
        let user = name.strip_suffix(domain.as_bytes()).and_then(|user| user.strip_suffix(b"@"));
        let found = match user {
            Some(user) => {
                secret(self.address_of_record(user, domain), &|logins| logins.by_address.as_ref())
            }
            None => secret(self.address_of_record(name, domain), &|logins| Some(&logins.by_name)),
        };
        if self.auth_names.is_empty() {
            return found;
        }
        // Both lookups are done in any case.
        let owner = self.auth_names.owner(name, domain.as_bytes());
        let owner = self.canonical(owner.as_deref().unwrap_or(name));
        let owner = secret(owner, &|logins| {
            Some(&logins.by_auth_name.as_ref().filter(|auth| *auth.name == *name)?.ha1)
        });
        if owner.exists && !found.exists { owner } else { found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::keys::Key;
    use crate::core::output::Output;
    use alloc::format;
    use core::cell::Cell;

    #[test]
    fn a_lookup_examines_a_subscriber_also_for_an_absent_user() {
        const USERS: u32 = 2000;
        let key = |purpose| Key::derive(&[5; 32], purpose);
        let location = LocationService::<parking_lot::RawMutex>::new(key("users"), key("contacts"));
        let name = |number: u32| format!("user{number}");
        let secret = |number| Ha1Set::new(name(number).as_bytes(), b"example.com", b"secret");
        for number in 0..USERS {
            location.add_user(
                format!("{}@example.com", name(number)).as_bytes(),
                secret(number).into(),
                &mut Output::default(),
            );
        }
        let examined = Cell::new(0);
        for number in 0..2 * USERS {
            let address = location.address_of_record(name(number).as_bytes(), "example.com");
            let found = location.look_up_evenly(&address, |_| {
                examined.set(examined.get() + 1);
                Some(())
            });
            assert_eq!(found.1, number < USERS, "{number}");
            let login = location.log_in(name(number).as_bytes(), "example.com", Algorithm::Md5);
            assert_eq!(login.exists, number < USERS, "{number}");
            let expected = secret(number);
            let is_expected = login.secret.as_deref() == Some(expected.get(Algorithm::Md5));
            assert_eq!(is_expected, number < USERS, "{number}");
        }
        assert!(examined.get() > 2 * USERS - USERS / 100, "{}", examined.get());
    }
}
