//! The keys of the legs of a medium whose encryption ends at the relay.

use crate::description::KeyChange;
use crate::end::Keying;
use crate::error::RelayError;
use crate::web::{WebKeying, WebLeg, has_ice, is_web};
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::SocketAddr;
use sdp::dtls::Fingerprint;
use sdp::negotiation::{
    NegotiatedSrtp, Profile, SrtpPreferences, accept, answer, usable_crypto_attributes,
};
use sdp::{CryptoAttribute, MediaDescription, SessionDescription};
use srtp::{MasterKey, Policy, PolicyError, Receiver, Sender, Suite};

/// The suites that the relay offers, in order of preference.
const OFFERED: [Suite; 2] = [Suite::AeadAes256Gcm, Suite::AesCm128HmacSha1_80];

/// A medium in clear.
const CLEAR: KeyChange =
    KeyChange::Replaced { is_secure: false, attributes: Vec::new(), handshake: None };

/// The keys of one leg.
#[derive(Debug, Default)]
pub(crate) struct LegKeying {
    /// The attributes that the relay has offered to the end.
    ours: Vec<CryptoAttribute>,
    /// The attributes of the last offer of the end.
    theirs: Vec<CryptoAttribute>,
    /// The keys in use.
    agreed: Option<NegotiatedSrtp>,
    /// The keying of the last offer to the end.
    asked: Keying,
    /// True if the end names a profile with encryption.
    is_secure: bool,
    /// The state of a leg with a handshake.
    web: Option<Box<WebKeying>>,
    /// The handshake that the relay has offered beside `ours`.
    beside: Option<Box<WebKeying>>,
}

impl LegKeying {
    /// Reads the keys of an offer of the end, which has to have keys if `keying` requires them. A
    /// host with a certificate of this `fingerprint` makes handshakes.
    pub(crate) fn read_offer(
        &mut self,
        session: &SessionDescription<'_>,
        medium: &MediaDescription<'_>,
        keying: Keying,
        fingerprint: Option<&Fingerprint>,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), RelayError> {
        if self.web.is_none() && is_web(medium) {
            self.web = begin_web(fingerprint, has_ice(session, medium), random);
        }
        if let Some(web) = &mut self.web {
            return web.read(session, medium, true, random);
        }
        let theirs = usable_crypto_attributes(medium);
        if theirs.is_empty() && keying == Keying::Required {
            return Err(RelayError::InClear);
        }
        self.theirs = theirs;
        self.is_secure = Profile::of(medium.protocol) == Some(Profile::Secure);
        Ok(())
    }

    /// Returns the keys of the answer to the last offer of the end. The same offer gets the same
    /// key again. `place` is the address of the port.
    pub(crate) fn write_answer(
        &mut self,
        place: SocketAddr,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<KeyChange, RelayError> {
        if let Some(web) = &mut self.web {
            return Ok(KeyChange::Web(web.write(false, place)));
        }
        let before = self.agreed.as_ref().map(|agreed| agreed.send.clone());
        // A key for the same suite is kept, so that the rollover counter goes on (RFC 4568 section
        // 7.1.4).
        let key = |bytes: &mut [u8]| match before.as_ref().and_then(|before| before.keys.first()) {
            Some(before) if before.bytes.len() == bytes.len() => {
                bytes.copy_from_slice(&before.bytes);
            }
            _ => random(bytes),
        };
        let agreed = answer(&self.theirs, &SrtpPreferences::secure(), key);
        let Ok(agreed) = agreed else {
            // A call that was encrypted is never in clear again.
            return match self.is_secure || self.agreed.is_some() {
                true => Err(RelayError::InClear),
                false => Ok(CLEAR),
            };
        };
        let attributes = [agreed.send.to_string()].into();
        self.agreed = Some(agreed);
        Ok(KeyChange::Replaced { is_secure: self.is_secure, attributes, handshake: None })
    }

    /// Returns the keys of an offer to the end. `place` is the address of the port.
    pub(crate) fn write_offer(
        &mut self,
        keying: Keying,
        place: SocketAddr,
        fingerprint: Option<&Fingerprint>,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<KeyChange, RelayError> {
        let has_ice = keying == Keying::Dtls;
        if (has_ice || keying == Keying::Handshake) && self.web.is_none() {
            self.web = begin_web(fingerprint, has_ice, random);
            if self.web.is_none() {
                return Err(RelayError::Handshake);
            }
        }
        if let Some(web) = &mut self.web {
            return Ok(KeyChange::Web(web.write(true, place)));
        }
        self.asked = keying;
        if keying == Keying::Clear {
            self.ours.clear();
            self.beside = None;
            return Ok(CLEAR);
        }
        if self.beside.is_none() {
            self.beside = begin_web(fingerprint, false, random);
        }
        if let Some(agreed) = &self.agreed {
            self.ours = [agreed.send.clone()].into();
        } else if self.ours.is_empty() {
            for (tag, suite) in (1..).zip(OFFERED) {
                let mut bytes = [0; 64];
                let bytes = &mut bytes[..suite.key_length() + suite.salt_length()];
                random(bytes);
                self.ours.push(CryptoAttribute::new(tag, Policy::new(suite), bytes)?);
            }
        }
        let attributes = self.ours.iter().map(ToString::to_string).collect();
        let beside = self.beside.as_mut().filter(|_| self.agreed.is_none());
        let handshake = beside.map(|beside| beside.write(true, place));
        let is_secure = keying == Keying::Required;
        Ok(KeyChange::Replaced { is_secure, attributes, handshake })
    }

    /// Reads the answer of the end to [`LegKeying::write_offer`].
    pub(crate) fn read_answer(
        &mut self,
        session: &SessionDescription<'_>,
        medium: &MediaDescription<'_>,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), RelayError> {
        if let Some(web) = &mut self.web {
            return web.read(session, medium, false, random);
        }
        let answered = usable_crypto_attributes(medium);
        self.is_secure = Profile::of(medium.protocol) == Some(Profile::Secure);
        let must_encrypt =
            self.asked == Keying::Required || self.is_secure || self.agreed.is_some();
        if let Ok(agreed) = accept(&self.ours, &answered) {
            self.agreed = Some(agreed);
            return Ok(());
        }
        if self.agreed.is_none()
            && let Some(mut beside) = self.beside.take()
        {
            let is_usable = beside.read(session, medium, false, random).is_ok();
            let place = if is_usable { &mut self.web } else { &mut self.beside };
            *place = Some(beside);
        }
        match must_encrypt && self.web.is_none() {
            true => Err(RelayError::InClear),
            false => Ok(()),
        }
    }

    /// The keying of an offer to the end, if it has agreed on keys before.
    pub(crate) const fn established(&self) -> Option<Keying> {
        if self.web.is_some() {
            return Some(Keying::Dtls);
        }
        match (&self.agreed, self.is_secure) {
            (Some(_), true) => Some(Keying::Required),
            (Some(_), false) => Some(Keying::Optional),
            (None, _) => None,
        }
    }

    /// True for a leg with a handshake.
    pub(crate) const fn is_web(&self) -> bool {
        self.web.is_some()
    }

    /// True for a browser's leg.
    pub(crate) fn has_ice(&self) -> bool {
        self.web.as_ref().is_some_and(|web| web.has_ice())
    }

    /// True if the end waits for the first message of the handshake.
    pub(crate) fn is_client(&self) -> bool {
        self.web.as_ref().is_some_and(|web| web.is_client())
    }

    /// Returns the attributes of a rejected medium for an end with a handshake.
    pub(crate) fn rejected(&self) -> Option<KeyChange> {
        Some(KeyChange::Web(self.web.as_ref()?.rejected()))
    }

    /// Applies the state of a leg with a handshake to its packets.
    pub(crate) fn update_web(&self, leg: &mut Option<Box<WebLeg>>) {
        if let Some(web) = &self.web {
            WebLeg::update(leg, web);
        }
    }

    pub(crate) const fn agreed(&self) -> Option<&NegotiatedSrtp> {
        self.agreed.as_ref()
    }
}

/// The state of a leg with a handshake before the first description. `None` if the host makes none.
fn begin_web(
    fingerprint: Option<&Fingerprint>,
    has_ice: bool,
    random: &mut dyn FnMut(&mut [u8]),
) -> Option<Box<WebKeying>> {
    WebKeying::create(fingerprint?.clone(), has_ice, random).map(Box::new)
}

/// True if packets of both attributes have the same keys.
fn is_same(one: &CryptoAttribute, other: &CryptoAttribute) -> bool {
    let keys = |crypto: &CryptoAttribute| {
        crypto.keys.iter().map(|key| (key.bytes.to_vec(), key.mki.clone())).collect::<Vec<_>>()
    };
    one.policy == other.policy && keys(one) == keys(other)
}

/// The SRTP transforms of a leg.
pub(crate) struct LegKeys {
    /// `None` for the keys of a handshake.
    agreed: Option<NegotiatedSrtp>,
    pub(crate) receiver: Receiver,
    pub(crate) sender: Sender,
}

impl LegKeys {
    fn new(agreed: &NegotiatedSrtp) -> Result<Self, PolicyError> {
        let sender = Sender::new(&agreed.send.policy, agreed.send.master_keys()?)?;
        let receiver = Receiver::new(&agreed.receive.policy, agreed.receive.master_keys()?)?;
        Ok(Self { agreed: Some(agreed.clone()), receiver, sender })
    }

    /// Returns the transforms of the keys of a handshake.
    pub(crate) fn of_handshake(
        suite: Suite,
        local: MasterKey,
        remote: MasterKey,
    ) -> Result<Self, PolicyError> {
        let policy = Policy::new(suite);
        let sender = Sender::new(&policy, [local].into())?;
        let receiver = Receiver::new(&policy, [remote].into())?;
        Ok(Self { agreed: None, receiver, sender })
    }

    /// Replaces `keys` by those of `agreed`. A transform whose key stays is kept: its counters go
    /// on, since a restart under the same key would use a key stream twice.
    pub(crate) fn renew(
        keys: &mut Option<Self>,
        agreed: Option<&NegotiatedSrtp>,
    ) -> Result<(), PolicyError> {
        let (Some(agreed), Some(before)) = (agreed, keys.as_mut()) else {
            *keys = agreed.map(Self::new).transpose()?;
            return Ok(());
        };
        let new = Self::new(agreed)?;
        let old = before.agreed.as_ref();
        if old.is_none_or(|old| !is_same(&old.send, &agreed.send)) {
            before.sender = new.sender;
        }
        if old.is_none_or(|old| !is_same(&old.receive, &agreed.receive)) {
            before.receiver = new.receiver;
        }
        before.agreed = new.agreed;
        Ok(())
    }
}
