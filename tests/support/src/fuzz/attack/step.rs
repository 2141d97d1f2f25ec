//! Scripts: steps of a fixed length, so that a change of one byte changes one thing.

/// One step of a script. Each byte chooses among what there is; zero is what is most useful.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// What is done: see the constants.
    pub what: u8,
    /// Where it comes from, or which phone acts.
    pub source: u8,
    /// On which of the messages that the attackers saw it builds, counted from the last one; 0: on
    /// none.
    pub base: u8,
    /// The method, or the status of a response.
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
    /// Via, or which branch of ours a response claims to answer.
    pub via: u8,
    /// Credentials, or challenges.
    pub proof: u8,
    /// What else is in it.
    pub extra: u8,
}

impl Step {
    /// Bytes of a step.
    pub const LENGTH: usize = 13;
    /// Attackers send a request.
    pub const REQUEST: u8 = 0;
    /// Attackers answer a request.
    pub const RESPONSE: u8 = 6;
    /// An honest phone acts.
    pub const PHONE: u8 = 9;
    /// Time passes.
    pub const TIME: u8 = 11;
    /// The DNS answers.
    pub const LOCATE: u8 = 12;
    /// A message cannot be delivered; with another source the server is started again.
    pub const FAIL: u8 = 13;
    /// What came comes once more.
    pub const AGAIN: u8 = 14;
    /// Alice's phone answers a challenge of an attacker's that does not come by the server.
    pub const LURE: u8 = 15;

    /// The steps that `bytes` spell, at most `most`. What is cut off counts as zeros.
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

    /// The bytes that spell the step.
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
