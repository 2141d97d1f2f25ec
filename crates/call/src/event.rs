//! The reaction of a call to the events of its dialogs.

use crate::call::{Call, Gate};
use media::{Random, Refusal};
use sip::Instant;
use sip_ua::{Agent, CallId, End, Event, Failure};

/// A change of a call, for its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// The other end rings.
    Ringing {
        /// The status code, such as 180.
        status: u16,
        /// True if a session description came along.
        early_media: bool,
    },
    /// The placed call is answered, and has media.
    Answered,
    /// The answered call, which had no media yet, has media.
    MediaStarted,
    /// The local end holds, or has resumed the call.
    Held(bool),
    /// The other end holds, or has resumed the call.
    HeldByPeer(bool),
    /// A local change of the session has failed. The session is unchanged.
    OfferFailed(Failure),
    /// The change that the other end has requested is rejected. The session is unchanged.
    OfferRefused(Refusal),
    /// The call has no usable media, and is hung up.
    Failed(Refusal),
    /// The local address has changed. The owner calls [`Call::move_to`] with the new one.
    Moved,
    /// The other end has pressed a key, reported by INFO.
    Key(char),
    /// The call has ended.
    Ended(End),
}

impl Call {
    /// Processes an event of the agent. Returns the change of this call. `None` for an event of
    /// another call, or without a change of media, as of a transfer.
    pub fn on_event(
        &mut self,
        agent: &mut Agent,
        now: Instant,
        event: &Event,
        random: Random<'_>,
    ) -> Option<Change> {
        let id = self.id.filter(|id| event.call() == Some(*id))?;
        match event {
            Event::Ringing { status, branch, session, .. } => {
                if let Some(session) = session {
                    self.select(*branch);
                    // A session description without usable media ends the call when it is
                    // answered: until then another branch may answer.
                    let _ = self.media.accept(self.setup, now.since_epoch(), session, random);
                }
                if *status == 199 {
                    self.end_branch(*branch);
                }
                Some(Change::Ringing { status: *status, early_media: session.is_some() })
            }
            Event::Answered { session, .. } => {
                self.follow_branch(agent, id);
                self.forget_others();
                self.gate = Gate::Open;
                let accepted = match session {
                    Some(session) => {
                        self.media.accept(self.setup, now.since_epoch(), session, random)
                    }
                    // The answer to the offer came with the early media.
                    None if self.media.session.is_some() => Ok(()),
                    None => Err(Refusal::Malformed),
                };
                Some(match accepted {
                    Ok(()) => Change::Answered,
                    Err(refusal) => give_up(agent, now, id, refusal),
                })
            }
            Event::Answer { answer, .. } => {
                self.follow_branch(agent, id);
                let had_session = self.media.session.is_some();
                match self.media.accept(self.setup, now.since_epoch(), answer, random) {
                    Ok(()) if had_session => {
                        self.holds = self.wants_hold.take()?;
                        Some(Change::Held(self.holds))
                    }
                    Ok(()) => Some(Change::MediaStarted),
                    Err(refusal) => Some(give_up(agent, now, id, refusal)),
                }
            }
            Event::Offer { offer, .. } => {
                self.follow_branch(agent, id);
                self.on_offer(agent, now, id, offer.as_deref(), random)
            }
            Event::OfferFailed { failure, .. } => {
                self.wants_hold = None;
                self.media.negotiator.hold(self.holds);
                Some(Change::OfferFailed(failure.clone()))
            }
            Event::OfferDue { .. } => {
                // The hold that was refused because of an offer of the other end.
                let holds = self.wants_hold?;
                self.media.negotiator.hold(holds);
                let offer = self.media.negotiator.offer(random);
                // An error means that the other end has made another offer: its answer has the
                // hold.
                if agent.offer(now, id, offer).is_err() {
                    self.wants_hold = None;
                    self.holds = holds;
                    return Some(Change::Held(holds));
                }
                None
            }
            Event::Moved { .. } => Some(Change::Moved),
            Event::Key { key, .. } => Some(Change::Key(*key)),
            Event::Ended { end, .. } => Some(Change::Ended(end.clone())),
            _ => None,
        }
    }

    /// Processes a re-INVITE, an UPDATE, or an offer in a response.
    fn on_offer(
        &mut self,
        agent: &mut Agent,
        now: Instant,
        id: CallId,
        offer: Option<&[u8]>,
        random: Random<'_>,
    ) -> Option<Change> {
        let session = match offer {
            Some(offer) => self.media.answer(self.setup, now.since_epoch(), offer, random),
            None => Ok(self.media.negotiator.offer_anew(random)),
        };
        // An error of these commands means that the request is gone, which is an event.
        match session {
            Ok(session) => {
                let _ = agent.accept(now, id, &session);
                // Old phones hold by an unspecified address (RFC 3264 section 8.4).
                let is_held = self.session().is_some_and(|session| {
                    let stream = session.stream();
                    !stream.sends || stream.remote.is_none()
                });
                let before = core::mem::replace(&mut self.is_held, is_held);
                (before != is_held).then_some(Change::HeldByPeer(is_held))
            }
            Err(refusal) => {
                let _ = agent.refuse(now, id, 488);
                Some(Change::OfferRefused(refusal))
            }
        }
    }

    /// Makes the media of the agent's current dialog the current one.
    fn follow_branch(&mut self, agent: &Agent, id: CallId) {
        if let Some(branch) = agent.branch(id) {
            self.select(branch);
        }
    }

    /// Removes the media of a branch that has ended.
    fn end_branch(&mut self, branch: u32) {
        if self.branch == Some(branch)
            && let Some((other, _)) = self.others.last()
        {
            self.select(*other);
        }
        self.others.retain(|(number, _)| *number != branch);
    }
}

/// Ends a call without usable media.
fn give_up(agent: &mut Agent, now: Instant, id: CallId, refusal: Refusal) -> Change {
    // It may have ended already, which is an event.
    let _ = agent.hang_up(now, id);
    Change::Failed(refusal)
}
