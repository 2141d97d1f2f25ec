//! The media of one call: sockets, session and sound source.

use crate::audio::{Recording, Source};
use crate::converter::Converter;
use crate::devices;
use crate::figures::Media;
use crate::ports::Ports;
use crate::random::{random, random_number};
use crate::tap::Tap;
use media::ear::Ear;
use media::{
    Channel, Clock, Heard, Negotiator, Refusal, ReportSeed, Seed, Session, SessionError, Stream,
    Wishes,
};
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

/// The gate of outgoing media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Nothing is sent: the remote end does not have our session description yet.
    Closed,
    /// Silence is sent: the call is not answered yet.
    Silent,
    /// The sound source is sent.
    Open,
}

/// The media of one call.
pub(crate) struct Leg {
    pub(crate) negotiator: Negotiator,
    pub(crate) session: Option<Session>,
    pub(crate) ports: Ports,
    pub(crate) sound: Sound,
    /// True if silence is sent in place of the sound source.
    pub(crate) mutes: bool,
    pub(crate) gate: Gate,
    /// True once the remote end is known to have our answer. Until then nothing is sent to the
    /// address it named, which may belong to a third party.
    pub(crate) is_confirmed: bool,
    /// The detector on received sound.
    pub(crate) ear: Ear,
    /// Captures each packet.
    pub(crate) tap: Tap,
    /// Measures the time that SRTP takes.
    pub(crate) stopwatch: Option<Clock>,
    /// True if silence is suppressed when the remote end can generate comfort noise.
    pub(crate) suppresses_silence: bool,
    /// True if datagrams were left unread in this turn; they must not wait.
    pub(crate) is_flooded: bool,
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
    packet: Vec<u8>,
}

impl Leg {
    /// A leg that receives at `ports`.
    ///
    /// # Errors
    /// If the sockets have no local address.
    pub(crate) fn new(
        ports: Ports,
        wishes: Wishes,
        sound: Sound,
        recording: Option<Recording>,
        ear: Ear,
    ) -> io::Result<Self> {
        // The number fits in 31 bits: some peers read it as a signed number of 32 bits.
        let mut negotiator =
            Negotiator::new(wishes, ports.rtp.local_addr()?, random_number() >> 33);
        negotiator.publish(ports.mapped(), None);
        let (session, packet) = (None, Vec::new());
        Ok(Self {
            negotiator,
            session,
            ports,
            sound,
            mutes: false,
            gate: Gate::Silent,
            is_confirmed: true,
            ear,
            tap: Tap::default(),
            stopwatch: None,
            suppresses_silence: false,
            is_flooded: false,
            recording,
            outward: Converter::default(),
            inward: Converter::default(),
            mouth_to_ear: None,
            rate: devices::RATE,
            heard: Vec::new(),
            packet,
        })
    }

    /// The local address.
    pub(crate) const fn local(&self) -> IpAddr {
        self.ports.local()
    }

    /// Changes to other ports from the next offer on.
    ///
    /// # Errors
    /// If the sockets have no local address.
    pub(crate) fn move_to(&mut self, ports: Ports) -> io::Result<()> {
        self.negotiator.move_to(ports.rtp.local_addr()?);
        self.negotiator.publish(ports.mapped(), None);
        self.ports = ports;
        Ok(())
    }

    /// Starts the session of `stream`, or renews it.
    pub(crate) fn carry(&mut self, now: Duration, stream: Stream) -> Result<(), SessionError> {
        match &mut self.session {
            Some(session) => session.renew(stream),
            None => {
                let number = random_number();
                let seed = Seed {
                    ssrc: number as u32,
                    // The rollover counter is easier to synchronize from the lower half (RFC 3711
                    // section 3.3.1).
                    sequence_number: (number >> 32) as u16 >> 1,
                    timestamp: (number >> 16) as u32,
                };
                let mut session = Session::measured(stream, seed, self.stopwatch)?;
                session.start_reports(now, report_seed(now));
                if self.suppresses_silence {
                    session.suppress_silence();
                }
                self.session = Some(session);
                Ok(())
            }
        }
    }

    /// Answers `offer` and starts or renews the session.
    pub(crate) fn answer(&mut self, now: Duration, offer: &[u8]) -> Result<Vec<u8>, Refusal> {
        let (answer, stream) = self.negotiator.answer(offer, &mut random)?;
        self.carry(now, stream)?;
        Ok(answer)
    }

    /// Reads the received datagrams and passes their events to `heard`. Arrival times are those of
    /// the kernel, not of the read.
    pub(crate) fn read(&mut self, now: Duration, mut heard: impl FnMut(Heard)) {
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
                if self.ports.takes(now, from, datagram) {
                    continue;
                }
                let Some(session) = &mut self.session else { continue };
                self.tap.packet(false, at, self.ports.socket(channel), from, datagram);
                let from = SocketAddr::new(from.ip().to_canonical(), from.port());
                let age = clock.duration_since(at).unwrap_or_default().min(OLDEST);
                let what = session.receive_on(channel, now.saturating_sub(age), from, datagram);
                if let Heard::Digit(key) = what {
                    self.ear.hear_key(key);
                }
                heard(what);
            }
        }
    }

    /// Sends `packet`. A failed datagram counts as lost.
    fn send(&self, channel: Channel, to: SocketAddr) {
        let socket = self.ports.socket(channel);
        let _ = socket.send_to(&self.packet, to);
        self.tap.packet(true, SystemTime::now(), socket, to, &self.packet);
    }

    /// Sends an RTCP BYE.
    pub(crate) fn say_bye(&mut self, now: Duration) {
        let bye = self.session.as_mut().and_then(|session| session.bye(now, &mut self.packet));
        if let Some((channel, to)) = bye {
            self.send(channel, to);
        }
    }

    /// Adopts the sample rate of the current codec.
    fn fit_rate(&mut self) {
        let rate = self.session.as_ref().map(|session| session.stream().codec.sample_rate());
        if let Some(rate) = rate.filter(|&rate| rate != self.rate) {
            self.rate = rate;
            self.heard.clear();
        }
    }

    /// Returns true if the sound source is sent.
    fn has_sounded(&self) -> bool {
        self.gate == Gate::Open && self.is_confirmed
    }

    /// Sends 20 ms of sound; `microphone` is what the microphone captured meanwhile.
    pub(crate) fn say(&mut self, now: Duration, microphone: &[i16]) {
        self.ports.poll(now);
        self.fit_rate();
        let Some(session) = &self.session else { return };
        let (rate, count) = (self.rate, session.frame_samples());
        let has_sounded = self.has_sounded();
        // A held party must not overhear this end.
        let is_silent = self.mutes || self.negotiator.holds() || self.gate != Gate::Open;
        let mut frame = match &mut self.sound {
            Sound::Source(_) if !has_sounded => Vec::new(),
            Sound::Source(source) => source.next(rate, count),
            Sound::Echo => std::mem::take(&mut self.heard),
            Sound::Microphone => {
                let mut frame = Vec::with_capacity(count);
                self.outward.convert(devices::RATE, rate, microphone, &mut frame);
                frame
            }
        };
        frame.resize(count, 0);
        if is_silent {
            frame.fill(0);
        }
        if self.gate != Gate::Closed && self.is_confirmed {
            self.send_sound(now, &frame);
        }
    }

    /// Plays 20 ms of sound.
    pub(crate) fn play(&mut self, now: Duration) {
        self.fit_rate();
        let (rate, has_sounded) = (self.rate, self.has_sounded());
        let Some(session) = &mut self.session else { return };
        self.heard.clear();
        session.play(now, &mut self.heard);
        self.ear.hear(rate, &self.heard);
        if let Sound::Source(source) = &mut self.sound
            && has_sounded
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
        let session = self.session.as_ref()?;
        Some(Media::new(call, &session.statistics(), self.mouth_to_ear))
    }

    /// Adds the last received frame to `mix`, which goes to the speaker.
    pub(crate) fn speak(&mut self, mix: &mut [i32]) {
        let mut sound = Vec::with_capacity(mix.len());
        self.inward.convert(self.rate, devices::RATE, &self.heard, &mut sound);
        mix.iter_mut().zip(sound).for_each(|(sum, sample)| *sum += i32::from(sample));
    }

    /// Sends a frame, and reports that are due.
    fn send_sound(&mut self, now: Duration, frame: &[i16]) {
        let Some(session) = &mut self.session else { return };
        let mut to = session.send(frame, &mut self.packet);
        let also = session.also(now);
        while let Some(there) = to {
            self.send(Channel::Rtp, there);
            if let Some(also) = also {
                self.send(Channel::Rtp, also);
            }
            let Some(session) = &mut self.session else { return };
            to = session.rest(&mut self.packet);
        }
        let Some(session) = &mut self.session else { return };
        if let Some((channel, to)) = session.poll(now, &mut self.packet) {
            self.send(channel, to);
        }
    }
}

/// The seed of RTCP reports.
fn report_seed(now: Duration) -> ReportSeed {
    let mut bytes = [0; 24];
    random(&mut bytes);
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    ReportSeed { random: bytes, time_of_day: since.saturating_sub(now), extended: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use media::{Codec, Security};
    use std::net::{Ipv4Addr, UdpSocket};

    /// A leg that sends a tone in clear.
    fn leg() -> Leg {
        let (codecs, security) = (vec![Codec::Pcmu], Security::Off);
        let wishes = Wishes { codecs, security, ..Wishes::default() };
        let sound = Sound::Source(Source::named("tone:440").unwrap());
        let ports = Ports::open(Ipv4Addr::LOCALHOST.into(), &[], Duration::ZERO).unwrap();
        let leg = Leg::new(ports, wishes, sound, None, Ear::default()).unwrap();
        Leg { gate: Gate::Open, ..leg }
    }

    #[test]
    fn a_flood_is_read_in_parts() {
        let mut leg = leg();
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = leg.ports.rtp.local_addr().unwrap();
        let mut is_flooded = |count: usize| {
            (0..count).for_each(|_| assert!(stranger.send_to(b"flood", to).is_ok()));
            leg.read(Duration::ZERO, |_| ());
            leg.is_flooded
        };
        assert_eq!([TURN + 1, 0, 2].map(&mut is_flooded), [true, false, false]);
    }

    #[test]
    fn whoever_is_held_hears_silence() {
        let (mut here, mut there) = (leg(), leg());
        let offer = here.negotiator.offer(&mut random);
        let answer = there.answer(Duration::ZERO, &offer).unwrap();
        let stream = here.negotiator.accept(&answer).unwrap();
        here.carry(Duration::ZERO, stream).unwrap();
        let mut is_silent = || {
            here.negotiator.hold(!here.negotiator.holds());
            here.say(Duration::ZERO, &[]);
            let mut datagram = [0; 2048];
            let length = there.ports.rtp.recv(&mut datagram).unwrap();
            let sound = &datagram[12..length];
            sound.iter().all(|&byte| byte == sound[0])
        };
        assert_eq!([is_silent(), is_silent()], [true, false]);
    }
}
