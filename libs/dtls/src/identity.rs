//! The certificate of an end.

use crate::IdentityError;
use crate::fingerprint;
use dimpl::DtlsCertificate;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};
use sdp::dtls::Fingerprint;
use std::fmt;

/// A self-signed certificate and its key. It proves nothing by itself: the description announces
/// its fingerprint.
#[derive(Clone)]
pub struct Identity {
    pub(crate) certificate: DtlsCertificate,
    fingerprint: Fingerprint,
}

impl Identity {
    /// Generates a key for ECDSA by P-256, which all browsers take, and a certificate of it without
    /// a name.
    ///
    /// # Errors
    /// There is no source of randomness.
    pub fn generate() -> Result<Self, IdentityError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(IdentityError)?;
        let parameters = CertificateParams::new(Vec::new()).map_err(IdentityError)?;
        let certificate = parameters.self_signed(&key).map_err(IdentityError)?.der().to_vec();
        let fingerprint = fingerprint::sha_256(&certificate);
        let private_key = key.serialize_der();
        Ok(Self { certificate: DtlsCertificate { certificate, private_key }, fingerprint })
    }

    /// The fingerprint for the description, by SHA-256.
    #[must_use]
    pub const fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}
