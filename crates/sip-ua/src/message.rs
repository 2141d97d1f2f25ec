//! Messages (RFC 3428): text between users, outside of any call.

use crate::client_transaction::{Owner, RequestResult};
use crate::config::AccountId;
use crate::core::Core;
use crate::draft::Draft;
use crate::event::{Event, MessageId};
use alloc::string::String;
use alloc::vec::Vec;
use sip::header::media_type;
use sip::{Flow, HeaderName, Instant, Message, Method};

/// The header field line with the accepted media type.
pub(crate) const ACCEPT: &[u8] = b"Accept: text/plain\r\n";

impl Core {
    /// Sends `text` to `uri`. `None` if it is invalid.
    pub(crate) fn send_message(
        &mut self,
        account: Option<AccountId>,
        uri: &str,
        routes: &[Vec<u8>],
        text: &str,
        now: Instant,
    ) -> Option<MessageId> {
        let mut dialog = self.dialog_to(account, uri, routes)?;
        let message = self.new_message();
        let body = text.as_bytes().to_vec();
        let mut draft = Draft::within(account, &mut dialog, Method::Message, body);
        draft.body_type = "text/plain;charset=UTF-8".into();
        self.request(draft, Owner::Message(message), None, now);
        Some(message)
    }

    /// Processes the result of a sent message.
    pub(crate) fn on_message_result(&mut self, message: MessageId, result: &RequestResult<'_>) {
        if let Some(result) = result.final_result() {
            self.tell(Event::MessageSent { message, result });
        }
    }

    /// Processes a received message. Returns the status of the response.
    pub(crate) fn on_message(
        &mut self,
        account: Option<AccountId>,
        message: &Message<'_>,
        flow: &Flow,
    ) -> u16 {
        let is_text = message
            .value(HeaderName::ContentType)
            .and_then(|value| media_type(value).ok())
            .is_some_and(|kind| kind.is("text", "plain"));
        if !is_text {
            return 415;
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let from = text(message.value(HeaderName::From).unwrap_or_default());
        let text = text(message.body());
        self.tell(Event::Message { account, from, text, flow: *flow });
        200
    }
}
