//! The fingerprints of certificates.

use ring::digest::{self, Algorithm};
use sdp::dtls::{Fingerprint, HashFunction};

/// The fingerprint of a certificate in DER; `None` for a hash function that is not known.
pub(crate) fn of(certificate: &[u8], hash: HashFunction) -> Option<Fingerprint> {
    match hash {
        HashFunction::Sha1 => Some(by(&digest::SHA1_FOR_LEGACY_USE_ONLY, hash, certificate)),
        HashFunction::Sha256 => Some(sha_256(certificate)),
        HashFunction::Sha384 => Some(by(&digest::SHA384, hash, certificate)),
        HashFunction::Sha512 => Some(by(&digest::SHA512, hash, certificate)),
        _ => None,
    }
}

/// The fingerprint of a certificate in DER by SHA-256.
pub(crate) fn sha_256(certificate: &[u8]) -> Fingerprint {
    by(&digest::SHA256, HashFunction::Sha256, certificate)
}

fn by(algorithm: &'static Algorithm, hash: HashFunction, certificate: &[u8]) -> Fingerprint {
    Fingerprint { hash, bytes: digest::digest(algorithm, certificate).as_ref().to_vec() }
}
