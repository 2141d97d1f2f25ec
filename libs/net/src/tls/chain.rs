//! A limit on the length of certificate chains: each certificate may cost the verification of a
//! signature.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};
use std::fmt;
use std::sync::Arc;

/// The maximum number of certificates in a chain, including that of the peer.
const MAX_CHAIN: usize = 10;

/// The error of a chain that is too long. Contains its length.
#[derive(Debug)]
struct TooLong(usize);

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its chain has {} certificates, at most {MAX_CHAIN} are accepted", self.0)
    }
}

impl std::error::Error for TooLong {}

/// Checks the length of the chain with these `intermediates`.
///
/// # Errors
/// The chain is too long.
pub(super) fn check(intermediates: &[CertificateDer<'_>]) -> Result<(), Error> {
    match intermediates.len() + 1 {
        ..=MAX_CHAIN => Ok(()),
        length => Err(CertificateError::Other(OtherError(Arc::new(TooLong(length)))).into()),
    }
}

/// A verifier of client certificates that also limits the length of the chain.
#[derive(Debug)]
pub(super) struct Bounded(pub(super) Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Bounded {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        check(intermediates)?;
        self.0.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
