//! A bound on the certificates that the other end shows: each may cost the check of a signature.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};
use std::fmt;
use std::sync::Arc;

/// Certificates in a chain, the end's own among them.
const MAX_CHAIN: usize = 10;

/// A chain that is longer than it may be.
#[derive(Debug)]
struct TooLong(usize);

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it comes with a chain of {}, and at most {MAX_CHAIN} are taken", self.0)
    }
}

impl std::error::Error for TooLong {}

/// Whether a certificate with these `intermediates` may be verified at all.
///
/// # Errors
/// Where there are too many.
pub(super) fn check(intermediates: &[CertificateDer<'_>]) -> Result<(), Error> {
    match intermediates.len() + 1 {
        ..=MAX_CHAIN => Ok(()),
        length => Err(CertificateError::Other(OtherError(Arc::new(TooLong(length)))).into()),
    }
}

/// The verifier of clients, for chains of bounded length.
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
