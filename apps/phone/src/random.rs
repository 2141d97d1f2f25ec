//! Random numbers of the operating system.

/// Fills `bytes` with random bytes.
pub(crate) fn random(bytes: &mut [u8]) {
    // Without random numbers there are no usable keys, so the phone cannot run.
    getrandom::fill(bytes).expect("the system gives random bytes");
}
