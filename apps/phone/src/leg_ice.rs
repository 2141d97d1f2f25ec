//! ICE in the offers and answers of one call.

use crate::ice::Ice;
use crate::leg::Leg;
use sip_ua::Event;

impl Leg {
    /// The offer of an incoming call, before it rings. The checks wait for the answer: until then
    /// the caller does not know the candidates. Without an offer this end makes it.
    pub(crate) fn hear_first_offer(&mut self, offer: Option<&[u8]>) {
        let Some(offer) = offer else { return };
        let has_ice = self.ports.ice.as_mut().is_some_and(|ice| {
            ice.control(false);
            ice.understands(offer)
        });
        match has_ice {
            true => self.first_offer = Some(offer.to_vec()),
            false => self.end_ice(),
        }
    }

    /// The incoming call is answered.
    pub(crate) fn follow_first_offer(&mut self) {
        if let Some(offer) = self.first_offer.take() {
            self.follow(&offer);
        }
    }

    /// Prepares the answer to an offer in `event`.
    pub(crate) fn prepare_ice(&mut self, event: &Event) {
        let Event::Offer { offer: Some(offer), .. } = event else { return };
        if self.ports.ice.as_ref().is_some_and(|ice| !ice.understands(offer)) {
            return self.end_ice();
        }
        let lines = self.ports.ice.as_mut().and_then(|ice| ice.prepare_answer(offer));
        if lines.is_some() {
            self.call.set_ice(lines);
        }
    }

    /// Follows the description in `event`, once the session has it.
    pub(crate) fn follow_ice(&mut self, event: &Event) {
        let description = match event {
            Event::Ringing { session, .. } | Event::Answered { session, .. } => session.as_ref(),
            Event::Offer { offer, .. } => offer.as_ref(),
            Event::Answer { answer, .. } => Some(answer),
            _ => None,
        };
        if let Some(description) = description.filter(|_| self.session().is_some()) {
            self.follow(description);
        }
    }

    fn follow(&mut self, description: &[u8]) {
        if self.ports.ice.as_mut().is_some_and(|ice| !ice.follow(description)) {
            self.end_ice();
        }
    }

    /// The peer does not use ICE: media go to the address in its description.
    fn end_ice(&mut self) {
        self.ports.ice = None;
        self.call.set_ice(None);
    }

    /// The next event of ICE.
    pub(crate) fn next_ice_event(&mut self) -> Option<ice_agent::Event> {
        self.ports.ice.as_mut().and_then(Ice::next_event)
    }
}
