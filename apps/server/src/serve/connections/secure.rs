//! TLS for connections: what those begin with that are accepted, and whom those trust that are
//! opened.

use crate::certificates::Tls;
use net::tls::{Server, ServerName, Session, TlsError};
use parking_lot::RwLock;
use sip::Transport;

/// What TLS begins with. It can be replaced while the server runs: connections that are open go on
/// with what they began with.
pub(crate) struct CurrentTls(RwLock<Option<Tls>>);

impl CurrentTls {
    /// Without any there is no TLS.
    pub(crate) const fn new(tls: Option<Tls>) -> Self {
        Self(RwLock::new(tls))
    }

    /// Begins with this from now on.
    pub(crate) fn replace(&self, tls: Tls) {
        *self.0.write() = Some(tls);
    }

    /// What accepted connections begin with, if any are accepted.
    pub(crate) fn server(&self) -> Option<Server> {
        self.0.read().as_ref().map(|tls| tls.server.clone())
    }

    /// For a connection that is accepted by `transport`; `None` where that is not over TLS.
    pub(super) fn accept(&self, transport: Transport) -> Option<Result<Session, TlsError>> {
        let current = self.0.read();
        let server = &current.as_ref()?.server;
        match transport {
            Transport::Tls => Some(server.accept()),
            Transport::Wss => Some(server.accept_web()),
            _ => None,
        }
    }

    /// For one that is opened to `name`.
    pub(super) fn connect(&self, name: ServerName<'static>) -> Option<Result<Session, TlsError>> {
        Some(self.0.read().as_ref()?.client.connect(name))
    }
}
