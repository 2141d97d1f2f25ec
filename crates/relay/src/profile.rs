//! The RTP profile of a medium: feedback in RTCP, and RTP and RTCP on one port.

use crate::side::Side;
use sdp::MediaDescription;
use sdp::negotiation::Profile;

/// RTP and RTCP on one port (RFC 5761) in an offer for an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MuxOffer {
    /// As the offerer has it, and as long as the end has agreed to it before.
    #[default]
    Passed,
    /// The end is offered one port in any case.
    Added,
    /// The same, without a port for RTCP alone.
    Required,
    /// The end is not offered it.
    Removed,
}

/// RTP and RTCP on one port in the answer to an offerer that offers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MuxAnswer {
    /// Accepted if the other end accepts it.
    #[default]
    Passed,
    /// Accepted in any case.
    Accepted,
    /// Rejected in any case.
    Rejected,
}

/// The rules for RTP and RTCP on one port in an offer and its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MuxRules {
    /// The offer.
    pub offer: MuxOffer,
    /// The answer.
    pub answer: MuxAnswer,
}

/// The changes to the profile in a description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProfileChange {
    /// True for a profile with feedback (RFC 4585), false for one without. `None`: it passes.
    pub(crate) feedback: Option<bool>,
    pub(crate) mux: MuxChange,
}

/// The attributes about RTP and RTCP on one port in a description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MuxChange {
    /// They pass.
    #[default]
    Passed,
    Removed,
    Written,
    /// With the port of RTCP: that of RTP.
    Required,
}

impl ProfileChange {
    /// True if an attribute of this name goes.
    pub(crate) fn removes(self, name: &str) -> bool {
        let is = |names: &[&str]| names.iter().any(|it| name.eq_ignore_ascii_case(it));
        (self.feedback == Some(false) && is(&["rtcp-fb", "rtcp-rsize"]))
            || (self.mux != MuxChange::Passed && is(&["rtcp-mux", "rtcp-mux-only"]))
    }
}

/// The agreement of a leg about RTCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LegProfile {
    /// True if RTP and RTCP have one port.
    pub(crate) is_muxed: bool,
    /// True if the end does not understand the feedback of the other one.
    pub(crate) lacks_feedback: bool,
}

/// The profiles of both legs of a medium.
#[derive(Debug, Default)]
pub(crate) struct MediumProfile {
    /// The profiles with feedback, once they were converted. `None`: they pass.
    feedback: Option<[bool; 2]>,
    is_muxed: [bool; 2],
    /// The last offers of each side. Two that cross are pending at the same time.
    offers: [Offer; 2],
}

/// An offer that is not answered.
#[derive(Clone, Copy, Debug, Default)]
struct Offer {
    feedback: Option<[bool; 2]>,
    /// True if the offerer, and the offer as it is sent on, offer one port.
    is_mux_offered: bool,
    is_mux_sent: bool,
    answer: MuxAnswer,
}

impl MediumProfile {
    /// Returns the changes of an offer of the side `by`, for an end with this `feedback` and these
    /// `rules`. `passes_keys` is true if the keys of the ends pass.
    pub(crate) fn offer(
        &mut self,
        by: Side,
        medium: &MediaDescription<'_>,
        feedback: Option<bool>,
        rules: MuxRules,
        passes_keys: bool,
    ) -> ProfileChange {
        let other = by.other().index();
        let Some(profile) = Profile::of(medium.protocol) else {
            self.offers[by.index()] = Offer::default();
            return ProfileChange::default();
        };
        let wanted = feedback.or(self.feedback.map(|legs| legs[other]));
        let feedback = wanted.map(|wanted| {
            let mut legs = [has_feedback(medium.protocol); 2];
            legs[other] = wanted;
            legs
        });
        // With keys by DTLS that pass, each port has an association between the ends.
        let passes_dtls = passes_keys && profile == Profile::Dtls;
        let is_mux_offered = !passes_dtls && has_mux(medium);
        let is_mux_sent = match rules.offer {
            _ if passes_dtls => false,
            MuxOffer::Passed => is_mux_offered || self.is_muxed[other],
            MuxOffer::Added | MuxOffer::Required => true,
            MuxOffer::Removed => false,
        };
        let mux = match (is_mux_sent, rules.offer) {
            _ if passes_dtls => MuxChange::Passed,
            (true, MuxOffer::Required) => MuxChange::Required,
            (sent, _) => MuxChange::of(is_mux_offered, sent),
        };
        let answer = rules.answer;
        self.offers[by.index()] = Offer { feedback, is_mux_offered, is_mux_sent, answer };
        ProfileChange { feedback: wanted, mux }
    }

    /// Returns the changes of an answer to the last offer, that of `offerer`, and the agreements of
    /// both legs. `is_readable` is true if the relay has RTCP in clear, and `passes_keys` as for
    /// the offer.
    pub(crate) fn answer(
        &mut self,
        offerer: Side,
        medium: &MediaDescription<'_>,
        is_readable: bool,
        passes_keys: bool,
    ) -> (ProfileChange, [LegProfile; 2]) {
        let offer = self.offers[offerer.index()];
        let answers = has_mux(medium);
        let is_agreed = offer.is_mux_sent && answers;
        let is_accepted = offer.is_mux_offered
            && match offer.answer {
                MuxAnswer::Passed => is_agreed,
                MuxAnswer::Accepted => true,
                MuxAnswer::Rejected => false,
            };
        let passes_dtls = passes_keys && Profile::of(medium.protocol) == Some(Profile::Dtls);
        self.is_muxed = [is_agreed; 2];
        self.is_muxed[offerer.index()] = is_accepted;
        self.feedback = offer.feedback;
        let mux = match passes_dtls {
            true => MuxChange::Passed,
            false => MuxChange::of(answers, is_accepted),
        };
        let feedback = self.feedback.map(|legs| legs[offerer.index()]);
        let legs = Side::BOTH.map(|side| LegProfile {
            is_muxed: self.is_muxed[side.index()],
            lacks_feedback: is_readable
                && self
                    .feedback
                    .is_some_and(|legs| !legs[side.index()] && legs[side.other().index()]),
        });
        (ProfileChange { feedback, mux }, legs)
    }
}

impl MuxChange {
    /// The change of a description that has the attribute or not, to one that has it or not.
    const fn of(has: bool, shall_have: bool) -> Self {
        match (has, shall_have) {
            (true, false) => Self::Removed,
            (false, true) => Self::Written,
            _ => Self::Passed,
        }
    }
}

fn has_mux(medium: &MediaDescription<'_>) -> bool {
    medium.attributes("rtcp-mux").next().is_some()
}

/// True for the name of a profile with feedback.
pub(crate) fn has_feedback(protocol: &str) -> bool {
    protocol.as_bytes().last().is_some_and(|end| end.eq_ignore_ascii_case(&b'f'))
}

/// The name of the transport protocol `protocol` with keys or without, and with feedback or
/// without. `None` keeps that. Returns `None` for other protocols than RTP.
pub(crate) fn protocol(
    protocol: &str,
    is_secure: Option<bool>,
    feedback: Option<bool>,
) -> Option<&'static str> {
    let feedback = feedback.unwrap_or_else(|| has_feedback(protocol));
    let is_dtls = is_secure.is_none() && Profile::of(protocol)? == Profile::Dtls;
    let is_secure = is_secure.unwrap_or(Profile::of(protocol)? != Profile::Plain);
    Some(match (is_dtls, is_secure, feedback) {
        (true, _, false) => "UDP/TLS/RTP/SAVP",
        (true, _, true) => "UDP/TLS/RTP/SAVPF",
        (false, true, false) => "RTP/SAVP",
        (false, true, true) => "RTP/SAVPF",
        (false, false, false) => "RTP/AVP",
        (false, false, true) => "RTP/AVPF",
    })
}

/// True if media under a description are in clear: it has no keys, and asks for none by ZRTP.
pub(crate) fn is_in_clear(medium: &MediaDescription<'_>) -> bool {
    let has = |name| medium.attributes(name).next().is_some();
    Profile::of(medium.protocol) == Some(Profile::Plain) && !has("crypto") && !has("zrtp-hash")
}
