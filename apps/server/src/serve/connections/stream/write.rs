//! The output of a connection: messages are written, or wait until the system takes them.

use super::*;

/// The time for which a peer may take none of the waiting output. After it the connection is
/// closed. It is checked every `ROUND`.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);

impl Stream {
    /// Sends `parts` in order, as messages on `flow`. Output that the system does not take waits,
    /// and is registered in `set`.
    ///
    /// # Errors
    /// [`SendError`] if no part can be sent, now or later.
    pub(in super::super) fn send(
        &self,
        flow: &Flow,
        parts: &[IoSlice<'_>],
        set: &Set,
    ) -> Result<(), SendError> {
        let mut writing = self.writing.lock();
        self.send_on(&mut writing, flow, parts, set)?;
        let counted = self.count(&mut writing);
        if let (Err(_), Writing::Connecting(messages, _)) = (&counted, &mut *writing) {
            messages.truncate(messages.len() - parts.len());
        }
        counted
    }

    fn send_on(
        &self,
        writing: &mut Writing,
        flow: &Flow,
        parts: &[IoSlice<'_>],
        set: &Set,
    ) -> Result<(), SendError> {
        let wire = match writing {
            Writing::Connecting(messages, _) => {
                messages.extend(parts.iter().map(|part| (*flow, part.to_vec())));
                return Ok(());
            }
            Writing::Open(wire) => wire,
            Writing::Closed => return Err(SendError::Broken),
        };
        if !wire.is_empty() {
            return Ok(wire.push(parts)?);
        }
        let mut socket = &self.socket;
        if wire.is_plain() {
            let mut taken = taken(match parts {
                [part] => socket.write(part),
                _ => socket.write_vectored(parts),
            })?;
            self.taken.fetch_add(taken as u64, Ordering::Relaxed);
            for part in parts {
                let own = taken.min(part.len());
                wire.push(&[&part[own..]])?;
                taken -= own;
            }
        } else {
            wire.push(parts)?;
            self.write(wire)?;
        }
        // With `writing` locked: otherwise one thread could register for room to write while
        // another one unregisters.
        match wire.is_empty() {
            true => Ok(()),
            false => self.change(set, Wait::Both),
        }
    }

    /// Writes the output that waits, as far as there is room.
    pub(super) fn write(&self, wire: &mut Wire) -> Result<(), SendError> {
        if !wire.is_empty() {
            let taken = taken((&self.socket).write(wire.pending()))?;
            self.taken.fetch_add(taken as u64, Ordering::Relaxed);
            wire.consume(taken);
        }
        Ok(())
    }

    /// Updates the count of output that waits.
    ///
    /// # Errors
    /// [`SendError::Full`] if more waits than the limits allow.
    pub(super) fn count(&self, writing: &mut Writing) -> Result<(), SendError> {
        let waiting = writing.waiting();
        let before = self.counted.load(Ordering::Relaxed);
        if waiting == before {
            return Ok(());
        }
        let source = self.counted_for();
        if waiting > MAX_OF_ONE || !self.unsent.change(source, before, waiting) {
            return Err(SendError::Full);
        }
        self.counted.store(waiting, Ordering::Relaxed);
        Ok(())
    }

    /// Moves the count of output that waits from the source `before` to `after`. `writing` must be
    /// locked.
    pub(in super::super) fn move_output(&self, before: Source, after: Source) {
        let waiting = self.counted.load(Ordering::Relaxed);
        if waiting > 0 && before != after {
            self.unsent.change(before, waiting, 0);
            if !self.unsent.change(after, 0, waiting) {
                self.counted.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Returns true if output waits and the peer has taken nothing for [`WRITE_TIMEOUT`].
    pub(in super::super) fn is_stuck(&self, now: Instant) -> bool {
        let mut reading = self.reading.lock();
        let taken = self.taken.load(Ordering::Relaxed);
        if self.is_flushed() || reading.taken.0 != taken {
            reading.taken = (taken, now);
        }
        now.since(reading.taken.1) >= WRITE_TIMEOUT
    }

    /// Writes the output that waits, and unregisters from `set` when nothing waits any more.
    ///
    /// # Errors
    /// [`SendError`] if the connection is lost or could not be established.
    pub(in super::super) fn flush(&self, now: Instant, set: &Set) -> Result<(), SendError> {
        let mut reading = self.reading.lock();
        let mut writing = self.writing.lock();
        if let Writing::Connecting(..) = &*writing {
            match self.socket.take_error() {
                Ok(None) => {}
                Ok(Some(_)) | Err(_) => return Err(SendError::Broken),
            }
        }
        self.advance(&mut reading, &mut writing, now, set)
    }

    /// Marks the connection as open if its handshakes are done, and writes the output that waits.
    pub(super) fn advance(
        &self,
        reading: &mut Reading,
        writing: &mut Writing,
        now: Instant,
        set: &Set,
    ) -> Result<(), SendError> {
        self.advance_on(reading, writing, now, set)?;
        self.count(writing)
    }

    fn advance_on(
        &self,
        reading: &mut Reading,
        writing: &mut Writing,
        now: Instant,
        set: &Set,
    ) -> Result<(), SendError> {
        let wire = match writing {
            Writing::Connecting(messages, Some(wire)) if wire.is_ready() => {
                reading.patience = Patience::new(&TIMEOUTS, now);
                messages.iter().try_for_each(|(_, bytes)| wire.push(&[&bytes[..]]))?;
                wire
            }
            Writing::Connecting(_, Some(wire)) | Writing::Open(wire) => wire,
            Writing::Connecting(_, None) | Writing::Closed => return Ok(()),
        };
        self.write(wire)?;
        let (is_ready, is_empty) = (wire.is_ready(), wire.is_empty());
        // The connection counts as open only from here: if its first write fails, the messages that
        // wait are reported as failed.
        if is_ready
            && let Writing::Connecting(_, wire) = writing
            && let Some(wire) = wire.take()
        {
            *writing = Writing::Open(wire);
        }
        if !is_empty {
            return self.change(set, Wait::Both);
        }
        if reading.ending.is_some() {
            self.shut_down();
        }
        // The handshake has read these bytes already, so the socket does not become readable for
        // them. It is writable at once, which starts their processing.
        self.change(set, if reading.left.is_some() { Wait::Both } else { Wait::Read })
    }

    pub(super) fn change(&self, set: &Set, wait: Wait) -> Result<(), SendError> {
        set.change(&self.socket, self.connection, wait).map_err(|_| SendError::Broken)
    }
}

/// The number of bytes that the system has taken.
fn taken(written: io::Result<usize>) -> Result<usize, SendError> {
    match written {
        Ok(count) => Ok(count),
        Err(error) if is_passing(&error) => Ok(0),
        Err(_) => Err(SendError::Broken),
    }
}
