//! Random octets.

/// The source of random octets. It has to be cryptographic: the password of an agent is of it.
pub type Random = fn(&mut [u8]);
