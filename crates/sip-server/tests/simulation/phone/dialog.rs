//! Dialogs, from either side (RFC 3261 section 12).

use super::{Call, Leg, Phone, Purpose};
use crate::wire::{self, Draft};
use sip::header::{HeaderName, NameAddr};
use sip::{Instant, Message};

#[derive(Clone, Debug)]
pub(crate) struct Dialog {
    pub(crate) own_tag: String,
    pub(crate) peer_tag: String,
    pub(crate) phase: Phase,
    call_id: String,
    own: String,
    peer: String,
    cseq: u32,
    target: String,
    routes: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not yet acknowledged.
    Unconfirmed,
    /// Up, and to be hung up at this time unless the peer does.
    Up(Instant),
    /// A BYE was sent.
    Ending,
    Over,
}

impl Dialog {
    /// The dialog that `message`, an INVITE or the 2xx to it, makes for the side that has the
    /// address in `own`.
    pub(super) fn new(message: &Message<'_>, own: String, peer: String, phase: Phase) -> Self {
        let contact = message.value(HeaderName::Contact).expect("a dialog needs a Contact");
        let target = NameAddr::parse(HeaderName::Contact, contact).expect("a good Contact");
        let mut routes: Vec<String> = message
            .elements(HeaderName::RecordRoute)
            .map(|route| wire::text(route).to_owned())
            .collect();
        let is_caller = message.status().is_some();
        if is_caller {
            routes.reverse();
        }
        let tag = |address: &str| address.split_once(";tag=").expect("a tag").1.to_owned();
        Self {
            own_tag: tag(&own),
            peer_tag: tag(&peer),
            phase,
            call_id: wire::value(message, HeaderName::CallId).to_owned(),
            cseq: if is_caller { wire::cseq(message).number } else { 0 },
            target: wire::text(target.uri_bytes).to_owned(),
            own,
            peer,
            routes,
        }
    }

    fn draft<'d>(&'d self, method: &'d str, cseq: u32) -> Draft<'d> {
        Draft {
            method,
            uri: &self.target,
            from: &self.own,
            to: &self.peer,
            call_id: &self.call_id,
            cseq,
            routes: &self.routes,
            lines: "",
        }
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        match self.phase {
            Phase::Up(until) => Some(until),
            Phase::Unconfirmed | Phase::Ending | Phase::Over => None,
        }
    }
}

impl Phone {
    /// The ACK of the 2xx that made `dialog`.
    pub(super) fn ack(&mut self, dialog: &Dialog) -> Vec<u8> {
        let transport = if self.on_stream { "TCP" } else { "UDP" };
        let branch = self.token("z9hG4bKack");
        let via = format!("SIP/2.0/{transport} {};rport;branch={branch}", self.inside);
        dialog.draft("ACK", dialog.cseq).write(&via)
    }

    /// Sends the BYE of `dialog`.
    pub(super) fn bye(&mut self, now: Instant, dialog: &mut Dialog) {
        dialog.phase = Phase::Ending;
        dialog.cseq += 1;
        let purpose = Purpose::Bye {
            call_id: dialog.call_id.clone(),
            own_tag: dialog.own_tag.clone(),
            peer_tag: dialog.peer_tag.clone(),
        };
        let draft = dialog.draft("BYE", dialog.cseq);
        self.send_request(now, &draft, purpose);
    }

    /// A BYE came. Whether it is of a dialog that is known.
    pub(super) fn on_bye(&mut self, bye: &Message<'_>) -> bool {
        let call_id = wire::value(bye, HeaderName::CallId);
        let own_tag = wire::tag(bye, HeaderName::To).expect("a BYE is of a dialog");
        let peer_tag = wire::tag(bye, HeaderName::From).expect("a tag");
        let Some(dialog) = self.dialog(call_id, own_tag, peer_tag) else { return false };
        dialog.phase = Phase::Over;
        self.legs.iter_mut().filter(|leg| leg.tag == own_tag).for_each(Leg::on_bye);
        true
    }

    /// The BYE of a dialog was answered, or never will be.
    pub(super) fn on_bye_over(&mut self, call_id: &str, own_tag: &str, peer_tag: &str) {
        if let Some(dialog) = self.dialog(call_id, own_tag, peer_tag) {
            dialog.phase = Phase::Over;
        }
    }

    pub(super) fn dialog(
        &mut self,
        call_id: &str,
        own_tag: &str,
        peer_tag: &str,
    ) -> Option<&mut Dialog> {
        let of_calls = self.calls.get_mut(call_id).into_iter().flat_map(Call::dialogs_mut);
        let legs = self.legs.iter_mut().filter(|leg| leg.call_id == call_id);
        of_calls
            .chain(legs.filter_map(Leg::dialog_mut))
            .find(|dialog| dialog.own_tag == own_tag && dialog.peer_tag == peer_tag)
    }
}
