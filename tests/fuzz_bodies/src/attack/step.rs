//! Scripts: steps of a fixed length, so that a changed byte changes one decision.

/// A step of a script. Each byte selects an alternative; zero selects the most useful one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The action: see the constants.
    pub what: u8,
    /// The source, or the acting phone.
    pub source: u8,
    /// The message on which it is based, counted back from the last one seen by the attackers; 0
    /// for no message.
    pub base: u8,
    /// The method, or the status code of a response.
    pub method: u8,
    /// The request URI.
    pub uri: u8,
    /// Route, or Record-Route of a response.
    pub routes: u8,
    /// From.
    pub from: u8,
    /// To.
    pub to: u8,
    /// Call-ID and tags.
    pub call: u8,
    /// Contact.
    pub contact: u8,
    /// Via, or the branch that a response answers.
    pub via: u8,
    /// Credentials, or challenges.
    pub proof: u8,
    /// Other contents.
    pub extra: u8,
}

impl Step {
    /// The length of a step in bytes.
    pub const LENGTH: usize = 13;
    /// The attackers send a request.
    pub const REQUEST: u8 = 0;
    /// The attackers answer a request.
    pub const RESPONSE: u8 = 6;
    /// An honest phone acts.
    pub const PHONE: u8 = 9;
    /// Time passes.
    pub const TIME: u8 = 11;
    /// DNS answers.
    pub const LOCATE: u8 = 12;
    /// A message is undeliverable. With source 3, the server restarts.
    pub const FAIL: u8 = 13;
    /// A received message is repeated.
    pub const AGAIN: u8 = 14;
    /// Alice's phone answers a challenge of an attacker, outside of the server.
    pub const LURE: u8 = 15;

    /// Decodes at most `most` steps from `bytes`. Missing bytes are zero.
    pub fn read(bytes: &[u8], most: usize) -> impl Iterator<Item = Self> + '_ {
        bytes.chunks(Self::LENGTH).take(most).map(|chunk| {
            let mut all = [0; Self::LENGTH];
            all[..chunk.len()].copy_from_slice(chunk);
            let [
                what,
                source,
                base,
                method,
                uri,
                routes,
                from,
                to,
                call,
                contact,
                via,
                proof,
                extra,
            ] = all;
            Self {
                what: what % 16,
                source,
                base,
                method,
                uri,
                routes,
                from,
                to,
                call,
                contact,
                via,
                proof,
                extra,
            }
        })
    }

    /// Encodes the step.
    #[must_use]
    pub const fn bytes(self) -> [u8; Self::LENGTH] {
        let Self {
            what,
            source,
            base,
            method,
            uri,
            routes,
            from,
            to,
            call,
            contact,
            via,
            proof,
            extra,
        } = self;
        [what, source, base, method, uri, routes, from, to, call, contact, via, proof, extra]
    }
}
