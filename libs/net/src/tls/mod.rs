//! TLS 1.2 and 1.3 for SIP: certificates, trust, and sessions without I/O (RFC 3261 section 26.3,
//! RFC 5922, RFC 5923).

mod chain;
mod client;
mod error;
mod files;
mod identities;
mod next_hop;
mod proof;
mod server;
mod session;

#[cfg(test)]
mod tests;

pub use client::{Client, Trust, system_issuers};
pub use error::TlsError;
pub use files::{FileError, Fingerprint, Identity, make_self_signed, read_certificates};
pub use identities::identities;
pub use next_hop::called_by;
pub use proof::Proof;
pub use rustls::pki_types::{CertificateDer, ServerName};
pub use server::{ClientCertificates, Server};
pub use session::Session;

use rustls::crypto::CryptoProvider;
use std::sync::Arc;

/// The ALPN names of the protocols. Some phones use the second name of SIP.
const SIP: &[u8] = b"sip";
const SIP_2: &[u8] = b"sip/2";
const HTTP: &[u8] = b"http/1.1";
const TURN: &[u8] = b"stun.turn";

/// The cryptography provider. Its cipher suites are those of TLS 1.3, and those of TLS 1.2 with
/// AEAD and ECDHE.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
