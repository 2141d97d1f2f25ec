//! TLS for connections: what those begin with that are accepted, and whom those trust that are
//! opened.

use crate::certificates::Tls;
use net::Origins;
use net::tls::{CertificateDer, Proof, Server, ServerName, Session, TlsError};
use parking_lot::RwLock;
use sip::Transport;
use std::sync::Arc;

/// What TLS begins with. It can be replaced while the server runs: connections that are open go on
/// with what they began with.
pub(crate) struct CurrentTls {
    tls: RwLock<Option<Tls>>,
    /// What accepts in place of that while an issuer looks for a proof.
    proving: RwLock<Option<Server>>,
    /// Pages that may ask for WebSocket over TLS, and without.
    origins: RwLock<[Arc<Origins>; 2]>,
}

/// The pages that may ask for WebSocket over TLS, and without. A browser looks over TLS whether the
/// server has the name that it calls; without, the server has to: it has those of `hosts`.
fn origins_of(origins: Origins, hosts: Vec<String>) -> [Arc<Origins>; 2] {
    let clear = match &origins {
        Origins::SameHost => Origins::SameHostOf(hosts),
        others => others.clone(),
    };
    [Arc::new(origins), Arc::new(clear)]
}

impl CurrentTls {
    /// Without `tls` there is none. WebSocket is for pages of `origins`, and of these `hosts`.
    pub(crate) fn new(tls: Option<Tls>, origins: Origins, hosts: Vec<String>) -> Self {
        let (tls, proving) = (RwLock::new(tls), RwLock::new(None));
        Self { tls, proving, origins: RwLock::new(origins_of(origins, hosts)) }
    }

    /// Begins with these from now on; without `tls` with what there was.
    pub(crate) fn replace(&self, tls: Option<Tls>, origins: Origins, hosts: Vec<String>) {
        *self.origins.write() = origins_of(origins, hosts);
        if tls.is_some() {
            *self.tls.write() = tls;
        }
    }

    /// Shows `proofs` to issuers from now on, as long as there are any.
    pub(crate) fn prove(&self, proofs: Vec<Proof>) {
        let server = self.server().filter(|_| !proofs.is_empty());
        *self.proving.write() = server.map(|server| server.proving(proofs));
    }

    /// The pages that may ask for WebSocket by `transport`.
    pub(super) fn origins(&self, transport: Transport) -> Arc<Origins> {
        let [secure, clear] = &*self.origins.read();
        Arc::clone(if transport.is_secure() { secure } else { clear })
    }

    /// What accepted connections begin with, if any are accepted.
    pub(crate) fn server(&self) -> Option<Server> {
        self.tls.read().as_ref().map(|tls| tls.server.clone())
    }

    /// For a connection that is accepted by `transport`; `None` where that is not over TLS.
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

    /// For one that is opened to `name`.
    pub(super) fn connect(&self, name: ServerName<'static>) -> Option<Result<Session, TlsError>> {
        Some(self.tls.read().as_ref()?.client.connect(name))
    }

    /// The domains for which an end that shows `certificates` would be taken, if they were called.
    pub(super) fn names(&self, certificates: &[CertificateDer<'_>]) -> Vec<ServerName<'static>> {
        // Not under the lock, for it takes long.
        let client = self.tls.read().as_ref().map(|tls| tls.client.clone());
        client.map_or_else(Vec::new, |client| client.names(certificates))
    }
}
