//! The numbers and trunks of an office: digits after a zero lead through all trunks, in their
//! order. +4930123 leads from a trunk to phone 0, +49301231 to phone 1, if that is a user.

use super::{address, server};
use sip::{Flow, Transport};
use sip_server::{Caller, Dialed, Numbers, TrunkAttempt, TrunkId, TrunkTarget, Trunks};
use std::net::SocketAddr;

/// The numbers of the users.
pub(crate) const NUMBERS: [&str; 2] = ["+4930123", "+49301231"];

pub(crate) struct Office {
    /// The first phones are users, the next ones the trunks.
    users: usize,
    trunks: u8,
}

impl Office {
    pub(super) fn new(users: usize, trunks: usize) -> Self {
        Self { users, trunks: trunks as u8 }
    }

    fn address_of(&self, trunk: TrunkId) -> SocketAddr {
        address(usize::from(trunk.0) + self.users)
    }
}

/// The user that pays for the calls of the user `name`, which is `p` and a number, and its number.
fn payer(name: &[u8]) -> (String, String) {
    let user = name.split(|byte| *byte == b'@').next().unwrap_or_default();
    let user = String::from_utf8_lossy(user).into_owned();
    let place: usize = user.strip_prefix('p').and_then(|it| it.parse().ok()).unwrap_or_default();
    (user + "@a.com", NUMBERS[place].to_owned())
}

impl Trunks for Office {
    fn target(&self, trunk: TrunkId) -> Option<TrunkTarget> {
        let (transport, local) = (Transport::Udp, server());
        let remote = self.address_of(trunk);
        Some(TrunkTarget { transport, remote, local, name: "trunk.example".into() })
    }

    fn of_request(&self, flow: &Flow, _: &[u8]) -> Option<TrunkId> {
        let mut trunks = (0..self.trunks).map(TrunkId);
        trunks.find(|trunk| flow.remote == self.address_of(*trunk))
    }
}

impl Numbers for Office {
    fn route(&self, dialed: &[u8], caller: Caller<'_>) -> Dialed {
        let all = |number: &[u8], is_emergency, user: &[u8]| {
            let (payer, identity) = payer(user);
            let attempt = |trunk| TrunkAttempt {
                trunk: TrunkId(trunk),
                number: String::from_utf8_lossy(number).into_owned(),
                identity: Some(identity.clone()),
                is_emergency,
                payer: Some(payer.clone()),
                class: Some("national".into()),
                stranger: None,
            };
            Dialed::Trunks((0..self.trunks).map(attempt).collect())
        };
        match (dialed, caller) {
            (b"112", Caller::User(user)) => all(b"112", true, user),
            ([b'0', number @ ..], Caller::User(user)) => all(number, false, user),
            (dialed, Caller::Trunk(_)) => {
                let user = NUMBERS.iter().position(|number| number.as_bytes() == dialed);
                match user.filter(|user| *user < self.users) {
                    Some(user) => Dialed::User(format!("p{user}@{}", server().ip()).into_bytes()),
                    None => Dialed::Name,
                }
            }
            _ => Dialed::Name,
        }
    }
}
