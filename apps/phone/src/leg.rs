//! The media of one call: a socket, a session, and what sounds.

use crate::audio::{RATE, Recording, Source};
use media::{Heard, Negotiator, Refusal, Resampler, Seed, Session, Stream, Wishes};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

/// Random bytes.
pub(crate) fn random(bytes: &mut [u8]) {
    // Without them there are no keys that could be used, and nothing goes on.
    getrandom::fill(bytes).expect("the system gives random bytes");
}

fn random_number() -> u64 {
    let mut bytes = [0; 8];
    random(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// What sounds at this end of a call.
#[derive(Clone, Debug)]
pub(crate) enum Sound {
    Source(Source),
    /// What was heard comes back.
    Echo,
}

/// Between what sounds at this end and the codec.
struct Rates {
    /// The codec's.
    rate: u32,
    outward: Resampler,
    inward: Resampler,
}

impl Rates {
    fn new(rate: u32) -> Self {
        Self { rate, outward: Resampler::new(RATE, rate), inward: Resampler::new(rate, RATE) }
    }
}

/// The media of one call.
pub(crate) struct Leg {
    pub(crate) negotiator: Negotiator,
    pub(crate) session: Option<Session>,
    pub(crate) socket: UdpSocket,
    local: IpAddr,
    pub(crate) sound: Sound,
    /// Whether silence is sent in its place.
    pub(crate) mutes: bool,
    recording: Option<Recording>,
    rates: Rates,
    /// What was played last, for an echo.
    last: Vec<i16>,
    packet: Vec<u8>,
}

impl Leg {
    /// One that receives at `local`.
    ///
    /// # Errors
    /// When there is no port to be had.
    pub(crate) fn new(
        local: IpAddr,
        wishes: Wishes,
        sound: Sound,
        recording: Option<Recording>,
    ) -> io::Result<Self> {
        let socket = UdpSocket::bind((local, 0))?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        // Numbers that some read as signed ones of 32 bits.
        let negotiator = Negotiator::new(wishes, address, random_number() >> 33);
        let (session, last, packet) = (None, Vec::new(), Vec::new());
        Ok(Self {
            negotiator,
            session,
            socket,
            local,
            sound,
            mutes: false,
            recording,
            rates: Rates::new(RATE),
            last,
            packet,
        })
    }

    /// Where it receives.
    pub(crate) fn local(&self) -> IpAddr {
        self.local
    }

    /// Begins the session of `stream`, or goes on with it. False where its keys cannot be used.
    pub(crate) fn carry(&mut self, stream: Stream) -> bool {
        match &mut self.session {
            Some(session) => session.renew(stream),
            None => {
                let number = random_number();
                let seed = Seed {
                    ssrc: number as u32,
                    // The rollover counter is easier to agree on from the lower half (RFC 3711 section 3.3.1).
                    sequence_number: (number >> 32) as u16 >> 1,
                    timestamp: (number >> 16) as u32,
                };
                self.session = Session::new(stream, seed);
                self.session.is_some()
            }
        }
    }

    /// The answer to `offer`, by which the session goes on.
    pub(crate) fn answer(&mut self, offer: &[u8]) -> Result<Vec<u8>, Refusal> {
        let (answer, stream) = self.negotiator.answer(offer, &mut random)?;
        match self.carry(stream) {
            true => Ok(answer),
            false => Err(Refusal::Keys),
        }
    }

    /// Reads what has come by `now`, and tells `heard` of it.
    pub(crate) fn read(&mut self, now: Duration, mut heard: impl FnMut(Heard)) {
        let mut datagram = [0; 2048];
        // A flood leaves room for everything else.
        for _ in 0..64 {
            let Ok((length, from)) = self.socket.recv_from(&mut datagram) else { return };
            if let Some(session) = &mut self.session {
                let from = SocketAddr::new(from.ip().to_canonical(), from.port());
                heard(session.receive(now, from, &mut datagram[..length]));
            }
        }
    }

    /// Sends and plays 20 ms of sound.
    pub(crate) fn tick(&mut self, now: Duration) {
        let Some(session) = &mut self.session else { return };
        let rate = session.stream().codec.sample_rate();
        if rate != self.rates.rate {
            self.rates = Rates::new(rate);
        }
        let count = RATE as usize / 50;
        let mut samples = match &mut self.sound {
            Sound::Source(source) => source.next(count),
            Sound::Echo => std::mem::take(&mut self.last),
        };
        // Whoever is held must not overhear this end.
        if self.mutes || self.negotiator.holds() {
            samples.fill(0);
        }
        samples.resize(count, 0);
        let mut frame = Vec::with_capacity(session.frame_samples());
        self.rates.outward.resample(&samples, &mut frame);
        if let Some(to) = session.send(&frame, &mut self.packet) {
            // What cannot be sent is lost like what is lost on the way.
            let _ = self.socket.send_to(&self.packet, to);
        }
        let (mut heard, mut played) = (Vec::with_capacity(frame.len()), Vec::with_capacity(count));
        session.play(now, &mut heard);
        self.rates.inward.resample(&heard, &mut played);
        if let Some(recording) = &mut self.recording {
            recording.write(&played);
        }
        self.last = played;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use media::{Codec, Security};
    use std::net::Ipv4Addr;

    /// One that sends a tone in clear.
    fn leg() -> Leg {
        let (codecs, security) = (vec![Codec::Pcmu], Security::Off);
        let wishes = Wishes { codecs, security, ..Wishes::default() };
        let sound = Sound::Source(Source::named("tone:440").unwrap());
        Leg::new(Ipv4Addr::LOCALHOST.into(), wishes, sound, None).unwrap()
    }

    #[test]
    fn whoever_is_held_hears_silence() {
        let (mut here, mut there) = (leg(), leg());
        let offer = here.negotiator.offer(&mut random);
        let answer = there.answer(&offer).unwrap();
        let stream = here.negotiator.accept(&answer).unwrap();
        assert!(here.carry(stream));
        let mut is_silent = || {
            here.negotiator.hold(!here.negotiator.holds());
            here.tick(Duration::ZERO);
            let mut datagram = [0; 2048];
            let length = there.socket.recv(&mut datagram).unwrap();
            let sound = &datagram[12..length];
            sound.iter().all(|&byte| byte == sound[0])
        };
        assert_eq!([is_silent(), is_silent()], [true, false]);
    }
}
