//! The content of a local request, independent of its flow.

use crate::capabilities::ALLOW;
use crate::config::AccountId;
use crate::envelope::Envelope;
use alloc::borrow::Cow;
use alloc::vec::Vec;
use sip::Method;
use sip::dialog::Dialog;

/// The media type of a session description.
pub(crate) const SESSION: &str = "application/sdp";

/// A request without the parts that depend on the flow: Via, the address in Contact, credentials.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) dialog: Dialog,
    pub(crate) method: Method<'static>,
    pub(crate) cseq: u32,
    /// The account of the request and its credentials.
    pub(crate) account: Option<AccountId>,
    /// The text after the local contact in angle brackets. `None` for a request without a Contact.
    pub(crate) contact: Option<Vec<u8>>,
    /// Further complete header field lines.
    pub(crate) lines: Vec<u8>,
    /// The body and its media type.
    pub(crate) body: Vec<u8>,
    pub(crate) body_type: Cow<'static, str>,
}

impl Draft {
    /// Returns a request within `dialog`. Its body, if any, is a session description.
    pub(crate) fn within(
        account: Option<AccountId>,
        dialog: &mut Dialog,
        method: Method<'static>,
        body: Vec<u8>,
    ) -> Self {
        let cseq = dialog.next_cseq();
        let refreshes = matches!(method, Method::Invite | Method::Update | Method::Refer);
        Self {
            cseq,
            dialog: dialog.clone(),
            method,
            account,
            contact: refreshes.then(Vec::new),
            lines: if refreshes { ALLOW.to_vec() } else { Vec::new() },
            body,
            body_type: Cow::Borrowed(SESSION),
        }
    }

    /// Puts `envelope`, if any, around the session description.
    pub(crate) fn put_in(&mut self, envelope: Option<&Envelope>) {
        if let Some(envelope) = envelope {
            self.body = envelope.around(&self.body);
            self.body_type = envelope.body_type.clone().into();
            self.lines.extend_from_slice(&envelope.lines);
        }
    }
}
