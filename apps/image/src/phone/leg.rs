//! The media of a call: two ports, a session, and a sound source.

use super::ports::Ports;
use crate::machine::random::Random;
use crate::net::Network;
use crate::sound::Sound;
use ::call::Setup;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use media::tone::Tone;
use media::{Channel, Clock, Codec, MediaConfig, Received, Session};
use sip::{Duration, Instant};
use sip_ua::Agent;

/// Sample rate in hertz.
pub(super) const RATE: u32 = 8000;
/// Duration of the sound in a packet.
const FRAME: Duration = Duration::from_millis(20);
/// Maximum number of late packets sent in a row; later ones are skipped.
const MOST_LATE: usize = 10;

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

/// The media of a call.
pub(super) struct Leg {
    /// The signalling and the media session.
    pub(super) call: ::call::Call,
    pub(super) ports: Ports,
    source: Source,
    heard: Vec<i16>,
    next: Instant,
}

impl core::fmt::Debug for Leg {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Leg")
            .field("port", &self.ports.rtp())
            .field("call", &self.call)
            .finish_non_exhaustive()
    }
}

impl Leg {
    /// A leg that receives at two `ports` of `ours`, and measures SRTP by `stopwatch`.
    pub(super) fn new(
        now: Instant,
        ours: Ipv4Addr,
        media_config: MediaConfig,
        stopwatch: Option<Clock>,
        source: Source,
        ports: Ports,
        random: &mut Random,
    ) -> Self {
        let local = SocketAddr::new(IpAddr::V4(ours), ports.rtp());
        let setup = Setup { stopwatch, ..Setup::new(media_config, local) };
        let mut call = ::call::Call::new(setup, &mut |bytes| random.fill(bytes));
        call.set_host(Some(IpAddr::V4(ours)));
        Self { call, ports, source, heard: Vec::new(), next: now }
    }

    /// Sends an RTCP BYE and closes the ports.
    pub(super) fn close(&mut self, now: Instant, network: &mut Network) {
        let port = self.ports.rtp();
        self.call.say_bye(now, &mut |channel, to, packet| {
            send(now, port, channel, to, packet, network);
        });
        self.ports.close(network);
    }

    /// The media session, once it is negotiated.
    pub(super) const fn session(&self) -> Option<&Session> {
        self.call.session()
    }

    /// Sets what the next offer or answer depends on: the public address of the port, and the
    /// `host` of the signalling. A loopback address in a description of the other end means that
    /// host: otherwise it is unreachable from a network card.
    pub(super) fn prepare(&mut self, host: Option<IpAddr>) {
        self.call.publish(self.ports.mapped());
        if host.is_some() {
            self.call.set_host(host);
        }
    }

    /// Handles a datagram to one of its ports.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        port: u16,
        from: SocketAddr,
        datagram: &mut [u8],
    ) -> Received {
        if self.ports.receive(now, from, datagram) {
            return Received::Nothing;
        }
        let channel = if port == self.ports.rtp() { Channel::Rtp } else { Channel::Rtcp };
        self.call.receive(channel, now, from, datagram)
    }

    /// Sends and plays the sound that is due.
    pub(super) fn step(
        &mut self,
        now: Instant,
        agent: &Agent,
        sound: &mut dyn Sound,
        network: &mut Network,
        random: &mut Random,
    ) {
        self.ports.step(now, network, random);
        if self.session().is_none() {
            self.next = now;
            return;
        }
        for _ in 0..MOST_LATE {
            if now < self.next {
                return;
            }
            self.next += FRAME;
            self.tick(now, agent, sound, network);
        }
        self.next = now + FRAME;
    }

    /// Sends and plays 20 ms of sound.
    fn tick(&mut self, now: Instant, agent: &Agent, sound: &mut dyn Sound, network: &mut Network) {
        let Some(session) = self.session() else { return };
        let count = session.frame_samples();
        let mut frame = Vec::with_capacity(count);
        match &mut self.source {
            Source::Silence => {}
            Source::Tone(tone) => tone.fill(count, &mut frame),
            Source::Echo => frame.extend_from_slice(&self.heard),
            Source::Microphone => sound.record(count, &mut frame),
        }
        let port = self.ports.rtp();
        self.call.send(agent, now, &mut frame, &mut |channel, to, packet| {
            send(now, port, channel, to, packet, network);
        });
        self.heard.clear();
        self.call.play(now, &mut self.heard);
        sound.play(&self.heard);
    }
}

/// Sends a datagram of media from the RTP port `port`, or from the RTCP port after it.
fn send(
    now: Instant,
    port: u16,
    channel: Channel,
    to: SocketAddr,
    packet: &[u8],
    network: &mut Network,
) {
    let port = if channel == Channel::Rtp { port } else { port + 1 };
    if let SocketAddr::V4(to) = to {
        network.send(now, port, to, packet);
    }
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
