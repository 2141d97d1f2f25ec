//! Authentication: issued nonces and valid credentials.

use super::places::Place;
use super::received::{Proof, Received};
use crate::attack::draft::request_uri;
use crate::attack::parties::{DOMAIN, USERS};
use sip::digest::{Credentials, Ha1Set};
use sip::{Duration, HeaderName, Instant};
use std::collections::HashMap;
use std::net::IpAddr;

/// The lifetime of a nonce.
const LIFETIME: Duration = Duration::from_secs(300);

/// Issued nonces, and used nonce counts.
#[derive(Default)]
pub(super) struct Proofs {
    /// The host and the time of issue, by nonce.
    issued: HashMap<Vec<u8>, (IpAddr, Instant)>,
    /// The request that used it, by nonce and count.
    used: HashMap<(Vec<u8>, u32), usize>,
    /// Nonces issued before this time are invalid.
    started: Option<Instant>,
}

impl Proofs {
    pub(super) fn issue(&mut self, nonce: &[u8], host: IpAddr, now: Instant) {
        self.issued.entry(nonce.to_vec()).or_insert((host, now));
    }

    /// Returns true if the nonce was issued to `host`.
    pub(super) fn is_of(&self, nonce: &[u8], host: IpAddr) -> bool {
        self.issued.get(nonce).is_some_and(|issued| issued.0 == host)
    }

    pub(super) fn restart(&mut self, now: Instant) {
        self.started = Some(now);
    }

    /// Marks the nonce count of `proof` as used by the request `serial`.
    pub(super) fn spend(&mut self, proof: &Proof, serial: usize) {
        self.used.insert(proof.key.clone(), serial);
    }

    /// The user `claimed`, if valid credentials are in the header field `name` of the request
    /// `serial`, and no other request has used them.
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

/// Returns true if credentials with this `uri` are valid for a request to `asked`: both are equal,
/// or both are local.
fn is_for(uri: &[u8], asked: &str) -> bool {
    if uri == asked.as_bytes() {
        return true;
    }
    let uri = Place::of(&String::from_utf8_lossy(uri));
    match (uri, Place::of(asked)) {
        (Some(uri), Some(asked)) => uri == asked || (uri.is_in_domain() && asked.is_in_domain()),
        // Telephone numbers belong to local users.
        (Some(uri), None) => uri.is_in_domain() && asked.starts_with("tel:"),
        _ => false,
    }
}
