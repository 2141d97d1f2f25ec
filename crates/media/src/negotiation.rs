//! Offers and answers of one audio stream (RFC 3264), with keys (RFC 4568).

use crate::session::is_same;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use attributes::{NOISE, events_of, noise_of, remote_of};
use codec::Codec;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use description::{Description, in_its_place};
use sdp::negotiation::{self, Agreement, Preferences, Profile};
use sdp::{Crypto, Direction, Media};
use srtp::plus::{Plus, Scheme};
use srtp::{Policy, Suite};
use zeroize::Zeroizing;

mod attributes;
mod description;

pub use attributes::ExtendedReports;
pub use description::shorten;

/// The payload types that we give telephone events, by their clock rate: that of the codec (RFC
/// 4733 section 2.1).
const EVENTS: [(u8, u32); 2] = [(101, 8000), (110, 48_000)];
/// The suites that are offered unless all are: the one that everybody has, and the strongest.
const USUAL_SUITES: [Suite; 3] =
    [Suite::AesCm128HmacSha1_80, Suite::AesCm256HmacSha1_80, Suite::AeadAes256Gcm];
/// What is wanted of encryption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// None is offered or taken.
    Off,
    /// It is offered, and taken where it is offered; else the call goes on in clear.
    #[default]
    Optional,
    /// There is no stream without it.
    Required,
}

/// What this end can do and wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// The codecs, the preferred first.
    pub codecs: Vec<Codec>,
    /// What is wanted of encryption.
    pub security: Security,
    /// The suites of SRTP, the preferred first.
    pub suites: Vec<Suite>,
    /// Whether all of these codecs are offered, and all of these suites. Else those alone that have
    /// a good chance to be taken, for an offer of all does not fit a datagram; what others offer is
    /// taken in any case.
    pub offers_all_codecs: bool,
    /// See there.
    pub offers_all_suites: bool,
    /// The SRTP+ that is offered, if any is; all of it is taken where it is offered. In the header
    /// extension it has the number given.
    pub plus: Option<Plus>,
}

impl Default for Wishes {
    fn default() -> Self {
        Self {
            codecs: Codec::ALL.to_vec(),
            security: Security::Optional,
            suites: Suite::ALL.to_vec(),
            offers_all_codecs: false,
            offers_all_suites: false,
            plus: None,
        }
    }
}

/// What both ends have agreed on.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The codec.
    pub codec: Codec,
    /// The payload type of what we send.
    pub send_type: u8,
    /// That of what we receive.
    pub receive_type: u8,
    /// Further codecs of the answer, each with the payload types of what we send and receive:
    /// either end may change to one at any time (RFC 3264 section 5.1).
    pub others: Vec<(Codec, u8, u8)>,
    /// The payload types of telephone events, sent and received, if both know them.
    pub events: Option<(u8, u8)>,
    /// Units of a telephone event's duration in a second.
    pub events_clock_rate: u32,
    /// The payload type by which the other end tells of comfort noise, if both know it.
    pub noise: Option<u8>,
    /// Where to send; `None` while the other end holds.
    pub remote: Option<SocketAddr>,
    /// Whether we send, and whether the other end does.
    pub sends: bool,
    /// Whether the other end sends.
    pub receives: bool,
    /// The keys of both ends, if it is encrypted.
    pub security: Option<Agreement>,
    /// Random bytes, of which scheme 3 of SRTP+ makes its numbers.
    pub seed: Zeroizing<[u8; 32]>,
    /// Whether RTCP shares the port.
    pub multiplexes_rtcp: bool,
    /// Where to send RTCP if it does not share the port; `None` while the other end holds.
    pub remote_rtcp: Option<SocketAddr>,
    /// The extended reports that the other end wants.
    pub extended_reports: ExtendedReports,
    /// How much sound the other end wants in a packet, 10 to 60 ms.
    pub packet_time: Duration,
}

/// Why there is no stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// It is no session description.
    Malformed,
    /// There is no audio in it.
    NoAudio,
    /// The other end has refused the audio.
    Refused,
    /// There is no codec that both know.
    NoCommonCodec {
        /// What the other end knows.
        theirs: String,
    },
    /// Encryption is required here, and the other end does not offer or answer it.
    NotSecured,
    /// The other end requires encryption, of a kind that is not wanted or not known here.
    OnlySecured {
        /// The protocol that it names.
        protocol: String,
    },
    /// The keys in the answer are none for what was offered.
    Keys,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("the other end's session description cannot be read"),
            Self::NoAudio => f.write_str("the other end offers no audio"),
            Self::Refused => f.write_str("the other end refuses audio"),
            Self::NoCommonCodec { theirs } => {
                write!(f, "no common codec: the other end knows {theirs}")
            }
            Self::NotSecured => f.write_str("the other end offers no SRTP, and it is required"),
            Self::OnlySecured { protocol } => {
                write!(f, "the other end requires {protocol}, which is not to be had here")
            }
            Self::Keys => f.write_str("the SRTP keys in the answer do not fit the offer"),
        }
    }
}

impl core::error::Error for Refusal {}

/// Fills bytes at random: keys are made of it.
pub type Random<'r> = &'r mut dyn FnMut(&mut [u8]);

/// One end's side of the offers and answers of a call.
#[derive(Clone, Debug)]
pub struct Negotiator {
    wishes: Wishes,
    /// Where we receive.
    local: SocketAddr,
    /// Where we receive RTCP, if it does not share the port and that is not the one behind it.
    local_rtcp: Option<SocketAddr>,
    /// What our addresses look like from outside: RTP's, and that of RTCP.
    public: (Option<SocketAddr>, Option<SocketAddr>),
    /// Whether extended reports are wanted here.
    wants_extended_reports: bool,
    id: u64,
    version: u64,
    holds: bool,
    /// The keys that were offered last.
    offered: Vec<Crypto>,
    /// The keys of both ends that were agreed on last.
    agreed: Option<Agreement>,
    /// Whether the stream was encrypted: then it never is in clear again (downgrade).
    was_secured: bool,
    seed: Zeroizing<[u8; 32]>,
}

impl Negotiator {
    /// One that receives at `local`; `id` tells the session from others (RFC 8866 section 5.2).
    #[must_use]
    pub fn new(wishes: Wishes, local: SocketAddr, id: u64) -> Self {
        Self {
            wishes,
            local,
            local_rtcp: None,
            public: (None, None),
            wants_extended_reports: true,
            id,
            version: 0,
            holds: false,
            offered: Vec::new(),
            agreed: None,
            was_secured: false,
            seed: Zeroizing::new([0; 32]),
        }
    }

    /// Receives at `local` from the next offer or answer on.
    pub const fn move_to(&mut self, local: SocketAddr) {
        self.local = local;
    }

    /// Receives RTCP there from the next offer or answer on, where it does not share RTP's port.
    /// Without it, it is the port behind RTP's.
    pub const fn receive_rtcp_at(&mut self, local: Option<SocketAddr>) {
        self.local_rtcp = local;
    }

    /// Names these addresses from the next offer or answer on in place of the local ones: what
    /// RTP's and RTCP's sockets look like from outside of a NAT, as a [`Mapper`](crate::Mapper)
    /// finds out. `None`: the local ones.
    pub const fn publish(&mut self, rtp: Option<SocketAddr>, rtcp: Option<SocketAddr>) {
        self.public = (rtp, rtcp);
    }

    /// Whether the other end is asked for extended reports (RFC 3611); it is unless this says
    /// otherwise.
    pub const fn want_extended_reports(&mut self, wants: bool) {
        self.wants_extended_reports = wants;
    }

    /// Holds the other end from the next offer on, or not any more.
    pub const fn hold(&mut self, holds: bool) {
        self.holds = holds;
    }

    /// Whether this end holds, or wants to: it has nothing to say then.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.holds
    }

    /// Takes nothing but SRTP from the next offer or answer on.
    pub const fn require_security(&mut self) {
        self.wishes.security = Security::Required;
    }

    const fn requires_security(&self) -> bool {
        matches!(self.wishes.security, Security::Required) || self.was_secured
    }

    /// The next offer with new keys: for an offer that the other end asks for, which it may pass on
    /// to another one.
    pub fn offer_anew(&mut self, random: Random<'_>) -> Vec<u8> {
        self.agreed = None;
        self.offer(random)
    }

    /// The next offer. A key in use stays (RFC 4568 section 7.1.4), so that no packet on its way is
    /// refused where nothing else changes.
    pub fn offer(&mut self, random: Random<'_>) -> Vec<u8> {
        random(&mut *self.seed);
        self.offered = match self.wishes.security {
            Security::Off => Vec::new(),
            _ => self.keys(random),
        };
        let protocol = if self.requires_security() { "RTP/SAVP" } else { "RTP/AVP" };
        let types = self.payload_types();
        let is_used = |&(_, rate): &(u8, u32)| {
            rate == 8000 || types.iter().any(|(_, codec)| codec.clock_rate() == rate)
        };
        let events: Vec<_> = EVENTS.into_iter().filter(is_used).collect();
        let noise = types.iter().any(|(_, codec)| codec.clock_rate() == NOISE.1);
        let direction = if self.holds { "sendonly" } else { "sendrecv" };
        let keys = self.offered.clone();
        self.describe(&Description {
            protocol,
            types: &types,
            noise,
            events: &events,
            direction,
            keys: &keys,
            multiplexes_rtcp: true,
            extended_reports: self.wants_extended_reports,
        })
    }

    /// Our codecs with the payload types that we offer them under.
    fn payload_types(&self) -> Vec<(u8, Codec)> {
        let is_free = |number: &u8| EVENTS.iter().all(|(taken, _)| taken != number);
        let mut dynamic = rtp::payload::DYNAMIC.filter(is_free);
        let is_offered = |codec: &&Codec| self.wishes.offers_all_codecs || codec.is_usual();
        let codecs = self.wishes.codecs.iter().filter(is_offered);
        let numbered = codecs.filter_map(|&codec| {
            Some((codec.static_payload_type().or_else(|| dynamic.next())?, codec))
        });
        numbered.collect()
    }

    fn keys(&self, random: Random<'_>) -> Vec<Crypto> {
        let is_offered =
            |suite: &&Suite| self.wishes.offers_all_suites || USUAL_SUITES.contains(*suite);
        let suites = self.wishes.suites.iter().filter(is_offered);
        let used = self.agreed.as_ref().map(|agreed| agreed.send.clone());
        let used_suite = used.as_ref().map(|crypto| crypto.policy.suite);
        let made = suites.filter(|suite| Some(**suite) != used_suite).filter_map(|&suite| {
            let mut bytes = alloc::vec![0; suite.key_length() + suite.salt_length()];
            random(&mut bytes);
            let mut policy = Policy::new(suite);
            policy.plus = self.wishes.plus;
            Crypto::new(0, policy, &bytes).ok()
        });
        let mut keys: Vec<Crypto> = used.into_iter().chain(made).collect();
        (1..).zip(&mut keys).for_each(|(tag, key)| key.tag = tag);
        keys
    }

    fn describe(&mut self, description: &Description<'_>) -> Vec<u8> {
        self.version += 1;
        let (public, public_rtcp) = self.public;
        let local = public.unwrap_or(self.local);
        let rtcp = public.map_or(self.local_rtcp, |_| public_rtcp);
        description.write((self.id, self.version), local, rtcp)
    }

    /// Answers `offer`: the answer, and the stream that comes of it.
    ///
    /// # Errors
    /// [`Refusal`]: the offer is to be refused with 488, and what was agreed on before stays.
    pub fn answer(
        &mut self,
        offer: &[u8],
        random: Random<'_>,
    ) -> Result<(Vec<u8>, Stream), Refusal> {
        random(&mut *self.seed);
        let session = sdp::Session::parse(offer).map_err(|_| Refusal::Malformed)?;
        let (place, media) = audio_of(&session).ok_or(Refusal::NoAudio)?;
        let profile = Profile::of(media.protocol);
        let mut security = self.secure_answer(media, profile, random)?;
        // A key of theirs that stays keeps ours.
        if let (Some(now), Some(before)) = (&mut security, &self.agreed)
            && is_same(&now.receive, &before.receive)
            && now.send.policy == before.send.policy
        {
            now.send.keys.clone_from(&before.send.keys);
        }
        let (codec, number) = self.common_codec(media)?;
        let events = events_of(media, codec);
        let theirs = media.direction(&session);
        let (sends, receives) = self.directions(theirs);
        let direction = match (sends, receives) {
            (true, true) => "sendrecv",
            (true, false) => "sendonly",
            (false, true) => "recvonly",
            (false, false) => "inactive",
        };
        let keys: Vec<Crypto> = security.iter().map(|agreed| agreed.send.clone()).collect();
        let mux = media.multiplexes_rtcp();
        let extended_reports = ExtendedReports::of(&session, media);
        // An answer names reports only where the offer does (RFC 3611 section 5.2).
        let reports = self.wants_extended_reports && extended_reports.is_any();
        let noise = noise_of(media, codec);
        let own = self.describe(&Description {
            protocol: media.protocol,
            types: &[(number, codec)],
            noise: noise.is_some(),
            events: events.as_slice(),
            direction,
            keys: &keys,
            multiplexes_rtcp: mux,
            extended_reports: reports,
        });
        let answer = in_its_place(&own, &session, place);
        self.was_secured |= security.is_some();
        self.agreed.clone_from(&security);
        // An offer of ours within this session keeps the SRTP+ that the other end has brought.
        let plus = security.as_ref().and_then(|agreed| agreed.send.policy.plus);
        self.wishes.plus = plus.or(self.wishes.plus);
        let stream = Stream {
            codec,
            send_type: number,
            receive_type: number,
            others: Vec::new(),
            events: events.map(|(number, _)| (number, number)),
            events_clock_rate: events.map_or(8000, |(_, rate)| rate),
            noise,
            remote: remote_of(&session, media),
            sends,
            receives,
            security,
            seed: self.seed.clone(),
            multiplexes_rtcp: mux,
            remote_rtcp: attributes::remote_rtcp(remote_of(&session, media), media),
            extended_reports,
            packet_time: attributes::packet_time(media),
        };
        Ok((answer, stream))
    }

    fn secure_answer(
        &self,
        media: &Media<'_>,
        profile: Option<Profile>,
        random: Random<'_>,
    ) -> Result<Option<Agreement>, Refusal> {
        let only_secured = || Refusal::OnlySecured { protocol: media.protocol.to_string() };
        let is_optional = match profile {
            Some(Profile::Plain) => true,
            Some(Profile::Secure) => false,
            Some(Profile::Dtls) | None => return Err(only_secured()),
        };
        let wants = self.wishes.security != Security::Off;
        let mut preferences = Preferences::secure();
        preferences.suites.clone_from(&self.wishes.suites);
        preferences.plus = [Scheme::SEQUENCE, Scheme::Hash, Scheme::CHAIN, Scheme::Header].into();
        let offered = negotiation::offered(media);
        let agreed = wants.then(|| negotiation::answer(&offered, &preferences, random)).flatten();
        match agreed {
            Some(agreed) => Ok(Some(agreed)),
            None if self.requires_security() => Err(Refusal::NotSecured),
            None if is_optional => Ok(None),
            None => Err(only_secured()),
        }
    }

    /// Takes the answer to our last offer.
    ///
    /// # Errors
    /// [`Refusal`]: there is no stream by it.
    pub fn accept(&mut self, answer: &[u8]) -> Result<Stream, Refusal> {
        let session = sdp::Session::parse(answer).map_err(|_| Refusal::Malformed)?;
        let media = session.media.first().filter(|media| media.kind == "audio");
        let media = media.ok_or(Refusal::NoAudio)?;
        if media.port == 0 {
            return Err(Refusal::Refused);
        }
        let answered = negotiation::offered(media);
        let security = negotiation::accept(&self.offered, &answered);
        if security.is_none() {
            if self.requires_security() {
                return Err(Refusal::NotSecured);
            }
            // Keys that nobody has asked for are for nothing: some phones always name theirs. Those
            // that cannot be read were for some of ours, and the other end is going to encrypt.
            let names_keys = media.attributes("crypto").next().is_some();
            let has_wrong_keys = names_keys && !self.offered.is_empty();
            if Profile::of(media.protocol) != Some(Profile::Plain) || has_wrong_keys {
                return Err(Refusal::Keys);
            }
        }
        let (codec, number) = self.common_codec(media)?;
        self.was_secured |= security.is_some();
        self.agreed.clone_from(&security);
        let (sends, receives) = self.directions(media.direction(&session));
        // What we receive is numbered as we have offered it (RFC 3264 section 5.1).
        let types = self.payload_types();
        let offered_as = |codec: Codec| types.iter().find(|(_, ours)| *ours == codec);
        let offered = offered_as(codec);
        let others = self.known_codecs(media).filter(|(other, _)| *other != codec);
        let others = others.filter_map(|(codec, number)| {
            offered_as(codec).map(|(receive, _)| (codec, number, *receive))
        });
        let others = others.collect();
        // Who names one of our numbers, though with another clock rate, has taken that one.
        let events = events_of(media, codec).and_then(|(number, rate)| {
            let mut offered = EVENTS.into_iter();
            let same = offered.clone().find(|(offered, _)| *offered == number);
            let (ours, _) = same.or_else(|| offered.find(|(_, offered)| *offered == rate))?;
            Some((number, ours, rate))
        });
        Ok(Stream {
            codec,
            send_type: number,
            receive_type: offered.map_or(number, |(ours, _)| *ours),
            others,
            events: events.map(|(theirs, ours, _)| (theirs, ours)),
            events_clock_rate: events.map_or(8000, |(.., rate)| rate),
            noise: noise_of(media, codec),
            remote: remote_of(&session, media),
            sends,
            receives,
            security,
            seed: self.seed.clone(),
            multiplexes_rtcp: media.multiplexes_rtcp(),
            remote_rtcp: attributes::remote_rtcp(remote_of(&session, media), media),
            extended_reports: ExtendedReports::of(&session, media),
            packet_time: attributes::packet_time(media),
        })
    }

    /// Whether we send and receive, by what the other end says of itself.
    fn directions(&self, theirs: Direction) -> (bool, bool) {
        let (send, receive) = match theirs {
            Direction::SendReceive => (true, true),
            Direction::SendOnly => (false, true),
            Direction::ReceiveOnly => (true, false),
            Direction::Inactive => (false, false),
        };
        (send, receive && !self.holds)
    }

    /// The codecs of the other end's list that we know, with their payload types.
    fn known_codecs<'s>(
        &'s self,
        media: &'s Media<'_>,
    ) -> impl Iterator<Item = (Codec, u8)> + use<'s> {
        let codec_of = move |number: u8| {
            let named = media.rtpmaps().find(|map| map.payload_type == number);
            let (name, rate) = match named {
                Some(map) => (map.name, map.clock_rate),
                None => {
                    let format = rtp::payload::static_format(number)?;
                    (format.name, format.clock_rate)
                }
            };
            Codec::named(name, rate).filter(|codec| self.wishes.codecs.contains(codec))
        };
        let numbers = media.formats().filter_map(|format| format.parse::<u8>().ok());
        numbers.filter_map(move |number| Some((codec_of(number)?, number)))
    }

    /// The first codec of the other end's list that we know, with its payload type.
    fn common_codec(&self, media: &Media<'_>) -> Result<(Codec, u8), Refusal> {
        let numbers = || media.formats().filter_map(|format| format.parse::<u8>().ok());
        let found = self.known_codecs(media).next();
        found.ok_or_else(|| {
            let names: Vec<String> = numbers()
                .map(|number| {
                    let named = media.rtpmaps().find(|map| map.payload_type == number);
                    let fixed = rtp::payload::static_format(number).map(|format| format.name);
                    named.map(|map| map.name).or(fixed).unwrap_or("an unnamed one").to_string()
                })
                .collect();
            Refusal::NoCommonCodec { theirs: names.join(", ") }
        })
    }
}

/// The first audio that is not refused, with its place among the media.
fn audio_of<'s, 'a>(session: &'s sdp::Session<'a>) -> Option<(usize, &'s Media<'a>)> {
    let media = session.media.iter().enumerate();
    let mut audio = media.filter(|(_, media)| media.kind.eq_ignore_ascii_case("audio"));
    audio.find(|(_, media)| media.port != 0)
}

#[cfg(test)]
mod field;
#[cfg(test)]
mod tests;
