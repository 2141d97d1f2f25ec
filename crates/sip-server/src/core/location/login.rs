//! The lookup of the user that logs in. It makes the same memory accesses for existing and absent
//! users: the time of a cache miss would reveal which users exist.

use super::{LocationService, Subscriber};
use crate::core::address_of_record::AddressOfRecord;
use crate::core::logins::Logins;
use core::hint::black_box;
use lock_api::RawMutex;
use sip::digest::{Algorithm, Ha1Set};
use smallvec::SmallVec;

/// The number of buckets of the hash table in which a substitute for an absent user is looked for.
/// At least every second bucket of a table that has grown is occupied, or a few less.
const MOST_BUCKETS: usize = 16;

impl<R: RawMutex> LocationService<R> {
    /// Returns the result of `look` for the subscriber. If there is no subscriber, `look` examines
    /// another one, and its result is discarded.
    fn look_up_evenly<T>(
        &self,
        address: &AddressOfRecord,
        look: impl FnOnce(&Subscriber) -> Option<T>,
    ) -> Option<T> {
        let shard = self.shard(address.hash()).lock();
        let table = &shard.table;
        let is_it =
            |found: &Subscriber| black_box(found.address_of_record[..] == *address.as_bytes());
        let another = || {
            let count = table.num_buckets();
            let buckets = (0..MOST_BUCKETS.min(count))
                .map(|step| (address.hash() as usize).wrapping_add(step) % count);
            buckets.filter_map(|bucket| table.get_bucket(bucket)).next()
        };
        let examined = table.find(address.hash(), is_it).or_else(another)?;
        let found = black_box(look(examined));
        found.filter(|_| is_it(examined))
    }

    /// Returns the user that logs in as `name` in `domain`, and the secret for `algorithm`. Returns
    /// `None` if there is no such user.
    pub(crate) fn log_in(
        &self,
        name: &[u8],
        domain: &str,
        algorithm: Algorithm,
    ) -> Option<(AddressOfRecord, SmallVec<[u8; 32]>)> {
        let secret = |address: AddressOfRecord, choose: &dyn Fn(&Logins) -> Option<&Ha1Set>| {
            let secret = self.look_up_evenly(&address, |subscriber| {
                let ha1 = choose(subscriber.logins.as_ref()?)?;
                Some(SmallVec::from_slice(ha1.get(algorithm)))
            })?;
            Some((address, secret))
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
        // Both lookups are done in any case, so that the time does not reveal which users exist.
        let owner = self.auth_names.owner(name, domain.as_bytes());
        let owner = self.canonical(owner.as_deref().unwrap_or(name));
        let owner = secret(owner, &|logins| {
            Some(&logins.by_auth_name.as_ref().filter(|auth| *auth.name == *name)?.ha1)
        });
        found.or(owner)
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
            assert_eq!(found.is_some(), number < USERS, "{number}");
            let login = location.log_in(name(number).as_bytes(), "example.com", Algorithm::Md5);
            let expected = (number < USERS).then(|| secret(number));
            let expected = expected.as_ref().map(|secret| secret.get(Algorithm::Md5));
            assert_eq!(login.as_ref().map(|(_, secret)| &secret[..]), expected);
        }
        assert!(examined.get() > 2 * USERS - USERS / 100, "{}", examined.get());
    }
}
