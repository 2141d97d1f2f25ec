//! What lies between messages and the bytes of a socket.

use crate::tls::{Session, TlsError};
use sip::stream::{Full, Output};
use std::borrow::Cow;
use std::ops::Deref;

/// One connection's TLS, if it has any, and what is to be written to its socket.
pub struct Wire {
    /// Rare enough to be elsewhere.
    tls: Option<Box<Session>>,
    output: Output,
}

impl Wire {
    /// One on which `most` bytes may wait; over `tls`, what that begins with is the first of them.
    #[must_use]
    pub fn new(tls: Option<Session>, most: usize) -> Self {
        let mut wire = Self { tls: tls.map(Box::new), output: Output::new(most) };
        wire.take();
        wire
    }

    /// Whether bytes go to the socket as they are.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        self.tls.is_none()
    }

    /// Whether messages can be said: else the two ends still agree on their keys.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking())
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
        let Some(tls) = &mut self.tls else { return self.output.push(parts) };
        self.output.check_room(parts.iter().map(|part| part.len()).sum())?;
        parts.iter().for_each(|part| tls.send(part));
        self.take();
        Ok(())
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
