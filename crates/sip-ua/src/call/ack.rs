//! The ACK of a 2xx, which belongs to no transaction (RFC 3261 section 13.2.2.4).

use super::exchange::cseq_of;
use crate::client_transaction::Owner;
use crate::config::AccountId;
use crate::core::{Core, via};
use crate::draft::Draft;
use alloc::vec::Vec;
use sip::dialog::Dialog;
use sip::{Flow, Instant, Message, Method};

/// Sends the ACK of the 2xx to the INVITE with the CSeq `cseq` (RFC 3261 section 13.2.2.4), and
/// returns it with its number and the way that it went.
pub(super) fn acknowledge(
    core: &mut Core,
    dialog: &Dialog,
    cseq: u32,
    flow: Option<Flow>,
    session: &[u8],
) -> Option<(u32, Flow, Vec<u8>)> {
    let flow = flow?;
    let mut bytes = Vec::new();
    let branch = core.tokens.next();
    let via = via(&flow, branch);
    dialog.request(Method::Ack, cseq, via, &mut bytes).body("application/sdp", session);
    core.send(flow, bytes.clone());
    Some((cseq, flow, bytes))
}

/// A 2xx to an INVITE of ours has come that is of no call: another phone has answered, too, or it
/// comes too late. It is hung up (RFC 3261 section 13.2.2.4).
pub(crate) fn refuse_answer(
    core: &mut Core,
    account: Option<AccountId>,
    response: &Message<'_>,
    flow: Option<Flow>,
    now: Instant,
) {
    let Ok(mut dialog) = Dialog::of_response(response) else { return };
    acknowledge(core, &dialog, cseq_of(response), flow, b"");
    let bye = Draft::within(account, &mut dialog, Method::Bye, Vec::new());
    core.request(bye, Owner::Nobody, flow, now);
}
