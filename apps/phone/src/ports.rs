//! The media sockets of one call: one for RTP and one on the next port for RTCP, and the public
//! address of the first.

use crate::ice::{Ice, IceSetup, ReceivedDatagram};
use crate::random::random;
use media::{Channel, Mapper, Mapping};
use nix::cmsg_space;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, SystemTime};

/// Maximum number of attempts to find a pair of ports.
const TRIES: usize = 32;
/// Time that a call waits for a STUN response, from the first request on.
const PATIENCE: Duration = Duration::from_millis(1600);

/// The media sockets of one call.
pub(crate) struct Ports {
    pub(crate) rtp: UdpSocket,
    pub(crate) rtcp: UdpSocket,
    local: IpAddr,
    mapper: Option<Mapper>,
    /// ICE, if it is used. It asks the STUN servers then.
    pub(crate) ice: Option<Ice>,
    opened: Duration,
    packet: Vec<u8>,
    /// Buffer for the control messages of a datagram.
    control: Vec<u8>,
}

impl Ports {
    /// Two consecutive ports of `local`; the STUN servers `stun` are asked for the public address.
    ///
    /// # Errors
    /// If there is no free pair.
    pub(crate) fn open(local: IpAddr, stun: &[SocketAddr], now: Duration) -> io::Result<Self> {
        let (rtp, rtcp) = pair(local)?;
        let servers: Vec<SocketAddr> =
            stun.iter().copied().filter(|server| server.is_ipv4() == local.is_ipv4()).collect();
        let (packet, control) = (Vec::new(), cmsg_space!(TimeSpec));
        let mapper = (!servers.is_empty()).then(|| Mapper::new(&servers, now));
        let ice = None;
        let mut ports = Self { rtp, rtcp, local, mapper, ice, opened: now, packet, control };
        ports.poll(now);
        Ok(ports)
    }

    /// As [`Ports::open`], with ICE, by the servers in `setup`.
    ///
    /// # Errors
    /// If there is no free pair.
    pub(crate) fn open_with_ice(
        local: IpAddr,
        setup: &IceSetup,
        now: Duration,
    ) -> io::Result<Self> {
        let mut ports = Self::open(local, &[], now)?;
        ports.ice = Some(Ice::open(&ports.rtp, setup)?);
        Ok(ports)
    }

    /// The address of both sockets.
    pub(crate) const fn local(&self) -> IpAddr {
        self.local
    }

    /// The socket of a channel.
    pub(crate) const fn socket(&self, channel: Channel) -> &UdpSocket {
        match channel {
            Channel::Rtp => &self.rtp,
            Channel::Rtcp => &self.rtcp,
        }
    }

    /// Returns true if the public address is unknown and worth waiting for.
    pub(crate) fn is_waiting(&self, now: Duration) -> bool {
        match &self.ice {
            // It has a limit of its own.
            Some(ice) => !ice.is_gathered(),
            None => {
                let is_mapped = self.mapper.is_none() || self.mapped().is_some();
                !is_mapped && now < self.opened + PATIENCE
            }
        }
    }

    /// The public address of the RTP port, if a server has reported it.
    pub(crate) fn mapped(&self) -> Option<SocketAddr> {
        match &self.ice {
            Some(ice) => ice.mapped(),
            None => self.mapper.as_ref()?.mapped(),
        }
    }

    /// The kind of NAT mapping, as far as known.
    pub(crate) fn mapping(&self) -> Mapping {
        let local = self.rtp.local_addr().ok();
        let mapping = self.mapper.as_ref().zip(local);
        mapping.map_or(Mapping::Unknown, |(mapper, local)| mapper.mapping(local))
    }

    /// Stops the STUN requests: the packets of the call keep the mapping alive.
    pub(crate) fn rest(&mut self) {
        if let Some(mapper) = &mut self.mapper {
            mapper.rest();
        }
    }

    /// The time at which [`Ports::poll`] is due.
    pub(crate) fn next_timer(&mut self, now: Duration) -> Option<Duration> {
        match &mut self.ice {
            Some(ice) => Some(now + ice.wait()),
            None => self.mapper.as_ref()?.next_timer(),
        }
    }

    /// Sends due STUN requests, and checks of ICE.
    pub(crate) fn poll(&mut self, now: Duration) {
        if let Some(ice) = &mut self.ice {
            return ice.turn();
        }
        let Some(mapper) = &mut self.mapper else { return };
        while let Some(server) = mapper.poll(now, &mut random, &mut self.packet) {
            // A failed request is sent again later.
            let _ = self.rtp.send_to(&self.packet, server);
        }
    }

    /// Receives a datagram: its length, its sender, and its arrival time according to the kernel.
    ///
    /// # Errors
    /// If no datagram waits.
    pub(crate) fn receive(
        &mut self,
        channel: Channel,
        bytes: &mut [u8],
    ) -> io::Result<(usize, SocketAddr, SystemTime)> {
        let socket = match channel {
            Channel::Rtp => &self.rtp,
            Channel::Rtcp => &self.rtcp,
        };
        let (mut parts, control) = ([IoSliceMut::new(bytes)], Some(&mut self.control[..]));
        let flags = MsgFlags::MSG_DONTWAIT;
        let told = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, control, flags)?;
        let at = told.cmsgs().ok().and_then(|mut all| {
            all.find_map(|one| match one {
                ControlMessageOwned::ScmTimestampns(at) => Some(Duration::from(at)),
                _ => None,
            })
        });
        let at = at.map_or_else(SystemTime::now, |at| SystemTime::UNIX_EPOCH + at);
        let from = told.address.as_ref().and_then(address);
        Ok((told.bytes, from.ok_or(io::ErrorKind::InvalidData)?, at))
    }

    /// Passes a datagram of the RTP port to the STUN client or to ICE. Returns true if it is a
    /// response, or if ICE decides about it: [`Ports::next_heard`] then returns media.
    pub(crate) fn takes(
        &mut self,
        now: Duration,
        at: SystemTime,
        from: SocketAddr,
        datagram: &[u8],
    ) -> bool {
        if let Some(ice) = &mut self.ice {
            ice.receive(at, from, datagram);
            return true;
        }
        self.mapper.as_mut().is_some_and(|mapper| mapper.receive(now, from, datagram))
    }

    /// Reads STUN responses while there is no call.
    pub(crate) fn read(&mut self, now: Duration) {
        let mut datagram = [0; 2048];
        while let Ok((length, from)) = self.rtp.recv_from(&mut datagram) {
            let _ = self.takes(now, SystemTime::now(), from, &datagram[..length]);
        }
    }

    /// The next datagram that came by ICE.
    pub(crate) fn next_heard(&mut self) -> Option<ReceivedDatagram> {
        self.ice.as_mut()?.next_heard()
    }
}

fn address(name: &SockaddrStorage) -> Option<SocketAddr> {
    let four = name.as_sockaddr_in().map(|name| SocketAddrV4::from(*name).into());
    four.or_else(|| name.as_sockaddr_in6().map(|name| SocketAddrV6::from(*name).into()))
}

fn pair(local: IpAddr) -> io::Result<(UdpSocket, UdpSocket)> {
    let mut tries = 0;
    loop {
        let rtp = UdpSocket::bind((local, 0))?;
        let port = rtp.local_addr()?.port();
        let behind = port.checked_add(1).map(|behind| UdpSocket::bind((local, behind)));
        if let Some(Ok(rtcp)) = behind {
            rtp.set_nonblocking(true)?;
            rtcp.set_nonblocking(true)?;
            for socket in [&rtp, &rtcp] {
                setsockopt(socket, sockopt::ReceiveTimestampns, &true)?;
            }
            return Ok((rtp, rtcp));
        }
        tries += 1;
        if tries == TRIES {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "no two ports in a row are free"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_datagram_says_when_it_came() {
        let mut ports = Ports::open([127, 0, 0, 1].into(), &[], Duration::ZERO).unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut bytes = [0; 16];
        for channel in [Channel::Rtp, Channel::Rtcp] {
            let mut is_no_later_for_being_read_later = || {
                other.send_to(b"came", ports.socket(channel).local_addr().unwrap()).unwrap();
                let came = SystemTime::now();
                let (length, from, at) = ports.receive(channel, &mut bytes).unwrap();
                assert_eq!((&bytes[..length], from), (&b"came"[..], other.local_addr().unwrap()));
                assert!(ports.receive(channel, &mut bytes).is_err());
                at <= came
            };
            // The first socket that requests timestamps gets them a little later.
            let wait = |_: &i32| thread::sleep(Duration::from_millis(10));
            assert!((0..500).inspect(wait).any(|_| is_no_later_for_being_read_later()));
        }
    }

    #[test]
    fn a_port_learns_its_mapped_address() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let mut ports = Ports::open([127, 0, 0, 1].into(), &[address], Duration::ZERO).unwrap();
        let [rtp, rtcp] = [&ports.rtp, &ports.rtcp].map(|socket| socket.local_addr().unwrap());
        assert_eq!(rtp.port() + 1, rtcp.port());
        assert!(ports.is_waiting(Duration::ZERO) && !ports.is_waiting(Duration::from_secs(2)));
        let (mut datagram, mut answer) = ([0; 512], Vec::new());
        let (length, from) = server.recv_from(&mut datagram).unwrap();
        assert!(stun::respond_to_binding(from, &datagram[..length], &mut answer));
        server.send_to(&answer, from).unwrap();
        while ports.mapped().is_none() {
            ports.read(Duration::from_millis(1));
        }
        assert_eq!(ports.mapped(), Some(rtp));
        assert!(!ports.is_waiting(Duration::ZERO));
    }
}
