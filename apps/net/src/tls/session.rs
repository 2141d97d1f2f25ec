//! One connection's TLS, between the bytes of its socket and what is said.

use super::words::TlsError;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, Connection, HandshakeKind, ServerConfig};
use std::io::{Read, Write};
use std::sync::Arc;

/// The TLS of one connection. It reads and writes nothing by itself.
pub struct Session {
    connection: Connection,
    has_ended: bool,
    /// Whether a record has come.
    has_heard: bool,
}

/// The protocol whose text `bytes` begin with, if it is one.
fn clear_text(bytes: &[u8]) -> Option<&'static str> {
    let first = bytes.split(|&byte| byte == b' ').next().unwrap_or_default();
    match first {
        b"GET" | b"HEAD" | b"POST" | b"PUT" | b"CONNECT" => Some("HTTP"),
        _ if first.starts_with(b"SIP/2.0") => Some("SIP"),
        [_, ..] if first.iter().all(u8::is_ascii_uppercase) => Some("SIP"),
        _ => None,
    }
}

impl Session {
    /// The side that is called, which has the certificate.
    ///
    /// # Errors
    /// When `config` does not fit the library, which is a fault of the program.
    pub fn accept(config: Arc<ServerConfig>) -> Result<Self, TlsError> {
        let connection = rustls::ServerConnection::new(config).map_err(TlsError::new)?;
        Ok(Self::new(connection.into()))
    }

    /// The side that calls, where `name` should answer. There is something to send at once.
    ///
    /// # Errors
    /// Likewise.
    pub fn connect(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, TlsError> {
        let connection = rustls::ClientConnection::new(config, name).map_err(TlsError::new)?;
        Ok(Self::new(connection.into()))
    }

    fn new(mut connection: Connection) -> Self {
        // What waits is bounded by who sends.
        connection.set_buffer_limit(None);
        Self { connection, has_ended: false, has_heard: false }
    }

    /// Whether nothing can be said yet.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether the other end has said that nothing more comes.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether an earlier session was resumed, once that is known.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// The other end's certificates, its own first, once they are known; none where it has none.
    #[must_use]
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        self.connection.peer_certificates().unwrap_or_default()
    }

    /// The version and the cipher suite, as they are called in the RFCs, once they are known.
    #[must_use]
    pub fn suite(&self) -> Option<(&'static str, String)> {
        let version = match self.connection.protocol_version()? {
            rustls::ProtocolVersion::TLSv1_2 => "TLS 1.2",
            rustls::ProtocolVersion::TLSv1_3 => "TLS 1.3",
            _ => "TLS",
        };
        let suite = self.connection.negotiated_cipher_suite()?.suite();
        Some((version, suite.as_str().unwrap_or("unnamed").to_owned()))
    }

    /// Takes `bytes` that came of the socket, and appends what was said to `plain`. There may be
    /// something to [`take`](Self::take) afterwards, also after an error.
    ///
    /// # Errors
    /// Where the connection cannot go on.
    pub fn receive(&mut self, mut bytes: &[u8], plain: &mut Vec<u8>) -> Result<(), TlsError> {
        let first = bytes;
        while !bytes.is_empty() && !self.has_ended {
            self.connection.read_tls(&mut bytes).map_err(TlsError::broken)?;
            let processed = self.connection.process_new_packets();
            let state = processed.map_err(|error| match clear_text(first) {
                Some(spoken) if !self.has_heard => TlsError::of_clear_text(error, spoken),
                _ => TlsError::new(error),
            })?;
            self.has_heard = true;
            self.has_ended = state.peer_has_closed();
            let start = plain.len();
            plain.resize(start + state.plaintext_bytes_to_read(), 0);
            let read = self.connection.reader().read_exact(&mut plain[start..]);
            read.map_err(TlsError::broken)?;
        }
        Ok(())
    }

    /// Says `plain`, once that can be: there is something to [`take`](Self::take) afterwards.
    pub fn send(&mut self, plain: &[u8]) {
        // It is written to memory.
        let _ = self.connection.writer().write_all(plain);
    }

    /// Says that nothing more comes.
    pub fn end(&mut self) {
        self.connection.send_close_notify();
    }

    /// Appends what is to be written to the socket to `out`.
    pub fn take(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            // It is written to memory.
            let _ = self.connection.write_tls(out);
        }
    }
}
