//! The layer between messages and the bytes of a socket.

use crate::Reply;
use crate::tls::{Session, TlsError};
use sip::stream::websocket::{self, Kind, Role, write_frame};
use sip::stream::{Full, Output};
use std::borrow::Cow;
use std::ops::Deref;

/// The sending side of a connection: its framing, its TLS session if there is one, and the output
/// for the socket.
pub struct Wire {
    web: Option<Web>,
    /// Boxed to keep plain connections small.
    tls: Option<Box<Session>>,
    output: Output,
}

/// The state of WebSocket.
struct Web {
    role: Role,
    /// True once the HTTP handshake is done.
    is_open: bool,
}

impl Wire {
    /// A connection with at most `most` bytes of pending output. With `tls`, the output begins with
    /// the start of its handshake.
    #[must_use]
    pub fn new(tls: Option<Session>, most: usize) -> Self {
        let mut wire = Self { web: None, tls: tls.map(Box::new), output: Output::new(most) };
        wire.take();
        wire
    }

    /// Makes it a WebSocket client of `host`. The output begins with the handshake request, which
    /// contains the unpredictable `nonce`.
    #[must_use]
    pub fn web_client(mut self, host: &str, nonce: [u8; 16]) -> Self {
        self.web = Some(Web { role: Role::Client, is_open: false });
        self.say(&websocket::request(host, nonce));
        self
    }

    /// Makes it a WebSocket server.
    #[must_use]
    pub fn web_server(mut self) -> Self {
        self.become_web_server();
        self
    }

    /// Makes it a WebSocket server.
    pub const fn become_web_server(&mut self) {
        self.web = Some(Web { role: Role::Server, is_open: false });
    }

    /// Returns true if bytes are sent unchanged, without TLS and WebSocket.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        self.tls.is_none() && self.web.is_none()
    }

    /// Returns true if messages can be sent: the TLS and WebSocket handshakes are done.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.is_handshaking() && self.web.as_ref().is_none_or(|web| web.is_open)
    }

    /// Returns true during the TLS handshake. Processing input is expensive then.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Returns true once the peer has sent close_notify.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_ended())
    }

    /// The TLS session, if there is one.
    #[must_use]
    pub fn tls(&self) -> Option<&Session> {
        self.tls.as_deref()
    }

    /// Appends `parts` to the output, in order.
    ///
    /// # Errors
    /// [`Full`] if the output would become too long. It is unchanged then.
    pub fn push(&mut self, parts: &[impl Deref<Target = [u8]>]) -> Result<(), Full> {
        if self.is_plain() {
            return self.output.push(parts);
        }
        self.output.check_room(parts.iter().map(|part| part.len()).sum())?;
        for part in parts {
            if self.is_web() {
                // Each message is one frame, usually a text frame (RFC 7118 section 5).
                let is_text = std::str::from_utf8(part).is_ok();
                self.frame(if is_text { Kind::Text } else { Kind::Binary }, part);
            } else {
                self.say(part);
            }
        }
        Ok(())
    }

    /// Handles a reaction of the [`Reader`](crate::Reader). A frame is dropped if too much output
    /// waits: a peer that does not read needs no answer.
    pub fn reply(&mut self, reply: Reply) {
        match reply {
            Reply::Bytes(bytes) => self.say(&bytes),
            Reply::Frame(kind, payload) => {
                if self.output.check_room(payload.len()).is_ok() {
                    self.frame(kind, &payload);
                }
            }
            Reply::Client(..) => {}
            Reply::Open => self.web.iter_mut().for_each(|web| web.is_open = true),
        }
        self.take();
    }

    /// Returns true if it is a WebSocket connection.
    #[must_use]
    pub const fn is_web(&self) -> bool {
        self.web.is_some()
    }

    fn frame(&mut self, kind: Kind, payload: &[u8]) {
        let is_client = self.web.as_ref().is_some_and(|web| web.role == Role::Client);
        let mask = is_client.then(|| {
            let mut mask = [0; 4];
            // Without random numbers the mask is predictable, and protects no proxy on the way.
            // That is not worth a failure.
            let _ = getrandom::fill(&mut mask);
            mask
        });
        let mut bytes = Vec::with_capacity(payload.len() + 14);
        write_frame(&mut bytes, kind, mask, payload);
        self.say(&bytes);
    }

    /// Appends `bytes` to the output, encrypted if there is a TLS session.
    fn say(&mut self, bytes: &[u8]) {
        match &mut self.tls {
            Some(tls) => tls.send(bytes),
            None => self.output.append(|out| out.extend_from_slice(bytes)),
        }
        self.take();
    }

    /// The plaintext of `bytes` from the socket. The output of TLS waits to be written, even after
    /// an error.
    ///
    /// # Errors
    /// [`TlsError`] if the connection cannot go on.
    pub fn receive<'b>(&mut self, bytes: &'b [u8]) -> Result<Cow<'b, [u8]>, TlsError> {
        let Some(tls) = &mut self.tls else { return Ok(bytes.into()) };
        let mut plain = Vec::with_capacity(bytes.len());
        let received = tls.receive(bytes, &mut plain);
        self.take();
        received.map(|()| plain.into())
    }

    /// Ends the output of TLS with close_notify.
    pub fn end(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.end();
        }
        self.take();
    }

    /// The output to be written next.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        self.output.pending()
    }

    /// Returns true if no output waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.output.is_empty()
    }

    /// Removes the first `count` bytes of the output, which have been written.
    pub fn consume(&mut self, count: usize) {
        self.output.consume(count);
    }

    /// Appends the output of TLS.
    fn take(&mut self) {
        if let Some(tls) = &mut self.tls {
            self.output.append(|bytes| tls.take(bytes));
        }
    }
}
