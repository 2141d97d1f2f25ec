//! The keys of an agreement (RFC 6189 sections 4.4.1.4 and 4.5).

use crate::algorithm::{Hash, Suite};
use crate::cache::{Retained, Zid};
use crate::crypto::{Random, Secret, derive, digest, is_equal, short_mac};
use crate::event::Continuity;
use alloc::vec::Vec;
use zeroize::Zeroizing;

/// The length of a master salt of SRTP.
const SALT: usize = 14;

/// The role of an end: the initiator has sent the Commit message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Initiator,
    Responder,
}

impl Role {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Initiator => Self::Responder,
            Self::Responder => Self::Initiator,
        }
    }

    /// The name in labels of keys and in identifiers of secrets.
    fn label(self) -> &'static str {
        match self {
            Self::Initiator => "Initiator",
            Self::Responder => "Responder",
        }
    }
}

/// The keys of one end's messages and packets.
pub(crate) struct Side {
    /// Key and salt of SRTP.
    pub(crate) srtp: Secret,
    /// The key that authenticates messages.
    pub(crate) mac: Secret,
    /// The key that encrypts Confirm messages.
    pub(crate) cipher: Secret,
}

/// The keys of both ends.
pub(crate) struct Keys {
    pub(crate) suite: Suite,
    initiator: Side,
    responder: Side,
    /// The SAS hash.
    pub(crate) sas: [u8; 32],
    /// The secret for later calls.
    pub(crate) retained: Zeroizing<[u8; 32]>,
}

/// The exchange that keys are derived from.
pub(crate) struct Exchange<'a> {
    pub(crate) suite: Suite,
    /// The shared value of Diffie-Hellman.
    pub(crate) result: &'a [u8],
    pub(crate) initiator: Zid,
    pub(crate) responder: Zid,
    /// The responder's Hello, Commit, DHPart1 and DHPart2.
    pub(crate) messages: [&'a [u8]; 4],
    /// The retained secret that both ends have.
    pub(crate) secret: Option<&'a [u8; 32]>,
}

impl Exchange<'_> {
    pub(crate) fn keys(&self) -> Keys {
        let Suite { hash, cipher, .. } = self.suite;
        let total = digest(hash, &self.messages);
        let context = [&self.initiator.0[..], &self.responder.0, &total].concat();
        let secret = self.secret.map_or(&[][..], |secret| secret);
        // The lengths of the auxiliary and of the PBX secret, which this end does not have.
        let absent = 0_u32.to_be_bytes();
        let length = secret.len() as u32;
        let s0 = digest(
            hash,
            &[
                &1_u32.to_be_bytes(),
                self.result,
                b"ZRTP-HMAC-KDF",
                &context,
                &length.to_be_bytes(),
                secret,
                &absent,
                &absent,
            ],
        );
        let key = |label: &str, length| derive(hash, &s0, label.as_bytes(), &context, length);
        let side = |role: Role| {
            let key = |label: &str, length| key(&[role.label(), label].concat(), length);
            let mut srtp = key(" SRTP master key", cipher.key_length());
            srtp.extend_from_slice(&key(" SRTP master salt", SALT));
            Side {
                srtp,
                mac: key(" HMAC key", total.len()),
                cipher: key(" ZRTP key", cipher.key_length()),
            }
        };
        let array = |label| *key(label, 32).first_chunk().expect("a hash has 32 bytes or more");
        Keys {
            suite: self.suite,
            initiator: side(Role::Initiator),
            responder: side(Role::Responder),
            sas: array("SAS"),
            retained: Zeroizing::new(array("retained secret")),
        }
    }
}

impl Keys {
    /// The keys of the end with this role.
    pub(crate) fn side(&self, role: Role) -> &Side {
        match role {
            Role::Initiator => &self.initiator,
            Role::Responder => &self.responder,
        }
    }
}

/// The identifiers of rs1, rs2, the auxiliary and the PBX secret, as an end with this role sends
/// them (RFC 6189 section 4.3.1). Those of absent secrets are random.
pub(crate) fn identifiers(
    hash: Hash,
    retained: Option<&Retained>,
    role: Role,
    random: &mut Random,
) -> [[u8; 8]; 4] {
    let mut out = [(); 4].map(|()| *random.bytes());
    if let Some(Retained { rs1, rs2, .. }) = retained {
        out[0] = identifier(hash, rs1, role);
        if let Some(rs2) = rs2 {
            out[1] = identifier(hash, rs2, role);
        }
    }
    out
}

fn identifier(hash: Hash, secret: &[u8; 32], role: Role) -> [u8; 8] {
    short_mac(hash, secret, role.label().as_bytes())
}

/// The secret that both ends have: the initiator's rs1 if the responder has it, too, otherwise its
/// rs2. `role` is that of this end, `theirs` the identifiers of the peer.
pub(crate) fn shared_secret<'a>(
    hash: Hash,
    retained: Option<&'a Retained>,
    role: Role,
    theirs: &[[u8; 8]; 4],
) -> (Option<&'a [u8; 32]>, Continuity) {
    let Some(Retained { rs1, rs2, .. }) = retained else { return (None, Continuity::New) };
    let ours: Vec<(&[u8; 32], [u8; 8])> = [Some(rs1), rs2.as_ref()]
        .into_iter()
        .flatten()
        .map(|secret| (&**secret, identifier(hash, secret, role.other())))
        .collect();
    let theirs = &theirs[..2];
    let find = |secret: &[u8; 8], sent: &[u8; 8]| is_equal(secret, sent);
    let shared = match role {
        Role::Initiator => ours.iter().find(|(_, own)| theirs.iter().any(|sent| find(own, sent))),
        Role::Responder => {
            theirs.iter().find_map(|sent| ours.iter().find(|(_, own)| find(own, sent)))
        }
    };
    match shared {
        Some((secret, _)) => (Some(*secret), Continuity::Continued),
        None => (None, Continuity::Broken),
    }
}
