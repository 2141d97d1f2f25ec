//! How a server proves to an issuer of certificates that a domain leads to it, while it is called
//! over TLS (RFC 8737).

use super::Server;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;

/// What an issuer speaks that wants a proof, and nobody else, as ALPN calls it.
pub(super) const ACME: &[u8] = b"acme-tls/1";

/// The certificate that an issuer expects to see who looks whether a domain leads here.
#[derive(Clone, Debug)]
pub struct Proof {
    domain: String,
    certificate: Arc<CertifiedKey>,
}

impl Proof {
    /// That `domain` leads here: `digest` is the SHA-256 of what the issuer and the account have
    /// agreed on, the key authorization (RFC 8555 section 8.1).
    ///
    /// # Errors
    /// When the domain cannot stand in a certificate, or `digest` has not 32 bytes.
    pub fn new(domain: &str, digest: &[u8]) -> Result<Self, String> {
        if digest.len() != 32 {
            return Err(format!("a SHA-256 has 32 bytes, and here are {}", digest.len()));
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
        // Whether they belong together is not looked at: the library does not know the extension.
        let certificate = Arc::new(CertifiedKey::new(vec![certificate], key));
        Ok(Self { domain: domain.to_owned(), certificate })
    }
}

impl Server {
    /// The same server, which shows `proofs` to issuers that ask for them.
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

/// Chooses among proofs for who speaks as issuers do, and as before for others.
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
