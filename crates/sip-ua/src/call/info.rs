//! Pressed keys over INFO, for phones without telephone events.

use super::error::CallError;
use super::state::Call;
use crate::client_transaction::Owner;
use crate::core::Core;
use crate::draft::Draft;
use crate::event::Event;
use sip::header::media_type;
use sip::{Encode, HeaderName, Instant, Message, Method};

/// The reported duration of a key in milliseconds.
const DURATION: u32 = 160;

impl Call {
    /// Sends a key to the other end by INFO.
    pub(crate) fn press(
        &mut self,
        core: &mut Core,
        key: char,
        now: Instant,
    ) -> Result<(), CallError> {
        let account = self.account;
        let established = self.established()?;
        let mut body = alloc::vec::Vec::new();
        let mut digit = [0; 4];
        let digit = key.encode_utf8(&mut digit);
        ("Signal=", &*digit, "\r\nDuration=", DURATION, "\r\n").encode(&mut body);
        let mut draft = Draft::within(account, &mut established.dialog, Method::Info, body);
        draft.body_type = "application/dtmf-relay".into();
        let way = self.way_to(draft.dialog.next_hop());
        core.request(draft, Owner::None, way, now);
        Ok(())
    }

    /// Processes an INFO. Returns the status of the response.
    pub(super) fn on_info(&self, core: &mut Core, info: &Message<'_>) -> u16 {
        if info.body().is_empty() {
            // Some phones only probe the call.
            return 200;
        }
        let kind = info.value(HeaderName::ContentType).and_then(|value| media_type(value).ok());
        let is = |sub: &str| kind.as_ref().is_some_and(|kind| kind.is("application", sub));
        let digit = if is("dtmf-relay") {
            signal_of(info.body())
        } else if is("dtmf") {
            key_of(info.body().trim_ascii())
        } else {
            return 415;
        };
        let Some(key) = digit else { return 400 };
        core.tell(Event::Key { call: self.id, key });
        200
    }
}

/// Returns the key in a line such as `Signal=5`.
fn signal_of(body: &[u8]) -> Option<char> {
    let mut lines = body.split(|byte| matches!(byte, b'\r' | b'\n'));
    lines.find_map(|line| {
        let at = line.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (line[..at].trim_ascii(), line[at + 1..].trim_ascii());
        name.eq_ignore_ascii_case(b"Signal").then(|| key_of(value))?
    })
}

/// Returns a key by its character, or by its number in RFC 4733.
fn key_of(text: &[u8]) -> Option<char> {
    match text {
        [b'0'..=b'9' | b'*' | b'#' | b'A'..=b'D' | b'a'..=b'd'] => {
            Some(char::from(text[0].to_ascii_uppercase()))
        }
        b"10" => Some('*'),
        b"11" => Some('#'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_phones_write_them() {
        assert_eq!(signal_of(b"Signal=5\r\nDuration=160\r\n"), Some('5'));
        assert_eq!(signal_of(b"Duration=160\nsignal = # \n"), Some('#'));
        assert_eq!((key_of(b"11"), key_of(b"d"), key_of(b"55")), (Some('#'), Some('D'), None));
        assert_eq!(signal_of(b""), None);
    }
}
