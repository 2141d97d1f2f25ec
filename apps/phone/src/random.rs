//! Random bytes and numbers, of the system.

/// Random bytes.
pub(crate) fn random(bytes: &mut [u8]) {
    // Without them there are no keys that could be used, and nothing goes on.
    getrandom::fill(bytes).expect("the system gives random bytes");
}

/// A random number.
pub(crate) fn random_number() -> u64 {
    let mut bytes = [0; 8];
    random(&mut bytes);
    u64::from_le_bytes(bytes)
}
