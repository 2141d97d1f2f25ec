//! The steps of a TLS handshake, made by a thread with a lower priority than the workers.

use super::*;

impl Stream {
    /// Returns true until the TLS keys are agreed on. Until then [`shake_hands`](Self::shake_hands)
    /// reads the input.
    pub(in super::super) fn is_handshaking(&self) -> bool {
        self.ends.transport.is_secure()
            && !self.has_left()
            && matches!(*self.writing.lock(), Writing::Connecting(..))
    }

    /// Returns true if a handshake step has left bytes or an error to be [read](Self::read).
    pub(in super::super) fn has_left(&self) -> bool {
        self.reading.lock().left.is_some()
    }

    /// Returns true if the peer has sent bytes of a handshake.
    pub(in super::super) fn has_shaken_hands(&self) -> bool {
        self.has_shaken_hands.load(Ordering::Relaxed)
    }

    /// Makes a step of the handshake. The socket has been removed from `set`, and is added again.
    /// `names` returns the domains that the certificates of a peer prove.
    ///
    /// No lock is held where this thread may block or is likely to be preempted: during the
    /// computation, which may take milliseconds, and while the socket is added, which may wake the
    /// worker that needs the locks.
    pub(in super::super) fn shake_hands(
        &self,
        now: Instant,
        chunk: &mut [u8],
        set: &Set,
        names: impl FnOnce(&[CertificateDer<'static>]) -> Vec<ServerName<'static>>,
    ) {
        let Some(mut wire) = self.take_wire() else { return };
        let end = || Some(Ok((Vec::new(), true)));
        let taken = self.take(&mut self.reading.lock().greeting, chunk);
        let read = match taken {
            Ok((0, _)) => end(),
            Ok((count, _)) => {
                self.has_shaken_hands.store(true, Ordering::Relaxed);
                let plain = wire.receive(&chunk[..count]).map(Cow::into_owned);
                let has_ended = wire.has_ended();
                Some(plain.map(|plain| (plain, has_ended)))
            }
            Err(error) if is_passing(&error) => None,
            Err(_) => end(),
        };
        let mut left = read.filter(|read| !matches!(read, Ok((plain, false)) if plain.is_empty()));
        if !wire.is_handshaking()
            && !self.is_opened_here()
            && let Some(tls) = wire.tls()
            && !tls.certificates().is_empty()
        {
            let _ = self.names.set(names(tls.certificates()));
        }
        if self.write(&mut wire).is_err() {
            left = left.or_else(end);
        }
        // The worker does the rest after the handshake: it opens the connection, writes, and reads
        // the bytes that are left. Room for output on the socket wakes it.
        let wait = match !wire.is_handshaking() || !wire.is_empty() || left.is_some() {
            true => Wait::Both,
            false => Wait::Read,
        };
        if self.put_back(wire, left, now) {
            // If that fails, the connection is closed by its timeout.
            let _ = set.add(&self.socket, self.connection, wait);
        }
    }

    /// Puts the `wire` back, with the bytes that are `left` for the worker. Returns false if the
    /// connection has been closed meanwhile.
    fn put_back(
        &self,
        wire: Wire,
        left: Option<Result<(Vec<u8>, bool), TlsError>>,
        now: Instant,
    ) -> bool {
        let mut reading = self.reading.lock();
        let mut writing = self.writing.lock();
        let Writing::Connecting(_, place) = &mut *writing else { return false };
        if wire.is_handshaking() || wire.is_ready() {
            *place = Some(wire);
        } else {
            // The WebSocket handshake is next. Nothing is sent before it.
            *writing = Writing::Open(wire);
        }
        reading.heard = now;
        reading.left = left;
        true
    }

    /// Takes the wire of a connection during its TLS handshake.
    pub(in super::super) fn take_wire(&self) -> Option<Wire> {
        match &mut *self.writing.lock() {
            Writing::Connecting(_, wire) => wire.take(),
            Writing::Open(_) | Writing::Closed => None,
        }
    }

    #[cfg(test)]
    pub(in super::super) fn give_wire(&self, given: Wire) {
        let heard = self.reading.lock().heard;
        assert!(self.put_back(given, None, heard));
    }
}
