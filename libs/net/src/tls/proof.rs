//! The proof of the control of a domain to an ACME issuer, by a TLS handshake (RFC 8737).

use super::Server;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;

/// The ALPN name that only an ACME issuer uses, to validate a challenge.
pub(super) const ACME: &[u8] = b"acme-tls/1";

/// The certificate that an issuer expects when it validates a challenge for a domain.
#[derive(Clone, Debug)]
pub struct Proof {
    domain: String,
    certificate: Arc<CertifiedKey>,
}

impl Proof {
    /// The proof for `domain`. `digest` is the SHA-256 of the key authorization (RFC 8555 section
    /// 8.1).
    ///
    /// # Errors
    /// A message, if the domain is invalid in a certificate, or `digest` is not 32 bytes long.
    pub fn new(domain: &str, digest: &[u8]) -> Result<Self, String> {
        if digest.len() != 32 {
            return Err(format!("a SHA-256 has 32 bytes, not {}", digest.len()));
        }
        let text = |error: rcgen::Error| format!("no proof for {domain}: {error}");
        let mut params = CertificateParams::new([domain.to_owned()]).map_err(text)?;
        params.distinguished_name = DistinguishedName::new();
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
        let key = KeyPair::generate().map_err(text)?;
        let certificate = params.self_signed(&key).map_err(text)?.der().clone();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let key = super::provider().key_provider.load_private_key(key);
        let key = key.map_err(|error| format!("no proof for {domain}: {error}"))?;
        // The consistency of certificate and key is not checked: the library does not know the
        // extension.
        let certificate = Arc::new(CertifiedKey::new(vec![certificate], key));
        Ok(Self { domain: domain.to_owned(), certificate })
    }
}

impl Server {
    /// A copy of this configuration that presents `proofs` to issuers that validate a challenge.
    #[must_use]
    pub fn proving(&self, proofs: Vec<Proof>) -> Self {
        let others = Arc::clone(&self.sip.cert_resolver);
        let resolver = Arc::new(Proofs { proofs, others });
        let with_proofs = |config: &Arc<ServerConfig>| {
            let mut config = (**config).clone();
            config.alpn_protocols.push(ACME.to_vec());
            config.cert_resolver = Arc::<Proofs>::clone(&resolver);
            Arc::new(config)
        };
        Self { sip: with_proofs(&self.sip), web: with_proofs(&self.web), ..self.clone() }
    }
}

/// Selects a proof for a client that offers only the ACME protocol. For other clients it uses the
/// former resolver.
#[derive(Debug)]
struct Proofs {
    proofs: Vec<Proof>,
    others: Arc<dyn ResolvesServerCert>,
}

impl ResolvesServerCert for Proofs {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if !hello.alpn().is_some_and(|spoken| spoken.eq([ACME])) {
            return self.others.resolve(hello);
        }
        let name = hello.server_name()?;
        let proof = self.proofs.iter().find(|proof| proof.domain.eq_ignore_ascii_case(name))?;
        Some(Arc::clone(&proof.certificate))
    }
}
