//! TLS for connections: the present server and client configuration.

use crate::certificates::{Certificate, Tls};
use crate::page;
use crate::settings::Settings;
use net::tls::{CertificateDer, Proof, Server, ServerName, Session, TlsError};
use net::{Document, Origins};
use parking_lot::RwLock;
use sip::Transport;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// The TLS configuration of new connections. It can be replaced while the server runs. Open
/// connections keep the one with which they began.
pub(crate) struct CurrentTls {
    tls: RwLock<Option<Tls>>,
    /// Replaces the server of `tls` while an ACME issuer validates a challenge.
    proving: RwLock<Option<Server>>,
    /// Web origins allowed over WSS, and over WS.
    origins: RwLock<[Arc<Origins>; 2]>,
    /// True if the page that telephones is served.
    serves_page: AtomicBool,
}

/// The web origins allowed over WSS, and over WS. Over TLS a browser verifies the host name of the
/// server. Without TLS the server compares it with `hosts`.
fn origins_of(origins: Origins, hosts: Vec<String>) -> [Arc<Origins>; 2] {
    let clear = match &origins {
        Origins::SameHost => Origins::SameHostOf(hosts),
        others => others.clone(),
    };
    [Arc::new(origins), Arc::new(clear)]
}

impl CurrentTls {
    /// A configuration for connections. TLS is not available if `tls` is `None`. WebSocket is as
    /// in `settings`.
    pub(crate) fn new(tls: Option<Tls>, settings: &Settings) -> Self {
        Self {
            tls: RwLock::new(tls),
            proving: RwLock::new(None),
            origins: RwLock::new(origins_of(settings.origins.clone(), settings.names())),
            serves_page: AtomicBool::new(settings.page),
        }
    }

    /// Replaces the configuration. Without `tls` the present TLS configuration is kept.
    pub(crate) fn replace(&self, tls: Option<Tls>, settings: &Settings) {
        *self.origins.write() = origins_of(settings.origins.clone(), settings.names());
        self.serves_page.store(settings.page, Ordering::Relaxed);
        if tls.is_some() {
            *self.tls.write() = tls;
        }
    }

    /// Presents `proofs` to ACME issuers; ends that if `proofs` is empty.
    pub(crate) fn prove(&self, proofs: Vec<Proof>) {
        let server = self.server().filter(|_| !proofs.is_empty());
        *self.proving.write() = server.map(|server| server.proving(proofs));
    }

    /// The web origins allowed by `transport`.
    pub(super) fn origins(&self, transport: Transport) -> Arc<Origins> {
        let [secure, clear] = &*self.origins.read();
        Arc::clone(if transport.is_secure() { secure } else { clear })
    }

    /// The documents served on `transport`. Without TLS they are served only to a proxy, which adds
    /// it: the page asks for a password.
    pub(super) fn documents(&self, transport: Transport, is_proxy: bool) -> &'static [Document] {
        let is_safe = transport.is_secure() || is_proxy;
        match is_safe && self.serves_page.load(Ordering::Relaxed) {
            true => page::DOCUMENTS,
            false => &[],
        }
    }

    /// The TLS configuration of accepted connections, if there is one.
    pub(crate) fn server(&self) -> Option<Server> {
        self.tls.read().as_ref().map(|tls| tls.server.clone())
    }

    /// The end of the validity of the first certificate, if there is one.
    pub(crate) fn valid_until(&self) -> Option<SystemTime> {
        self.tls.read().as_ref().and_then(|tls| tls.valid_until)
    }

    /// The certificates in use.
    pub(crate) fn certificates(&self) -> Vec<Certificate> {
        self.tls.read().as_ref().map(|tls| tls.certificates.clone()).unwrap_or_default()
    }

    /// Begins the TLS session of an accepted connection. Returns `None` if `transport` is not
    /// secure.
    pub(super) fn accept(&self, transport: Transport) -> Option<Result<Session, TlsError>> {
        if !transport.is_secure() {
            return None;
        }
        let accept = |server: &Server| match transport {
            Transport::Wss => server.accept_web(),
            _ => server.accept(),
        };
        if let Some(server) = &*self.proving.read() {
            return Some(accept(server));
        }
        Some(accept(&self.tls.read().as_ref()?.server))
    }

    /// Begins the TLS session of a connection to `name`. Returns `None` without TLS configuration.
    pub(super) fn connect(&self, name: ServerName<'static>) -> Option<Result<Session, TlsError>> {
        Some(self.tls.read().as_ref()?.client.connect(name))
    }

    /// The domains that `certificates` prove, if they are trusted as those of a server.
    pub(super) fn names(&self, certificates: &[CertificateDer<'_>]) -> Vec<ServerName<'static>> {
        // The lock is released first: the verification takes long.
        let client = self.tls.read().as_ref().map(|tls| tls.client.clone());
        client.map_or_else(Vec::new, |client| client.names(certificates))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_served_over_tls_only_and_as_the_settings_say() {
        let settings = |page| Settings { page, ..Settings::default() };
        let tls = CurrentTls::new(None, &settings(false));
        assert!(tls.documents(Transport::Wss, false).is_empty());
        tls.replace(None, &settings(true));
        assert_eq!(tls.documents(Transport::Wss, false), page::DOCUMENTS);
        assert!(tls.documents(Transport::Ws, false).is_empty());
        assert_eq!(tls.documents(Transport::Ws, true), page::DOCUMENTS, "a proxy has TLS");
        tls.replace(None, &settings(false));
        assert!(tls.documents(Transport::Wss, false).is_empty());
    }
}
