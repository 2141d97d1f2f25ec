//! One call, or one branch of a forked call: its offers and answers, and its streams.

use crate::account::{Accounts, Charge};
use crate::announcement::{Announcement, Content};
use crate::bandwidth::Share;
use crate::codec::bit;
use crate::description::{KeyChange, MediumChange, rewrite};
use crate::digits::{Digit, Digits, Reports};
#[cfg(feature = "forks")]
use crate::early::EarlyAnswers;
use crate::end::{End, EndReport, Keying};
use crate::error::RelayError;
use crate::host::{Host, Ports};
use crate::keying::{LegKeying, LegKeys};
use crate::leg::Leg;
use crate::message_ends::Ends;
use crate::passage::{Passage, Role};
use crate::profile::{MediumProfile, MuxAnswer, MuxOffer, MuxRules, has_feedback, is_in_clear};
use crate::side::Side;
use crate::statistics::Direction;
use crate::stream::{Reporter, Stream};
use crate::transcode::{Additions, Answered, CodecRules, Conversion, FormatChange, MediumCodecs};
use crate::web::{WebAttributes, WebFault, has_ice, is_web};
use ::codec::Codec;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::net::SocketAddr;
use core::time::Duration;
use lock_api::RawMutex;
use sdp::negotiation::Profile;
use sdp::{MediaDescription, SessionDescription};
use smallvec::SmallVec;

/// The maximum number of media of a call.
pub(crate) const MAX_MEDIA: usize = 8;

/// The maximum number of callees that answer on one branch, where a later proxy forks.
const MAX_CALLEES: usize = 16;

/// The maximum length of the name of a party, in bytes. The rest is not kept.
pub(crate) const MAX_PARTY: usize = 256;

/// The time after the answer within which the first packet is expected.
const FIRST_PACKET: Duration = Duration::from_secs(5);

/// A value of the owner that is kept with a call.
pub type Attachment = Arc<dyn Any + Send + Sync>;

/// An offer and its answer.
struct Exchange {
    id: u32,
    /// True if the offer was in a response.
    in_response: bool,
    /// The announcements of the offerer, which hold after the answer.
    announced: Vec<Option<Announcement>>,
    /// The changes of rejected media in the answer.
    rejected: Vec<Option<MediumChange>>,
}

/// A medium with its ports.
struct Medium<R: RawMutex, P> {
    stream: Arc<Stream<R>>,
    ports: P,
    /// `None` for the first medium: the call is charged for it.
    _charge: Option<Charge<R>>,
    /// The keys of both legs, if their encryption ends here.
    keying: Option<Box<[LegKeying; 2]>>,
    profile: MediumProfile,
    codecs: MediumCodecs,
    /// The charge for the conversion of its audio, from the offer on.
    conversion: Option<Charge<R>>,
}

impl<R: RawMutex, P: Ports> Medium<R, P> {
    /// True if the relay has the packets under a description in clear.
    fn is_readable(&self, description: &MediaDescription<'_>) -> bool {
        self.keying.is_some() || is_in_clear(description)
    }

    /// True if the relay has the packets of an offer in clear, and they are audio.
    fn is_clear_audio(&self, description: &MediaDescription<'_>) -> bool {
        description.media_type.eq_ignore_ascii_case("audio") && self.is_readable(description)
    }

    /// Ends the rewriting of packets in their frames, and adds those that were rewritten.
    fn settle<H: Host<R, Ports = P>>(&self, legs: &mut [Leg; 2], host: &H) {
        for (leg, rewrites) in legs.iter_mut().zip(host.withdraw(&self.ports)) {
            leg.statistics.add(rewrites);
        }
    }
}

/// The rules for the profile of an offer for the end `to`. Browsers have RTP and RTCP on one port,
/// and a profile with feedback; other ends with a handshake are offered one port, too. The other
/// end of a call with them has neither, unless it has them itself. `for_web` is true or false if
/// the offer is for an end with a handshake, with feedback or without.
fn profile_rules(
    to: &End<'_>,
    is_of_browser: bool,
    for_web: Option<bool>,
) -> (Option<bool>, MuxRules) {
    let (mut feedback, mut mux) = (to.feedback, to.mux);
    if for_web.is_some() {
        (feedback, mux.offer) = (for_web, MuxOffer::Added);
    } else if is_of_browser {
        feedback = feedback.or(Some(false));
        mux.offer = MuxOffer::Removed;
    }
    if is_of_browser {
        mux.answer = MuxAnswer::Accepted;
    }
    (feedback, mux)
}

/// The change of a medium that is rejected, for the end of this leg.
fn rejected(leg: Option<&LegKeying>) -> Option<MediumChange> {
    let keys = leg?.rejected()?;
    Some(MediumChange { keys, ..MediumChange::default() })
}

/// One branch of a call.
pub(crate) struct Branch<R: RawMutex, P> {
    /// The identifier of the branch, until the callee has answered and after.
    pub(crate) id: Box<[u8]>,
    pub(crate) caller_tag: Box<[u8]>,
    pub(crate) callee_tags: SmallVec<[Box<[u8]>; 1]>,
    /// The early answers, until the callee has answered.
    #[cfg(feature = "forks")]
    pub(crate) early: EarlyAnswers,
    charge: Charge<R>,
    conversions: Arc<Accounts<R>>,
    /// The codecs that offers get, those of [`CodecRules::transcode`].
    transcode: Box<[Codec]>,
    reporter: Reporter<R>,
    /// The bandwidth that the media share.
    share: Arc<Share>,
    /// The names of the caller and of the callee.
    pub(crate) parties: [Box<[u8]>; 2],
    pub(crate) ends: [EndReport; 2],
    pub(crate) created: Duration,
    /// The time of the last description.
    pub(crate) described: Duration,
    /// The time of the last sign of an end in the signalling: a description, a provisional
    /// response, or an [answered request](crate::Calls::note_answer).
    pub(crate) signalled: Duration,
    pub(crate) ringing: Option<Duration>,
    pub(crate) answered: Option<Duration>,
    /// The result of the check for media after the answer, as soon as it is known.
    pub(crate) no_media: Option<bool>,
    pub(crate) attachment: Option<Attachment>,
    media: Vec<Option<Medium<R, P>>>,
    exchanges: [Option<Exchange>; 2],
    /// The keying that the ends had in the first exchange. `None` before.
    ends_keys: Option<bool>,
}

impl<R: RawMutex, P: Ports> Branch<R, P> {
    pub(crate) fn new(
        id: &[u8],
        caller_tag: &[u8],
        (charge, conversions, share): (Charge<R>, Arc<Accounts<R>>, Share),
        reports: &Arc<Reports<R>>,
        passage: &Passage<'_>,
    ) -> Self {
        let mut ends = [EndReport::UNKNOWN; 2];
        ends[passage.side.index()].update(&passage.from);
        ends[passage.side.other().index()].update(&passage.to);
        Self {
            id: id.into(),
            caller_tag: caller_tag.into(),
            callee_tags: SmallVec::new(),
            #[cfg(feature = "forks")]
            early: EarlyAnswers::default(),
            share: Arc::new(share),
            charge,
            conversions,
            transcode: Box::default(),
            reporter: Reporter {
                reports: Arc::clone(reports),
                call_id: passage.call_id.into(),
                caller_tag: caller_tag.into(),
            },
            parties: passage.parties.map(|name| name[..name.len().min(MAX_PARTY)].into()),
            ends,
            created: passage.now,
            described: passage.now,
            signalled: passage.now,
            ringing: None,
            answered: None,
            no_media: None,
            attachment: None,
            media: Vec::new(),
            exchanges: [None, None],
            ends_keys: None,
        }
    }

    /// Adds the tag of a callee, if it is new.
    pub(crate) fn add_callee(&mut self, tag: &[u8]) -> Result<(), RelayError> {
        if tag.is_empty() || self.callee_tags.iter().any(|known| **known == *tag) {
            return Ok(());
        }
        if self.callee_tags.len() >= MAX_CALLEES {
            return Err(RelayError::TooManyBranches);
        }
        self.callee_tags.push(tag.into());
        Ok(())
    }

    /// Rewrites the description `body`, and applies it.
    pub(crate) fn describe<H: Host<R, Ports = P>>(
        &mut self,
        host: &H,
        role: Role,
        ends: &Ends<'_>,
        body: &[u8],
        now: Duration,
    ) -> Result<String, RelayError> {
        let session = SessionDescription::parse(body)?;
        if session.media.len() > MAX_MEDIA {
            return Err(RelayError::TooManyMedia);
        }
        let (by, other) = (ends.side, ends.side.other());
        self.ends[by.index()].update(ends.from);
        self.ends[other.index()].update(ends.to);
        let mut from = *ends.from;
        from.is_proven = self.ends[by.index()].is_proven();
        let ends = &Ends { from: &from, ..*ends };
        (self.described, self.signalled) = (now, now);
        let answers = |exchange: &Option<Exchange>, id, in_response| {
            let fits = |it: &Exchange| it.id == id && it.in_response == in_response;
            exchange.as_ref().is_some_and(fits)
        };
        match role {
            Role::Response { exchange, is_final }
                if answers(&self.exchanges[other.index()], exchange, false) =>
            {
                self.answer(host, ends, &session, (is_final, now))
            }
            Role::Acknowledgement { exchange }
                if answers(&self.exchanges[other.index()], exchange, true) =>
            {
                self.answer(host, ends, &session, (true, now))
            }
            Role::Answer if self.exchanges[other.index()].is_some() => {
                let answered = self.answer(host, ends, &session, (false, now))?;
                self.answered.get_or_insert(now);
                Ok(answered)
            }
            #[cfg(feature = "forks")]
            Role::Confirmation { exchange }
                if answers(&self.exchanges[other.index()], exchange, false) =>
            {
                self.answer(host, ends, &session, (true, now))
            }
            Role::Confirmation { .. } | Role::Acknowledgement { .. } | Role::Answer => {
                Err(RelayError::NoOffer)
            }
            Role::Offer { exchange } => self.offer(host, (exchange, false), ends, &session),
            Role::Response { exchange, .. } => self.offer(host, (exchange, true), ends, &session),
        }
    }

    fn offer<H: Host<R, Ports = P>>(
        &mut self,
        host: &H,
        (id, in_response): (u32, bool),
        ends: &Ends<'_>,
        session: &SessionDescription<'_>,
    ) -> Result<String, RelayError> {
        let by = ends.side;
        let ends_keys = *self.ends_keys.get_or_insert(ends.to.keying != Keying::Passed);
        let locals = match by {
            Side::Caller => [ends.from.local, ends.to.local],
            Side::Callee => [ends.to.local, ends.from.local],
        };
        if !ends.to.codecs.transcode.is_empty() {
            self.transcode = ends.to.codecs.transcode.into();
        }
        let rules = CodecRules { transcode: &self.transcode, ..ends.to.codecs };
        let (known, offered) = (self.media.len(), session.media.len());
        self.media.reserve_exact(offered.saturating_sub(known));
        self.media.resize_with(known.max(offered), || None);
        let may_begin = ends_keys && host.fingerprint().is_some();
        let rejected_of = |medium: &MediaDescription<'_>| {
            let is_dtls = Profile::of(medium.protocol) == Some(Profile::Dtls);
            let keys = WebAttributes::of_rejected(medium).filter(|_| may_begin && is_dtls);
            keys.map(|keys| MediumChange { keys: KeyChange::Web(keys), ..Default::default() })
        };
        let rejections = session.media.iter().map(rejected_of).collect();
        let (mut announced, mut changes) = (Vec::with_capacity(offered), Vec::new());
        for (at, (medium, description)) in self.media.iter_mut().zip(&session.media).enumerate() {
            // A medium that the offer ends has its ports until the answer: the offer may fail.
            let legs = medium.as_ref().and_then(|medium| medium.keying.as_deref());
            let Some(mut announcement) = ends.read(session, description, host)? else {
                announced.push(None);
                changes.push(rejected(legs.map(|legs| &legs[by.other().index()])));
                continue;
            };
            let is_of_browser = legs.is_some_and(|legs| legs[by.index()].is_web())
                || may_begin && is_web(description);
            if is_of_browser {
                let has_ice = has_ice(session, description);
                announcement.end_handshake(has_ice.then_some(session), description);
            }
            let is_rtp = announcement.content == Content::Rtp;
            let medium = match medium {
                Some(medium) => medium,
                None => {
                    let charge = (at > 0).then(|| self.charge.another()).transpose()?;
                    let stream =
                        Arc::new(Stream::new(Arc::clone(&self.share), self.reporter.clone()));
                    let ports = host.open(&stream, locals).map_err(|_| RelayError::NoPort)?;
                    let keying = (ends_keys && is_rtp).then(Box::default);
                    medium.insert(Medium {
                        stream,
                        ports,
                        _charge: charge,
                        keying,
                        profile: MediumProfile::default(),
                        codecs: MediumCodecs::default(),
                        conversion: None,
                    })
                }
            };
            let mut random = |bytes: &mut [u8]| host.random(bytes);
            let keys = match &mut medium.keying {
                Some(keying) => {
                    let fingerprint = host.fingerprint();
                    let required = ends.from.keying;
                    let offerer = &mut keying[by.index()];
                    offerer.read_offer(session, description, required, fingerprint, &mut random)?;
                    let leg = &mut keying[by.other().index()];
                    // Keys that end here do not pass: a leg without keys stays in clear.
                    let asked = match ends.to.keying {
                        Keying::Passed => Keying::Clear,
                        keying => keying,
                    };
                    let keying = leg.established().unwrap_or(asked);
                    let port = medium.ports.rtp()[by.other().index()];
                    let place = SocketAddr::new(ends.to.advertised, port);
                    let has_handshake =
                        ends.to.handshake || matches!(keying, Keying::Dtls | Keying::Handshake);
                    let fingerprint = fingerprint.filter(|_| has_handshake);
                    let keys = leg.write_offer(keying, place, fingerprint, &mut random)?;
                    // Checks may come before the answer.
                    medium.stream.with(|legs| leg.update_web(&mut legs[by.other().index()].web));
                    keys
                }
                None => KeyChange::None,
            };
            let is_clear_audio = is_rtp && medium.is_clear_audio(description);
            let is_convertible = cfg!(feature = "convert") && is_clear_audio;
            if is_convertible && !rules.transcode.is_empty() && medium.conversion.is_none() {
                medium.conversion = self.conversions.charge(self.charge.owner()).ok();
            }
            let formats = match is_rtp {
                true => {
                    let codecs = is_convertible && medium.conversion.is_some();
                    let events = is_clear_audio && self.ends[by.index()].takes_digits;
                    let may_add = Additions { codecs, events };
                    medium.codecs.offer(by, description, rules, may_add)
                }
                false => {
                    medium.codecs.withdraw(by);
                    FormatChange::default()
                }
            };
            let offered = match &keys {
                KeyChange::Web(web) => Some(has_feedback(web.protocol())),
                _ => None,
            };
            let (feedback, mux) = profile_rules(ends.to, is_of_browser, offered);
            let passes_keys = medium.keying.is_none();
            let profile = medium.profile.offer(by, description, feedback, mux, passes_keys);
            let direction = announcement.hold(true);
            announced.push(Some(announcement));
            let port = medium.ports.rtp()[by.other().index()];
            let change = MediumChange { port, keys, profile, formats, is_of_browser, direction };
            changes.push(Some(change));
        }
        self.exchanges[by.index()] =
            Some(Exchange { id, in_response, announced, rejected: rejections });
        Ok(rewrite(session, ends.to.advertised, &changes))
    }

    fn answer<H: Host<R, Ports = P>>(
        &mut self,
        host: &H,
        ends: &Ends<'_>,
        session: &SessionDescription<'_>,
        (is_final, now): (bool, Duration),
    ) -> Result<String, RelayError> {
        let (by, offerer) = (ends.side, ends.side.other());
        let Some(exchange) = &self.exchanges[offerer.index()] else {
            return Err(RelayError::NoOffer);
        };
        let (offered, answered) = (exchange.announced.len(), session.media.len());
        if offered != answered {
            return Err(RelayError::MediaCount { offered, answered });
        }
        let mut changes = Vec::new();
        for (((slot, description), offered), rejected) in self
            .media
            .iter_mut()
            .zip(&session.media)
            .zip(&exchange.announced)
            .zip(&exchange.rejected)
        {
            let announcement = ends.read(session, description, host)?;
            let (Some(medium), Some(mut announcement), Some(offered)) =
                (slot.as_mut(), announcement, offered)
            else {
                changes.push(rejected.clone());
                // Another early answer may accept the medium.
                if is_final {
                    *slot = None;
                }
                continue;
            };
            let mut random = |bytes: &mut [u8]| host.random(bytes);
            let keys = match &mut medium.keying {
                Some(keying) => {
                    keying[by.index()].read_answer(session, description, &mut random)?;
                    let place =
                        SocketAddr::new(ends.to.advertised, medium.ports.rtp()[offerer.index()]);
                    keying[offerer.index()].write_answer(place, &mut random)?
                }
                None => KeyChange::None,
            };
            let is_of_browser =
                medium.keying.as_ref().is_some_and(|keying| keying[by.index()].is_web());
            if is_of_browser {
                let has_ice =
                    medium.keying.as_ref().is_some_and(|keying| keying[by.index()].has_ice());
                announcement.end_handshake(has_ice.then_some(session), description);
            }
            let (is_readable, passes_keys) =
                (medium.is_readable(description), medium.keying.is_none());
            let (profile, agreed) =
                medium.profile.answer(offerer, description, is_readable, passes_keys);
            let is_clear_audio = medium.is_clear_audio(description);
            let takes_digits = is_clear_audio && self.ends[by.index()].takes_digits;
            let answered = medium.codecs.answer(offerer, description, takes_digits);
            let Answered { formats, routes, digits } = answered;
            if routes.is_none() {
                // The offerer would not understand their packets. Digits are translated for it.
                let types = digits.iter().flat_map(|it| &it.received);
                let translated = types.fold(0, |bits, (number, _)| bits | bit(*number));
                announcement.payload_types &= !formats.removed | translated;
                if is_final {
                    medium.conversion = None;
                }
            }
            let moved = medium.stream.with(|legs| {
                medium.settle(legs, host);
                let mut moved = [false; 2];
                for (side, announcement) in [(by, &announcement), (offerer, offered)] {
                    let leg = &mut legs[side.index()];
                    let had_keys = leg.keys.is_some();
                    moved[side.index()] = leg.announce(announcement.clone(), now);
                    let keying = medium.keying.as_ref().map(|keying| &keying[side.index()]);
                    match keying.filter(|keying| keying.is_web()) {
                        // The keys come from the handshake.
                        Some(keying) => keying.update_web(&mut leg.web),
                        None => LegKeys::renew(&mut leg.keys, keying.and_then(LegKeying::agreed))?,
                    }
                    moved[side.index()] |= !had_keys && leg.keys.is_some();
                }
                for (at, leg) in legs.iter_mut().enumerate() {
                    leg.profile = agreed[at];
                    let route = routes.as_ref().map(|routes| &routes[at]);
                    Conversion::update(&mut leg.conversion, route);
                    let none = Default::default();
                    let (received, sent) = match &digits {
                        Some(digits) if digits.side.index() == at => (&digits.received, &none),
                        Some(digits) => (&none, &digits.sent),
                        None => (&none, &none),
                    };
                    let (received, sent) = (received.clone(), sent.clone());
                    Digits::update(&mut leg.digits, received, sent, &mut random);
                }
                Ok::<_, RelayError>(moved)
            })?;
            let sides = Side::BOTH.into_iter().filter(|side| moved[side.index()]);
            sides.for_each(|side| medium.ports.release(side));
            if cfg!(feature = "web")
                && let Some(keying) = &medium.keying
            {
                let clients =
                    Side::BOTH.into_iter().filter(|side| keying[side.index()].is_client());
                clients.for_each(|side| medium.ports.shake_hands(side));
            }
            let port = medium.ports.rtp()[offerer.index()];
            let direction = announcement.hold(offered.receives());
            let change = MediumChange { port, keys, profile, formats, is_of_browser, direction };
            changes.push(Some(change));
        }
        Ok(rewrite(session, ends.to.advertised, &changes))
    }

    /// Plays a digit that the end of `side` has sent by signalling to the other end. Returns the
    /// stream, and the port that the packets leave from. `None` if no stream plays it.
    pub(crate) fn press(
        &self,
        side: Side,
        digit: Digit,
        now: Duration,
    ) -> Option<(&Arc<Stream<R>>, u16)> {
        let mut media = self.media.iter().flatten();
        let medium = media.find(|medium| medium.stream.press(side, digit, now))?;
        Some((&medium.stream, medium.ports.rtp()[side.other().index()]))
    }

    /// The RTP ports towards `side`.
    pub(crate) fn ports(&self, side: Side) -> impl Iterator<Item = u16> {
        self.media.iter().flatten().map(move |medium| medium.ports.rtp()[side.index()])
    }

    /// Completes the statistics of a call that ends.
    pub(crate) fn settle<H: Host<R, Ports = P>>(&self, host: &H) {
        for medium in self.media.iter().flatten() {
            medium.stream.with(|legs| medium.settle(legs, host));
        }
    }

    /// The statistics of the streams in use: the packets of the caller, and those of the callee.
    pub(crate) fn summaries(&self) -> impl Iterator<Item = [Direction; 2]> {
        self.media.iter().flatten().map(|medium| {
            let mut directions = medium.stream.summary();
            for (direction, port) in directions.iter_mut().zip(medium.ports.rtp()) {
                direction.local_port = port;
            }
            directions
        })
    }

    /// True for each end that has left, see [`CallReport::has_left`](crate::CallReport::has_left).
    pub(crate) fn has_left(&self) -> [bool; 2] {
        let of = |side: Side| self.streams().any(|it| it.activity().has_left[side.index()]);
        Side::BOTH.map(of)
    }

    /// The reason why a leg with a handshake is over at `now`, if it is.
    pub(crate) fn web_fault(&self, now: Duration) -> Option<WebFault> {
        self.streams().find_map(|stream| stream.web_fault(now))
    }

    /// The streams in use.
    pub(crate) fn streams(&self) -> impl Iterator<Item = &Arc<Stream<R>>> {
        self.media.iter().flatten().map(|medium| &medium.stream)
    }

    /// Checks at `now` if media have begun in time after the answer, unless that is known. Returns
    /// true if they have not.
    pub(crate) fn lacks_media(&mut self, now: Duration) -> bool {
        let Some(due) = self.answered.map(|answered| answered + FIRST_PACKET) else { return false };
        if self.no_media.is_some() {
            return false;
        }
        let has_begun = self.streams().any(|stream| stream.first().is_some_and(|at| at <= due));
        if has_begun || now > due {
            // On hold no packet is expected.
            let is_expected = self.streams().any(|stream| stream.activity().since.is_some());
            self.no_media = Some(!has_begun && is_expected);
        }
        self.no_media == Some(true)
    }

    /// True if this branch has a dialog with these tags, from the caller's side or the other one.
    pub(crate) fn side_of(&self, from_tag: &[u8], to_tag: &[u8]) -> Option<Side> {
        let callee = |tag: &[u8]| self.callee_tags.iter().any(|known| **known == *tag);
        if *self.caller_tag == *from_tag && callee(to_tag) {
            return Some(Side::Caller);
        }
        (*self.caller_tag == *to_tag && callee(from_tag)).then_some(Side::Callee)
    }
}
