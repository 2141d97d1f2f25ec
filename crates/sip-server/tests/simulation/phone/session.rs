//! The dialogs of answered calls, on either side.

use super::{Call, Leg, Phone, Purpose};
use crate::wire;
use sip::dialog::{Dialog, DialogId};
use sip::{Instant, Message, Method};

/// A dialog, and the phase of its call.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) dialog: Dialog,
    pub(crate) phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not yet acknowledged.
    Unconfirmed,
    /// Established, and to be ended at this time unless the peer ends it.
    Up(Instant),
    /// A BYE was sent.
    Ending,
    Over,
}

impl Session {
    /// True if the remote tag is `tag`.
    pub(crate) fn is_with(&self, tag: &str) -> bool {
        self.dialog.id().remote_tag == tag.as_bytes()
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        match self.phase {
            Phase::Up(until) => Some(until),
            Phase::Unconfirmed | Phase::Ending | Phase::Over => None,
        }
    }
}

impl Phone {
    /// The ACK of the 2xx that created `dialog`.
    pub(super) fn ack(&mut self, dialog: &Dialog) -> Vec<u8> {
        let (branch, mut ack) = (self.token("z9hG4bKack"), Vec::new());
        dialog.request(Method::Ack, dialog.local_cseq(), self.via(&branch), &mut ack).end();
        ack
    }

    /// Sends the BYE of a session.
    pub(super) fn bye(&mut self, now: Instant, session: &mut Session) {
        session.phase = Phase::Ending;
        let purpose = Purpose::Bye(session.dialog.clone());
        self.send_request(now, &mut session.dialog, Method::Bye, "", purpose);
    }

    /// Handles a BYE. Returns true if its dialog is known.
    pub(super) fn on_bye(&mut self, bye: &Message<'_>) -> bool {
        let id = wire::dialog_id(bye);
        let Some(session) = self.session(id) else { return false };
        session.phase = Phase::Over;
        let tag = wire::text(id.local_tag);
        self.legs.iter_mut().filter(|leg| leg.tag == tag).for_each(Leg::on_bye);
        true
    }

    /// Handles the final response to the BYE of a dialog, or its timeout.
    pub(super) fn on_bye_over(&mut self, dialog: &Dialog) {
        if let Some(session) = self.session(dialog.id()) {
            session.phase = Phase::Over;
        }
    }

    fn session(&mut self, id: DialogId<'_>) -> Option<&mut Session> {
        let call_id = wire::text(id.call_id);
        let of_calls = self.calls.get_mut(call_id).into_iter().flat_map(Call::sessions_mut);
        let legs = self.legs.iter_mut().filter(|leg| leg.call_id == call_id);
        of_calls.chain(legs.filter_map(Leg::session_mut)).find(|session| session.dialog.id() == id)
    }
}
