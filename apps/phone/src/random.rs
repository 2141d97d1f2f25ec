//! Random numbers of the operating system.

/// Fills `bytes` with random bytes.
pub(crate) fn random(bytes: &mut [u8]) {
    // Without random numbers there are no usable keys, so the phone cannot run.
    getrandom::fill(bytes).expect("the system gives random bytes");
}

pub(crate) fn random_number() -> u64 {
    let mut bytes = [0; 8];
    random(&mut bytes);
    u64::from_le_bytes(bytes)
}
