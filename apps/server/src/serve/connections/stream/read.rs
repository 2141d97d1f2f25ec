//! The input of a connection: bytes, through TLS and WebSocket, to messages.

use super::*;

/// The result of a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Pinged {
    /// It was sent, or waits for room.
    Sent,
    /// The connection is no WebSocket connection, not ready, or ending.
    Never,
    /// The peer is gone.
    Gone,
}

impl Stream {
    /// Reads the available input, up to the length of `chunk`, and passes each message to `visit`
    /// until that breaks off.
    ///
    /// # Errors
    /// [`ReadError`] if the stream cannot go on.
    pub(in super::super) fn read(
        &self,
        now: Instant,
        chunk: &mut [u8],
        set: &Set,
        visit: impl FnMut(StreamItem<'_>) -> ControlFlow<()>,
    ) -> Result<More, ReadError> {
        let mut reading = self.reading.lock();
        if reading.is_over {
            return Ok(More::Later);
        }
        let more = self.read_with(&mut reading, now, chunk, set, visit);
        reading.is_over = matches!(more, Ok(More::Never) | Err(_));
        more
    }

    fn read_with(
        &self,
        reading: &mut Reading,
        now: Instant,
        chunk: &mut [u8],
        set: &Set,
        visit: impl FnMut(StreamItem<'_>) -> ControlFlow<()>,
    ) -> Result<More, ReadError> {
        let (bytes, has_ended, more) = if let Some(left) = reading.left.take() {
            let (plain, has_ended) = left.map_err(ReadError::Tls)?;
            (Cow::Owned(plain), has_ended, More::Now)
        } else {
            let (count, more) = match self.take(&mut reading.greeting, chunk) {
                Ok((0, _)) => return Ok(More::Never),
                Ok(taken) => taken,
                Err(error) if is_passing(&error) => return Ok(More::Later),
                Err(_) => return Ok(More::Never),
            };
            reading.heard = now;
            match self.ends.transport.is_secure() {
                false => (Cow::Borrowed(&chunk[..count]), false, more),
                true => {
                    let plain = self.decrypt(reading, &chunk[..count], now, set);
                    let (plain, has_ended) = plain.map_err(ReadError::Tls)?;
                    (plain, has_ended, more)
                }
            }
        };
        let (mut has_replied, mut has_agreed) = (false, false);
        let received = reading.reader.receive(&bytes, visit, |reply| {
            has_replied = true;
            has_agreed |= reply == Reply::Open;
            if let (Reply::Client(address, port), Some(proxied)) = (&reply, &self.proxied) {
                proxied.note(*address, *port);
            }
            self.reply(reply);
        });
        if has_agreed {
            reading.patience = Patience::new(&TIMEOUTS, now);
            reading.awaits_upgrade = false;
        }
        if let Ok(progress) = received
            && !reading.awaits_upgrade
        {
            reading.patience.note(progress, &TIMEOUTS, now);
        }
        if has_replied {
            let mut writing = self.writing.lock();
            if self.advance(reading, &mut writing, now, set).is_err() {
                return Ok(More::Never);
            }
        }
        let progress = received.map_err(ReadError::Fault)?;
        Ok(if progress.is_over || has_ended { More::Never } else { more })
    }

    /// Queues a reply of the layer below messages.
    fn reply(&self, reply: Reply) {
        if let Writing::Open(wire) = &mut *self.writing.lock() {
            wire.reply(reply);
        }
    }

    /// Sends a ping to a WebSocket peer that has been silent for long. Returns false if the peer
    /// has been silent for too long, or is gone.
    pub(in super::super) fn is_there(&self, now: Instant, set: &Set) -> bool {
        let silence = self.silence(now);
        if silence < WEB_SILENCE[0] {
            return true;
        }
        match self.ping(now, set) {
            Pinged::Sent => silence < WEB_SILENCE[1],
            Pinged::Never => true,
            Pinged::Gone => false,
        }
    }

    /// Sends a ping to a WebSocket peer.
    pub(in super::super) fn ping(&self, now: Instant, set: &Set) -> Pinged {
        let mut reading = self.reading.lock();
        let mut writing = self.writing.lock();
        match &mut *writing {
            Writing::Open(wire) if wire.is_web() && wire.is_ready() => {
                wire.reply(Reply::Frame(Kind::Ping, Vec::new()));
            }
            _ => return Pinged::Never,
        }
        match self.advance(&mut reading, &mut writing, now, set) {
            Ok(()) => Pinged::Sent,
            Err(_) => Pinged::Gone,
        }
    }

    /// Decrypts `bytes`. Returns the plaintext, and true if the peer has ended its stream or is
    /// gone. Writes the output of TLS.
    fn decrypt<'b>(
        &self,
        reading: &mut Reading,
        bytes: &'b [u8],
        now: Instant,
        set: &Set,
    ) -> Result<(Cow<'b, [u8]>, bool), TlsError> {
        let mut writing = self.writing.lock();
        let Writing::Open(wire) = &mut *writing else { return Ok((Cow::default(), true)) };
        let plain = wire.receive(bytes);
        let has_ended = wire.has_ended();
        let is_gone = !wire.is_empty() && self.advance(reading, &mut writing, now, set).is_err();
        Ok((plain?, has_ended || is_gone))
    }

    /// Reads into `chunk`: first the bytes after the header of a proxy, then those of the socket.
    pub(super) fn take(
        &self,
        greeting: &mut Greeting,
        chunk: &mut [u8],
    ) -> io::Result<(usize, More)> {
        let rest = &mut greeting.rest;
        if rest.is_empty() {
            let count = (&self.socket).read(chunk)?;
            return Ok((count, if count == chunk.len() { More::Now } else { More::Later }));
        }
        let count = rest.len().min(chunk.len());
        chunk[..count].copy_from_slice(&rest[..count]);
        *rest = rest.split_off(count);
        Ok((count, More::Now))
    }
}
