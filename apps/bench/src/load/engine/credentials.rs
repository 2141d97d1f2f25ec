//! Answers to challenges (RFC 3261 section 22, RFC 8760).

use sip::Message;
use sip::digest::{Algorithm, Challenge, Ha1Set, Request, unquote};
use sip::header::HeaderName;

/// HA1 of each user, worked out once: a load asks for few realms, mostly one.
#[derive(Debug)]
pub(crate) struct Keys {
    realm: Vec<u8>,
    sets: Vec<Option<Box<Ha1Set>>>,
}

/// Who answers, and what for.
pub(crate) struct Asked<'a> {
    pub(crate) user: usize,
    pub(crate) name: &'a str,
    pub(crate) password: &'a str,
    pub(crate) request: Request<'a>,
    pub(crate) cnonce: &'a [u8],
}

impl Keys {
    /// Of `users` users.
    pub(crate) fn new(users: usize) -> Self {
        Self { realm: Vec::new(), sets: vec![None; users] }
    }

    /// Writes the header field line that answers the challenge of `response` into `line`, in place of
    /// what is there. `None` where it has no challenge that can be answered.
    pub(crate) fn answer(
        &mut self,
        response: &Message<'_>,
        asked: &Asked<'_>,
        line: &mut Vec<u8>,
    ) -> Option<()> {
        let (from, to): (_, &[u8]) = match response.status()? {
            401 => (HeaderName::WwwAuthenticate, b"Authorization: "),
            _ => (HeaderName::ProxyAuthenticate, b"Proxy-Authorization: "),
        };
        // The server names them in the order of its preference (RFC 8760 section 2.4).
        let challenge =
            response.values(from).find_map(|value| Challenge::parse(value).ok().flatten())?;
        let ha1 = self.ha1(&challenge, asked);
        let credentials =
            challenge.answer(asked.name.as_bytes(), ha1, &asked.request, asked.cnonce, 1);
        line.clear();
        line.extend_from_slice(to);
        credentials.write(line);
        line.extend_from_slice(b"\r\n");
        Some(())
    }

    fn ha1(&mut self, challenge: &Challenge<'_>, asked: &Asked<'_>) -> &[u8] {
        if self.realm != challenge.realm {
            self.realm = challenge.realm.to_vec();
            self.sets.fill(None);
        }
        let algorithm: Algorithm = challenge.algorithm;
        self.sets[asked.user]
            .get_or_insert_with(|| {
                let realm = unquote(challenge.realm);
                Box::new(Ha1Set::new(asked.name.as_bytes(), &realm, asked.password.as_bytes()))
            })
            .get(algorithm)
    }
}
