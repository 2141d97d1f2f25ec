//! The side that is called: which certificate it shows to whom, and whose it wants.

use super::files::{FileError, Identity, read_certificates};
use super::{HTTP, SIP, Session, TlsError, provider};
use rustls::pki_types::{DnsName, ServerName};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ProducesTickets, ResolvesServerCert,
    ServerSessionMemoryCache, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use std::path::PathBuf;
use std::sync::Arc;

/// Sessions of TLS 1.2 without tickets that are remembered.
const MAX_SESSIONS: usize = 10_000;

/// Whether who connects shows a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// None is asked for.
    #[default]
    Off,
    /// One that an issuer in the file has signed, or none.
    Optional(PathBuf),
    /// One that an issuer in the file has signed.
    Required(PathBuf),
}

/// What accepted connections begin with. It is replaced as a whole when files change; tickets of
/// before go on to be taken.
#[derive(Clone, Debug)]
pub struct Server {
    pub(super) config: Arc<ServerConfig>,
    pub(super) tickets: Arc<dyn ProducesTickets>,
}

impl Server {
    /// One that shows those of `identities` that are for the name that was called, and the first
    /// one to who calls no name or an unknown one.
    ///
    /// # Errors
    /// When a file cannot be used, or there is no identity.
    pub fn new(
        identities: Vec<Identity>,
        clients: &ClientCertificates,
        before: Option<&Self>,
    ) -> Result<Self, String> {
        if identities.is_empty() {
            return Err("a server of TLS needs a certificate".to_owned());
        }
        let tickets = match before {
            Some(before) => Arc::clone(&before.tickets),
            None => rustls::crypto::ring::Ticketer::new().map_err(|error| error.to_string())?,
        };
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let builder = ServerConfig::builder_with_provider(provider());
        let builder = builder.with_safe_default_protocol_versions().map_err(|e| text(&e))?;
        let verifier = |file| {
            let roots = roots(file).map_err(|error| error.to_string())?;
            Ok::<_, String>(WebPkiClientVerifier::builder_with_provider(roots, provider()))
        };
        let builder = match clients {
            ClientCertificates::Off => builder.with_no_client_auth(),
            ClientCertificates::Optional(file) => {
                let verifier = verifier(file)?.allow_unauthenticated().build();
                builder.with_client_cert_verifier(verifier.map_err(|e| text(&e))?)
            }
            ClientCertificates::Required(file) => {
                let verifier = verifier(file)?.build();
                builder.with_client_cert_verifier(verifier.map_err(|e| text(&e))?)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(Certificates { identities }));
        config.alpn_protocols = vec![SIP.to_vec(), HTTP.to_vec()];
        config.ticketer = Arc::clone(&tickets);
        config.session_storage = match before {
            // They are by their place in a list that is gone.
            Some(_) => Arc::new(NoServerSessionStorage {}),
            None => ServerSessionMemoryCache::new(MAX_SESSIONS),
        };
        // One is enough for who comes again, and each takes room and time.
        config.send_tls13_tickets = 1;
        Ok(Self { config: Arc::new(config), tickets })
    }

    /// Begins a connection.
    ///
    /// # Errors
    /// When the library does not take what it was given, which is a fault of the program.
    pub fn accept(&self) -> Result<Session, TlsError> {
        Session::accept(Arc::clone(&self.config))
    }
}

/// Those that the certificates of `file` are.
pub(super) fn roots(file: &std::path::Path) -> Result<Arc<RootCertStore>, FileError> {
    let mut roots = RootCertStore::empty();
    let certificates = read_certificates(file)?;
    let (taken, _) = roots.add_parsable_certificates(certificates);
    if taken == 0 {
        let problem = "no certificate in it can be trusted: expected those of issuers".to_owned();
        return Err(FileError { file: file.to_owned(), problem });
    }
    Ok(Arc::new(roots))
}

/// Chooses the certificate by the name that is called.
#[derive(Debug)]
struct Certificates {
    identities: Vec<Identity>,
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().and_then(|name| DnsName::try_from(name.to_owned()).ok());
        let name = name.map(ServerName::DnsName);
        let is_for = |identity: &&Identity| name.as_ref().is_some_and(|name| identity.is_for(name));
        let found = self.identities.iter().find(is_for).or_else(|| self.identities.first());
        found.map(Identity::certified_key)
    }
}
