//! The server side of TLS: the selection of its certificate, and the rules for client certificates.

use super::chain::Bounded;
use super::files::{FileError, Identity, read_certificates};
use super::{HTTP, SIP, SIP_2, Session, TlsError, provider};
use rustls::pki_types::{CertificateDer, DnsName, ServerName};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ProducesTickets, ResolvesServerCert,
    ServerSessionMemoryCache, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use std::path::PathBuf;
use std::sync::Arc;

/// The maximum number of remembered TLS 1.2 sessions without tickets.
const MAX_SESSIONS: usize = 10_000;

/// The policy for client certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// No certificate is requested.
    #[default]
    Off,
    /// A certificate is optional. It must be signed by an issuer in this file.
    Optional(PathBuf),
    /// A certificate is required. It must be signed by an issuer in this file.
    Required(PathBuf),
}

/// The TLS configuration of accepted connections. It is replaced as a whole when files change.
/// Tickets of its predecessor stay valid, unless the rules for clients have changed.
#[derive(Clone, Debug)]
pub struct Server {
    pub(super) sip: Arc<ServerConfig>,
    pub(super) web: Arc<ServerConfig>,
    pub(super) tickets: Arc<dyn ProducesTickets>,
    pub(super) rules: Arc<Rules>,
}

/// The rules for clients with which a ticket is issued. A client presents no certificate when it
/// resumes a session.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rules {
    clients: ClientCertificates,
    issuers: Vec<CertificateDer<'static>>,
}

impl Rules {
    fn read(clients: &ClientCertificates) -> Result<Self, FileError> {
        let issuers = match clients {
            ClientCertificates::Off => Vec::new(),
            ClientCertificates::Optional(file) | ClientCertificates::Required(file) => {
                read_certificates(file)?
            }
        };
        Ok(Self { clients: clients.clone(), issuers })
    }
}

impl Server {
    /// A configuration that presents the first of `identities` with the requested server name, or
    /// the first of all if no name matches or none is requested. With `before`, tickets of that
    /// configuration stay valid.
    ///
    /// # Errors
    /// A message, if a file cannot be used, or `identities` is empty.
    pub fn new(
        identities: Vec<Identity>,
        clients: &ClientCertificates,
        before: Option<&Self>,
    ) -> Result<Self, String> {
        if identities.is_empty() {
            return Err("a TLS server needs a certificate".to_owned());
        }
        let rules = Rules::read(clients).map_err(|error| error.to_string())?;
        let tickets = match before {
            Some(before) if *before.rules == rules => Arc::clone(&before.tickets),
            _ => rustls::crypto::ring::Ticketer::new().map_err(|error| error.to_string())?,
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
                let verifier = Bounded(verifier.map_err(|e| text(&e))?);
                builder.with_client_cert_verifier(Arc::new(verifier))
            }
            ClientCertificates::Required(file) => {
                let verifier = Bounded(verifier(file)?.build().map_err(|e| text(&e))?);
                builder.with_client_cert_verifier(Arc::new(verifier))
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(Certificates { identities }));
        config.alpn_protocols = vec![SIP.to_vec(), SIP_2.to_vec()];
        config.ticketer = Arc::clone(&tickets);
        config.session_storage = match before {
            // A session refers to its certificate by the index in the list of `before`.
            Some(_) => Arc::new(NoServerSessionStorage {}),
            None => ServerSessionMemoryCache::new(MAX_SESSIONS),
        };
        // One is enough for a returning client, and each costs memory and time.
        config.send_tls13_tickets = 1;
        let mut web = config.clone();
        web.alpn_protocols = vec![HTTP.to_vec()];
        let (sip, web, rules) = (Arc::new(config), Arc::new(web), Arc::new(rules));
        Ok(Self { sip, web, tickets, rules })
    }

    /// Has WebSocket accepted on SIP connections, too.
    #[must_use]
    pub fn for_both(mut self) -> Self {
        Arc::make_mut(&mut self.sip).alpn_protocols.push(HTTP.to_vec());
        self
    }

    /// Begins a SIP connection.
    ///
    /// # Errors
    /// [`TlsError`] if the library rejects its parameters, which is a bug of this program.
    pub fn accept(&self) -> Result<Session, TlsError> {
        Session::accept(Arc::clone(&self.sip))
    }

    /// The configuration of HTTP connections, for other users of the TLS library.
    #[must_use]
    pub fn for_http(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.web)
    }

    /// Begins an HTTP connection, for WebSocket.
    ///
    /// # Errors
    /// See [`Server::accept`].
    pub fn accept_web(&self) -> Result<Session, TlsError> {
        Session::accept(Arc::clone(&self.web))
    }
}

/// The certificates of `file` as trusted issuers.
pub(super) fn roots(file: &std::path::Path) -> Result<Arc<RootCertStore>, FileError> {
    let mut roots = RootCertStore::empty();
    let certificates = read_certificates(file)?;
    let (taken, _) = roots.add_parsable_certificates(certificates);
    if taken == 0 {
        let problem = "it contains no certificate of an issuer".to_owned();
        return Err(FileError { file: file.to_owned(), problem });
    }
    Ok(Arc::new(roots))
}

/// Selects the certificate by the requested server name.
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
