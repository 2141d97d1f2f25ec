//! What lies between messages and the bytes of a socket.

use crate::Reply;
use crate::tls::{Session, TlsError};
use sip::stream::websocket::{self, Kind, Role, write_frame};
use sip::stream::{Full, Output};
use std::borrow::Cow;
use std::ops::Deref;

/// The writing side of a connection: its frames and its TLS, if it has any, and what is to be
/// written to its socket.
pub struct Wire {
    web: Option<Web>,
    /// Rare enough to be elsewhere.
    tls: Option<Box<Session>>,
    output: Output,
}

/// Frames of WebSocket.
struct Web {
    role: Role,
    /// Whether HTTP is over.
    is_open: bool,
}

impl Wire {
    /// One on which `most` bytes may wait; over `tls`, what that begins with is the first of them.
    #[must_use]
    pub fn new(tls: Option<Session>, most: usize) -> Self {
        let mut wire = Self { web: None, tls: tls.map(Box::new), output: Output::new(most) };
        wire.take();
        wire
    }

    /// The same for WebSocket, which is asked for first, of `host`, by a `nonce` that nobody can
    /// guess.
    #[must_use]
    pub fn web_client(mut self, host: &str, nonce: [u8; 16]) -> Self {
        self.web = Some(Web { role: Role::Client, is_open: false });
        self.say(&websocket::request(host, nonce));
        self
    }

    /// The same for WebSocket that others ask for.
    #[must_use]
    pub fn web_server(mut self) -> Self {
        self.become_web_server();
        self
    }

    /// The same from now on, as others ask for it.
    pub const fn become_web_server(&mut self) {
        self.web = Some(Web { role: Role::Server, is_open: false });
    }

    /// Whether bytes go to the socket as they are.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        self.tls.is_none() && self.web.is_none()
    }

    /// Whether messages can be said: else the two ends still agree on their keys, or on WebSocket.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.is_handshaking() && self.web.as_ref().is_none_or(|web| web.is_open)
    }

    /// Whether the two ends still agree on their keys: what comes is work then.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Whether the other end has said that nothing more comes.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_ended())
    }

    /// The TLS, where there is any.
    #[must_use]
    pub fn tls(&self) -> Option<&Session> {
        self.tls.as_deref()
    }

    /// Has `parts` written, one after the other, behind what waits.
    ///
    /// # Errors
    /// [`Full`] where that is too much. Then none of them is.
    pub fn push(&mut self, parts: &[impl Deref<Target = [u8]>]) -> Result<(), Full> {
        if self.is_plain() {
            return self.output.push(parts);
        }
        self.output.check_room(parts.iter().map(|part| part.len()).sum())?;
        for part in parts {
            if self.is_web() {
                // One message is one frame, of text as a rule (RFC 7118 section 5).
                let is_text = std::str::from_utf8(part).is_ok();
                self.frame(if is_text { Kind::Text } else { Kind::Binary }, part);
            } else {
                self.say(part);
            }
        }
        Ok(())
    }

    /// Has written what the layer between messages and bytes answers; not where too much waits: who
    /// does not read needs no answer.
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

    /// Whether it is WebSocket.
    #[must_use]
    pub const fn is_web(&self) -> bool {
        self.web.is_some()
    }

    fn frame(&mut self, kind: Kind, payload: &[u8]) {
        let is_client = self.web.as_ref().is_some_and(|web| web.role == Role::Client);
        let mask = is_client.then(|| {
            let mut mask = [0; 4];
            // Without chance a proxy could be led astray, which is not worth failing for.
            let _ = getrandom::fill(&mut mask);
            mask
        });
        let mut bytes = Vec::with_capacity(payload.len() + 14);
        write_frame(&mut bytes, kind, mask, payload);
        self.say(&bytes);
    }

    /// Says bytes as they are, above TLS.
    fn say(&mut self, bytes: &[u8]) {
        match &mut self.tls {
            Some(tls) => tls.send(bytes),
            None => self.output.append(|out| out.extend_from_slice(bytes)),
        }
        self.take();
    }

    /// What was said by `bytes`, which came of the socket. What TLS says to that waits to be
    /// written, also after an error.
    ///
    /// # Errors
    /// Where the connection cannot go on.
    pub fn receive<'b>(&mut self, bytes: &'b [u8]) -> Result<Cow<'b, [u8]>, TlsError> {
        let Some(tls) = &mut self.tls else { return Ok(bytes.into()) };
        let mut plain = Vec::with_capacity(bytes.len());
        let received = tls.receive(bytes, &mut plain);
        self.take();
        received.map(|()| plain.into())
    }

    /// Says that nothing more comes.
    pub fn end(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.end();
        }
        self.take();
    }

    /// What is to be written next.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        self.output.pending()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.output.is_empty()
    }

    /// The first `count` bytes of what waits were written.
    pub fn consume(&mut self, count: usize) {
        self.output.consume(count);
    }

    /// Has written what TLS has to say.
    fn take(&mut self) {
        if let Some(tls) = &mut self.tls {
            self.output.append(|bytes| tls.take(bytes));
        }
    }
}
