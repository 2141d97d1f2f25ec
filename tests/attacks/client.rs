//! A client that sends any text, from any address of this machine.

use net::tls::{self, ServerName};
use net::{Reader, Reply, Wire};
use peers::process::DEADLINE;
use peers::server::DOMAIN;
use sip::Message;
use sip::digest::DigestInput;
use sip::stream::StreamItem;
use sip::stream::websocket::{self, Kind};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use test_support::agent::credentials;

/// The nonce of WebSocket handshakes. No cache is between client and server.
const NONCE: [u8; 16] = [7; 16];
/// The host that WebSocket clients call.
const WEB_HOST: &str = "sip.example.com";
/// The maximum number of bytes that wait to be written.
const MAX_UNSENT: usize = 1 << 24;

/// A client of the server.
pub(crate) struct Client {
    link: Link,
    /// The local address.
    pub(crate) local: SocketAddr,
    /// The transport in Via.
    via: &'static str,
    /// The number of requests so far.
    number: u32,
}

enum Link {
    Datagrams(UdpSocket),
    Stream(Box<Stream>),
}

/// A connection over TCP, TLS or WebSocket.
struct Stream {
    socket: TcpStream,
    wire: Wire,
    reader: Reader,
    is_web: bool,
    is_open: bool,
    waiting: VecDeque<String>,
}

impl Client {
    /// A client on UDP at `from`.
    pub(crate) fn udp(from: SocketAddr, server: SocketAddr) -> Self {
        let socket = UdpSocket::bind(from).expect("the address can be bound");
        socket.connect(server).expect("the server is reachable");
        Self::of_socket(socket)
    }

    /// A client on the connected socket `socket`.
    pub(crate) fn of_socket(socket: UdpSocket) -> Self {
        let local = socket.local_addr().expect("the socket is bound");
        Self { link: Link::Datagrams(socket), local, via: "UDP", number: 0 }
    }

    /// A client on TCP.
    pub(crate) fn tcp(from: IpAddr, server: SocketAddr) -> io::Result<Self> {
        let (socket, wire) = (connect(from, server)?, Wire::new(None, MAX_UNSENT));
        Self::stream(socket, wire, Reader::default(), "TCP")
    }

    /// A client on TLS. The handshake is done.
    pub(crate) fn tls(from: IpAddr, server: SocketAddr, tls: &tls::Client) -> io::Result<Self> {
        let session = tls.connect(name(DOMAIN)).map_err(io::Error::other)?;
        let (socket, wire) = (connect(from, server)?, Wire::new(Some(session), MAX_UNSENT));
        let mut client = Self::stream(socket, wire, Reader::default(), "TLS")?;
        client.exchange_until(|stream| stream.wire.is_ready())?;
        Ok(client)
    }

    /// A client on WebSocket, with further `fields` in the HTTP request. With `tls` it is
    /// encrypted.
    pub(crate) fn web(
        from: IpAddr,
        server: SocketAddr,
        tls: Option<&tls::Client>,
        fields: &str,
    ) -> io::Result<Self> {
        let session = tls.map(|tls| tls.connect_web(name(WEB_HOST))).transpose();
        let wire = Wire::new(session.map_err(io::Error::other)?, MAX_UNSENT);
        let via = if tls.is_some() { "WSS" } else { "WS" };
        let reader = Reader::web_client(NONCE);
        let mut client = Self::stream(connect(from, server)?, wire, reader, via)?;
        let request =
            String::from_utf8(websocket::request(WEB_HOST, NONCE)).expect("the request is text");
        let request = request.replacen("\r\n\r\n", &format!("\r\n{fields}\r\n"), 1);
        client.exchange_until(|stream| stream.wire.is_ready())?;
        client.write(request.as_bytes())?;
        client.exchange_until(|stream| stream.is_open)?;
        Ok(client)
    }

    fn stream(
        socket: TcpStream,
        wire: Wire,
        reader: Reader,
        via: &'static str,
    ) -> io::Result<Self> {
        let local = socket.local_addr()?;
        let (is_web, waiting) = (via.starts_with("WS"), VecDeque::new());
        let stream = Stream { socket, wire, reader, is_web, is_open: false, waiting };
        Ok(Self { link: Link::Stream(Box::new(stream)), local, via, number: 0 })
    }

    /// A request outside of a dialog in the name of `from`, with further `fields`.
    pub(crate) fn request(&mut self, method: &str, uri: &str, from: &str, fields: &str) -> String {
        self.number += 1;
        let Self { local, via, number, .. } = self;
        let token = format!("{}-{number}", local.port());
        let to = if method == "REGISTER" { from } else { uri };
        format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/{via} {local};branch=z9hG4bK{token};rport\r\n\
             Max-Forwards: 70\r\nFrom: <{from}>;tag={token}\r\nTo: <{to}>\r\n\
             Call-ID: {token}@{local}\r\nCSeq: {number} {method}\r\n{fields}\
             Contact: <sip:x@{local};transport={transport}>\r\nContent-Length: 0\r\n\r\n",
            transport = if via.starts_with("WS") { "ws".into() } else { via.to_ascii_lowercase() },
        )
    }

    /// An OPTIONS request of a stranger to the server itself.
    pub(crate) fn options(&mut self) -> String {
        self.request("OPTIONS", &format!("sip:{DOMAIN}"), "sip:stranger@other.test", "")
    }

    /// Sends `text`.
    pub(crate) fn send(&mut self, text: &str) -> io::Result<()> {
        match &mut self.link {
            Link::Datagrams(socket) => socket.send(text.as_bytes()).map(drop),
            Link::Stream(stream) if stream.is_web => {
                let mut frame = Vec::new();
                websocket::write_frame(&mut frame, Kind::Text, Some([1; 4]), text.as_bytes());
                self.write(&frame)
            }
            Link::Stream(_) => self.write(text.as_bytes()),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Link::Stream(stream) = &mut self.link else { return Ok(()) };
        stream.wire.push(&[bytes]).map_err(io::Error::other)?;
        stream.flush()
    }

    /// Sends `request` and returns the final response to it. Over UDP the request is retransmitted.
    ///
    /// # Errors
    /// The connection is closed, or no response arrives.
    pub(crate) fn ask(&mut self, request: &str) -> io::Result<String> {
        self.ask_at_most(usize::MAX, request)
    }

    /// Like [`Client::ask`]. Over UDP the request is sent at most `times` times.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub(crate) fn ask_at_most(&mut self, times: usize, request: &str) -> io::Result<String> {
        self.send(request)?;
        self.response_at_most(times - 1, request)
    }

    /// Returns the final response to `request`, which was sent before.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub(crate) fn response(&mut self, request: &str) -> io::Result<String> {
        self.response_at_most(usize::MAX, request)
    }

    /// Returns the final response to `request`, which was sent before. Over UDP it is sent again at
    /// most `times` times.
    fn response_at_most(&mut self, mut times: usize, request: &str) -> io::Result<String> {
        const INTERVAL: Duration = Duration::from_millis(500);
        let (call, mut sent) = (value(request, "Call-ID"), Instant::now());
        let end = sent + DEADLINE;
        loop {
            let is_due = times > 0 && sent.elapsed() >= INTERVAL;
            if matches!(self.link, Link::Datagrams(_)) && is_due {
                self.send(request)?;
                (times, sent) = (times - 1, Instant::now());
            }
            match self.receive(INTERVAL) {
                Ok(text) => {
                    let is_final = status(&text).is_some_and(|status| status >= 200);
                    if is_final && value(&text, "Call-ID") == call {
                        return Ok(text);
                    }
                }
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
            if Instant::now() >= end {
                return Err(ErrorKind::TimedOut.into());
            }
        }
    }

    /// Sends a request of `user` without credentials, then with credentials. Returns the final
    /// response.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub(crate) fn log_in(
        &mut self,
        method: &str,
        uri: &str,
        user: &str,
        password: &str,
        fields: &str,
    ) -> io::Result<String> {
        let from = format!("sip:{user}@{DOMAIN}");
        let request = self.request(method, uri, &from, fields);
        let challenged = self.ask(&request)?;
        let mut login = Login::new(&challenged, user, password);
        let request = self.request(method, uri, &from, &(login.line(method, uri) + fields));
        self.ask(&request)
    }

    /// Registers the contact of the client for `user`. Returns the final response.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub(crate) fn register(&mut self, user: &str, password: &str) -> io::Result<String> {
        self.log_in("REGISTER", &format!("sip:{DOMAIN}"), user, password, "")
    }

    /// Waits for the next message, at most `patience`.
    fn receive(&mut self, patience: Duration) -> io::Result<String> {
        match &mut self.link {
            Link::Datagrams(socket) => {
                socket.set_read_timeout(Some(patience))?;
                let mut bytes = [0; 65_536];
                let length = socket.recv(&mut bytes)?;
                Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
            }
            Link::Stream(stream) => {
                let end = Instant::now() + patience;
                while stream.waiting.is_empty() {
                    stream.exchange(end)?;
                }
                Ok(stream.waiting.pop_front().unwrap_or_default())
            }
        }
    }

    fn exchange_until(&mut self, is_done: impl Fn(&Stream) -> bool) -> io::Result<()> {
        let (Link::Stream(stream), end) = (&mut self.link, Instant::now() + DEADLINE) else {
            return Ok(());
        };
        while !is_done(stream) {
            stream.exchange(end)?;
        }
        Ok(())
    }
}

impl Stream {
    /// Writes the pending output.
    fn flush(&mut self) -> io::Result<()> {
        self.socket.write_all(self.wire.pending())?;
        self.wire.consume(self.wire.pending().len());
        Ok(())
    }

    /// Writes the pending output and reads once, until `end`.
    fn exchange(&mut self, end: Instant) -> io::Result<()> {
        self.flush()?;
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        self.socket.set_read_timeout(Some(left))?;
        let mut chunk = [0; 16 << 10];
        let count = self.socket.read(&mut chunk)?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let plain = self.wire.receive(&chunk[..count]);
        let _ = self.flush();
        let plain = plain.map_err(io::Error::other)?.into_owned();
        let Self { waiting, is_open, .. } = self;
        let hear = |heard: StreamItem<'_>| {
            if let StreamItem::Message(bytes) = heard {
                waiting.push_back(String::from_utf8_lossy(bytes).into_owned());
            }
            ControlFlow::Continue(())
        };
        let reply = |reply| *is_open |= reply == Reply::Open;
        self.reader.receive(&plain, hear, reply).map(drop).map_err(io::Error::other)
    }
}

/// The credentials of a user for one challenge.
pub(crate) struct Login {
    /// The response with the challenge.
    challenged: String,
    user: String,
    password: String,
    /// The uses of the nonce so far.
    count: u32,
}

impl Login {
    pub(crate) fn new(challenged: &str, user: &str, password: &str) -> Self {
        let [challenged, user, password] = [challenged, user, password].map(str::to_owned);
        Self { challenged, user, password, count: 0 }
    }

    /// The header field line with credentials for a request without body.
    pub(crate) fn line(&mut self, method: &str, uri: &str) -> String {
        self.count += 1;
        let message = Message::parse(self.challenged.as_bytes()).expect("a response");
        let request = DigestInput { method: method.as_bytes(), uri: uri.as_bytes(), body: b"" };
        let Self { user, password, count, .. } = self;
        credentials(&message, user, password, &request, b"cnonce", *count)
    }
}

/// The status code of a response.
pub(crate) fn status(text: &str) -> Option<u16> {
    text.strip_prefix("SIP/2.0 ")?.get(..3)?.parse().ok()
}

/// The value of the first header field `name`.
fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn name(host: &'static str) -> ServerName<'static> {
    ServerName::try_from(host).expect("the host is a DNS name")
}

/// Connects from an address of this machine.
pub(crate) fn connect(from: IpAddr, server: SocketAddr) -> io::Result<TcpStream> {
    let socket = net::connect(Some(SocketAddr::new(from, 0)), server)?;
    // A write to a connecting socket waits for the connection.
    socket.set_nonblocking(false)?;
    socket.set_write_timeout(Some(DEADLINE))?;
    Ok(socket)
}
