//! The bare relay: the least that a relay in user space does for a packet, as the reference for
//! `docs/benchmarks/media`. A port for each leg, connected to the address that the description
//! names; one wait for many sockets, one system call to receive a packet and one to send it.
//! Packets are not parsed, and nothing is counted. Kamailio sets up its calls by the NG protocol.
//!
//! `bare-relay NG_ADDRESS MEDIA_ADDRESS`

use ng::{Command, Request, Response};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// The event of the socket of the NG protocol.
const NG: u64 = u64::MAX;

/// A relay of calls with one medium each.
struct Relay {
    media: IpAddr,
    epoll: Epoll,
    /// The sockets in pairs: towards the caller and towards the callee. The other socket of number
    /// `n` is `n ^ 1`.
    sockets: Vec<UdpSocket>,
    /// The number of the first socket of a call, by its Call-ID.
    calls: HashMap<Vec<u8>, usize>,
}

impl Relay {
    /// Opens the ports of a call, unless they are open.
    fn open(&mut self, call_id: &[u8]) -> io::Result<usize> {
        if let Some(&first) = self.calls.get(call_id) {
            return Ok(first);
        }
        let first = self.sockets.len();
        for _ in 0..2 {
            let socket = UdpSocket::bind((self.media, 0))?;
            socket.set_nonblocking(true)?;
            let event = EpollEvent::new(EpollFlags::EPOLLIN, self.sockets.len() as u64);
            self.epoll.add(&socket, event)?;
            self.sockets.push(socket);
        }
        self.calls.insert(call_id.to_vec(), first);
        Ok(first)
    }

    /// Connects the socket `own` to the address in `description`, and returns the description with
    /// that of the other socket.
    fn describe(&self, own: usize, description: &[u8]) -> io::Result<String> {
        let text = String::from_utf8_lossy(description);
        let port = self.sockets[own ^ 1].local_addr()?.port();
        let (mut host, mut peer, mut out) = (None, None, String::new());
        for line in text.lines() {
            if let Some(address) = line.strip_prefix("c=IN IP4 ") {
                host = address.trim().parse::<IpAddr>().ok();
                out += &format!("c=IN IP4 {}\r\n", self.media);
            } else if let Some((number, rest)) =
                line.strip_prefix("m=audio ").and_then(|line| line.split_once(' '))
            {
                peer = number.parse::<u16>().ok();
                out += &format!("m=audio {port} {rest}\r\n");
            } else if !line.starts_with("a=rtcp:") {
                out += &format!("{line}\r\n");
            }
        }
        let peer = host.zip(peer).map(SocketAddr::from);
        self.sockets[own].connect(peer.ok_or(io::ErrorKind::InvalidData)?)?;
        Ok(out)
    }

    /// Executes a request of Kamailio.
    fn execute(&mut self, datagram: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let request = match Request::parse(datagram) {
            Ok(request) => request,
            Err(error) => {
                error.respond(out);
                return Ok(());
            }
        };
        let described = match request.command {
            Command::Offer { call_id, sdp, .. } => {
                let first = self.open(call_id)?;
                Some(self.describe(first, sdp)?)
            }
            Command::Answer { call_id, sdp, .. } => {
                let first = self.open(call_id)?;
                Some(self.describe(first + 1, sdp)?)
            }
            _ => None,
        };
        let response = match (&described, request.command) {
            (Some(text), _) => Response::Sdp(text.as_bytes()),
            (None, Command::Ping) => Response::Pong,
            // The ports stay open until the program ends.
            (None, _) => Response::Ok,
        };
        response.write(request.cookie, out);
        Ok(())
    }
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(control), Some(media)) = (arguments.next(), arguments.next()) else {
        return Err(io::Error::other("usage: bare-relay NG_ADDRESS MEDIA_ADDRESS"));
    };
    let control = UdpSocket::bind(control)?;
    let media = media.parse().map_err(io::Error::other)?;
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    epoll.add(&control, EpollEvent::new(EpollFlags::EPOLLIN, NG))?;
    let mut relay = Relay { media, epoll, sockets: Vec::new(), calls: HashMap::new() };
    let (mut events, mut buffer) = ([EpollEvent::empty(); 64], [0; 65_536]);
    loop {
        let count = relay.epoll.wait(&mut events, EpollTimeout::NONE)?;
        for event in &events[..count] {
            if event.data() == NG {
                let (length, from) = control.recv_from(&mut buffer)?;
                let mut out = Vec::new();
                relay.execute(&buffer[..length], &mut out)?;
                control.send_to(&out, from)?;
                continue;
            }
            let number = event.data() as usize;
            // An error is that of an earlier packet: its receiver has gone.
            if let Ok(length) = relay.sockets[number].recv(&mut buffer[..4096]) {
                let _ = relay.sockets[number ^ 1].send(&buffer[..length]);
            }
        }
    }
}
