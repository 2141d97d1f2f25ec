//! The ACK of a 2xx, which belongs to no transaction (RFC 3261 section 13.2.2.4). One that exceeds
//! a datagram goes by TCP, or shortened by UDP if TCP is refused (section 18.1.1).

use super::exchange::Accepted;
use crate::acks::{Ack, Locating, Promoted};
use crate::client_transaction::{ClientId, Owner, RequestResult, State};
use crate::config::AccountId;
use crate::core::{Core, via};
use crate::draft::{Draft, SESSION};
use crate::envelope::Envelope;
use crate::event::{CallId, Event, Ticket};
use crate::token::Token;
use crate::uac::{Oversize, branch_of, destination};
use crate::way::{NextHop, keeps};
use alloc::boxed::Box;
use alloc::vec::Vec;
use sip::dialog::Dialog;
use sip::{Flow, Instant, Location, Method, Transport};

/// The maximum number of ACKs that wait for a location, and of stored ACKs that were sent by TCP.
/// Beyond the first the oldest goes to the source of its 2xx.
const MAX_PENDING: usize = 64;

/// Returns the next hop of a dialog.
pub(super) fn next_hop(dialog: &Dialog) -> NextHop<'_> {
    NextHop { uri: dialog.next_hop(), is_route: !dialog.route_set().is_empty() }
}

/// Sends the ACK of the 2xx to the INVITE `accepted` (RFC 3261 section 13.2.2.4), which was sent to
/// `asked`, with a session description and the body around it. It has the credentials of the
/// INVITE. If its destination has to be located, it is sent after that.
pub(super) fn acknowledge(
    core: &mut Core,
    call: CallId,
    dialog: &Dialog,
    Accepted { id, cseq, flow }: Accepted,
    asked: Option<&[u8]>,
    (session, envelope): (&[u8], Option<Envelope>),
) {
    let Some(flow) = flow else { return };
    let next = next_hop(dialog);
    let destination = destination(next.uri).ok().filter(|_| !keeps(&flow, asked, next));
    let invite = core.clients.all.get(id);
    let authorization = invite.map(|invite| invite.authorization.clone()).unwrap_or_default();
    let (dialog, session) = (dialog.clone(), session.to_vec());
    let ack = Ack { invite: id, call, dialog, cseq, authorization, session, envelope };
    let Some(destination) = destination else { return core.send_ack(ack, flow) };
    let ticket = core.new_ticket();
    if core.acks.locating.len() >= MAX_PENDING
        && let Some(Locating { ack, fallback, .. }) = core.acks.locating.pop_front()
    {
        core.send_ack(ack, fallback);
    }
    core.acks.locating.push_back(Locating { ticket, ack, fallback: flow });
    core.tell(Event::Locate { ticket, destination });
}

impl Ack {
    fn write(&self, flow: &Flow, branch: Token, session: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let request = self.dialog.request(Method::Ack, self.cseq, via(flow, branch), &mut bytes);
        let request = request.lines(&self.authorization);
        match &self.envelope {
            Some(it) => request.lines(&it.lines).body(&it.body_type, &it.around(session)),
            None => request.body(SESSION, session),
        }
        bytes
    }
}

impl Core {
    /// Sends an ACK on `chosen`, or by TCP to the same peer if it exceeds a datagram.
    fn send_ack(&mut self, ack: Ack, chosen: Flow) {
        let branch = self.tokens.next();
        let mut flow = chosen;
        let mut bytes = ack.write(&flow, branch, &ack.session);
        let (invite, owner) = (ack.invite, Owner::Call(ack.call));
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
        // The ACK of another dialog of the INVITE, which ends at once, is written again.
        if let Some(invite) = self.clients.all.get_mut(invite).filter(|it| it.owner == owner)
            && let State::Sent(sent) = &mut invite.state
        {
            sent.ack = Some(Box::new((flow, bytes.clone())));
        }
        self.send(flow, bytes);
    }

    /// Sends the ACK of a local INVITE again, if it was sent.
    pub(crate) fn repeat_ack(&mut self, invite: ClientId) -> Option<()> {
        let State::Sent(sent) = &self.clients.all.get(invite)?.state else { return None };
        let (flow, bytes) = *sent.ack.clone()?;
        self.send(flow, bytes);
        Some(())
    }

    /// Sends the ACK that has waited for the answer to `ticket`, if any.
    pub(crate) fn acknowledge_at(&mut self, ticket: Ticket, locations: &[Location]) -> Option<()> {
        let place = self.acks.locating.iter().position(|ack| ack.ticket == ticket)?;
        let Locating { ack, fallback, .. } = self.acks.locating.remove(place)?;
        let flow = locations.iter().find_map(Location::flow).unwrap_or(fallback);
        self.send_ack(ack, flow);
        Some(())
    }

    /// Sends the undelivered ACK `bytes` again as a datagram, if it was sent by TCP for its length.
    pub(crate) fn acknowledge_again(&mut self, bytes: &[u8]) -> Option<()> {
        let (branch, _) = branch_of(bytes)?;
        let place = self.acks.promoted.iter().position(|ack| ack.branch == branch)?;
        let Promoted { ack, chosen, .. } = self.acks.promoted.remove(place)?;
        self.note_without_tcp(chosen.remote);
        self.send_ack(ack, chosen);
        Some(())
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
    acknowledge(core, call, &dialog, Accepted::of(result, response), None, (b"", None));
    let request = core.clients.all.get(result.id);
    if request.is_some_and(|request| !request.draft.dialog.id().remote_tag.is_empty()) {
        return;
    }
    let bye = Draft::within(account, &mut dialog, Method::Bye, Vec::new());
    let way = result.flow.filter(|flow| keeps(flow, None, next_hop(&bye.dialog)));
    core.request(bye, Owner::None, way, now);
}
