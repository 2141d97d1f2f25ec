//! ICE of one call: the agent on the media socket, and the connections to TURN servers.

use crate::random::random;
use ice_agent::{Agent, Event, Output, TurnServer, TurnTransport};
use net::Wire;
use net::tls::{Client, ServerName};
use nix::poll::{PollFd, PollFlags};
use sdp::SessionDescription;
use sdp::ice::IceParameters;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant, SystemTime};

/// Time limit for establishing a connection to a TURN server, with TLS.
const CONNECTING: Duration = Duration::from_secs(10);
/// Maximum number of unsent octets for a TURN server that does not read.
const MAX_UNSENT: usize = 64 << 10;
/// Maximum number of reads of a connection per turn.
const READS: usize = 16;
/// Maximum number of datagrams of the peer that wait for the call.
const MAX_WAITING: usize = 256;

/// The servers of ICE.
#[derive(Clone, Debug, Default)]
pub(crate) struct IceSetup {
    /// The STUN servers.
    pub(crate) stun: Vec<SocketAddr>,
    /// The TURN servers, each with its name if it is reached with TLS.
    pub(crate) turn: Vec<(TurnServer, Option<ServerName<'static>>)>,
    /// The TLS client, if there is a server with TLS.
    pub(crate) tls: Option<Client>,
}

/// The port of a description without an address yet (RFC 8840 section 4.1.1).
const DISCARD: u16 = 9;

/// A datagram of the peer: its arrival, and its contents.
pub(crate) type ReceivedDatagram = (SystemTime, Vec<u8>);

/// The agent of one call.
pub(crate) struct Ice {
    agent: Agent,
    socket: UdpSocket,
    local: SocketAddr,
    streams: Vec<Option<Stream>>,
    heard: VecDeque<ReceivedDatagram>,
    events: VecDeque<Event>,
}

/// The connection to a TURN server.
struct Stream {
    socket: TcpStream,
    wire: Wire,
    opened: Instant,
    is_connected: bool,
    /// True once the agent uses it.
    is_used: bool,
}

impl Ice {
    /// Begins to gather candidates for `socket`.
    ///
    /// # Errors
    /// The address of the socket cannot be a candidate.
    pub(crate) fn open(socket: &UdpSocket, setup: &IceSetup) -> io::Result<Self> {
        let (socket, local) = (socket.try_clone()?, socket.local_addr()?);
        let turn: Vec<TurnServer> = setup.turn.iter().map(|(server, _)| server.clone()).collect();
        let now = Instant::now();
        let agent = Agent::new(&[local], &setup.stun, &turn, false, random, now);
        let agent = agent.map_err(|error| io::Error::other(error.to_string()))?;
        let (heard, events) = (VecDeque::new(), VecDeque::new());
        let mut ice = Self { agent, socket, local, streams: Vec::new(), heard, events };
        for (index, (server, name)) in setup.turn.iter().enumerate() {
            let stream = match server.transport {
                TurnTransport::Udp => None,
                TurnTransport::Stream => {
                    let stream = Stream::open(server.address, name.as_ref(), setup.tls.as_ref());
                    let agent = &mut ice.agent;
                    let failed = |error: io::Error| {
                        agent.disconnected(now, index, error.to_string());
                    };
                    stream.map_err(failed).ok()
                }
            };
            ice.streams.push(stream);
        }
        ice.turn();
        Ok(ice)
    }

    /// The lines for the local description.
    pub(crate) fn lines(&self) -> String {
        self.agent.description()
    }

    /// Returns true if the description has all candidates.
    pub(crate) const fn is_gathered(&self) -> bool {
        self.agent.is_gathered()
    }

    /// The public address of the socket, if it is another one than the local address.
    pub(crate) fn mapped(&self) -> Option<SocketAddr> {
        self.agent.default_address().filter(|address| *address != self.local)
    }

    /// Makes this end the controlling one: that of the first offer.
    pub(crate) fn control(&mut self, is_controlling: bool) {
        self.agent.control(is_controlling);
    }

    /// Returns true if a description uses ICE.
    pub(crate) fn understands(&self, description: &[u8]) -> bool {
        with_parameters(description, |_| ()).is_some()
    }

    /// Prepares the answer to an offer. Returns the new lines of the local description if the offer
    /// restarts ICE.
    pub(crate) fn prepare_answer(&mut self, offer: &[u8]) -> Option<String> {
        let restarts = with_parameters(offer, |remote| self.agent.is_restart(remote));
        restarts.filter(|restarts| *restarts)?;
        self.agent.restart(Instant::now());
        Some(self.lines())
    }

    /// Follows a description of the peer, and begins the checks. Returns false if it has no ICE.
    pub(crate) fn follow(&mut self, description: &[u8]) -> bool {
        let now = Instant::now();
        let found = with_parameters(description, |remote| self.agent.set_remote(now, remote));
        self.turn();
        found.is_some()
    }

    /// Handles a datagram that the media socket has received.
    pub(crate) fn receive(&mut self, at: SystemTime, from: SocketAddr, datagram: &[u8]) {
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        self.agent.receive(Instant::now(), self.local, from, datagram);
        self.flush(at);
    }

    /// The next datagram of the peer.
    pub(crate) fn next_heard(&mut self) -> Option<ReceivedDatagram> {
        self.heard.pop_front()
    }

    /// The next event.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Sends a datagram over the nominated pair; without one it is lost.
    pub(crate) fn send(&mut self, datagram: &[u8]) {
        self.agent.send(datagram);
        self.flush(SystemTime::now());
    }

    /// The time until [`Ice::turn`] is due.
    pub(crate) fn wait(&mut self) -> Duration {
        let connecting = self.streams.iter().flatten().filter(|stream| !stream.is_used);
        let limit = connecting.map(|stream| stream.opened + CONNECTING).min();
        let next = self.agent.next_timer().into_iter().chain(limit).min();
        next.map_or(CONNECTING, |next| next.saturating_duration_since(Instant::now()))
    }

    /// The connections to TURN servers, and the events that [`Ice::turn`] serves.
    pub(crate) fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.streams.iter().flatten().map(|stream| {
            let mut flags = PollFlags::POLLIN;
            let has_output = !stream.is_connected || !stream.wire.is_empty();
            flags.set(PollFlags::POLLOUT, has_output);
            PollFd::new(stream.socket.as_fd(), flags)
        })
    }

    /// The relayed address at a TURN server.
    pub(crate) fn relayed(&self, server: usize) -> Option<SocketAddr> {
        self.agent.relayed(server)
    }

    /// Reads and writes the connections, and does all that is due.
    pub(crate) fn turn(&mut self) {
        let now = Instant::now();
        for index in 0..self.streams.len() {
            let Some(stream) = &mut self.streams[index] else { continue };
            let agent = &mut self.agent;
            if let Err(error) = stream.turn(|event| event.tell(agent, now, index)) {
                self.streams[index] = None;
                agent.disconnected(now, index, error.to_string());
            }
        }
        if self.agent.next_timer().is_some_and(|timer| timer <= now) {
            self.agent.on_timer(now);
        }
        self.flush(SystemTime::now());
    }

    /// Sends the outputs of the agent. Datagrams of the peer have arrived at `at`.
    fn flush(&mut self, at: SystemTime) {
        while let Some(output) = self.agent.poll() {
            match output {
                Output::Datagram { remote, bytes, .. } => {
                    // A failed datagram counts as lost.
                    let _ = self.socket.send_to(&bytes, remote);
                }
                Output::Stream { server, bytes } => {
                    if let Some(stream) = self.streams.get_mut(server).and_then(Option::as_mut) {
                        // Without room it is lost, like a datagram.
                        let _ = stream.wire.push(&[&bytes[..]]);
                        let _ = stream.write();
                    }
                }
                Output::Media { bytes, .. } if self.heard.len() < MAX_WAITING => {
                    self.heard.push_back((at, bytes));
                }
                Output::Media { .. } => {}
                Output::Event(event) => self.events.push_back(event),
            }
        }
    }
}

impl Drop for Ice {
    /// Gives relayed addresses back.
    fn drop(&mut self) {
        self.agent.close(Instant::now());
        self.flush(SystemTime::now());
    }
}

/// An event of a connection.
enum StreamEvent<'a> {
    Connected,
    Received(&'a [u8]),
}

impl StreamEvent<'_> {
    fn tell(self, agent: &mut Agent, now: Instant, server: usize) {
        match self {
            Self::Connected => agent.connected(now, server),
            Self::Received(bytes) => agent.receive_stream(now, server, bytes),
        }
    }
}

impl Stream {
    fn open(
        server: SocketAddr,
        name: Option<&ServerName<'static>>,
        tls: Option<&Client>,
    ) -> io::Result<Self> {
        let session = match (name, tls) {
            (Some(name), Some(tls)) => {
                Some(tls.connect_turn(name.clone()).map_err(io::Error::other)?)
            }
            _ => None,
        };
        let wire = Wire::new(session, MAX_UNSENT);
        let socket = net::connect(None, server)?;
        let opened = Instant::now();
        Ok(Self { socket, wire, opened, is_connected: false, is_used: false })
    }

    /// Reads and writes as far as possible.
    ///
    /// # Errors
    /// The connection has ended, or was not established in time.
    fn turn(&mut self, mut each: impl FnMut(StreamEvent<'_>)) -> io::Result<()> {
        if !self.is_used && self.opened.elapsed() > CONNECTING {
            let text = format!("no answer within {} s", CONNECTING.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        if !self.is_connected {
            if let Some(error) = self.socket.take_error()? {
                return Err(error);
            }
            self.is_connected = self.socket.peer_addr().is_ok();
            if !self.is_connected {
                return Ok(());
            }
        }
        self.write()?;
        let mut chunk = [0; 4096];
        for _ in 0..READS {
            if !self.is_used && self.wire.is_ready() {
                self.is_used = true;
                each(StreamEvent::Connected);
            }
            let length = match self.socket.read(&mut chunk) {
                Ok(0) => return Err(io::Error::other("the server has closed it")),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let plain = self.wire.receive(&chunk[..length]).map_err(io::Error::other);
            self.write()?;
            let plain = plain?;
            if !plain.is_empty() {
                each(StreamEvent::Received(&plain));
            }
        }
        self.write()
    }

    fn write(&mut self) -> io::Result<()> {
        while self.is_connected && !self.wire.is_empty() {
            match self.socket.write(self.wire.pending()) {
                Ok(count) => self.wire.consume(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Calls `each` with the parameters of ICE of the audio in a description. `None` if it has none, or
/// if a server on the way has put another address in the place of the author's (RFC 8839 section
/// 4.2.5).
fn with_parameters<T>(description: &[u8], each: impl FnOnce(&IceParameters<'_>) -> T) -> Option<T> {
    let session = SessionDescription::parse(description).ok()?;
    let is_audio = |media: &&sdp::MediaDescription<'_>| {
        media.media_type.eq_ignore_ascii_case("audio") && media.port != 0
    };
    let media = session.media.iter().find(is_audio)?;
    let parameters = IceParameters::of(media, &session).ok()??;
    let default = session.address(media).and_then(|address| address.parse::<IpAddr>().ok());
    // An author that sends its candidates later, or holds the call, has no address.
    let default = default.filter(|ip| !ip.is_unspecified() && media.port != DISCARD);
    let default = default.map(|ip| SocketAddr::new(ip, media.port));
    let mut known = parameters.candidates.iter().filter_map(|it| it.socket_address());
    let is_theirs = default.is_none_or(|default| known.any(|it| it == default));
    is_theirs.then(|| each(&parameters))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> (UdpSocket, Ice) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let ice = Ice::open(&socket, &IceSetup::default()).unwrap();
        (socket, ice)
    }

    /// The description of an end, with its address in `c=` and `m=`.
    fn description(ice: &Ice, address: SocketAddr) -> Vec<u8> {
        let (ip, port, lines) = (address.ip(), address.port(), ice.lines());
        format!("v=0\r\nc=IN IP4 {ip}\r\nm=audio {port} RTP/AVP 0\r\n{lines}").into_bytes()
    }

    fn turn(socket: &UdpSocket, ice: &mut Ice) {
        let mut datagram = [0; 2048];
        while let Ok((length, from)) = socket.recv_from(&mut datagram) {
            ice.receive(SystemTime::now(), from, &datagram[..length]);
        }
        ice.turn();
    }

    #[test]
    fn two_ends_find_one_another_and_pass_media() {
        let ((one, mut first), (other, mut second)) = (open(), open());
        first.control(true);
        let (offer, answer) =
            (description(&first, first.local), description(&second, second.local));
        assert!(second.follow(&offer) && first.follow(&answer));
        let heard = loop {
            turn(&one, &mut first);
            turn(&other, &mut second);
            first.send(&[0x80; 12]);
            if let Some((_, datagram)) = second.next_heard() {
                break datagram;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(heard, [0x80; 12]);
        let is_selected = |event| matches!(event, Some(Event::Selected(_)));
        assert!(std::iter::from_fn(|| first.next_event()).any(|event| is_selected(Some(event))));
        assert_eq!(second.prepare_answer(&offer), None, "the same credentials restart nothing");
        first.agent.restart(Instant::now());
        let lines = second.lines();
        let new = second.prepare_answer(&description(&first, first.local));
        assert!(new.is_some_and(|new| new != lines));
    }

    #[test]
    fn ice_is_not_used_if_a_server_has_changed_the_address() {
        let (_, ice) = open();
        assert!(ice.understands(&description(&ice, ice.local)));
        assert!(!ice.understands(&description(&ice, ([192, 0, 2, 9], 4000).into())));
        let held = description(&ice, ([0, 0, 0, 0], ice.local.port()).into());
        assert!(ice.understands(&held), "a held call has no address");
        assert!(!ice.understands(b"v=0\r\nc=IN IP4 192.0.2.9\r\nm=audio 4 RTP/AVP 0\r\n"));
    }
}
