//! The media of one call: sockets, session and sound source.

use crate::audio::{Recording, Source};
use crate::converter::Converter;
use crate::devices;
use crate::exchange::{Exchange, Proof};
use crate::figures::Media;
use crate::handshake::Handshake;
use crate::ice::Ice;
use crate::ports::Ports;
use crate::random::random;
use crate::tap::Tap;
use ::call::Setup;
use ::dtls::Identity;
use media::audio_meter::AudioMeter;
use media::demultiplex::Kind;
use media::{Channel, Received, Session};
use sip_ua::Agent;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

/// Maximum number of datagrams read per turn.
const TURN: usize = 64;
/// Maximum age of a datagram: a greater age means that the clock was set meanwhile.
const OLDEST: Duration = Duration::from_secs(1);

/// The sound source of this end.
#[derive(Clone, Debug)]
pub(crate) enum Sound {
    Source(Source),
    /// The received sound is sent back.
    Echo,
    /// The microphone.
    Microphone,
}

/// The media of one call.
pub(crate) struct Leg {
    /// The signalling and the media session.
    pub(crate) call: ::call::Call,
    pub(crate) ports: Ports,
    pub(crate) sound: Sound,
    /// The detector on received sound.
    pub(crate) ear: AudioMeter,
    /// Captures each packet.
    pub(crate) tap: Tap,
    /// True if datagrams were left unread in this turn; they must not wait.
    pub(crate) is_flooded: bool,
    /// The handshake that agrees on keys, if it is offered and accepted.
    handshake: Option<Handshake>,
    /// The exchange of ZRTP, if it is offered and accepted.
    exchange: Option<Exchange>,
    /// Results of handshake and exchange that the owner has not taken: new keys, or the reason why
    /// there are none.
    pub(crate) security: Option<Result<(), String>>,
    /// The offer of an incoming call, until it is answered.
    pub(crate) first_offer: Option<Vec<u8>>,
    recording: Option<Recording>,
    /// Conversion from the microphone to the codec; below, from the codec to the speaker.
    outward: Converter,
    inward: Converter,
    /// Half the round-trip time of sound, measured by marks.
    mouth_to_ear: Option<Duration>,
    /// Sample rate of the codec and of all sound in the call, in hertz.
    rate: u32,
    /// The last received frame.
    heard: Vec<i16>,
}

impl Leg {
    /// A leg that receives at `ports`. The addresses in `setup` are set to theirs.
    ///
    /// # Errors
    /// If the sockets have no local address.
    pub(crate) fn new(
        ports: Ports,
        setup: Setup,
        sound: Sound,
        (identity, exchange): (Option<Identity>, Option<Exchange>),
        recording: Option<Recording>,
        ear: AudioMeter,
        tap: Tap,
    ) -> io::Result<Self> {
        let (local, public) = (ports.rtp.local_addr()?, ports.mapped());
        let mut call = ::call::Call::new(Setup { local, public, ..setup }, &mut random);
        let mut ports = ports;
        if let Some(ice) = &mut ports.ice {
            ice.control(true);
            call.set_ice(Some(ice.lines()));
        }
        Ok(Self {
            call,
            ports,
            sound,
            ear,
            tap,
            is_flooded: false,
            handshake: identity.map(Handshake::new),
            exchange,
            security: None,
            first_offer: None,
            recording,
            outward: Converter::default(),
            inward: Converter::default(),
            mouth_to_ear: None,
            rate: devices::RATE,
            heard: Vec::new(),
        })
    }

    /// The local address.
    pub(crate) const fn local(&self) -> IpAddr {
        self.ports.local()
    }

    /// The media session, once it is negotiated.
    pub(crate) const fn session(&self) -> Option<&Session> {
        self.call.session()
    }

    /// Changes to other ports, and offers them to the remote end.
    ///
    /// # Errors
    /// The reason as text.
    pub(crate) fn move_to(
        &mut self,
        ports: Ports,
        agent: &mut Agent,
        now: sip::Instant,
    ) -> Result<(), String> {
        let local = ports.rtp.local_addr().map_err(|error| error.to_string())?;
        let public = ports.mapped();
        self.call.set_ice(ports.ice.as_ref().map(Ice::lines));
        self.ports = ports;
        let moved = self.call.move_to(agent, now, local, public, &mut random);
        moved.map_err(|error| error.to_string())
    }

    /// Reads the received datagrams and passes their events to `heard`. Arrival times are those of
    /// the kernel, not of the read.
    pub(crate) fn read(
        &mut self,
        now: Duration,
        at_now: sip::Instant,
        mut heard: impl FnMut(Received),
    ) {
        let mut datagram = [0; 2048];
        let clock = SystemTime::now();
        self.is_flooded = false;
        for channel in [Channel::Rtp, Channel::Rtcp] {
            for count in 0.. {
                // A flood must not block everything else.
                if count == TURN {
                    self.is_flooded = true;
                    break;
                }
                let received = self.ports.receive(channel, &mut datagram);
                let Ok((length, from, at)) = received else { break };
                let datagram = &mut datagram[..length];
                let is_ours = channel == Channel::Rtp || self.ports.ice.is_none();
                if !is_ours || self.ports.takes(now, at, from, datagram) {
                    continue;
                }
                let age = clock.duration_since(at).unwrap_or_default();
                self.hear(channel, (at, age, at_now), from, datagram, &mut heard);
            }
        }
        while let Some((at, mut datagram)) = self.ports.next_heard() {
            // The checks have proved the source. The session knows the peer by its description.
            let Some(from) = self.remote() else { continue };
            let age = clock.duration_since(at).unwrap_or_default();
            self.hear(Channel::Rtp, (at, age, at_now), from, &mut datagram, &mut heard);
        }
        self.shake_hands();
    }

    /// Advances handshake and exchange. The result is in `security`.
    fn shake_hands(&mut self) {
        let remote = self.remote();
        let Self { call, ports, tap, handshake, exchange, security, .. } = self;
        if !call.may_send() || matches!(security, Some(Err(_))) {
            return;
        }
        let mut transmit = |to: SocketAddr, datagram: &[u8]| {
            send(ports, tap, Channel::Rtp, (to, remote), datagram);
        };
        let by_handshake = handshake.as_mut().map(|it| it.drive(call, &mut transmit));
        let by_exchange = exchange.as_mut().map(|it| it.drive(call, &mut transmit));
        let results = [
            by_handshake.map(|result| result.map_err(|error| by_dtls(&error))),
            by_exchange.map(|result| result.map_err(|error| format!("no keys by ZRTP: {error}"))),
        ];
        for result in results.into_iter().flatten() {
            match result {
                Ok(true) => *security = Some(Ok(())),
                Ok(false) => {}
                Err(error) => *security = Some(Err(error)),
            }
        }
    }

    /// The address of RTP in the description of the remote end.
    fn remote(&self) -> Option<SocketAddr> {
        self.session()?.stream().remote
    }

    /// Passes a datagram that has arrived at `at`, an `age` ago, to the handshake or the session.
    fn hear(
        &mut self,
        channel: Channel,
        (at, age, now): (SystemTime, Duration, sip::Instant),
        from: SocketAddr,
        datagram: &mut [u8],
        heard: &mut impl FnMut(Received),
    ) {
        self.tap.packet(false, at, self.ports.socket(channel), from, datagram);
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        if let (Some(handshake), Kind::Dtls) = (&mut self.handshake, Kind::of(datagram)) {
            let taken = handshake.receive(&self.call, from, datagram);
            self.security = taken.err().map(|error| Err(by_dtls(&error))).or(self.security.take());
            return;
        }
        if let (Some(exchange), Kind::Zrtp) = (&mut self.exchange, Kind::of(datagram)) {
            exchange.receive(&self.call, from, datagram);
            return;
        }
        if self.session().is_none() {
            return;
        }
        let arrival = now - sip::Duration::from(age.min(OLDEST));
        let what = self.call.receive(channel, arrival, from, datagram);
        if let Received::Digit(key) = what {
            self.ear.hear_key(key);
        }
        heard(what);
    }

    /// The short authentication string, if there is one.
    pub(crate) fn proof(&self) -> Option<&Proof> {
        self.exchange.as_ref()?.proof()
    }

    /// The user says that the strings of both ends are the same, or not. Returns false if there is
    /// none.
    pub(crate) fn set_verified(&mut self, is_verified: bool) -> bool {
        self.exchange.as_mut().is_some_and(|exchange| exchange.set_verified(is_verified))
    }

    /// Sends an RTCP BYE.
    pub(crate) fn say_bye(&mut self, now: sip::Instant) {
        let remote = self.remote();
        let Self { call, ports, tap, .. } = self;
        call.say_bye(now, &mut |channel, to, packet| {
            send(ports, tap, channel, (to, remote), packet);
        });
    }

    /// Adopts the sample rate of the current codec.
    fn fit_rate(&mut self) {
        let rate = self.session().map(|session| session.stream().codec.sample_rate());
        if let Some(rate) = rate.filter(|&rate| rate != self.rate) {
            self.rate = rate;
            self.heard.clear();
        }
    }

    /// Sends 20 ms of sound; `microphone` is what the microphone captured meanwhile.
    pub(crate) fn say(
        &mut self,
        agent: &Agent,
        now: Duration,
        at_now: sip::Instant,
        microphone: &[i16],
    ) {
        self.ports.poll(now);
        self.fit_rate();
        let Some(session) = self.session() else { return };
        let (rate, count) = (self.rate, session.frame_samples());
        let is_open = self.call.is_open();
        let mut frame = match &mut self.sound {
            Sound::Source(_) if !is_open => Vec::new(),
            Sound::Source(source) => source.next(rate, count),
            Sound::Echo => std::mem::take(&mut self.heard),
            Sound::Microphone => {
                let mut frame = Vec::with_capacity(count);
                self.outward.convert(devices::RATE, rate, microphone, &mut frame);
                frame
            }
        };
        let remote = self.remote();
        let Self { call, ports, tap, .. } = self;
        call.send(agent, at_now, &mut frame, &mut |channel, to, packet| {
            send(ports, tap, channel, (to, remote), packet);
        });
        self.shake_hands();
    }

    /// Plays 20 ms of sound.
    pub(crate) fn play(&mut self, now: sip::Instant) {
        self.fit_rate();
        if self.session().is_none() {
            return;
        }
        let (rate, is_open) = (self.rate, self.call.is_open());
        self.heard.clear();
        self.call.play(now, &mut self.heard);
        self.ear.hear(rate, &self.heard);
        if let Sound::Source(source) = &mut self.sound
            && is_open
        {
            source.hear(&self.heard);
            self.mouth_to_ear = source.round_trip().map(|time| time / 2).or(self.mouth_to_ear);
        }
        if let Some(recording) = &mut self.recording {
            recording.write(rate, &self.heard);
        }
    }

    /// The statistics, for the call of this number; `None` without a session.
    pub(crate) fn figures(&self, call: u64) -> Option<Media> {
        let session = self.session()?;
        Some(Media::new(call, &session.statistics(), self.mouth_to_ear))
    }

    /// Adds the last received frame to `mix`, which goes to the speaker.
    pub(crate) fn speak(&mut self, mix: &mut [i32]) {
        let mut sound = Vec::with_capacity(mix.len());
        self.inward.convert(self.rate, devices::RATE, &self.heard, &mut sound);
        mix.iter_mut().zip(sound).for_each(|(sum, sample)| *sum += i32::from(sample));
    }
}

/// Sends `packet` to `to`. A failed datagram counts as lost. With ICE the packets to `remote`, the
/// address in the description, go over the nominated pair, and others are not sent.
fn send(
    ports: &mut Ports,
    tap: &Tap,
    channel: Channel,
    (to, remote): (SocketAddr, Option<SocketAddr>),
    packet: &[u8],
) {
    match &mut ports.ice {
        Some(ice) if channel == Channel::Rtp && Some(to) == remote => ice.send(packet),
        Some(_) => return,
        None => {
            let _ = ports.socket(channel).send_to(packet, to);
        }
    }
    let socket = ports.socket(channel);
    tap.packet(true, SystemTime::now(), socket, to, packet);
}

/// The description of a failed handshake.
fn by_dtls(error: &::dtls::AssociationError) -> String {
    format!("no keys by DTLS: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use media::MediaConfig;
    use std::net::{Ipv4Addr, UdpSocket};

    #[test]
    fn a_flood_is_read_in_parts() {
        let ports = Ports::open(Ipv4Addr::LOCALHOST.into(), &[], Duration::ZERO).unwrap();
        let to = ports.rtp.local_addr().unwrap();
        let setup = Setup::new(MediaConfig::default(), to);
        let (ear, tap) = (AudioMeter::default(), Tap::default());
        let mut leg = Leg::new(ports, setup, Sound::Echo, (None, None), None, ear, tap).unwrap();
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut is_flooded = |count: usize| {
            (0..count).for_each(|_| assert!(stranger.send_to(b"flood", to).is_ok()));
            leg.read(Duration::ZERO, sip::Instant::ZERO, |_| ());
            leg.is_flooded
        };
        assert_eq!([TURN + 1, 0, 2].map(&mut is_flooded), [true, false, false]);
    }
}
