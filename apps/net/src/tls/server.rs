//! The side that is called: which certificate it shows to whom, and whose it wants.

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
/// before go on to be taken, unless the rules for clients have changed.
#[derive(Clone, Debug)]
pub struct Server {
    pub(super) sip: Arc<ServerConfig>,
    pub(super) web: Arc<ServerConfig>,
    pub(super) tickets: Arc<dyn ProducesTickets>,
    pub(super) rules: Arc<Rules>,
}

/// The rules for clients, under which a ticket is issued. A session that is resumed shows no
/// certificate anew.
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
            // They are by their place in a list that is gone.
            Some(_) => Arc::new(NoServerSessionStorage {}),
            None => ServerSessionMemoryCache::new(MAX_SESSIONS),
        };
        // One is enough for who comes again, and each takes room and time.
        config.send_tls13_tickets = 1;
        let mut web = config.clone();
        web.alpn_protocols = vec![HTTP.to_vec()];
        let (sip, web, rules) = (Arc::new(config), Arc::new(web), Arc::new(rules));
        Ok(Self { sip, web, tickets, rules })
    }

    /// The same server, where WebSocket is spoken on the connections of SIP, too.
    #[must_use]
    pub fn for_both(mut self) -> Self {
        Arc::make_mut(&mut self.sip).alpn_protocols.push(HTTP.to_vec());
        self
    }

    /// Begins a connection of SIP.
    ///
    /// # Errors
    /// When the library does not take what it was given, which is a fault of the program.
    pub fn accept(&self) -> Result<Session, TlsError> {
        Session::accept(Arc::clone(&self.sip))
    }

    /// Begins one of HTTP, for WebSocket.
    ///
    /// # Errors
    /// Likewise.
    pub fn accept_web(&self) -> Result<Session, TlsError> {
        Session::accept(Arc::clone(&self.web))
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
