//! Who has proved to be whom: nonces that were given out, and credentials that are right.

use super::places::Place;
use super::received::{Proof, Received};
use crate::fuzz::attack::draft::request_uri;
use crate::fuzz::attack::parties::{DOMAIN, USERS};
use sip::digest::{Credentials, Ha1Set};
use sip::{Duration, HeaderName, Instant};
use std::collections::HashMap;
use std::net::IpAddr;

/// How long a nonce is good.
const LIFETIME: Duration = Duration::from_secs(300);

/// What was given out, and what of it was used.
#[derive(Default)]
pub(super) struct Proofs {
    /// By nonce: to whom, and when.
    issued: HashMap<Vec<u8>, (IpAddr, Instant)>,
    /// By nonce and count: for which request.
    used: HashMap<(Vec<u8>, u32), usize>,
    /// Older nonces are of no use.
    started: Option<Instant>,
}

impl Proofs {
    pub(super) fn issue(&mut self, nonce: &[u8], host: IpAddr, now: Instant) {
        self.issued.entry(nonce.to_vec()).or_insert((host, now));
    }

    /// Whether the nonce was given to `host`.
    pub(super) fn is_of(&self, nonce: &[u8], host: IpAddr) -> bool {
        self.issued.get(nonce).is_some_and(|issued| issued.0 == host)
    }

    pub(super) fn restart(&mut self, now: Instant) {
        self.started = Some(now);
    }

    /// The nonce and count of `proof` are used from now on, by the request of number `serial`.
    pub(super) fn spend(&mut self, proof: &Proof, serial: usize) {
        self.used.insert(proof.key.clone(), serial);
    }

    /// The user who is `claimed`, if his credentials are in the header field `name` of the request
    /// of number `serial`, and no other request has used them.
    pub(super) fn find(
        &self,
        name: HeaderName,
        claimed: Option<&[u8]>,
        serial: usize,
        received: &Received,
    ) -> Option<Proof> {
        let request = received.message();
        for value in request.values(name) {
            let Ok(Some(credentials)) = Credentials::parse(value) else { continue };
            let Some(user) =
                USERS.into_iter().find(|user| user.as_bytes() == &*credentials.username)
            else {
                continue;
            };
            let ha1 = Ha1Set::new(user.as_bytes(), DOMAIN.as_bytes(), user.as_bytes());
            let method = received.method.as_bytes();
            let Some(&(host, issued)) = self.issued.get(credentials.nonce) else { continue };
            let is_fresh = received.came.iter().any(|now| *now <= issued + LIFETIME)
                && self.started.is_none_or(|start| issued >= start);
            let is_right = credentials.realm == DOMAIN.as_bytes()
                && credentials.verify(&ha1, method, request.body())
                && host == received.flow.remote.ip()
                && is_fresh
                && is_for(credentials.uri, &request_uri(&request));
            let count = credentials.nc.map_or(0, sip::digest::NonceCount::value);
            let key = (credentials.nonce.to_vec(), count);
            if !is_right || Some(user.as_bytes()) != claimed {
                continue;
            }
            if self.used.get(&key).is_none_or(|by| *by == serial) {
                return Some(Proof { user, key });
            }
        }
        None
    }
}

/// Whether credentials with this `uri` are for a request to `asked`: it is the same, or both are
/// ours.
fn is_for(uri: &[u8], asked: &str) -> bool {
    if uri == asked.as_bytes() {
        return true;
    }
    let uri = Place::of(&String::from_utf8_lossy(uri));
    match (uri, Place::of(asked)) {
        (Some(uri), Some(asked)) => uri == asked || (uri.is_in_domain() && asked.is_in_domain()),
        // Numbers are users of ours.
        (Some(uri), None) => uri.is_in_domain() && asked.starts_with("tel:"),
        _ => false,
    }
}
