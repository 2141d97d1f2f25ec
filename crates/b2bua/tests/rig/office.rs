//! The numbers and trunks of an office: digits after a zero lead through all trunks, in their
//! order, and +4930123 leads from a trunk to phone 0.

use super::{address, server};
use sip::{Flow, Transport};
use sip_server::{Caller, Dialed, Numbers, TrunkAttempt, TrunkId, TrunkTarget, Trunks};

pub(crate) struct Office {
    trunks: u8,
}

impl Office {
    pub(super) fn new(trunks: usize) -> Self {
        Self { trunks: trunks as u8 }
    }
}

impl Trunks for Office {
    fn target(&self, trunk: TrunkId) -> Option<TrunkTarget> {
        let (transport, local) = (Transport::Udp, server());
        let remote = address(usize::from(trunk.0) + 1);
        Some(TrunkTarget { transport, remote, local, name: "trunk.example".into() })
    }

    fn of_request(&self, flow: &Flow, _: &[u8]) -> Option<TrunkId> {
        let mut trunks = (0..self.trunks).map(TrunkId);
        trunks.find(|trunk| flow.remote == address(usize::from(trunk.0) + 1))
    }
}

impl Numbers for Office {
    fn route(&self, dialed: &[u8], caller: Caller<'_>) -> Dialed {
        let attempt = |trunk, number: &[u8], is_emergency| TrunkAttempt {
            trunk: TrunkId(trunk),
            number: String::from_utf8_lossy(number).into_owned(),
            identity: Some("+4930123".into()),
            is_emergency,
            payer: Some("p0@a.com".into()),
            class: Some("national".into()),
            stranger: None,
        };
        let all = |number: &[u8], is_emergency| {
            Dialed::Trunks((0..self.trunks).map(|it| attempt(it, number, is_emergency)).collect())
        };
        match (dialed, caller) {
            (b"112", Caller::User(_)) => all(b"112", true),
            ([b'0', number @ ..], Caller::User(_)) => all(number, false),
            (b"+4930123", Caller::Trunk(_)) => {
                Dialed::User(format!("p0@{}", server().ip()).into_bytes())
            }
            _ => Dialed::Name,
        }
    }
}
