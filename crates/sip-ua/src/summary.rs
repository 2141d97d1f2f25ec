//! The message counts of a mailbox: NOTIFY of message-summary without a subscription (RFC 3842), as
//! servers send it to registered phones.

use crate::config::AccountId;
use crate::core::Core;
use crate::event::Event;
use sip::{HeaderName, Message};

/// The header field line of a 489 with the event packages that are accepted in NOTIFY.
pub(crate) const ALLOW_EVENTS: &[u8] = b"Allow-Events: message-summary, refer\r\n";

impl Core {
    /// Processes a NOTIFY outside of any dialog. Returns the status of the response.
    pub(crate) fn on_unasked_notify(&mut self, notify: &Message<'_>) -> u16 {
        let event = notify.value(HeaderName::Event).unwrap_or_default();
        let package = event.split(|byte| *byte == b';').next().unwrap_or_default();
        if !package.trim_ascii().eq_ignore_ascii_case(b"message-summary") {
            return 489;
        }
        self.on_summary(self.account_of(notify), notify)
    }

    /// Reports the summary in `notify` for `account`. Returns the status of the response.
    pub(crate) fn on_summary(&mut self, account: Option<AccountId>, notify: &Message<'_>) -> u16 {
        let Summary { waiting, voice } = Summary::of(notify.body());
        let Some(waiting) = waiting else { return 400 };
        let (new, old) = voice.unzip();
        self.tell(Event::MessagesWaiting { account, waiting, new, old });
        200
    }
}

/// The content of a summary.
#[derive(Debug, Default, PartialEq, Eq)]
struct Summary {
    /// True if messages are waiting.
    waiting: Option<bool>,
    /// The numbers of new and old voice messages.
    voice: Option<(u32, u32)>,
}

impl Summary {
    fn of(body: &[u8]) -> Self {
        let mut summary = Self::default();
        for line in body.split(|byte| *byte == b'\n') {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
            if name.eq_ignore_ascii_case(b"Messages-Waiting") {
                summary.waiting = Some(value.eq_ignore_ascii_case(b"yes"));
            } else if name.eq_ignore_ascii_case(b"Voice-Message") {
                summary.voice = counts(value);
            }
        }
        summary
    }
}

/// Parses the numbers of new and old messages, as in `2/8 (0/2)`.
fn counts(value: &[u8]) -> Option<(u32, u32)> {
    let text = core::str::from_utf8(value).ok()?;
    let (new, old) = text.split('(').next()?.split_once('/')?;
    Some((new.trim().parse().ok()?, old.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_are_read_as_servers_write_them() {
        for (body, waiting, voice) in [
            ("Messages-Waiting: yes\r\nVoice-Message: 2/8 (0/2)\r\n", Some(true), Some((2, 8))),
            ("messages-waiting:no\nMessage-Account: sip:a@b\n", Some(false), None),
            ("Messages-Waiting: yes\r\nVoice-Message: x/1\r\n", Some(true), None),
            ("", None, None),
        ] {
            assert_eq!(Summary::of(body.as_bytes()), Summary { waiting, voice }, "{body}");
        }
    }
}
