//! The ZRTP exchange of a call, on the path of its media (RFC 6189).

use crate::handshake::is_peer;
use crate::random::random;
use crate::secrets::Secrets;
use crate::warnings::warn;
use ::call::Call;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use zrtp::{Association, Cache, Config, Continuity, Event, HelloHash};

/// The exchange of one call. The descriptions of both ends have the hashes of their first messages.
pub(crate) struct Exchange {
    config: Config,
    cache: Cache,
    secrets: Secrets,
    running: Option<Running>,
    proof: Option<Proof>,
}

struct Running {
    association: Association,
    start: Instant,
    /// The source of the peer's datagrams behind a NAT.
    source: Option<SocketAddr>,
}

/// The short authentication string, and whether the users have compared it.
#[derive(Clone, Debug)]
pub(crate) struct Proof {
    pub(crate) sas: String,
    pub(crate) is_verified: bool,
    pub(crate) continuity: Continuity,
}

impl Exchange {
    /// The exchange of a new call.
    ///
    /// # Errors
    /// The secrets cannot be read.
    pub(crate) fn new(secrets: Secrets) -> Result<Self, String> {
        let (zid, cache) = secrets.read()?;
        let (mut seed, mut ssrc) = ([0; 32], [0; 4]);
        random(&mut seed);
        random(&mut ssrc);
        let config = Config::new(zid, seed, u32::from_be_bytes(ssrc));
        Ok(Self { config, cache, secrets, running: None, proof: None })
    }

    /// The hash for the description.
    pub(crate) fn hello_hash(&self) -> HelloHash {
        self.config.hello_hash()
    }

    /// The string, once there are keys.
    pub(crate) const fn proof(&self) -> Option<&Proof> {
        self.proof.as_ref()
    }

    /// The user says that the strings of both ends are the same, or not. Returns false if there is
    /// no string yet.
    pub(crate) fn set_verified(&mut self, is_verified: bool) -> bool {
        let (Some(running), Some(proof)) = (&mut self.running, &mut self.proof) else {
            return false;
        };
        proof.is_verified = is_verified;
        running.association.set_verified(is_verified);
        true
    }

    /// Processes a datagram of ZRTP. Those before the agreement of the call are repeated by the
    /// peer.
    pub(crate) fn receive(&mut self, call: &Call, from: SocketAddr, datagram: &[u8]) {
        let (Some(running), Some(session)) = (&mut self.running, call.session()) else { return };
        if zrtp::is_zrtp(datagram) && is_peer(running.source, session, from) {
            running.source = Some(from);
            running.association.handle(running.start.elapsed(), datagram, &self.cache);
        }
    }

    /// Begins the exchange that the call has agreed on, sends what is due, and sets the keys.
    /// Returns true if the call has new keys.
    ///
    /// # Errors
    /// The reason why the call has no keys.
    pub(crate) fn drive(
        &mut self,
        call: &mut Call,
        mut send: impl FnMut(SocketAddr, &[u8]),
    ) -> Result<bool, String> {
        let Some(session) = call.session() else { return Ok(false) };
        let (Some(hash), Some(named)) = (session.stream().keying.zrtp(), session.stream().remote)
        else {
            return Ok(false);
        };
        if self.running.is_none() {
            let hash = hash.parse::<HelloHash>().map_err(|error| error.to_string())?;
            let mut association = Association::new(self.config.clone(), Duration::ZERO);
            association.expect(hash);
            self.running = Some(Running { association, start: Instant::now(), source: None });
        }
        let Some(Running { association, start, source }) = &mut self.running else {
            return Ok(false);
        };
        let now = start.elapsed();
        if association.next_timeout().is_some_and(|due| due <= now) {
            association.handle_timeout(now);
        }
        while let Some(packet) = association.poll_transmit() {
            send(source.unwrap_or(named), &packet);
        }
        let mut has_keys = false;
        while let Some(event) = association.poll_event() {
            match event {
                Event::Keyed(keyed) => {
                    // Keys of the length of their suite are usable.
                    has_keys = call.set_keys(keyed.suite, keyed.local, keyed.remote).is_ok();
                    self.proof = Some(Proof {
                        sas: keyed.sas.to_string(),
                        is_verified: keyed.is_verified,
                        continuity: keyed.continuity,
                    });
                }
                Event::Update(update) => {
                    if let Err(error) = self.secrets.store(update) {
                        warn(error);
                    }
                }
                Event::Silent { .. } => {
                    return Err("the other end has a zrtp-hash, but sends no ZRTP".to_owned());
                }
                Event::Failed(failure) => return Err(failure.to_string()),
                _ => {}
            }
        }
        Ok(has_keys)
    }
}
