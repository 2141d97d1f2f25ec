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
    origins: RwLock<Arc<Origins>>,
}

impl CurrentTls {
    /// Without `tls` there is none. WebSocket is for pages of `origins`.
    pub(crate) fn new(tls: Option<Tls>, origins: Origins) -> Self {
        let (tls, proving) = (RwLock::new(tls), RwLock::new(None));
        Self { tls, proving, origins: RwLock::new(Arc::new(origins)) }
    }

    /// Begins with these from now on; without `tls` with what there was.
    pub(crate) fn replace(&self, tls: Option<Tls>, origins: Origins) {
        *self.origins.write() = Arc::new(origins);
        if tls.is_some() {
            *self.tls.write() = tls;
        }
    }

    /// Shows `proofs` to issuers from now on, as long as there are any.
    pub(crate) fn prove(&self, proofs: Vec<Proof>) {
        let server = self.server().filter(|_| !proofs.is_empty());
        *self.proving.write() = server.map(|server| server.proving(proofs));
    }

    /// Whose pages may ask for WebSocket.
    pub(super) fn origins(&self) -> Arc<Origins> {
        Arc::clone(&self.origins.read())
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
        if let Some(server) = &*self.proving.read() {
            return Some(server.accept());
        }
        Some(self.tls.read().as_ref()?.server.accept())
    }

    /// For one that is opened to `name`.
    pub(super) fn connect(&self, name: ServerName<'static>) -> Option<Result<Session, TlsError>> {
        Some(self.tls.read().as_ref()?.client.connect(name))
    }

    /// Whether somebody who shows `certificates` would be taken for `name`, if it were called.
    pub(super) fn trusts(
        &self,
        certificates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
    ) -> bool {
        self.tls.read().as_ref().is_some_and(|tls| tls.client.trusts(certificates, name))
    }
}
