//! Random and keyed values, derived from secrets.

use alloc::format;
use alloc::string::String;
use sip::Duration;
use siphasher::sip::SipHasher24;

/// A generator of unpredictable values.
pub(crate) struct Random {
    key: [u8; 16],
    count: u64,
}

impl Random {
    pub(crate) fn new(seed: &[u8; 32]) -> Self {
        Self { key: key_of(seed, b"trunk random"), count: 0 }
    }

    fn next(&mut self) -> u64 {
        self.count += 1;
        SipHasher24::new_with_key(&self.key).hash(&self.count.to_le_bytes())
    }

    /// A new secret.
    pub(crate) fn secret(&mut self) -> [u8; 32] {
        let mut secret = [0; 32];
        for part in secret.chunks_exact_mut(8) {
            part.copy_from_slice(&self.next().to_le_bytes());
        }
        secret
    }

    /// A duration between half of `longest` and `longest`, so that clients do not synchronize (RFC
    /// 5626 section 4.5).
    pub(crate) fn upper_half(&mut self, longest: Duration) -> Duration {
        let half = longest.as_micros() / 2;
        Duration::from_micros(half + self.next() % half.max(1))
    }
}

/// The key of the contacts of registrations.
pub(crate) struct ContactKey([[u8; 16]; 2]);

impl ContactKey {
    /// Derives the key from the secret of the server, which is kept over restarts.
    pub(crate) fn new(secret: &[u8; 32]) -> Self {
        Self([key_of(secret, b"trunk contact 1"), key_of(secret, b"trunk contact 2")])
    }

    /// The user part of the contact of the account `uri` at `trunk`: 32 hexadecimal digits.
    pub(crate) fn contact(&self, trunk: &str, uri: &str) -> String {
        // A name of a trunk has no zero byte.
        let input = [trunk.as_bytes(), b"\0", uri.as_bytes()].concat();
        let [first, second] = self.0.map(|key| SipHasher24::new_with_key(&key).hash(&input));
        format!("{first:016x}{second:016x}")
    }
}

/// The key for `purpose`, which depends on all bytes of `secret`.
fn key_of(secret: &[u8; 32], purpose: &[u8]) -> [u8; 16] {
    let (first, second) = secret.split_at(16);
    let mut key = [0; 16];
    for (half, (out, seed)) in key.chunks_exact_mut(8).zip([first, second]).enumerate() {
        let seed: &[u8; 16] = seed.first_chunk().unwrap_or(&[0; 16]);
        let input = [&[half as u8][..], purpose, secret].concat();
        out.copy_from_slice(&SipHasher24::new_with_key(seed).hash(&input).to_le_bytes());
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contacts_differ_by_trunk_account_and_secret_and_stay() {
        let contact = |secret, trunk, uri| ContactKey::new(&[secret; 32]).contact(trunk, uri);
        let one = contact(1, "a", "sip:x@y");
        assert_eq!(one, contact(1, "a", "sip:x@y"));
        assert_eq!(one.len(), 32);
        for other in
            [contact(2, "a", "sip:x@y"), contact(1, "b", "sip:x@y"), contact(1, "a", "sip:z@y")]
        {
            assert_ne!(one, other);
            assert_ne!(one[..16], other[..16]);
            assert_ne!(one[16..], other[16..]);
        }
    }

    #[test]
    fn waits_are_in_the_upper_half() {
        let mut random = Random::new(&[7; 32]);
        let longest = Duration::from_secs(60);
        for _ in 0..100 {
            let wait = random.upper_half(longest);
            assert!(wait >= Duration::from_secs(30) && wait <= longest);
        }
        assert_ne!(random.secret(), random.secret());
    }
}
