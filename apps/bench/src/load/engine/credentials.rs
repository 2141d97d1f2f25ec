//! Responses to challenges (RFC 3261 section 22, RFC 8760), and nonce reuse (RFC 7616 section 3.3).

use sip::digest::{Algorithm, Challenge, DigestInput, Ha1Set, QopOptions, next_nonce, unquote};
use sip::header::HeaderName;
use sip::{Message, Method};

/// The cached HA1 of each user (a load has few realms, mostly one), and the challenges for nonce
/// reuse.
#[derive(Debug)]
pub(crate) struct Keys {
    realm: Vec<u8>,
    sets: Vec<Option<Box<Ha1Set>>>,
    /// The last challenges of server and proxy, by user; empty without nonce reuse.
    known: Vec<[Option<Box<Known>>; 2]>,
}

/// The user and the request that the credentials are for.
pub(crate) struct Asked<'a> {
    pub(crate) user: usize,
    pub(crate) name: &'a str,
    pub(crate) password: &'a str,
    pub(crate) method: Method<'static>,
    pub(crate) request: DigestInput<'a>,
    pub(crate) cnonce: &'a [u8],
}

/// The role of the challenger.
#[derive(Clone, Copy, Debug)]
enum Asker {
    /// A server or user agent: 401.
    Server,
    /// A proxy: 407.
    Proxy,
}

impl Asker {
    const ALL: [Self; 2] = [Self::Server, Self::Proxy];

    const fn of(status: u16) -> Self {
        if status == 401 { Self::Server } else { Self::Proxy }
    }

    /// Returns the header fields of challenges, of credentials, and of the next nonce.
    const fn fields(self) -> (HeaderName, &'static [u8], &'static [u8]) {
        match self {
            Self::Server => {
                (HeaderName::WwwAuthenticate, b"Authorization: ", b"Authentication-Info")
            }
            Self::Proxy => (
                HeaderName::ProxyAuthenticate,
                b"Proxy-Authorization: ",
                b"Proxy-Authentication-Info",
            ),
        }
    }
}

/// A challenge that was answered and may be used again.
#[derive(Debug)]
struct Known {
    realm: Vec<u8>,
    nonce: Vec<u8>,
    opaque: Option<Vec<u8>>,
    algorithm: Algorithm,
    session: bool,
    qop: QopOptions,
    /// The nonce count.
    count: u32,
    /// The methods that were challenged; a server may challenge only some methods.
    methods: Vec<Method<'static>>,
}

impl Known {
    fn challenge(&self) -> Challenge<'_> {
        Challenge {
            realm: &self.realm,
            nonce: &self.nonce,
            opaque: self.opaque.as_deref(),
            stale: false,
            algorithm: self.algorithm,
            session: self.session,
            qop: self.qop,
            domain: None,
        }
    }
}

impl Keys {
    /// Returns the empty state of `users` users.
    pub(crate) fn new(users: usize, reuse_nonces: bool) -> Self {
        let mut known = Vec::new();
        known.resize_with(if reuse_nonces { users } else { 0 }, Default::default);
        Self { realm: Vec::new(), sets: vec![None; users], known }
    }

    /// Replaces the content of `line` by the header field line that answers the challenge of
    /// `response`. Returns `None` if the response has no challenge that can be answered.
    pub(crate) fn answer(
        &mut self,
        response: &Message<'_>,
        asked: &Asked<'_>,
        line: &mut Vec<u8>,
    ) -> Option<()> {
        let asker = Asker::of(response.status()?);
        // The server lists them in the order of its preference (RFC 8760 section 2.4).
        let challenge = response
            .values(asker.fields().0)
            .find_map(|value| Challenge::parse(value).ok().flatten())?;
        if let Some(known) = self.known.get_mut(asked.user) {
            let known = &mut known[asker as usize];
            let mut methods = known.take().map(|known| known.methods).unwrap_or_default();
            if !methods.contains(&asked.method) {
                methods.push(asked.method);
            }
            *known = Some(Box::new(Known {
                realm: challenge.realm.to_vec(),
                nonce: challenge.nonce.to_vec(),
                opaque: challenge.opaque.map(<[u8]>::to_vec),
                algorithm: challenge.algorithm,
                session: challenge.session,
                qop: challenge.qop,
                count: 1,
                methods,
            }));
        }
        line.clear();
        self.write(asker, &challenge, asked, 1, line);
        Some(())
    }

    /// Replaces the content of `line` by header field lines with credentials for earlier
    /// challenges, if the user was challenged for this method. Returns true if there are such
    /// credentials.
    pub(crate) fn repeat(&mut self, asked: &Asked<'_>, line: &mut Vec<u8>) -> bool {
        line.clear();
        for asker in Asker::ALL {
            let Some(known) = self.known.get_mut(asked.user) else { return false };
            let known =
                known[asker as usize].take_if(|known| known.methods.contains(&asked.method));
            let Some(mut known) = known else { continue };
            known.count += 1;
            self.write(asker, &known.challenge(), asked, known.count, line);
            self.known[asked.user][asker as usize] = Some(known);
        }
        !line.is_empty()
    }

    /// Handles the success of a request with credentials of `user`: stores the next nonce if the
    /// server names one (RFC 7616 section 3.5).
    pub(crate) fn succeeded(&mut self, user: usize, response: &Message<'_>) {
        let Some(known) = self.known.get_mut(user) else { return };
        for (asker, known) in Asker::ALL.into_iter().zip(known) {
            let Some(known) = known else { continue };
            let name = asker.fields().2;
            let field = response.fields().find(|field| field.raw_name().eq_ignore_ascii_case(name));
            if let Some(nonce) = field.and_then(|field| next_nonce(field.value))
                && nonce != known.nonce
            {
                known.nonce = nonce.to_vec();
                known.count = 0;
            }
        }
    }

    fn write(
        &mut self,
        asker: Asker,
        challenge: &Challenge<'_>,
        asked: &Asked<'_>,
        count: u32,
        line: &mut Vec<u8>,
    ) {
        let ha1 = self.ha1(challenge, asked);
        let credentials = challenge.credentials_for(
            asked.name.as_bytes(),
            ha1,
            &asked.request,
            asked.cnonce,
            count,
        );
        line.extend_from_slice(asker.fields().1);
        credentials.write(line);
        line.extend_from_slice(b"\r\n");
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
