//! The media of one call: a socket, a session, and what sounds.

use crate::audio::{Recording, Source};
use crate::converter::Converter;
use crate::devices;
use crate::figures::Media;
use crate::ports::Ports;
use crate::random::{random, random_number};
use crate::tap::Tap;
use media::ear::Ear;
use media::{
    Channel, Clock, Heard, Negotiator, Refusal, ReportSeed, Seed, Session, Stream, Wishes,
};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

/// Datagrams that are read before everything else has its turn.
const TURN: usize = 64;
/// How long a datagram can have waited: whatever is more is a clock that was set meanwhile.
const OLDEST: Duration = Duration::from_secs(1);

/// What sounds at this end of a call.
#[derive(Clone, Debug)]
pub(crate) enum Sound {
    Source(Source),
    /// What was heard comes back.
    Echo,
    /// Whoever sits here.
    Microphone,
}

/// How much goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Nothing: the other end does not know our session description yet.
    Closed,
    /// Silence: the call is not answered yet.
    Silent,
    /// What sounds here.
    Open,
}

/// The media of one call.
pub(crate) struct Leg {
    pub(crate) negotiator: Negotiator,
    pub(crate) session: Option<Session>,
    pub(crate) ports: Ports,
    pub(crate) sound: Sound,
    /// Whether silence is sent in its place.
    pub(crate) mutes: bool,
    pub(crate) gate: Gate,
    /// Whether it is known that the other end hears our answer: until then nothing goes to the
    /// address that it names, which may be anybody's.
    pub(crate) is_confirmed: bool,
    /// Hears what is played.
    pub(crate) ear: Ear,
    /// Looks at each packet.
    pub(crate) tap: Tap,
    /// Measures what SRTP takes.
    pub(crate) stopwatch: Option<Clock>,
    /// Whether silence is not sent where the other end can make it itself.
    pub(crate) suppresses_silence: bool,
    /// Whether there was more to be read than there should be: the rest must not wait.
    pub(crate) is_flooded: bool,
    recording: Option<Recording>,
    /// From the microphone to the codec, and from there to the speaker.
    outward: Converter,
    inward: Converter,
    /// Half of the way that sound takes there and back, where marks are sent.
    mouth_to_ear: Option<Duration>,
    /// Samples in a second of the codec, and of all that sounds in the call.
    rate: u32,
    /// What was heard last.
    heard: Vec<i16>,
    packet: Vec<u8>,
}

impl Leg {
    /// One that receives at `ports`.
    ///
    /// # Errors
    /// When they have no address any more.
    pub(crate) fn new(
        ports: Ports,
        wishes: Wishes,
        sound: Sound,
        recording: Option<Recording>,
        ear: Ear,
    ) -> io::Result<Self> {
        // Numbers that some read as signed ones of 32 bits.
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

    /// Where it receives.
    pub(crate) const fn local(&self) -> IpAddr {
        self.ports.local()
    }

    /// Goes on at other ports from the next offer on.
    ///
    /// # Errors
    /// When they have no address any more.
    pub(crate) fn move_to(&mut self, ports: Ports) -> io::Result<()> {
        self.negotiator.move_to(ports.rtp.local_addr()?);
        self.negotiator.publish(ports.mapped(), None);
        self.ports = ports;
        Ok(())
    }

    /// Begins the session of `stream`, or goes on with it. False where its keys cannot be used.
    pub(crate) fn carry(&mut self, now: Duration, stream: Stream) -> bool {
        match &mut self.session {
            Some(session) => session.renew(stream),
            None => {
                let number = random_number();
                let seed = Seed {
                    ssrc: number as u32,
                    // The rollover counter is easier to agree on from the lower half (RFC 3711
                    // section 3.3.1).
                    sequence_number: (number >> 32) as u16 >> 1,
                    timestamp: (number >> 16) as u32,
                };
                let mut session = Session::measured(stream, seed, self.stopwatch);
                if let Some(session) = &mut session {
                    session.start_reports(now, report_seed(now));
                    if self.suppresses_silence {
                        session.suppress_silence();
                    }
                }
                self.session = session;
                self.session.is_some()
            }
        }
    }

    /// The answer to `offer`, by which the session goes on.
    pub(crate) fn answer(&mut self, now: Duration, offer: &[u8]) -> Result<Vec<u8>, Refusal> {
        let (answer, stream) = self.negotiator.answer(offer, &mut random)?;
        match self.carry(now, stream) {
            true => Ok(answer),
            false => Err(Refusal::Keys),
        }
    }

    /// Reads what has come by `now`, and tells `heard` of it. What has come counts from when it
    /// came, which may be a while ago.
    pub(crate) fn read(&mut self, now: Duration, mut heard: impl FnMut(Heard)) {
        let mut datagram = [0; 2048];
        let clock = SystemTime::now();
        self.is_flooded = false;
        for channel in [Channel::Rtp, Channel::Rtcp] {
            for count in 0.. {
                // A flood leaves room for everything else.
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

    /// Sends what lies in `packet`. What cannot be sent is lost like what is lost on the way.
    fn send(&self, channel: Channel, to: SocketAddr) {
        let socket = self.ports.socket(channel);
        let _ = socket.send_to(&self.packet, to);
        self.tap.packet(true, SystemTime::now(), socket, to, &self.packet);
    }

    /// Says goodbye by RTCP.
    pub(crate) fn say_bye(&mut self, now: Duration) {
        let bye = self.session.as_mut().and_then(|session| session.bye(now, &mut self.packet));
        if let Some((channel, to)) = bye {
            self.send(channel, to);
        }
    }

    /// Takes up the rate of the codec, which may be another one than before.
    fn fit_rate(&mut self) {
        let rate = self.session.as_ref().map(|session| session.stream().codec.sample_rate());
        if let Some(rate) = rate.filter(|&rate| rate != self.rate) {
            self.rate = rate;
            self.heard.clear();
        }
    }

    /// Whether what sounds here goes out.
    fn has_sounded(&self) -> bool {
        self.gate == Gate::Open && self.is_confirmed
    }

    /// Sends 20 ms of sound; `microphone` is what was said here meanwhile.
    pub(crate) fn say(&mut self, now: Duration, microphone: &[i16]) {
        self.ports.poll(now);
        self.fit_rate();
        let Some(session) = &self.session else { return };
        let (rate, count) = (self.rate, session.frame_samples());
        let has_sounded = self.has_sounded();
        // Whoever is held must not overhear this end.
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

    /// Its figures, as those of the call of this number; `None` before there is a session.
    pub(crate) fn figures(&self, call: u64) -> Option<Media> {
        let session = self.session.as_ref()?;
        Some(Media::new(call, &session.statistics(), self.mouth_to_ear))
    }

    /// Adds what was heard last to `mix`, which goes to the speaker.
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

/// What reports begin with.
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

    /// One that sends a tone in clear.
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
        assert!(here.carry(Duration::ZERO, stream));
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
