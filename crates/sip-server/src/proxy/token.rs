//! What the proxy writes into its own Record-Route to read it in the dialog's later requests: proof
//! that it forwarded the first one, and the flows of both sides, so that a phone behind a NAT or on
//! a connection is reached the way it came (RFC 5626 section 5.3, and seed row A14).

use crate::flow::Flow;
use crate::keys::Key;
use crate::record::{put_flow, take_flow};
use alloc::vec::Vec;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use smallvec::SmallVec;

/// The content of a Record-Route user part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// Hash of the tag of the side that sent the first request.
    caller_tag: u32,
    /// The flow to that side, if messages to it must follow one.
    caller: Option<Flow>,
    /// The flow to the other side, likewise.
    callee: Option<Flow>,
}

/// A token has 13 bytes at least, and flows; no other user part is looked at.
const MIN_TEXT: usize = 18;
const MAX_TEXT: usize = 160;

impl Token {
    pub(crate) fn new(
        key: &Key,
        from_tag: Option<&[u8]>,
        caller: Option<Flow>,
        callee: Option<Flow>,
    ) -> Self {
        Self { caller_tag: tag_hash(key, from_tag), caller, callee }
    }

    /// The user part for the dialog of `call_id`.
    pub(crate) fn text(&self, key: &Key, call_id: &[u8]) -> SmallVec<[u8; MAX_TEXT]> {
        let mut bytes = Vec::with_capacity(MAX_TEXT);
        bytes.extend_from_slice(&self.caller_tag.to_le_bytes());
        bytes.push(u8::from(self.caller.is_some()) | u8::from(self.callee.is_some()) << 1);
        for flow in [&self.caller, &self.callee].into_iter().flatten() {
            put_flow(&mut bytes, flow);
        }
        let proof = key.proof(&[&bytes, call_id]);
        bytes.extend_from_slice(&proof.to_le_bytes());
        let mut text = SmallVec::from_elem(0, MAX_TEXT);
        // Two flows of IPv6 on connections make 107 bytes, and so 143 characters.
        let length = URL_SAFE_NO_PAD.encode_slice(&bytes, &mut text).unwrap_or(0);
        text.truncate(length);
        text
    }

    /// Reads the user part, if this server wrote it for the dialog of `call_id`.
    pub(crate) fn parse(key: &Key, call_id: &[u8], user: &[u8]) -> Option<Self> {
        if !(MIN_TEXT..=MAX_TEXT).contains(&user.len()) {
            return None;
        }
        let mut bytes = [0; MAX_TEXT];
        let length = URL_SAFE_NO_PAD.decode_slice(user, &mut bytes).ok()?;
        let (bytes, proof) = bytes[..length].split_last_chunk::<8>()?;
        if key.proof(&[bytes, call_id]) != u64::from_le_bytes(*proof) {
            return None;
        }
        let (caller_tag, rest) = bytes.split_first_chunk::<4>()?;
        let (&flags, mut rest) = rest.split_first()?;
        let mut flow = |flag: u8| {
            if flags & flag == 0 { Some(None) } else { take_flow(&mut rest).map(Some) }
        };
        let (caller, callee) = (flow(1)?, flow(2)?);
        rest.is_empty().then_some(Self {
            caller_tag: u32::from_le_bytes(*caller_tag),
            caller,
            callee,
        })
    }

    /// The flow that a request of the dialog follows, by the tag of its sender.
    pub(crate) fn flow_for(&self, key: &Key, from_tag: Option<&[u8]>) -> Option<Flow> {
        if tag_hash(key, from_tag) == self.caller_tag { self.callee } else { self.caller }
    }
}

fn tag_hash(key: &Key, tag: Option<&[u8]>) -> u32 {
    key.proof(&[tag.unwrap_or_default()]) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Connection;
    use core::num::NonZeroU64;
    use sip::Transport;

    #[test]
    fn a_token_leads_each_side_to_the_other_and_cannot_be_moved() {
        let key = Key::derive(&[9; 32], "token");
        let caller = Flow {
            transport: Transport::Udp,
            local: "192.0.2.1:5060".parse().unwrap(),
            remote: "203.0.113.7:1024".parse().unwrap(),
            connection: None,
        };
        let callee = Flow {
            transport: Transport::Tcp,
            local: "[2001:db8::1]:5060".parse().unwrap(),
            remote: "[2001:db8::2]:50000".parse().unwrap(),
            connection: NonZeroU64::new(77).map(Connection),
        };
        let token = Token::new(&key, Some(b"a"), Some(caller), Some(callee));
        let user = token.text(&key, b"call-1");
        assert!(!user.is_empty());
        assert!(user.len() <= MAX_TEXT);
        let read = Token::parse(&key, b"call-1", &user).unwrap();
        assert_eq!(read.flow_for(&key, Some(b"a")), Some(callee));
        assert_eq!(read.flow_for(&key, Some(b"b")), Some(caller));
        assert_eq!(Token::parse(&key, b"call-2", &user), None);
        for at in 0..user.len() {
            let mut changed = user.clone();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(Token::parse(&key, b"call-1", &changed), None, "{at}");
        }
        assert_eq!(Token::parse(&key, b"call-1", b"alice"), None);
        assert_eq!(Token::parse(&key, b"call-1", b""), None);
    }
}
