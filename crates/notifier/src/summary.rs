//! The message counts of a mailbox (RFC 3842).

use alloc::vec::Vec;
use sip::Encode;

/// The media type of a summary.
pub(crate) const TYPE: &str = "application/simple-message-summary";

/// The numbers of voice messages of a mailbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// Messages that the user has not heard.
    pub new: u32,
    /// The others.
    pub old: u32,
}

impl Messages {
    /// Returns the summary (RFC 3842 section 5.2). Urgent messages are not counted.
    pub(crate) fn summary(self) -> Vec<u8> {
        let mut out = Vec::new();
        let waiting = if self.new > 0 { "yes" } else { "no" };
        ("Messages-Waiting: ", waiting, "\r\n").encode(&mut out);
        ("Voice-Message: ", self.new, "/", self.old, " (0/0)\r\n").encode(&mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_messages_are_waiting_and_old_ones_are_not() {
        let text = |new, old| Messages { new, old }.summary();
        assert_eq!(text(2, 8), b"Messages-Waiting: yes\r\nVoice-Message: 2/8 (0/0)\r\n");
        assert_eq!(text(0, 8), b"Messages-Waiting: no\r\nVoice-Message: 0/8 (0/0)\r\n");
    }
}
