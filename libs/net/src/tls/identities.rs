//! The identities in a certificate, by RFC 5922 section 7: SIP URIs have precedence over host
//! names. If there are SIP URIs, host names are ignored.

use super::chain;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use sip::{Host, SipUri, Uri};
use std::sync::Arc;
use webpki::EndEntityCert;

/// The verifier of a server's certificate: it must be signed by a trusted issuer, and contain the
/// name that was called.
#[derive(Debug)]
pub(super) struct Verifier {
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
    by_host: Arc<WebPkiServerVerifier>,
    names: Names,
}

/// The names in a certificate that are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// SIP URIs, or host names if there are no SIP URIs, without wildcards (RFC 5922 section 7).
    Sip,
    /// Host names, by the rules of browsers.
    Hosts,
}

impl Verifier {
    /// A verifier that trusts the issuers in `roots`, which is not empty.
    pub(super) fn new(
        roots: Arc<RootCertStore>,
        provider: Arc<CryptoProvider>,
        names: Names,
    ) -> Result<Self, rustls::client::VerifierBuilderError> {
        let by_host =
            WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
        Ok(Self { roots, provider, by_host: by_host.build()?, names })
    }
}

/// The domains in those of `uris` that are SIP URIs of domains, not of users (RFC 5922 section
/// 7.1).
fn domains<'u>(uris: impl Iterator<Item = &'u str>) -> Vec<String> {
    uris.filter_map(|uri| match Uri::parse(uri.as_bytes()) {
        Ok(Uri::Sip(SipUri { user: None, host: Host::Name(name), secure: false, .. })) => {
            Some(String::from_utf8_lossy(name).to_ascii_lowercase())
        }
        _ => None,
    })
    .collect()
}

/// The maximum number of names read from a certificate.
const MOST: usize = 8;

/// The domains that `certificate` is for, at most eight.
#[must_use]
pub fn identities(certificate: &CertificateDer<'_>) -> Vec<ServerName<'static>> {
    let Ok(read) = EndEntityCert::try_from(certificate) else { return Vec::new() };
    let mut names = domains(read.valid_uri_names());
    if names.is_empty() {
        names = read.valid_dns_names().map(str::to_ascii_lowercase).collect();
    }
    names.into_iter().take(MOST).filter_map(|name| ServerName::try_from(name).ok()).collect()
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        chain::check(intermediates)?;
        // A certificate that cannot be parsed is rejected below.
        let read = EndEntityCert::try_from(end_entity).ok().filter(|_| self.names == Names::Sip);
        let mut presented =
            read.as_ref().map_or_else(Vec::new, |read| domains(read.valid_uri_names()));
        let scheme = if presented.is_empty() { "" } else { "sip:" };
        if let (Some(read), ServerName::DnsName(_), true) = (&read, name, presented.is_empty()) {
            presented = read.valid_dns_names().map(str::to_ascii_lowercase).collect();
        }
        if presented.is_empty() {
            return self.by_host.verify_server_cert(end_entity, intermediates, name, ocsp, now);
        }
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &self.roots,
            intermediates,
            now,
            algorithms,
        )?;
        let called = name.to_str();
        match presented.iter().any(|domain| domain.eq_ignore_ascii_case(&called)) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::NotValidForNameContext {
                expected: name.to_owned(),
                presented: presented.iter().map(|domain| format!("{scheme}{domain}")).collect(),
            }
            .into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_host.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_host.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_host.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_those_of_sip_uris_without_a_user() {
        let uris = [
            "sip:Example.org",
            "sip:alice@example.net",
            "https://example.com",
            "sips:example.info",
            "sip:192.0.2.1",
            "no uri",
        ];
        assert_eq!(domains(uris.into_iter()), ["example.org"]);
    }
}
