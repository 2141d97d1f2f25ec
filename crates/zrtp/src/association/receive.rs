//! Received messages.

use super::{
    Agreement, Answer, Association, Commitment, FOR_EVER, PATIENCE, Peer, Repeat, Secured, State,
};
use crate::agreement::KeyPair;
use crate::algorithm::Hash;
use crate::cache::Cache;
use crate::crypto::{digest, sha256};
use crate::error::{ErrorCode, Failure};
use crate::event::{Continuity, Event, Keyed};
use crate::hello_hash::VERSION;
use crate::keys::{Exchange, Keys, Role, identifiers, shared_secret};
use crate::message::{self, Commit, Confirm, Confirmed, DhPart, Hello, Message, has_mac};
use crate::sas::Sas;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use srtp::MasterKey;
use zeroize::Zeroizing;

type Outcome = Result<(), Failure>;

impl Association {
    /// Handles a message, which `bytes` are. A message that is out of place or not authentic is
    /// ignored.
    pub(super) fn receive(
        &mut self,
        now: Duration,
        ssrc: u32,
        message: Message<'_>,
        bytes: &[u8],
        cache: &Cache,
    ) -> Outcome {
        match message {
            Message::Hello(hello) => return self.on_hello(now, &hello, bytes, cache),
            Message::HelloAck => {
                if let State::Discovery { is_acknowledged: is_acknowledged @ false } =
                    &mut self.state
                {
                    *is_acknowledged = true;
                    self.repeat = None;
                    self.deadline = Some(now + PATIENCE);
                    self.commit(now);
                }
            }
            Message::Commit(commit) => return self.on_commit(now, &commit, bytes),
            Message::DhPart1(part) => return self.on_part1(now, &part, bytes),
            Message::DhPart2(part) => return self.on_part2(now, &part, bytes),
            Message::Confirm1(confirm) => self.on_confirm(now, &confirm, Role::Responder, bytes),
            Message::Confirm2(confirm) => self.on_confirm(now, &confirm, Role::Initiator, bytes),
            Message::Conf2Ack => self.acknowledge(),
            Message::Error(code) => {
                self.send(&message::write(b"ErrorACK", &[]));
                // It cannot be authentic: what is confirmed stays.
                let is_confirmed = matches!(self.state, State::Acknowledging(_) | State::Secure(_));
                if !is_confirmed && self.peer.is_some() {
                    return Err(Failure::Peer(code));
                }
            }
            Message::ErrorAck => {
                if let State::Failed | State::Secure(_) = self.state {
                    self.repeat = None;
                }
            }
            Message::GoClear(tag) => {
                self.refuse(now, ErrorCode::GO_CLEAR, |keys, role| {
                    message::is_go_clear(keys.suite.hash, keys.side(role), &tag)
                });
            }
            Message::SasRelay(relay) => {
                self.refuse(now, ErrorCode::RELAYED_SAS, |keys, role| {
                    relay.is_authentic(keys.suite.hash, keys.side(role))
                });
            }
            Message::Ping(hash) => {
                let own = &self.config.zid.0[..8];
                let ack: [&[u8]; 4] = [&VERSION, own, &hash, &ssrc.to_be_bytes()];
                self.send(&message::write(b"PingACK ", &ack));
            }
        }
        Ok(())
    }

    fn on_hello(
        &mut self,
        now: Duration,
        hello: &Hello<'_>,
        bytes: &[u8],
        cache: &Cache,
    ) -> Outcome {
        let State::Discovery { is_acknowledged } = self.state else {
            if self.peer.as_ref().is_some_and(|peer| peer.hello == bytes) {
                self.send(&message::write(b"HelloACK", &[]));
            }
            return Ok(());
        };
        match &self.peer {
            Some(peer) if peer.hello != bytes => return Ok(()),
            Some(_) => {}
            None => {
                // A newer peer lowers its version by itself; a reflection is no peer.
                if hello.version[..3] > VERSION[..3] || *hello.h3 == self.chain.0[3] {
                    return Ok(());
                }
                if self.expected.is_some_and(|hash| !hash.is_of(bytes)) {
                    self.suspicion = Some(Failure::HelloHash);
                    return Ok(());
                }
                if hello.version[..3] != VERSION[..3] {
                    return Err(Failure::Version);
                }
                if hello.zid == self.config.zid {
                    return Err(Failure::EqualZids);
                }
                self.suspicion = None;
                self.peer = Some(Peer {
                    hello: bytes.to_vec(),
                    h3: *hello.h3,
                    zid: hello.zid,
                    client: *hello.client,
                    suite: hello.choose(&self.config.preferences),
                    retained: cache.get(hello.zid).cloned(),
                });
            }
        }
        self.send(&message::write(b"HelloACK", &[]));
        if is_acknowledged {
            self.commit(now);
        } else if self.repeat.is_none() {
            // The peer has begun after this end had given up.
            self.repeat = Some(Repeat::hello(self.hello.clone(), now));
        }
        Ok(())
    }

    /// Becomes the initiator, once both Hello messages have arrived.
    fn commit(&mut self, now: Duration) {
        let Some(peer) = &self.peer else { return };
        let suite = peer.suite;
        let pair = KeyPair::new(suite.key_agreement, &mut self.random);
        let retained = peer.retained.as_ref();
        let secrets = identifiers(suite.hash, retained, Role::Initiator, &mut self.random);
        let part2 = message::dh_part(b"DHPart2 ", &secrets, pair.public(), &self.chain.0);
        let hvi = hvi(suite.hash, &part2, &peer.hello);
        let commit = message::commit(self.config.zid, suite, &hvi, &self.chain.0);
        self.deadline = None;
        let commitment = Commitment { suite, pair, hvi, commit: commit.clone(), part2 };
        self.state = State::Committed(Box::new(commitment));
        self.repeat_message(commit, now);
    }

    fn on_commit(&mut self, now: Duration, commit: &Commit<'_>, bytes: &[u8]) -> Outcome {
        let Some(peer) = &self.peer else { return Ok(()) };
        let is_of_peer = sha256(commit.h2) == peer.h3
            && has_mac(&peer.hello, commit.h2)
            && commit.zid == peer.zid;
        // Of two Commit messages the one with an exchange and the greater value prevails.
        let prevails = match &self.state {
            State::Discovery { .. } => true,
            State::Committed(own) => commit.hvi.is_some_and(|hvi| *hvi > own.hvi),
            _ => false,
        };
        if !is_of_peer || !prevails {
            return Ok(());
        }
        let suite = commit.suite(&self.config.preferences)?;
        let Some(hvi) = commit.hvi else { return Ok(()) };
        let pair = KeyPair::new(suite.key_agreement, &mut self.random);
        let retained = peer.retained.as_ref();
        let secrets = identifiers(suite.hash, retained, Role::Responder, &mut self.random);
        let part1 = message::dh_part(b"DHPart1 ", &secrets, pair.public(), &self.chain.0);
        self.repeat = None;
        self.deadline = Some(now + PATIENCE);
        self.answer(bytes, part1.clone());
        let (h2, commit) = (*commit.h2, bytes.to_vec());
        self.state =
            State::Answered(Box::new(Answer { suite, pair, h2, hvi: *hvi, commit, part1 }));
        Ok(())
    }

    fn on_part1(&mut self, now: Duration, part: &DhPart<'_>, bytes: &[u8]) -> Outcome {
        let (State::Committed(own), Some(peer)) = (&self.state, &self.peer) else { return Ok(()) };
        let h2 = sha256(part.h1);
        if sha256(&h2) != peer.h3 || !has_mac(&peer.hello, &h2) {
            return Ok(());
        }
        let Some(result) = own.pair.agree(part.public) else {
            self.suspicion = Some(Failure::PublicValue);
            return Ok(());
        };
        let (secret, continuity) = shared_secret(
            own.suite.hash,
            peer.retained.as_ref(),
            Role::Initiator,
            &part.identifiers,
        );
        let exchange = Exchange {
            suite: own.suite,
            result: &result,
            initiator: self.config.zid,
            responder: peer.zid,
            messages: [&peer.hello, &own.commit, bytes, &own.part2],
            secret,
        };
        let keys = exchange.keys();
        let part2 = own.part2.clone();
        let (part, h1) = (bytes.to_vec(), *part.h1);
        let agreement = Agreement { role: Role::Initiator, keys, part, h1, continuity };
        self.state = State::Confirming(Box::new(agreement));
        self.repeat_message(part2, now);
        Ok(())
    }

    fn on_part2(&mut self, now: Duration, part: &DhPart<'_>, bytes: &[u8]) -> Outcome {
        let (State::Answered(own), Some(peer)) = (&self.state, &self.peer) else { return Ok(()) };
        if sha256(part.h1) != own.h2 || !has_mac(&own.commit, part.h1) {
            return Ok(());
        }
        if hvi(own.suite.hash, bytes, &self.hello) != own.hvi {
            self.suspicion = Some(Failure::Commitment);
            return Ok(());
        }
        let result = own.pair.agree(part.public).ok_or(Failure::PublicValue)?;
        let (secret, continuity) = shared_secret(
            own.suite.hash,
            peer.retained.as_ref(),
            Role::Responder,
            &part.identifiers,
        );
        let exchange = Exchange {
            suite: own.suite,
            result: &result,
            initiator: peer.zid,
            responder: self.config.zid,
            messages: [&self.hello, &own.commit, &own.part1, bytes],
            secret,
        };
        let (part, h1) = (bytes.to_vec(), *part.h1);
        let keys = exchange.keys();
        let agreement = Agreement { role: Role::Responder, keys, part, h1, continuity };
        let confirm = self.confirm(&agreement, b"Confirm1");
        self.state = State::Confirming(Box::new(agreement));
        self.deadline = Some(now + PATIENCE);
        self.answer(bytes, confirm);
        Ok(())
    }

    /// Writes a Confirm message of this end.
    fn confirm(&mut self, agreement: &Agreement, kind: &[u8; 8]) -> Vec<u8> {
        let Agreement { role, keys, .. } = agreement;
        let content = Confirmed {
            h0: Zeroizing::new(self.chain.0[0]),
            is_verified: self.was_verified(agreement),
            lifetime: self.config.lifetime.unwrap_or(FOR_EVER),
        };
        let iv = *self.random.bytes();
        message::confirm(kind, keys.suite.hash, keys.side(*role), iv, &content)
    }

    /// Returns true if the users had compared the string with the same peer.
    fn was_verified(&self, agreement: &Agreement) -> bool {
        let retained = self.peer.as_ref().and_then(|peer| peer.retained.as_ref());
        agreement.continuity == Continuity::Continued
            && retained.is_some_and(|retained| retained.is_verified)
    }

    /// Handles a Confirm message of the end with the role `sender`.
    fn on_confirm(&mut self, now: Duration, confirm: &Confirm<'_>, sender: Role, bytes: &[u8]) {
        let agreement = match core::mem::replace(&mut self.state, State::Failed) {
            State::Confirming(agreement) if agreement.role != sender => agreement,
            state => {
                self.state = state;
                return;
            }
        };
        let Agreement { role, keys, part, h1, continuity } = &*agreement;
        let content = confirm.open(keys.suite.hash, keys.side(sender));
        let content = content.filter(|it| sha256(&*it.h0) == *h1 && has_mac(part, &it.h0));
        let (Some(content), Some(peer)) = (content, &self.peer) else {
            self.suspicion = Some(Failure::Confirmation);
            self.state = State::Confirming(agreement);
            return;
        };
        let suite = keys.suite;
        let is_verified = self.was_verified(&agreement) && content.is_verified;
        let key = |role: Role| {
            MasterKey::new(suite.srtp(), &keys.side(role).srtp)
                .expect("the derived key has the length of the suite")
        };
        let [a, b, c, d, ..] = keys.sas;
        self.events.push_back(Event::Keyed(Box::new(Keyed {
            suite: suite.srtp(),
            local: key(*role),
            remote: key(sender),
            sas: Sas::new([a, b, c, d], suite.sas_type),
            is_verified,
            continuity: *continuity,
            peer: peer.zid,
            peer_client: printable(&peer.client),
            key_agreement: suite.key_agreement,
            hash: suite.hash,
            cipher: suite.cipher,
        })));
        (self.repeat, self.deadline, self.suspicion) = (None, None, None);
        let lifetime = self.config.lifetime.unwrap_or(FOR_EVER).min(content.lifetime);
        let response = (*role == Role::Initiator).then(|| self.confirm(&agreement, b"Confirm2"));
        let Agreement { role, keys, continuity, .. } = *agreement;
        let secured = Box::new(Secured { role, keys, continuity, is_verified, lifetime });
        match response {
            Some(confirm2) => {
                self.state = State::Acknowledging(secured);
                self.repeat_message(confirm2, now);
            }
            None => {
                self.state = State::Secure(secured);
                self.answer(bytes, message::write(b"Conf2ACK", &[]));
                self.update();
            }
        }
    }

    /// Refuses a request of the peer by an Error message, if it is authentic by the peer's keys.
    fn refuse(
        &mut self,
        now: Duration,
        code: ErrorCode,
        is_authentic: impl Fn(&Keys, Role) -> bool,
    ) {
        let State::Secure(secured) = &self.state else { return };
        if self.repeat.is_none() && is_authentic(&secured.keys, secured.role.other()) {
            self.repeat_message(message::write(b"Error   ", &[&code.0.to_be_bytes()]), now);
        }
    }
}

/// The commitment to a DHPart2 message, towards the end with this Hello message (RFC 6189 section
/// 4.4.1.1).
fn hvi(hash: Hash, part2: &[u8], hello: &[u8]) -> [u8; 32] {
    *digest(hash, &[part2, hello]).first_chunk().expect("a hash has 32 bytes or more")
}

/// The printable characters of a name.
fn printable(name: &[u8; 16]) -> String {
    let letters = name.iter().map(|byte| char::from(*byte));
    let letters = letters.map(|it| if it == ' ' || it.is_ascii_graphic() { it } else { '?' });
    String::from(letters.collect::<String>().trim_end())
}
