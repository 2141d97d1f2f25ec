//! The events of connections: input, room for output, and timeouts.

use super::*;
use std::sync::atomic::AtomicBool;

impl Connections {
    /// Serves the ready connections of the worker `owner`: reads their input and processes it,
    /// unless older input waits. `chunk` is the read buffer.
    pub(in crate::serve) fn serve(
        &self,
        doer: &dyn CarryOut,
        owner: usize,
        local: &mut Local,
        chunk: &mut [u8; READ_SIZE],
    ) {
        let Owned { set, backlog } = &self.owned[owner];
        let backlog = &mut *backlog.lock();
        let begun = self.clock.now();
        let mut room = Room { chunk, more: MORE_CHUNKS };
        for _ in 0..ROUNDS {
            let ready = match set.ready() {
                Ok(ready) => ready,
                Err(error) => {
                    log::error("connections", || format!("connections cannot be read: {error}"));
                    break;
                }
            };
            let mut count = 0;
            for (token, flags) in ready {
                count += 1;
                match token {
                    Token::Listener(place) => self.accept(set, place),
                    Token::Connection(connection) => {
                        // An earlier event may have closed it.
                        if let Some(stream) = self.get(connection) {
                            self.attend(doer, &stream, flags, backlog, &mut room, local);
                        }
                    }
                }
                if local.out.transmits.len() >= AT_ONCE {
                    doer.carry_out(local);
                }
            }
            backlog.reading = self.clock.now().since(begun).min(LONGEST_READING.times(2));
            if count < EVENTS || backlog.reading >= LONGEST_READING {
                break;
            }
        }
        doer.carry_out(local);
    }

    /// Returns true if input waits in the backlog of the worker `owner`.
    pub(in crate::serve) fn has_backlog(&self, owner: usize) -> bool {
        !self.owned[owner].backlog.lock().is_empty()
    }

    /// The waiting time of the oldest input in the backlog of the worker `owner`.
    pub(in crate::serve) fn longest_wait(&self, owner: usize, now: Instant) -> Duration {
        self.owned[owner].backlog.lock().longest_wait(now)
    }

    /// Processes the backlog of the worker `owner` for at most as long as the last reading took.
    /// That keeps up with the input under load, and leaves time for other work.
    pub(in crate::serve) fn work_off(&self, doer: &dyn CarryOut, owner: usize, local: &mut Local) {
        let backlog = &mut *self.owned[owner].backlog.lock();
        let begun = self.clock.now();
        let mut now = begun;
        loop {
            while let Some(waiting) = backlog.pop(now) {
                if !waiting.stream.is_closed() {
                    self.work_on(doer, waiting, now, local);
                }
            }
            doer.carry_out(local);
            if backlog.is_empty() {
                break;
            }
            now = self.clock.now();
            if now.since(begun) >= backlog.reading {
                break;
            }
        }
        backlog.reading = Duration::ZERO;
    }

    /// Closes the expired connections of the worker `owner`.
    pub(in crate::serve) fn look_after(
        &self,
        doer: &dyn CarryOut,
        owner: usize,
        now: Instant,
        local: &mut Local,
    ) {
        let set = &self.owned[owner].set;
        while let Some(token) = set.due(now) {
            match token {
                Token::Listener(place) => {
                    let listening = self.listeners.get(place);
                    let again = listening.map(|listening| set.listen(&listening.socket, place));
                    if let Some(Err(_)) = again {
                        set.remind(now + ACCEPT_PAUSE, token);
                    }
                }
                Token::Connection(connection) => {
                    let Some(stream) = self.get(connection) else { continue };
                    let due = stream.due();
                    if stream.is_stuck(now) {
                        self.note_unread(&stream);
                        self.end(&stream, &mut local.failed);
                        continue;
                    }
                    match due <= now || !stream.is_there(now, set) {
                        true => self.end(&stream, &mut local.failed),
                        false => set.remind(due.min(now + ROUND), token),
                    }
                }
            }
        }
        if !local.failed.is_empty() {
            doer.carry_out(local);
        }
    }

    fn accept(&self, set: &Set, place: usize) {
        let Some(listening) = self.listeners.get(place) else { return };
        for _ in 0..ACCEPT_AT_ONCE {
            match listening.socket.accept() {
                Ok((socket, remote)) => self.admit(listening, socket, remote),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return,
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => {
                        log::warn("accept", || format!("a connection cannot be accepted: {error}"));
                        // Probably the process is out of descriptors: other connections have to end
                        // first.
                        set.pause(&listening.socket);
                        set.remind(self.clock.now() + ACCEPT_PAUSE, Token::Listener(place));
                        return;
                    }
                },
            }
        }
    }

    fn admit(&self, listening: &Listening, socket: TcpStream, remote: SocketAddr) {
        // The client behind a proxy is not known yet.
        let is_proxy = self.engine.is_proxy(remote.ip());
        let source = Some(Source::of(remote.ip())).filter(|_| !is_proxy);
        if !self.has_room_for(source) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return log::warn("connections", || {
                format!("a connection from {remote} is refused: too many are open")
            });
        }
        let transport = listening.transport;
        let flow = Flow { transport, local: listening.address, remote, connection: None };
        let needs_handshake = transport.is_secure() && !is_proxy;
        if needs_handshake && !self.engine.admits_handshake(&flow, self.clock.now()) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return log::warn("connections", || {
                format!("a connection from {remote} is refused: it opens too many, or is banned")
            });
        }
        // Each write is a whole message: Nagle's algorithm would only delay it.
        let prepared = socket.set_nonblocking(true).and_then(|()| socket.set_nodelay(true));
        // With a wildcard address the system knows the local address that the peer used.
        let local = match listening.address.ip().is_unspecified() {
            true => prepared.and_then(|()| socket.local_addr()),
            false => prepared.map(|()| listening.address),
        };
        let tls = self.tls.accept(transport).transpose().map_err(io::Error::other);
        let begun = local.and_then(|local| Ok((local, tls?))).and_then(|(local, tls)| {
            self.add(Wait::Read, |connection| {
                let flow = Flow { local, ..flow };
                let stream = Stream::accepted(socket, connection, flow, tls, self.clock.now());
                let stream = if is_proxy { stream.of_proxy() } else { stream };
                match transport {
                    Transport::Ws | Transport::Wss => stream
                        .of_web(self.tls.origins(transport))
                        .serving(self.tls.documents(transport, is_proxy)),
                    _ => stream,
                }
            })
        });
        if let Err(error) = begun {
            log::warn("accept", || format!("the connection from {remote} is lost: {error}"));
        }
    }

    /// Handles the events `flags` of `stream`.
    fn attend(
        &self,
        doer: &dyn CarryOut,
        stream: &Arc<Stream>,
        flags: EpollFlags,
        backlog: &mut Waiters,
        room: &mut Room<'_>,
        local: &mut Local,
    ) {
        let now = self.clock.now();
        let is_broken = EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP;
        if flags.intersects(EpollFlags::EPOLLOUT | is_broken)
            && stream.flush(now, self.set_of(stream.connection)).is_err()
        {
            return self.end(stream, &mut local.failed);
        }
        match stream.ending() {
            None => {}
            Some(Ending::ByPeer) if stream.is_flushed() || flags.intersects(is_broken) => {
                return self.end(stream, &mut local.failed);
            }
            Some(Ending::ByPeer) => return,
            Some(Ending::Discarding) => {
                if !stream.discard(room.chunk) {
                    self.begin_end(stream, Ending::ByPeer, now, local);
                }
                return;
            }
        }
        if flags.intersects(EpollFlags::EPOLLIN | is_broken) || stream.has_left() {
            self.read(doer, stream, now, backlog, room, local);
        }
    }

    /// Reads from `stream` as much as there is room for, and processes or queues it.
    fn read(
        &self,
        doer: &dyn CarryOut,
        stream: &Arc<Stream>,
        now: Instant,
        backlog: &mut Waiters,
        room: &mut Room<'_>,
        local: &mut Local,
    ) {
        if stream.is_greeting() && !self.has_greeted(stream, now, local) {
            return;
        }
        if stream.is_handshaking() {
            // A handshake costs much processor time: a thread of its own makes it.
            self.set_of(stream.connection).remove(&stream.socket);
            return self.handshakes.push(stream);
        }
        for number in 0..CHUNKS {
            if !backlog.has_room_for(stream.connection) {
                return stream.excuse(now);
            }
            if number > 0 {
                let Some(more) = room.more.checked_sub(1) else { return };
                room.more = more;
            }
            let waited = backlog.wait_for(stream.connection, now);
            let has_answered = false;
            let mut reader = Reader {
                connections: self,
                doer,
                stream,
                now,
                waited,
                has_answered,
                backlog,
                local,
            };
            let set = self.set_of(stream.connection);
            let read = stream.read(now, room.chunk, set, |heard| reader.hear(heard));
            if !self.admits_client(stream, now, local) {
                return;
            }
            let what = match read {
                Ok(More::Now) => continue,
                Ok(More::Later) => return,
                Ok(More::Never) => Arrival::End,
                Err(ReadError::Fault(fault)) => Arrival::Fault(fault),
                Err(ReadError::Tls(error)) => {
                    self.tls_failures.fetch_add(1, Ordering::Relaxed);
                    log::warn("tls", || {
                        format!("TLS with {} fails: {error}", stream.flow().remote)
                    });
                    Arrival::End
                }
            };
            let last = Waiting { stream: Arc::clone(stream), since: now, what };
            return match backlog.takes_turn() {
                true => self.work_on(doer, last, now, local),
                false => backlog.push(stream.connection, last),
            };
        }
    }

    /// Processes one element of the backlog at `now`.
    fn work_on(
        &self,
        doer: &dyn CarryOut,
        waiting: Waiting<Arc<Stream>>,
        now: Instant,
        local: &mut Local,
    ) {
        let Waiting { stream, since, what } = waiting;
        match what {
            Arrival::Message(message) => {
                self.receive(doer, &stream, now, now.since(since), &message, local);
            }
            Arrival::End => {
                doer.carry_out(local);
                self.begin_end(&stream, Ending::ByPeer, now, local);
            }
            Arrival::Fault(fault) => {
                log::warn("stream", || {
                    format!("the connection from {} is closed: {fault}", stream.flow().remote)
                });
                self.refuse(doer, &stream, &fault, local);
            }
        }
    }

    /// Passes a message that has `waited` to the engine. Returns false if the connection has been
    /// closed meanwhile because its peer does not read. Further messages of it would be answered on
    /// another connection.
    fn receive(
        &self,
        doer: &dyn CarryOut,
        stream: &Stream,
        now: Instant,
        waited: Duration,
        message: &[u8],
        local: &mut Local,
    ) -> bool {
        if stream.is_introduced() {
            self.note_alias(stream, message);
        }
        if !local.receive(now, waited, &stream.flow(), message) {
            doer.received(local.index, &stream.flow(), message);
        }
        if local.out.transmits.len() < PARTS {
            return true;
        }
        doer.carry_out(local);
        !stream.is_closed()
    }

    /// Ends a connection after a framing error. Responds to the message if its head is complete.
    fn refuse(&self, doer: &dyn CarryOut, stream: &Stream, fault: &Fault, local: &mut Local) {
        let now = self.clock.now();
        if let FrameError::ContentLength(length) = fault.error {
            let head = &fault.rest[..length];
            local.worker.refuse_unframed(now, &stream.flow(), head, &mut local.out);
        }
        doer.carry_out(local);
        self.begin_end(stream, Ending::Discarding, now, local);
    }

    /// Ends a connection once the peer has taken the output that waits.
    fn begin_end(&self, stream: &Stream, ending: Ending, now: Instant, local: &mut Local) {
        let (due, set) = (now + END_TIMEOUT, self.set_of(stream.connection));
        match stream.begin_end(ending, due, set) {
            Ok(false) => set.remind(due, Token::Connection(stream.connection)),
            Ok(true) | Err(_) => self.end(stream, &mut local.failed),
        }
    }

    /// The time at which the connections of the worker `owner` are to be checked next.
    pub(in crate::serve) fn next_due(&self, owner: usize) -> Option<Instant> {
        self.owned[owner].set.next_due()
    }
}

/// The read buffer, and the number of reads left beyond the first of each connection.
struct Room<'r> {
    chunk: &'r mut [u8; READ_SIZE],
    more: usize,
}

/// Passes the input of a connection to the engine, or queues it.
struct Reader<'r> {
    connections: &'r Connections,
    doer: &'r dyn CarryOut,
    stream: &'r Arc<Stream>,
    now: Instant,
    /// The time that a message received now has to wait, by the present backlog.
    waited: Duration,
    /// True if a keep-alive ping has been answered in this turn (RFC 5626).
    has_answered: bool,
    backlog: &'r mut Waiters,
    local: &'r mut Local,
}

impl Reader<'_> {
    fn hear(&mut self, heard: StreamItem<'_>) -> ControlFlow<()> {
        let goes_on = match heard {
            StreamItem::Message(bytes) => self.on_message(bytes),
            StreamItem::Ping => self.on_ping(),
        };
        if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn on_message(&mut self, bytes: &[u8]) -> bool {
        let Self { connections, doer, stream, now, waited, backlog, local, .. } = self;
        if !local.worker.lets_in(bytes, *waited) {
            return true;
        }
        if backlog.takes_turn() {
            return connections.receive(*doer, stream, *now, Duration::ZERO, bytes, local);
        }
        let what = Arrival::Message(bytes.into());
        let waiting = Waiting { stream: Arc::clone(stream), since: *now, what };
        backlog.push(stream.connection, waiting);
        true
    }

    fn on_ping(&mut self) -> bool {
        if std::mem::replace(&mut self.has_answered, true) {
            return true;
        }
        // Requests before the ping are answered before it, unless they have to wait.
        self.doer.carry_out(self.local);
        let (stream, failed) = (self.stream, &mut self.local.failed);
        self.connections.send_on(stream, &stream.flow(), &[IoSlice::new(PONG)], failed)
    }
}

impl Connections {
    /// Runs one handshake thread until `ending` is set.
    pub(in crate::serve) fn shake_hands(&self, ending: &AtomicBool) {
        let mut chunk = [0; READ_SIZE];
        while let Some((charged, stream)) = self.handshakes.take(self.clock, ending) {
            let begun = net::thread_time();
            let set = self.set_of(stream.connection);
            stream.shake_hands(self.clock.now(), &mut chunk, set, |certificates| {
                self.tls.names(certificates)
            });
            let cost = Duration::from_micros(net::thread_time().saturating_sub(begun) / 1000);
            if !self.engine.is_trusted(&stream.flow()) {
                self.handshakes.charge(charged, cost, self.clock.now());
            }
        }
    }

    /// Wakes the handshake threads, which then check their `ending` flag.
    pub(in crate::serve) fn wake_handshakes(&self) {
        self.handshakes.wake_all();
    }
}
