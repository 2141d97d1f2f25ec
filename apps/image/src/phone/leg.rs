//! The media of a call: two ports, a session, and a sound source.

use crate::machine::random::Random;
use crate::net::Network;
use crate::sound::Sound;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use media::tone::Tone;
use media::{
    Channel, Codec, Heard, Mapper, Negotiator, Refusal, ReportSeed, Seed, Session, SessionError,
    Stream, Wishes,
};
use sip::{Duration, Instant};

/// Sample rate in hertz.
pub(super) const RATE: u32 = 8000;
/// Duration of the sound in a packet.
const FRAME: Duration = Duration::from_millis(20);
/// Maximum number of late packets sent in a row; later ones are skipped.
const MOST_LATE: usize = 10;
/// Time that a call waits for a STUN response.
const PATIENCE: Duration = Duration::from_millis(1600);

/// The sound source.
#[derive(Debug)]
pub(super) enum Source {
    /// Silence.
    Silence,
    /// A tone.
    Tone(Tone),
    /// The received sound.
    Echo,
    /// The microphone.
    Microphone,
}

/// The gate of outgoing media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// Nothing is sent: the remote end does not have our session description yet.
    Closed,
    /// Silence is sent: the call is not answered yet.
    Silent,
    /// The sound source is sent.
    Open,
}

/// The media of a call.
pub(super) struct Leg {
    pub(super) negotiator: Negotiator,
    pub(super) session: Option<Session>,
    pub(super) gate: Gate,
    /// True once the remote end is known to have our answer. Until then nothing is sent to the
    /// address it named, which may belong to a third party.
    pub(super) is_confirmed: bool,
    pub(super) mutes: bool,
    /// The host that the last session description came from.
    pub(super) host: IpAddr,
    /// The local RTP port; the RTCP port is the next one.
    port: u16,
    mapper: Option<Mapper>,
    opened: Instant,
    source: Source,
    heard: Vec<i16>,
    packet: Vec<u8>,
    next: Instant,
}

impl core::fmt::Debug for Leg {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Leg")
            .field("port", &self.port)
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}

/// `now` as the time since zero, for the media session.
pub(super) const fn span(now: Instant) -> core::time::Duration {
    core::time::Duration::from_micros(now.as_micros())
}

impl Leg {
    /// A leg that receives at two ports of `ours`, and asks the server `stun` for their public
    /// addresses.
    pub(super) fn new(
        now: Instant,
        ours: Ipv4Addr,
        wishes: Wishes,
        source: Source,
        stun: Option<SocketAddr>,
        network: &mut Network,
        random: &mut Random,
    ) -> Self {
        let port = 16_384 + 2 * random.below(8192) as u16;
        network.listen(port);
        network.listen(port + 1);
        let id = u64::from_le_bytes(random.bytes()) >> 33;
        let local = SocketAddr::new(IpAddr::V4(ours), port);
        Self {
            negotiator: Negotiator::new(wishes, local, id),
            session: None,
            gate: Gate::Silent,
            is_confirmed: true,
            mutes: false,
            host: IpAddr::V4(ours),
            port,
            mapper: stun.map(|server| Mapper::new(&[server], span(now))),
            opened: now,
            source,
            heard: Vec::new(),
            packet: Vec::new(),
            next: now,
        }
    }

    /// Returns true if `port` belongs to the leg.
    pub(super) const fn has_port(&self, port: u16) -> bool {
        port == self.port || port == self.port + 1
    }

    /// The local RTP port, and its public address if the server has reported it.
    pub(super) fn ports(&self) -> (u16, Option<SocketAddr>) {
        (self.port, self.mapper.as_ref().and_then(Mapper::mapped))
    }

    /// Returns true if the public address is unknown and worth waiting for.
    pub(super) fn is_waiting(&self, now: Instant) -> bool {
        self.mapper.is_some() && self.ports().1.is_none() && now.since(self.opened) < PATIENCE
    }

    /// Sends an RTCP BYE and closes the ports.
    pub(super) fn close(&mut self, now: Instant, network: &mut Network) {
        let bye =
            self.session.as_mut().and_then(|session| session.bye(span(now), &mut self.packet));
        if let Some((channel, to)) = bye {
            self.send(now, channel, to, network);
        }
        network.close(self.port);
        network.close(self.port + 1);
    }

    /// The offer of a call.
    pub(super) fn offer(&mut self, random: &mut Random) -> Vec<u8> {
        let mapped = self.ports().1;
        self.negotiator.publish(mapped, None);
        self.negotiator.offer(&mut |bytes| random.fill(bytes))
    }

    /// Answers `offer` and starts or renews the session.
    pub(super) fn answer(
        &mut self,
        now: Instant,
        offer: &[u8],
        random: &mut Random,
    ) -> Result<Vec<u8>, Refusal> {
        let mapped = self.ports().1;
        self.negotiator.publish(mapped, None);
        let (answer, stream) = self.negotiator.answer(offer, &mut |bytes| random.fill(bytes))?;
        self.carry(now, stream, random)?;
        Ok(answer)
    }

    /// Applies the answer to our offer.
    pub(super) fn accept(
        &mut self,
        now: Instant,
        answer: &[u8],
        random: &mut Random,
    ) -> Result<(), Refusal> {
        let stream = self.negotiator.accept(answer)?;
        Ok(self.carry(now, stream, random)?)
    }

    /// Starts the session of `stream`, or renews it.
    fn carry(
        &mut self,
        now: Instant,
        mut stream: Stream,
        random: &mut Random,
    ) -> Result<(), SessionError> {
        for remote in [&mut stream.remote, &mut stream.remote_rtcp].into_iter().flatten() {
            *remote = seen_from_here(*remote, self.host);
        }
        if let Some(session) = &mut self.session {
            return session.renew(stream);
        }
        let number = u64::from_le_bytes(random.bytes());
        let seed = Seed {
            ssrc: number as u32,
            // The rollover counter is easier to synchronize from the lower half (RFC 3711 section
            // 3.3.1).
            sequence_number: (number >> 32) as u16 >> 1,
            timestamp: (number >> 16) as u32,
        };
        let mut session = Session::new(stream, seed)?;
        let zero = core::time::Duration::ZERO;
        let seed = ReportSeed { random: random.bytes(), time_of_day: zero, extended: false };
        session.start_reports(span(now), seed);
        self.session = Some(session);
        self.next = now;
        Ok(())
    }

    /// Handles a datagram to one of its ports.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        port: u16,
        from: SocketAddr,
        datagram: &mut [u8],
    ) -> Heard {
        let mapper = self.mapper.as_mut();
        if mapper.is_some_and(|mapper| mapper.receive(span(now), from, datagram)) {
            return Heard::Nothing;
        }
        let channel = if port == self.port { Channel::Rtp } else { Channel::Rtcp };
        let session = self.session.as_mut();
        session.map_or(Heard::Nothing, |session| {
            session.receive_on(channel, span(now), from, datagram)
        })
    }

    /// Sends and plays the sound that is due.
    pub(super) fn step(
        &mut self,
        now: Instant,
        sound: &mut dyn Sound,
        network: &mut Network,
        random: &mut Random,
    ) {
        if let Some(mapper) = &mut self.mapper {
            let fill = &mut |bytes: &mut [u8]| random.fill(bytes);
            while let Some(SocketAddr::V4(server)) = mapper.poll(span(now), fill, &mut self.packet)
            {
                network.send(now, self.port, server, &self.packet);
            }
        }
        if self.session.is_none() {
            return;
        }
        for _ in 0..MOST_LATE {
            if now < self.next {
                return;
            }
            self.next += FRAME;
            self.tick(now, sound, network);
        }
        self.next = now + FRAME;
    }

    /// Sends and plays 20 ms of sound.
    fn tick(&mut self, now: Instant, sound: &mut dyn Sound, network: &mut Network) {
        let Some(session) = &mut self.session else { return };
        let count = session.frame_samples();
        let mut frame = Vec::with_capacity(count);
        match &mut self.source {
            Source::Silence => {}
            Source::Tone(tone) => tone.fill(count, &mut frame),
            Source::Echo => frame.extend_from_slice(&self.heard),
            Source::Microphone => sound.record(count, &mut frame),
        }
        frame.resize(count, 0);
        // A held party must not overhear this end.
        if self.mutes || self.negotiator.holds() || self.gate != Gate::Open {
            frame.fill(0);
        }
        if self.gate != Gate::Closed && self.is_confirmed {
            self.send_sound(now, &frame, network);
        }
        let Some(session) = &mut self.session else { return };
        self.heard.clear();
        session.play(span(now), &mut self.heard);
        sound.play(&self.heard);
    }

    /// Sends a frame, and reports that are due.
    fn send_sound(&mut self, now: Instant, frame: &[i16], network: &mut Network) {
        let Some(session) = &mut self.session else { return };
        let mut to = session.send(frame, &mut self.packet);
        let also = session.also(span(now));
        while let Some(there) = to {
            self.send(now, Channel::Rtp, there, network);
            if let Some(also) = also {
                self.send(now, Channel::Rtp, also, network);
            }
            let Some(session) = &mut self.session else { return };
            to = session.rest(&mut self.packet);
        }
        let Some(session) = &mut self.session else { return };
        if let Some((channel, to)) = session.poll(span(now), &mut self.packet) {
            self.send(now, channel, to, network);
        }
    }

    /// Sends `packet`.
    fn send(&self, now: Instant, channel: Channel, to: SocketAddr, network: &mut Network) {
        let port = if channel == Channel::Rtp { self.port } else { self.port + 1 };
        if let SocketAddr::V4(to) = to {
            network.send(now, port, to, &self.packet);
        }
    }
}

/// The address of the other end's media, which its description gives as `remote`. A loopback
/// address means `host`, from which the description came: the other end and that host are one
/// machine. Otherwise a loopback address is unreachable from a network card.
fn seen_from_here(remote: SocketAddr, host: IpAddr) -> SocketAddr {
    let ip = if remote.ip().is_loopback() { host } else { remote.ip() };
    SocketAddr::new(ip, remote.port())
}

/// The codecs of this phone.
pub(super) fn codecs() -> Vec<Codec> {
    alloc::vec![Codec::Pcmu, Codec::Pcma]
}

/// A copy of a datagram that `Leg::receive` may change.
pub(super) fn copy(payload: &[u8]) -> ([u8; 2048], usize) {
    let mut memory = [0; 2048];
    let length = payload.len().min(memory.len());
    memory[..length].copy_from_slice(&payload[..length]);
    (memory, length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_loopback_address_means_the_host_of_the_signalling() {
        let host = "10.0.2.2".parse().expect("an address");
        for (named, meant) in [
            ("127.0.0.1:4000", "10.0.2.2:4000"),
            ("127.1.2.3:4001", "10.0.2.2:4001"),
            ("192.0.2.9:4000", "192.0.2.9:4000"),
        ] {
            let named = named.parse().expect("an address");
            assert_eq!(seen_from_here(named, host).to_string(), meant);
        }
    }
}
