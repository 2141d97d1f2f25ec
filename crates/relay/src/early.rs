//! The early answers of several callees on one branch, where a later proxy forks. Each is the
//! answer of its own dialog (RFC 3261 section 13.2.1), and the last one has the media until one
//! callee answers the call.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// The maximum length of an early answer that is kept, in bytes.
const MAX_LENGTH: usize = 4096;

/// The early answers of a branch, by the tags of the callees. The last one has the media.
#[derive(Debug, Default)]
pub(crate) struct EarlyAnswers(Vec<EarlyAnswer>);

/// The tag of a callee and its description.
type EarlyAnswer = (Box<[u8]>, Box<[u8]>);

impl EarlyAnswers {
    /// Records the description `body` of the callee `tag`. A longer one than is kept counts as the
    /// last one alone.
    pub(crate) fn note(&mut self, tag: &[u8], body: &[u8]) {
        self.0.retain(|(known, _)| **known != *tag);
        let body = if body.len() > MAX_LENGTH { &[] } else { body };
        self.0.push((tag.into(), body.into()));
    }

    /// Removes all answers, since the callee `tag` has answered the call. Returns its description,
    /// if another one has the media.
    pub(crate) fn settle(&mut self, tag: &[u8]) -> Option<Box<[u8]>> {
        let mut answers = core::mem::take(&mut self.0);
        let (last, _) = answers.pop()?;
        let is_other = |(known, body): &EarlyAnswer| **known == *tag && !body.is_empty();
        if *last == *tag {
            return None;
        }
        answers.into_iter().find(is_other).map(|(_, body)| body)
    }

    /// Removes all answers.
    pub(crate) fn clear(&mut self) {
        self.0 = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_the_callee_is_found_unless_it_is_the_last_one() {
        let early = || {
            let mut early = EarlyAnswers::default();
            early.note(b"one", b"1");
            early.note(b"long", &[b'x'; MAX_LENGTH + 1]);
            early.note(b"two", b"2");
            early
        };
        assert_eq!(early().settle(b"one").as_deref(), Some(&b"1"[..]));
        for tag in [&b"two"[..], b"long", b"three"] {
            assert_eq!(early().settle(tag), None, "{tag:?}");
        }
        let mut again = early();
        again.note(b"one", b"3");
        assert_eq!(again.settle(b"two").as_deref(), Some(&b"2"[..]));
        assert_eq!(again.settle(b"one"), None);
    }
}
