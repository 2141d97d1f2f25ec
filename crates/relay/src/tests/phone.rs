//! A phone at an end of a relayed call.

use super::*;

/// A phone with a media session.
pub(super) struct Phone {
    negotiator: Negotiator,
    pub(super) session: Option<Session>,
    pub(super) place: SocketAddr,
    random: u8,
}

impl Phone {
    pub(super) fn new(host: [u8; 4], security: Security) -> Self {
        Self::with(host, MediaConfig { security, ..MediaConfig::default() })
    }

    /// A phone with one codec.
    pub(super) fn with_codec(host: [u8; 4], security: Security, codec: Codec) -> Self {
        let (codecs, offers_all_codecs) = ([codec].into(), true);
        Self::with(host, MediaConfig { security, codecs, offers_all_codecs, ..Default::default() })
    }

    pub(super) fn with(host: [u8; 4], config: MediaConfig) -> Self {
        let place = SocketAddr::new(host.into(), 4000);
        Self {
            negotiator: Negotiator::new(config, place, 1),
            session: None,
            place,
            random: host[0],
        }
    }

    pub(super) fn random(seed: &mut u8) -> impl FnMut(&mut [u8]) {
        |bytes| {
            bytes.iter_mut().for_each(|byte| {
                *seed = seed.wrapping_mul(37).wrapping_add(11);
                *byte = *seed;
            });
        }
    }

    pub(super) fn offer(&mut self) -> String {
        let offer = self.negotiator.offer(&mut Self::random(&mut self.random));
        String::from_utf8(offer).unwrap()
    }

    pub(super) fn answer(&mut self, offer: &str) -> Option<String> {
        let Self { negotiator, random, .. } = self;
        let answer = negotiator.answer(offer.as_bytes(), &mut Self::random(random));
        let (answer, stream) = answer.ok()?;
        self.carry(stream);
        Some(String::from_utf8(answer).unwrap())
    }

    pub(super) fn accept(&mut self, answer: &str) {
        let stream = self.negotiator.accept(answer.as_bytes()).expect("an acceptable answer");
        self.carry(stream);
    }

    pub(super) fn carry(&mut self, stream: media::Stream) {
        match &mut self.session {
            Some(session) => session.renew(stream).expect("usable keys"),
            None => {
                let seed = Seed { ssrc: self.random.into(), sequence_number: 65_530, timestamp: 1 };
                self.session = Some(Session::new(stream, seed).expect("usable keys"));
            }
        }
    }

    pub(super) fn packet(&mut self) -> Vec<u8> {
        let session = self.session.as_mut().expect("a session");
        let mut packet = Vec::new();
        let frame = std::vec![1000; session.frame_samples()];
        session.send(&frame, &mut packet).expect("a destination");
        packet
    }

    /// Sends fifty packets to the other phone, through the relay.
    pub(super) fn talk(&mut self, rig: &Rig, side: Side, other: &mut Self) {
        let from = std::format!("{}", self.place);
        let before = other.session.as_ref().map_or(0, |session| session.statistics().received);
        for _ in 0..50 {
            let (to, mut packet) = rig.send(side, &from, &self.packet()).expect("a relayed packet");
            assert_eq!(to, other.place);
            let session = other.session.as_mut().expect("a session");
            session.receive(Duration::ZERO, SocketAddr::new(RELAY.into(), 20000), &mut packet);
        }
        let statistics = other.session.as_ref().expect("a session").statistics();
        assert_eq!(statistics.refused, 0);
        // The first packet of a source is not counted.
        assert!(statistics.received - before >= 49, "{statistics:?}");
    }
}
