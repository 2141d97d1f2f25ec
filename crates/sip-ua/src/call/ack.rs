//! The ACK of a 2xx, which belongs to no transaction (RFC 3261 section 13.2.2.4). One that exceeds
//! a datagram goes by TCP, or shortened by UDP if TCP is refused (section 18.1.1).

use super::exchange::cseq_of;
use crate::acks::{Ack, Locating, Promoted};
use crate::client_transaction::{Owner, RequestResult};
use crate::config::AccountId;
use crate::core::{Core, via};
use crate::draft::{Draft, SESSION};
use crate::envelope::Envelope;
use crate::event::{CallId, Event, Ticket};
use crate::token::Token;
use crate::uac::{Oversize, branch_of, destination};
use crate::way::{NextHop, keeps};
use alloc::vec::Vec;
use sip::dialog::Dialog;
use sip::{Flow, Instant, Location, Method, Transport};

/// The maximum number of ACKs that wait for a location, and of stored ACKs that were sent by TCP.
/// Beyond the first the oldest goes to the source of its 2xx.
const MAX_PENDING: usize = 64;

/// A sent ACK: the number of its INVITE, its flow, and its bytes.
pub(crate) type SentAck = (u32, Flow, Vec<u8>);

/// Returns the next hop of a dialog.
pub(super) fn next_hop(dialog: &Dialog) -> NextHop<'_> {
    NextHop { uri: dialog.next_hop(), is_route: !dialog.route_set().is_empty() }
}

/// Sends the ACK of the 2xx to the INVITE with the CSeq `cseq` (RFC 3261 section 13.2.2.4), which
/// was sent to `asked` by `flow`, with a session description and the body around it. Returns the
/// ACK, unless its destination has to be located.
pub(super) fn acknowledge(
    core: &mut Core,
    call: CallId,
    dialog: &Dialog,
    cseq: u32,
    (flow, asked): (Option<Flow>, Option<&[u8]>),
    (session, envelope): (&[u8], Option<Envelope>),
) -> Option<SentAck> {
    let flow = flow?;
    let next = next_hop(dialog);
    let destination = destination(next.uri).ok().filter(|_| !keeps(&flow, asked, next));
    let ack = Ack { call, dialog: dialog.clone(), cseq, session: session.to_vec(), envelope };
    let Some(destination) = destination else { return Some(core.send_ack(ack, flow)) };
    let ticket = core.new_ticket();
    if core.acks.locating.len() >= MAX_PENDING
        && let Some(Locating { ack, fallback, .. }) = core.acks.locating.pop_front()
    {
        core.send_ack(ack, fallback);
    }
    core.acks.locating.push_back(Locating { ticket, ack, fallback: flow });
    core.tell(Event::Locate { ticket, destination });
    None
}

impl Ack {
    fn write(&self, flow: &Flow, branch: Token, session: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let request = self.dialog.request(Method::Ack, self.cseq, via(flow, branch), &mut bytes);
        match &self.envelope {
            Some(it) => request.lines(&it.lines).body(&it.body_type, &it.around(session)),
            None => request.body(SESSION, session),
        }
        bytes
    }
}

impl Core {
    /// Sends an ACK on `chosen`, or by TCP to the same peer if it exceeds a datagram.
    fn send_ack(&mut self, ack: Ack, chosen: Flow) -> SentAck {
        let branch = self.tokens.next();
        let mut flow = chosen;
        let mut bytes = ack.write(&flow, branch, &ack.session);
        let cseq = ack.cseq;
        match self.oversize(&flow, bytes.len()) {
            Oversize::No => {}
            Oversize::Tcp => {
                flow.transport = Transport::Tcp;
                bytes = ack.write(&flow, branch, &ack.session);
                if self.acks.promoted.len() >= MAX_PENDING {
                    self.acks.promoted.pop_front();
                }
                self.acks.promoted.push_back(Promoted { branch: branch.0, ack, chosen });
            }
            Oversize::Shorten => {
                if let Some(shorten) = self.shorten {
                    bytes = ack.write(&flow, branch, &shorten(&ack.session));
                }
            }
        }
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
        let place = self.acks.locating.iter().position(|ack| ack.ticket == ticket)?;
        let Locating { ack, fallback, .. } = self.acks.locating.remove(place)?;
        let flow = locations.iter().find_map(Location::flow).unwrap_or(fallback);
        Some((ack.call, self.send_ack(ack, flow)))
    }

    /// Sends the undelivered ACK `bytes` again as a datagram, if it was sent by TCP for its length,
    /// and returns it with its call.
    pub(crate) fn acknowledge_again(&mut self, bytes: &[u8]) -> Option<(CallId, SentAck)> {
        let (branch, _) = branch_of(bytes)?;
        let place = self.acks.promoted.iter().position(|ack| ack.branch == branch)?;
        let Promoted { ack, chosen, .. } = self.acks.promoted.remove(place)?;
        self.note_without_tcp(chosen.remote);
        Some((ack.call, self.send_ack(ack, chosen)))
    }
}

/// Ends a 2xx to a local INVITE that belongs to no call, since another phone has answered, or it
/// arrives too late. It is acknowledged and ended by BYE (RFC 3261 section 13.2.2.4). A dialog that
/// the INVITE did not create has ended already.
pub(crate) fn refuse_answer(
    core: &mut Core,
    account: Option<AccountId>,
    result: &RequestResult<'_>,
    now: Instant,
) {
    let Ok(response) = result.outcome else { return };
    let is_answer = response.status().is_some_and(|status| (200..300).contains(&status));
    if result.method != Method::Invite || !is_answer {
        return;
    }
    let Ok(mut dialog) = Dialog::from_response(response) else { return };
    // A number that belongs to no call.
    let call = core.new_call();
    acknowledge(core, call, &dialog, cseq_of(response), (result.flow, None), (b"", None));
    let request = core.clients.all.get(result.id);
    if request.is_some_and(|request| !request.draft.dialog.id().remote_tag.is_empty()) {
        return;
    }
    let bye = Draft::within(account, &mut dialog, Method::Bye, Vec::new());
    let way = result.flow.filter(|flow| keeps(flow, None, next_hop(&bye.dialog)));
    core.request(bye, Owner::None, way, now);
}
