//! The keys of a session, and their renewal.

use super::timings::Measured;
use crate::error::{SendError, SessionError};
use crate::keying::{Keying, is_same};
use crate::negotiation::Stream;
use rtp::packet::HeaderFields;
use sdp::CryptoAttribute;
use sdp::negotiation::NegotiatedSrtp;
use srtp::timings::Step;
use srtp::{MasterKey, Policy, PolicyError, Suite, UnprotectError};

/// The SRTP contexts of a stream.
pub(super) struct Protection {
    pub(super) suite: Suite,
    pub(super) sender: srtp::Sender,
    pub(super) receiver: srtp::Receiver,
}

impl Protection {
    pub(super) fn new(
        agreed: &NegotiatedSrtp,
        seed: &[u8; 32],
        measured: &mut Measured,
    ) -> Result<Self, PolicyError> {
        Ok(Self {
            suite: agreed.send.policy.suite,
            sender: sender(&agreed.send, seed, measured)?,
            receiver: receiver(&agreed.receive, measured)?,
        })
    }

    /// Returns the contexts of the keys of a handshake.
    pub(super) fn of_keys(
        suite: Suite,
        local: MasterKey,
        remote: MasterKey,
        measured: &mut Measured,
    ) -> Result<Self, PolicyError> {
        let policy = Policy::new(suite);
        let sender = measured
            .measure(suite, Step::Derivation, || srtp::Sender::new(&policy, [local].into()));
        let receiver = measured
            .measure(suite, Step::Derivation, || srtp::Receiver::new(&policy, [remote].into()));
        Ok(Self { suite, sender: sender?, receiver: receiver? })
    }

    /// Writes the header of a packet and protects the packet.
    pub(super) fn write(
        &mut self,
        fields: HeaderFields,
        payload: &[u8],
        out: &mut [u8],
        measured: &mut Measured,
    ) -> Result<usize, SendError> {
        let suite = self.suite;
        let length = measured.measure(suite, Step::Header, || fields.write(payload, out))?;
        Ok(match measured.watch(suite) {
            Some(mut watch) => self.sender.protect_timed(out, length, &mut watch)?,
            None => self.sender.protect(out, length)?,
        })
    }

    /// Authenticates and decrypts a packet.
    pub(super) fn read<'d>(
        &mut self,
        datagram: &'d mut [u8],
        measured: &mut Measured,
    ) -> Result<&'d mut [u8], UnprotectError> {
        match measured.watch(self.suite) {
            Some(mut watch) => self.receiver.unprotect_timed(datagram, &mut watch),
            None => self.receiver.unprotect(datagram),
        }
    }
}

/// Replaces the keys `before` by the keys `after`. Changes nothing if the new keys are unusable, or
/// if the stream would be in clear after it was encrypted.
///
/// Counters restart with new keys only: the key of one end may stay while that of the other end
/// changes, and a restart under the same key would use a key stream twice.
pub(super) fn renew(
    protection: &mut Option<Protection>,
    before: &Keying,
    after: &Keying,
    seed: &[u8; 32],
    measured: &mut Measured,
) -> Result<(), SessionError> {
    let agreed = match after {
        Keying::Sdes(agreed) => agreed,
        // The keys before are in use until the handshake has new ones (RFC 8842 section 3.2).
        Keying::Dtls(_) | Keying::Zrtp(_) => return Ok(()),
        Keying::None if before.is_encrypted() => return Err(SessionError::InClear),
        Keying::None => return Ok(()),
    };
    let (Some(protection), Keying::Sdes(before)) = (protection.as_mut(), before) else {
        *protection = Some(Protection::new(agreed, seed, measured)?);
        return Ok(());
    };
    let is_new_sender = !is_same(&before.send, &agreed.send);
    let is_new_receiver = !is_same(&before.receive, &agreed.receive);
    let new_sender = is_new_sender.then(|| sender(&agreed.send, seed, measured)).transpose()?;
    let new_receiver = is_new_receiver.then(|| receiver(&agreed.receive, measured)).transpose()?;
    if let Some(sender) = new_sender {
        protection.sender = sender;
    }
    if let Some(receiver) = new_receiver {
        protection.receiver = receiver;
    }
    protection.suite = agreed.send.policy.suite;
    Ok(())
}

fn sender(
    crypto: &CryptoAttribute,
    seed: &[u8; 32],
    measured: &mut Measured,
) -> Result<srtp::Sender, PolicyError> {
    let keys = crypto.master_keys()?;
    let new = || {
        let sender = srtp::Sender::new(&crypto.policy, keys)?;
        Ok(if crypto.policy.plus.is_some() { sender.with_seed(seed) } else { sender })
    };
    measured.measure(crypto.policy.suite, Step::Derivation, new)
}

fn receiver(
    crypto: &CryptoAttribute,
    measured: &mut Measured,
) -> Result<srtp::Receiver, PolicyError> {
    let keys = crypto.master_keys()?;
    let new = || srtp::Receiver::new(&crypto.policy, keys);
    measured.measure(crypto.policy.suite, Step::Derivation, new)
}

/// Returns the receiver of packets from the other end of `stream`, if it is encrypted.
pub(crate) fn receiver_of(stream: &Stream) -> Result<Option<srtp::Receiver>, SessionError> {
    let keys = keys_of(stream)?.map(|agreed| &agreed.receive);
    Ok(keys.map(|keys| receiver(keys, &mut Measured::by(None))).transpose()?)
}

/// Returns the sender of packets to the other end of `stream`, if it is encrypted.
pub(crate) fn sender_of(stream: &Stream) -> Result<Option<srtp::Sender>, SessionError> {
    let keys = keys_of(stream)?.map(|agreed| &agreed.send);
    Ok(keys.map(|keys| sender(keys, &stream.seed, &mut Measured::by(None))).transpose()?)
}

/// Returns the keys of the session descriptions, or `None` for a stream in clear.
const fn keys_of(stream: &Stream) -> Result<Option<&NegotiatedSrtp>, SessionError> {
    match &stream.keying {
        Keying::None => Ok(None),
        Keying::Sdes(agreed) => Ok(Some(agreed)),
        Keying::Dtls(_) | Keying::Zrtp(_) => Err(SessionError::NoKeys),
    }
}
