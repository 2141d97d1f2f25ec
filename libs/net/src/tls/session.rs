//! The TLS session of one connection, between the bytes of its socket and the plaintext.

use super::error::TlsError;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, Connection, HandshakeKind, ServerConfig};
use std::io::{Read, Write};
use std::sync::Arc;

/// The TLS session of one connection, without I/O.
pub struct Session {
    connection: Connection,
    has_ended: bool,
    /// True once a record has been received.
    has_heard: bool,
}

/// The plaintext protocol at the start of `bytes`, if it is recognized.
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
    /// A session in the server role.
    ///
    /// # Errors
    /// [`TlsError`] if the library rejects `config`, which is a bug of this program.
    pub fn accept(config: Arc<ServerConfig>) -> Result<Self, TlsError> {
        let connection = rustls::ServerConnection::new(config).map_err(TlsError::new)?;
        Ok(Self::new(connection.into()))
    }

    /// A session in the client role, for the server `name`. There is output at once.
    ///
    /// # Errors
    /// [`TlsError`] if the library rejects `config`, which is a bug of this program.
    pub fn connect(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, TlsError> {
        let connection = rustls::ClientConnection::new(config, name).map_err(TlsError::new)?;
        Ok(Self::new(connection.into()))
    }

    fn new(mut connection: Connection) -> Self {
        // The caller bounds the output that waits.
        connection.set_buffer_limit(None);
        Self { connection, has_ended: false, has_heard: false }
    }

    /// Returns true until the handshake is done and plaintext can be sent.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Returns true once the peer has sent close_notify.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns true if an earlier session was resumed, once that is known.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// The certificates of the peer, its own first, once they are known. Empty if it has presented
    /// no certificate.
    #[must_use]
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        self.connection.peer_certificates().unwrap_or_default()
    }

    /// The TLS version and the cipher suite, with their names in the RFCs, once they are known.
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

    /// Decrypts `bytes` from the socket, and appends the plaintext to `plain`. There may be output
    /// to [`take`](Self::take) afterwards, even after an error.
    ///
    /// # Errors
    /// [`TlsError`] if the connection cannot go on.
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

    /// Encrypts `plain`, as soon as the handshake is done. There is output to [`take`](Self::take)
    /// afterwards.
    pub fn send(&mut self, plain: &[u8]) {
        // Writing to memory cannot fail.
        let _ = self.connection.writer().write_all(plain);
    }

    /// Sends close_notify.
    pub fn end(&mut self) {
        self.connection.send_close_notify();
    }

    /// Appends the output for the socket to `out`.
    pub fn take(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            // Writing to memory cannot fail.
            let _ = self.connection.write_tls(out);
        }
    }
}
