//! What the attackers know: all that ever came to one of them.

use super::draft::{Draft, challenges};
use sip::Message;
use sip::digest::Challenge;
use sip_server::Flow;
use std::collections::VecDeque;

/// Messages and challenges that are kept to be referred to.
const KEPT: usize = 16;

/// What the attackers, who tell one another everything, have seen.
#[derive(Default)]
pub(super) struct Known {
    messages: VecDeque<(Flow, Vec<u8>)>,
    challenges: VecDeque<(Flow, &'static str, String)>,
    /// Values of credentials that alice's phone gave to an attacker who asked for them in the name
    /// of the realm.
    pub(super) lured: Vec<String>,
    /// What an attacker sent last, and on what flow.
    pub(super) last: Option<(Flow, Draft)>,
    /// Makes branches, tags and counts that were not there before.
    serial: u32,
}

impl Known {
    /// A message came to an attacker on `flow`.
    pub(super) fn learn(&mut self, flow: Flow, bytes: &[u8]) {
        let Ok(message) = Message::parse(bytes) else { return };
        for (answers, challenge) in challenges(&message) {
            keep(&mut self.challenges, (flow, answers, challenge));
        }
        if message.status() != Some(100) {
            keep(&mut self.messages, (flow, bytes.to_vec()));
        }
    }

    /// The message that came `back` messages ago; for 0 none.
    pub(super) fn message(&self, back: u8) -> Option<(Flow, &[u8])> {
        let back = usize::from(back) % (KEPT + 1);
        let (flow, bytes) = self.messages.get(self.messages.len().checked_sub(back)?)?;
        Some((*flow, bytes))
    }

    /// The request that came `back` requests ago; for 0 the last one.
    pub(super) fn request(&self, back: u8) -> Option<(Flow, &[u8])> {
        let is_request = |(_, bytes): &&(Flow, Vec<u8>)| !bytes.starts_with(b"SIP/2.0 ");
        let all: Vec<_> = self.messages.iter().rev().filter(is_request).collect();
        let (flow, bytes) = all.get(usize::from(back) % all.len().max(1))?;
        Some((*flow, bytes))
    }

    /// The last challenge that came to the host of `flow`, with a nonce for it, or just the last
    /// one.
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
