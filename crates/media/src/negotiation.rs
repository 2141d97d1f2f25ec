//! Offers and answers of one audio stream (RFC 3264), with SRTP keys (RFC 4568).

use crate::error::SessionError;
use crate::keying::{KeyAgreement, Keying};
use alloc::string::String;
use alloc::vec::Vec;
use attributes::{NOISE, events_of, noise_of, remote_of};
use codec::Codec;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use description::{Description, MediaLines};
use sdp::dtls::{Setup, tls_id};
use sdp::ice::IceParameters;
use sdp::{CryptoAttribute, Direction, MediaDescription, RtpMap};
use srtp::Suite;
use srtp::plus::SrtpPlus;
use zeroize::Zeroizing;

mod attributes;
mod description;
mod keys;

pub use attributes::ExtendedReports;
pub use description::shorten;

/// The local payload types of telephone events, each with its clock rate, which is that of the
/// codec (RFC 4733 section 2.1).
const EVENTS: [(u8, u32); 2] = [(101, 8000), (110, 48_000)];

/// The maximum number of codecs that a refusal names, and the maximum length of each name in
/// characters.
const MAX_NAMES: usize = 16;
const MAX_NAME: usize = 32;

/// The policy for encryption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// SRTP is neither offered nor accepted.
    Off,
    /// SRTP is offered, and accepted if offered. Otherwise the call continues in clear.
    #[default]
    Optional,
    /// A stream without SRTP is rejected.
    Required,
}

/// The media capabilities and preferences of the local end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaConfig {
    /// The codecs, the preferred one first.
    pub codecs: Vec<Codec>,
    /// The policy for encryption.
    pub security: Security,
    /// The protocols for the agreement on keys, the preferred one first. All of them are offered
    /// where the policy permits a stream in clear (RFC 8643), otherwise those of one profile.
    pub key_agreements: Vec<KeyAgreement>,
    /// The SRTP suites, the preferred one first.
    pub suites: Vec<Suite>,
    /// True if an offer has all of `codecs`. Otherwise it has only the usual ones, since an offer
    /// of all codecs and suites does not fit into a datagram. All of them are accepted from the
    /// other end in any case.
    pub offers_all_codecs: bool,
    /// True if an offer has all of `suites`, as for `offers_all_codecs`.
    pub offers_all_suites: bool,
    /// The SRTP+ scheme to offer, if any, with the position of its tags. All schemes are accepted
    /// if offered.
    pub plus: Option<SrtpPlus>,
    /// True if an answer takes the role of the DTLS client where the offer leaves the choice, as
    /// those of browsers do (RFC 5763 section 5). Otherwise the local end is the server then.
    pub answers_as_client: bool,
}

impl Default for MediaConfig {
    fn default() -> Self {
        Self {
            codecs: Codec::ALL.to_vec(),
            security: Security::Optional,
            key_agreements: [KeyAgreement::Sdes].into(),
            suites: Suite::ALL.to_vec(),
            offers_all_codecs: false,
            offers_all_suites: false,
            plus: None,
            answers_as_client: false,
        }
    }
}

/// The negotiated stream.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The codec.
    pub codec: Codec,
    /// The payload type of sent packets.
    pub send_type: u8,
    /// The payload type of received packets.
    pub receive_type: u8,
    /// The further codecs of the answer, each with the payload types of sent and received packets.
    /// Either end may change to one of them at any time (RFC 3264 section 5.1).
    pub others: Vec<(Codec, u8, u8)>,
    /// The payload types of sent and received telephone events, if both ends support them.
    pub events: Option<(u8, u8)>,
    /// The clock rate of the duration of telephone events, in hertz.
    pub events_clock_rate: u32,
    /// The payload type of comfort noise, if both ends support it.
    pub noise: Option<u8>,
    /// The destination of RTP. `None` while the other end holds.
    pub remote: Option<SocketAddr>,
    /// True if the local end sends.
    pub sends: bool,
    /// True if the other end sends.
    pub receives: bool,
    /// The keying of both ends.
    pub keying: Keying,
    /// Random bytes, from which scheme 3 of SRTP+ derives its numbers.
    pub seed: Zeroizing<[u8; 32]>,
    /// True if RTP and RTCP share a port.
    pub multiplexes_rtcp: bool,
    /// The destination of RTCP if it has a port of its own. `None` while the other end holds.
    pub remote_rtcp: Option<SocketAddr>,
    /// The extended reports that the other end requests.
    pub extended_reports: ExtendedReports,
    /// The packet duration that the other end requests, 10 to 60 ms.
    pub packet_time: Duration,
}

/// The reason for a failed negotiation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The session description is invalid.
    Malformed,
    /// The session description has no audio.
    NoAudio,
    /// The other end rejects the audio.
    Refused,
    /// No codec is common to both ends.
    NoCommonCodec {
        /// The codecs of the other end.
        theirs: String,
    },
    /// The local end requires encryption, and the other end does not offer or answer it.
    NotSecured,
    /// The other end requires encryption of a kind that is disabled or unsupported here.
    OnlySecured {
        /// The transport protocol of the other end.
        protocol: String,
    },
    /// The keys in the answer do not match the offer.
    Keys,
    /// The session cannot carry the negotiated stream.
    Session(SessionError),
}

impl From<SessionError> for Refusal {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
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
                write!(f, "the other end requires {protocol}, which is not available here")
            }
            Self::Keys => f.write_str("the SRTP keys in the answer do not fit the offer"),
            Self::Session(error) => write!(f, "{error}"),
        }
    }
}

impl core::error::Error for Refusal {}

/// A source of random bytes, used for keys.
pub type Random<'r> = &'r mut dyn FnMut(&mut [u8]);

/// The state of the offers and answers of a call at one end.
#[derive(Clone, Debug)]
pub struct Negotiator {
    media_config: MediaConfig,
    /// The local address of RTP.
    local: SocketAddr,
    /// The local address of RTCP, if it does not share the port and is not the port after RTP's.
    local_rtcp: Option<SocketAddr>,
    /// The public addresses of RTP and of RTCP.
    public: (Option<SocketAddr>, Option<SocketAddr>),
    /// The lines of ICE in local descriptions, if it is used.
    ice: Option<String>,
    /// True if the local end requests extended reports.
    wants_extended_reports: bool,
    id: u64,
    version: u64,
    /// The media of the last offer of the other end.
    media: MediaLines,
    holds: bool,
    /// The keys of the last offer.
    offered: Vec<CryptoAttribute>,
    /// The keying that was last agreed on.
    agreed: Keying,
    /// True if the stream was encrypted. It is never in clear again (downgrade protection).
    was_secured: bool,
    /// The identifier of the DTLS association at the local end (`a=tls-id`).
    tls_id: String,
    seed: Zeroizing<[u8; 32]>,
}

impl Negotiator {
    /// Returns a negotiator that receives at `local`. `id` is the identifier of the session (RFC
    /// 8866 section 5.2).
    #[must_use]
    pub fn new(media_config: MediaConfig, local: SocketAddr, id: u64) -> Self {
        Self {
            media_config,
            local,
            local_rtcp: None,
            public: (None, None),
            ice: None,
            wants_extended_reports: true,
            id,
            version: 0,
            media: MediaLines::default(),
            holds: false,
            offered: Vec::new(),
            agreed: Keying::None,
            was_secured: false,
            tls_id: String::new(),
            seed: Zeroizing::new([0; 32]),
        }
    }

    /// Changes the local address of RTP from the next offer or answer on.
    pub const fn move_to(&mut self, local: SocketAddr) {
        self.local = local;
    }

    /// Changes the local address of RTCP from the next offer or answer on, for the case that it
    /// does not share the port of RTP. `None` is the port after RTP's.
    pub const fn receive_rtcp_at(&mut self, local: Option<SocketAddr>) {
        self.local_rtcp = local;
    }

    /// Sets the public addresses of RTP and RTCP, which replace the local ones from the next offer
    /// or answer on. They are the addresses outside of a NAT, as a [`Mapper`](crate::Mapper)
    /// discovers them. `None` restores the local addresses.
    pub const fn publish(&mut self, rtp: Option<SocketAddr>, rtcp: Option<SocketAddr>) {
        self.public = (rtp, rtcp);
    }

    /// Sets the lines of ICE in the next offers, and in answers to offers with ICE: credentials and
    /// candidates (RFC 8839), each line with CR LF.
    pub fn set_ice(&mut self, lines: Option<String>) {
        self.ice = lines;
    }

    /// Sets whether extended reports are requested from the other end (RFC 3611). The default is
    /// true.
    pub const fn want_extended_reports(&mut self, wants: bool) {
        self.wants_extended_reports = wants;
    }

    /// Puts the other end on hold from the next offer on, or resumes the stream.
    pub const fn hold(&mut self, holds: bool) {
        self.holds = holds;
    }

    /// Returns true if the local end holds the stream, or will with the next offer.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.holds
    }

    /// Requires SRTP from the next offer or answer on.
    pub const fn require_security(&mut self) {
        self.media_config.security = Security::Required;
    }

    const fn requires_security(&self) -> bool {
        matches!(self.media_config.security, Security::Required) || self.was_secured
    }

    /// Returns the next offer, with new keys. It responds to an INVITE without an offer, and the
    /// other end may pass it on to a third party.
    pub fn offer_anew(&mut self, random: Random<'_>) -> Vec<u8> {
        self.agreed = Keying::None;
        self.tls_id.clear();
        self.offer(random)
    }

    /// Returns the next offer. A key in use stays (RFC 4568 section 7.1.4), so that no packet in
    /// transit is rejected if nothing else changes.
    pub fn offer(&mut self, random: Random<'_>) -> Vec<u8> {
        random(&mut *self.seed);
        let offered = self.offered_agreements();
        let (protocol, dtls, zrtp) = (offered.protocol, offered.dtls, offered.zrtp);
        self.offered = if offered.has_sdes { self.keys(random) } else { Vec::new() };
        if dtls.is_some() && self.tls_id.is_empty() {
            self.tls_id = tls_id(random);
        }
        let types = self.payload_types();
        let is_used = |&(_, rate): &(u8, u32)| {
            rate == 8000 || types.iter().any(|(_, codec)| codec.clock_rate() == rate)
        };
        let events: Vec<_> = EVENTS.into_iter().filter(is_used).collect();
        let noise = types.iter().any(|(_, codec)| codec.clock_rate() == NOISE.1);
        let direction = if self.holds { "sendonly" } else { "sendrecv" };
        let (keys, ice) = (self.offered.clone(), self.ice.clone());
        let own = self.describe(&Description {
            protocol,
            types: &types,
            noise,
            events: &events,
            direction,
            keys: &keys,
            dtls: dtls.as_ref().map(|fingerprint| (fingerprint, Setup::ActPass)),
            zrtp: zrtp.as_deref(),
            multiplexes_rtcp: true,
            ice: ice.as_deref(),
            extended_reports: self.wants_extended_reports,
        });
        self.media.fill(own)
    }

    /// Returns the local codecs with their payload types in an offer.
    fn payload_types(&self) -> Vec<(u8, Codec)> {
        let is_free = |number: &u8| EVENTS.iter().all(|(taken, _)| taken != number);
        let mut dynamic = rtp::payload::DYNAMIC_PAYLOAD_TYPES.filter(is_free);
        let is_offered =
            |codec: &&Codec| self.media_config.offers_all_codecs || codec.is_offered_by_default();
        let codecs = self.media_config.codecs.iter().filter(is_offered);
        let numbered = codecs.filter_map(|&codec| {
            Some((codec.static_payload_type().or_else(|| dynamic.next())?, codec))
        });
        numbered.collect()
    }

    fn describe(&mut self, description: &Description<'_>) -> Vec<u8> {
        self.version += 1;
        let (public, public_rtcp) = self.public;
        let local = public.unwrap_or(self.local);
        let rtcp = public.map_or(self.local_rtcp, |_| public_rtcp);
        description.write((self.id, self.version), &self.tls_id, local, rtcp)
    }

    /// Answers `offer`. Returns the answer and the stream.
    ///
    /// # Errors
    /// [`Refusal`]: the caller rejects the offer with 488. The last agreement stays in force.
    pub fn answer(
        &mut self,
        offer: &[u8],
        random: Random<'_>,
    ) -> Result<(Vec<u8>, Stream), Refusal> {
        random(&mut *self.seed);
        let session = sdp::SessionDescription::parse(offer).map_err(|_| Refusal::Malformed)?;
        let (place, media) = audio_of(&session).ok_or(Refusal::NoAudio)?;
        let keying = self.answer_keying(&session, media, random)?;
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
        let keys: Vec<CryptoAttribute> =
            keying.sdes().iter().map(|agreed| agreed.send.clone()).collect();
        let mux = media.multiplexes_rtcp();
        let extended_reports = ExtendedReports::of(&session, media);
        let dtls = self.answered_dtls(&keying, random);
        let zrtp = self.own_zrtp();
        // An answer names reports only if the offer does (RFC 3611 section 5.2).
        let reports = self.wants_extended_reports && extended_reports.is_any();
        let noise = noise_of(media, codec);
        let ice = self.ice.clone().filter(|_| offers_ice(&session, media));
        let own = self.describe(&Description {
            protocol: media.protocol,
            types: &[(number, codec)],
            noise: noise.is_some(),
            events: events.as_slice(),
            direction,
            keys: &keys,
            dtls: dtls.as_ref().map(|(fingerprint, setup)| (fingerprint, *setup)),
            zrtp: keying.zrtp().and(zrtp.as_deref()),
            multiplexes_rtcp: mux,
            ice: ice.as_deref(),
            extended_reports: reports,
        });
        self.media = MediaLines::of(&session, place);
        let answer = self.media.fill(own);
        self.was_secured |= keying.is_encrypted();
        self.agreed.clone_from(&keying);
        // A later local offer of this session keeps the SRTP+ scheme of the other end.
        let plus = keying.sdes().and_then(|agreed| agreed.send.policy.plus);
        self.media_config.plus = plus.or(self.media_config.plus);
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
            keying,
            seed: self.seed.clone(),
            multiplexes_rtcp: mux,
            remote_rtcp: attributes::remote_rtcp(remote_of(&session, media), media),
            extended_reports,
            packet_time: attributes::packet_time(media),
        };
        Ok((answer, stream))
    }

    /// Processes the answer to the last local offer. Returns the stream.
    ///
    /// # Errors
    /// [`Refusal`]: the answer does not result in a stream.
    pub fn accept(&mut self, answer: &[u8]) -> Result<Stream, Refusal> {
        let session = sdp::SessionDescription::parse(answer).map_err(|_| Refusal::Malformed)?;
        let media = session.media.get(self.media.place);
        let media = media.filter(|media| media.media_type == "audio");
        let media = media.ok_or(Refusal::NoAudio)?;
        if media.port == 0 {
            return Err(Refusal::Refused);
        }
        let keying = self.accept_keying(&session, media)?;
        let (codec, number) = self.common_codec(media)?;
        self.was_secured |= keying.is_encrypted();
        self.agreed.clone_from(&keying);
        let (sends, receives) = self.directions(media.direction(&session));
        // The offer numbers the payload types of received packets (RFC 3264 section 5.1).
        let types = self.payload_types();
        let offered_as = |codec: Codec| types.iter().find(|(_, ours)| *ours == codec);
        let offered = offered_as(codec);
        let others = self.known_codecs(media).filter(|(other, _)| *other != codec);
        let others = others.filter_map(|(codec, number)| {
            offered_as(codec).map(|(receive, _)| (codec, number, *receive))
        });
        let others = others.collect();
        // A number of the offer selects that entry, even with another clock rate.
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
            keying,
            seed: self.seed.clone(),
            multiplexes_rtcp: media.multiplexes_rtcp(),
            remote_rtcp: attributes::remote_rtcp(remote_of(&session, media), media),
            extended_reports: ExtendedReports::of(&session, media),
            packet_time: attributes::packet_time(media),
        })
    }

    /// Returns whether the local end sends and receives, from the direction `theirs` of the other
    /// end.
    fn directions(&self, theirs: Direction) -> (bool, bool) {
        let (send, receive) = match theirs {
            Direction::SendReceive => (true, true),
            Direction::SendOnly => (false, true),
            Direction::ReceiveOnly => (true, false),
            Direction::Inactive => (false, false),
        };
        (send, receive && !self.holds)
    }

    /// Returns the known codecs of the other end's list, with their payload types.
    fn known_codecs<'s>(
        &'s self,
        media: &'s MediaDescription<'_>,
    ) -> impl Iterator<Item = (Codec, u8)> + use<'s> {
        let codec_of = move |number: u8, map: Option<RtpMap<'_>>| {
            let (name, rate) = match map {
                Some(map) => (map.name, map.clock_rate),
                None => {
                    let format = rtp::payload::static_format(number)?;
                    (format.name, format.clock_rate)
                }
            };
            Codec::from_encoding_name(name, rate)
                .filter(|codec| self.media_config.codecs.contains(codec))
        };
        let types = media.payload_types().into_iter();
        types.filter_map(move |(number, map)| Some((codec_of(number, map)?, number)))
    }

    /// Returns the first known codec of the other end's list, with its payload type.
    fn common_codec(&self, media: &MediaDescription<'_>) -> Result<(Codec, u8), Refusal> {
        let found = self.known_codecs(media).next();
        found.ok_or_else(|| {
            let name = |(number, map): (u8, Option<RtpMap<'_>>)| {
                let fixed = rtp::payload::static_format(number).map(|format| format.name);
                let name = map.map(|map| map.name).or(fixed).unwrap_or("an unnamed one");
                name.chars().take(MAX_NAME).collect::<String>()
            };
            let types = media.payload_types().into_iter().take(MAX_NAMES);
            let names: Vec<String> = types.map(name).collect();
            Refusal::NoCommonCodec { theirs: names.join(", ") }
        })
    }
}

/// Returns the first audio stream that is not rejected, with its index among the media.
fn audio_of<'s, 'a>(
    session: &'s sdp::SessionDescription<'a>,
) -> Option<(usize, &'s MediaDescription<'a>)> {
    let media = session.media.iter().enumerate();
    let mut audio = media.filter(|(_, media)| media.media_type.eq_ignore_ascii_case("audio"));
    audio.find(|(_, media)| media.port != 0)
}

/// Returns true if the description has credentials of ICE for the medium.
fn offers_ice(session: &sdp::SessionDescription<'_>, media: &MediaDescription<'_>) -> bool {
    matches!(IceParameters::of(media, session), Ok(Some(_)))
}

#[cfg(test)]
mod field;
#[cfg(test)]
mod tests;
