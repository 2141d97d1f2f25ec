//! The set-up that the HTTP clients share: the trusted issuers, and the name of this program.

use rustls::pki_types::CertificateDer;
use ureq::http::HeaderValue;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// The value of the User-Agent header field.
pub(crate) const PRODUCT: HeaderValue =
    HeaderValue::from_static(concat!("barebell/", env!("CARGO_PKG_VERSION")));

/// TLS with servers that have a certificate of one of `issuers`.
pub(crate) fn tls(issuers: &[CertificateDer<'_>]) -> TlsConfig {
    let issuers: Vec<_> =
        issuers.iter().map(|issuer| Certificate::from_der(issuer).to_owned()).collect();
    TlsConfig::builder()
        .unversioned_rustls_crypto_provider(net::tls::provider())
        .root_certs(RootCerts::new_with_certs(&issuers))
        .build()
}
