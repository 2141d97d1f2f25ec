//! TLS for connections: the present server and client configuration.

use crate::certificates::Tls;
use net::Origins;
use net::tls::{CertificateDer, Proof, Server, ServerName, Session, TlsError};
use parking_lot::RwLock;
use sip::Transport;
use std::sync::Arc;

/// The TLS configuration of new connections. It can be replaced while the server runs. Open
/// connections keep the one with which they began.
pub(crate) struct CurrentTls {
    tls: RwLock<Option<Tls>>,
    /// Replaces the server of `tls` while an ACME issuer validates a challenge.
    proving: RwLock<Option<Server>>,
    /// Web origins allowed over WSS, and over WS.
    origins: RwLock<[Arc<Origins>; 2]>,
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
    /// A configuration for connections. TLS is not available if `tls` is `None`. WebSocket is
    /// allowed for pages of `origins`. `hosts` are the names of this server.
    pub(crate) fn new(tls: Option<Tls>, origins: Origins, hosts: Vec<String>) -> Self {
        let (tls, proving) = (RwLock::new(tls), RwLock::new(None));
        Self { tls, proving, origins: RwLock::new(origins_of(origins, hosts)) }
    }

    /// Replaces the configuration. Without `tls` the present TLS configuration is kept.
    pub(crate) fn replace(&self, tls: Option<Tls>, origins: Origins, hosts: Vec<String>) {
        *self.origins.write() = origins_of(origins, hosts);
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

    /// The TLS configuration of accepted connections, if there is one.
    pub(crate) fn server(&self) -> Option<Server> {
        self.tls.read().as_ref().map(|tls| tls.server.clone())
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
