//! The ACK of a 2xx, which belongs to no transaction (RFC 3261 section 13.2.2.4).

use super::exchange::cseq_of;
use crate::client_transaction::Owner;
use crate::config::AccountId;
use crate::core::{Core, PendingAck, via};
use crate::draft::{Draft, SESSION};
use crate::event::{CallId, Event, Location, Ticket};
use crate::uac::destination;
use crate::way::{NextHop, keeps};
use alloc::vec::Vec;
use sip::dialog::Dialog;
use sip::{Flow, Instant, Message, Method};

/// The maximum number of ACKs that wait for a location. Beyond it the oldest goes to the source of
/// its 2xx.
const MAX_PENDING: usize = 64;

/// A sent ACK: the number of its INVITE, its flow, and its bytes.
pub(crate) type SentAck = (u32, Flow, Vec<u8>);

/// Returns the next hop of a dialog.
pub(super) fn next_hop(dialog: &Dialog) -> NextHop<'_> {
    NextHop { uri: dialog.next_hop(), is_route: !dialog.route_set().is_empty() }
}

/// Sends the ACK of the 2xx to the INVITE with the CSeq `cseq` (RFC 3261 section 13.2.2.4), which
/// was sent to `asked` by `flow`. Returns the ACK, unless its destination has to be located.
pub(super) fn acknowledge(
    core: &mut Core,
    call: CallId,
    dialog: &Dialog,
    cseq: u32,
    (flow, asked): (Option<Flow>, Option<&[u8]>),
    session: &[u8],
) -> Option<SentAck> {
    let flow = flow?;
    let next = next_hop(dialog);
    let destination = destination(next.uri).ok().filter(|_| !keeps(&flow, asked, next));
    let Some(destination) = destination else {
        return Some(core.send_ack(dialog, cseq, flow, session));
    };
    let ticket = core.new_ticket();
    if core.acks.len() >= MAX_PENDING {
        let PendingAck { dialog, cseq, session, fallback, .. } = core.acks.remove(0);
        core.send_ack(&dialog, cseq, fallback, &session);
    }
    let (dialog, session) = (dialog.clone(), session.to_vec());
    core.acks.push(PendingAck { ticket, call, dialog, cseq, session, fallback: flow });
    core.tell(Event::Locate { ticket, destination });
    None
}

impl Core {
    fn send_ack(&mut self, dialog: &Dialog, cseq: u32, flow: Flow, session: &[u8]) -> SentAck {
        let mut bytes = Vec::new();
        let via = via(&flow, self.tokens.next());
        dialog.request(Method::Ack, cseq, via, &mut bytes).body(SESSION, session);
        self.send(flow, bytes.clone());
        (cseq, flow, bytes)
    }

    /// Sends the ACK that has waited for the answer to `ticket`, if any, and returns it with its
    /// call.
    pub(crate) fn acknowledge_at(
        &mut self,
        ticket: Ticket,
        locations: &[Location],
    ) -> Option<(CallId, SentAck)> {
        let place = self.acks.iter().position(|ack| ack.ticket == ticket)?;
        let PendingAck { call, dialog, cseq, session, fallback, .. } = self.acks.remove(place);
        let flow = locations.first().map_or(fallback, Location::flow);
        Some((call, self.send_ack(&dialog, cseq, flow, &session)))
    }
}

/// Ends a 2xx to a local INVITE that belongs to no call, since another phone has answered, or it
/// arrives too late. It is acknowledged and ended by BYE (RFC 3261 section 13.2.2.4).
pub(crate) fn refuse_answer(
    core: &mut Core,
    account: Option<AccountId>,
    response: &Message<'_>,
    flow: Option<Flow>,
    now: Instant,
) {
    let Ok(mut dialog) = Dialog::from_response(response) else { return };
    // A number that belongs to no call.
    let call = core.new_call();
    acknowledge(core, call, &dialog, cseq_of(response), (flow, None), b"");
    let bye = Draft::within(account, &mut dialog, Method::Bye, Vec::new());
    let way = flow.filter(|flow| keeps(flow, None, next_hop(&bye.dialog)));
    core.request(bye, Owner::Nobody, way, now);
}
