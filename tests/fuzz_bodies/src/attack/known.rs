//! The knowledge of the attackers: all messages that any of them received.

use super::draft::{Draft, challenges};
use sip::Message;
use sip::digest::Challenge;
use sip_server::Flow;
use std::collections::VecDeque;

/// The number of messages and challenges stored for later reference.
const KEPT: usize = 16;

/// The messages seen by the attackers, who share all knowledge.
#[derive(Default)]
pub(super) struct Known {
    messages: VecDeque<(Flow, Vec<u8>)>,
    challenges: VecDeque<(Flow, &'static str, String)>,
    /// Credentials that alice's phone sent to an attacker's challenge with the server's realm.
    pub(super) lured: Vec<String>,
    /// The last request of an attacker, and its flow.
    pub(super) last: Option<(Flow, Draft)>,
    /// A counter for new branches, tags and nonce counts.
    serial: u32,
}

impl Known {
    /// Records a message received by an attacker on `flow`.
    pub(super) fn learn(&mut self, flow: Flow, bytes: &[u8]) {
        let Ok(message) = Message::parse(bytes) else { return };
        for (answers, challenge) in challenges(&message) {
            keep(&mut self.challenges, (flow, answers, challenge));
        }
        if message.status() != Some(100) {
            keep(&mut self.messages, (flow, bytes.to_vec()));
        }
    }

    /// The message received `back` messages ago; `None` for 0.
    pub(super) fn message(&self, back: u8) -> Option<(Flow, &[u8])> {
        let back = usize::from(back) % (KEPT + 1);
        let (flow, bytes) = self.messages.get(self.messages.len().checked_sub(back)?)?;
        Some((*flow, bytes))
    }

    /// The request received `back` requests ago; the last one for 0.
    pub(super) fn request(&self, back: u8) -> Option<(Flow, &[u8])> {
        let is_request = |(_, bytes): &&(Flow, Vec<u8>)| !bytes.starts_with(b"SIP/2.0 ");
        let all: Vec<_> = self.messages.iter().rev().filter(is_request).collect();
        let (flow, bytes) = all.get(usize::from(back) % all.len().max(1))?;
        Some((*flow, bytes))
    }

    /// The last challenge received by the host of `flow` with a nonce valid for it, or the last
    /// challenge of all.
    pub(super) fn challenge(&self, flow: Option<&Flow>) -> Option<(&'static str, &str)> {
        let fits = |known: &&(Flow, &'static str, String)| {
            let is_algorithm = matches!(Challenge::parse(known.2.as_bytes()), Ok(Some(_)));
            is_algorithm && flow.is_none_or(|flow| flow.remote.ip() == known.0.remote.ip())
        };
        self.challenges.iter().rev().find(fits).map(|(_, answers, value)| (*answers, &**value))
    }

    pub(super) const fn next(&mut self) -> u32 {
        self.serial += 1;
        self.serial
    }
}

fn keep<T>(kept: &mut VecDeque<T>, item: T) {
    if kept.len() == KEPT {
        kept.pop_front();
    }
    kept.push_back(item);
}
