//! Decisions of the bodies that drive a user agent, and the values that they choose from.

use sip::{Duration, Instant};
use test_support::Random;

/// The number of messages stored for answers, forgeries and retransmissions.
const KEPT: usize = 24;

/// Header field lines with valid, unusual, huge and missing values.
pub(crate) const LINES: &[&str] = &[
    "Session-Expires: 0",
    "Session-Expires: 1;refresher=uac",
    "Session-Expires: 4294967295;refresher=uas",
    "Session-Expires: 99999999999",
    "Min-SE: 0",
    "Min-SE: 4294967295",
    "Supported: timer, 100rel, replaces, 199",
    "Require: 100rel",
    "Require: timer",
    "Require: unheard-of",
    "RSeq: 1",
    "RSeq: 2",
    "RSeq: 4294967295",
    "RAck: 1 1 INVITE",
    "RAck: 4294967295 0 INVITE",
    "Replaces: x;to-tag=1;from-tag=2",
    "Replaces: a@b;to-tag=1;from-tag=2;early-only",
    "Refer-To: <sip:carol@192.0.2.2>",
    "Refer-To: <sip:carol@192.0.2.2?Replaces=a%40b%3Bto-tag%3D1%3Bfrom-tag%3D2>",
    "Refer-To: <tel:+1>",
    "Refer-To: <sip:a@b;method=BYE>",
    "Event: refer",
    "Subscription-State: terminated;reason=noresource",
    "Retry-After: 0",
    "Retry-After: 4294967295",
    "Min-Expires: 4294967295",
    "Min-Expires: 700",
    "Expires: 0",
    "Expires: 1",
    "Expires: 4294967295",
    "Contact: <sip:x@192.0.2.2>, <sip:y@203.0.113.9>;q=0.5, <tel:+1>, *",
    "Contact: <sip:%00@192.0.2.2;lr;maddr=203.0.113.9?Subject=x>;expires=0",
    "Contact: <sip:alice@192.0.2.1:5060>;expires=1",
    "Contact: *",
    "Record-Route: <sip:192.0.2.2;lr>, <sip:203.0.113.9>",
    "Service-Route: <sip:192.0.2.2;lr>",
    "WWW-Authenticate: Digest realm=\"r\", nonce=\"n\"",
    "Proxy-Authenticate: Digest realm=\"r\", nonce=\"n\", algorithm=SHA-256, qop=\"auth\"",
    "Content-Type: application/sdp",
    "Content-Type: message/sipfrag",
    "Content-Type: application/dtmf-relay",
    "Content-Type: text/plain",
    "Allow: INVITE, ACK, BYE, UPDATE",
    "Reason: SIP;cause=200",
];

pub(crate) const METHODS: [&str; 12] = [
    "INVITE", "ACK", "BYE", "CANCEL", "UPDATE", "PRACK", "INFO", "NOTIFY", "REFER", "MESSAGE",
    "OPTIONS", "UNHEARD",
];

pub(crate) const STATUSES: [u16; 22] = [
    100, 180, 183, 199, 200, 202, 300, 302, 305, 380, 401, 404, 407, 408, 422, 423, 481, 488, 491,
    500, 503, 603,
];

/// Decisions from the input bytes, then from a generator that they seed.
pub(crate) struct Choices<'a> {
    bytes: &'a [u8],
    random: Random,
}

impl<'a> Choices<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let seed = bytes.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(*byte));
        Self { bytes, random: Random::new(seed) }
    }

    /// Returns a time from `now` on: that of the timer `next`, one beyond it, or one long after it.
    pub(crate) fn later(&mut self, now: Instant, next: Option<Instant>) -> Instant {
        match self.below(4) {
            0 | 1 => next.unwrap_or(now).max(now),
            2 => now + Duration::from_millis(500),
            _ => now + Duration::from_secs(60),
        }
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        match self.bytes.split_first() {
            Some((&first, rest)) => {
                self.bytes = rest;
                usize::from(first) % bound.max(1)
            }
            None => self.random.below(bound as u64) as usize,
        }
    }

    pub(crate) fn pick<'c, T>(&mut self, choices: &'c [T]) -> &'c T {
        &choices[self.below(choices.len())]
    }

    /// Writes up to three of the header field lines `lines`.
    pub(crate) fn lines(&mut self, lines: &[&str], out: &mut Vec<u8>) {
        for _ in 0..self.below(4) {
            out.extend_from_slice(self.pick(lines).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Damages some messages.
    pub(crate) fn spoil(&mut self, bytes: &mut Vec<u8>) {
        match self.below(12) {
            0 => {
                let at = self.below(256) * bytes.len() / 256;
                bytes[at] ^= 1 << self.below(8);
            }
            1 => bytes.truncate(self.below(256) * bytes.len() / 256),
            _ => {}
        }
    }
}

/// Adds `one` to the list, which forgets its first entry if it is full.
pub(crate) fn keep<T>(list: &mut Vec<T>, one: T) {
    if list.len() >= KEPT {
        list.remove(0);
    }
    list.push(one);
}
