//! The ACKs of 2xx responses that may have to be sent later, or again.

use crate::client_transaction::ClientId;
use crate::envelope::Envelope;
use crate::event::{CallId, Ticket};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use sip::Flow;
use sip::dialog::Dialog;

/// The contents of the ACK of a 2xx.
pub(crate) struct Ack {
    pub(crate) invite: ClientId,
    pub(crate) call: CallId,
    pub(crate) dialog: Dialog,
    pub(crate) cseq: u32,
    /// The header field lines with the credentials of the INVITE.
    pub(crate) authorization: Vec<u8>,
    pub(crate) session: Vec<u8>,
    /// The body around it.
    pub(crate) envelope: Option<Envelope>,
}

/// The ACK of a 2xx that waits for a location.
pub(crate) struct Locating {
    pub(crate) ticket: Ticket,
    pub(crate) ack: Ack,
    /// The flow of the 2xx, which is used if there is no location.
    pub(crate) fallback: Flow,
}

/// An ACK that was sent by TCP, since it exceeds a datagram.
pub(crate) struct Promoted {
    pub(crate) branch: u64,
    pub(crate) ack: Ack,
    /// The flow for a datagram.
    pub(crate) chosen: Flow,
}

/// The ACKs that may have to be sent, or sent again, on another flow.
#[derive(Default)]
pub(crate) struct Acks {
    pub(crate) locating: VecDeque<Locating>,
    pub(crate) promoted: VecDeque<Promoted>,
}
