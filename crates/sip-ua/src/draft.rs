//! What a request of ours says, whichever way it goes.

use crate::capabilities::ALLOW;
use crate::config::AccountId;
use alloc::borrow::Cow;
use alloc::vec::Vec;
use sip::Method;
use sip::dialog::Dialog;

/// The media type of a session description.
pub(crate) const SESSION: &str = "application/sdp";

/// A request, but for what belongs to the way: Via, the address in Contact, credentials.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) dialog: Dialog,
    pub(crate) method: Method<'static>,
    pub(crate) cseq: u32,
    /// Whose request it is, with whose credentials.
    pub(crate) account: Option<AccountId>,
    /// What stands behind our contact in angle brackets; `None` for a request without a Contact.
    pub(crate) contact: Option<Vec<u8>>,
    /// Further header field lines, whole.
    pub(crate) lines: Vec<u8>,
    /// The body, and what it is.
    pub(crate) body: Vec<u8>,
    pub(crate) body_type: Cow<'static, str>,
}

impl Draft {
    /// A request within `dialog`. If it has a body, that is a session description.
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
}
