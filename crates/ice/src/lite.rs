//! The agent of ICE lite: it answers checks, and follows the nominations of the peer.

use crate::Credentials;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use stun::{BINDING, Class, Message, WriteError, Writer, attribute_type as at};

/// The time for which a check is the consent of the peer to receive media (RFC 7675 section 5.1).
pub const CONSENT: Duration = Duration::from_secs(30);
/// The time within which the peer repeats the checks of a pair that it uses. Browsers do so every
/// 2.5 s.
const IN_USE: Duration = Duration::from_secs(5);
/// The comprehension-required attributes of a check.
const KNOWN: &[u16] = &[at::USERNAME, at::MESSAGE_INTEGRITY, at::PRIORITY, at::USE_CANDIDATE];

/// The agent of one medium, with one component and one local address.
///
/// Times are durations since an epoch that the owner chooses and keeps.
#[derive(Clone, Debug)]
pub struct LiteAgent {
    local: Credentials,
    /// The user fragment of the peer, once its description has come.
    remote: Option<String>,
    selected: Option<Selected>,
    /// The time and the source of the last authentic check.
    checked: Option<(Duration, SocketAddr)>,
}

/// The nominated address of the peer.
#[derive(Clone, Copy, Debug)]
struct Selected {
    address: SocketAddr,
    priority: u32,
    /// The last nomination of this address.
    nominated: Duration,
    /// The last authentic check from this address.
    checked: Duration,
}

/// The outcome of a received connectivity check (RFC 8445 section 7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckOutcome {
    /// The datagram is no check for this agent. It is not answered.
    Ignored,
    /// An authentic check. Its success response is to be sent to its source.
    Success {
        /// True if the check has nominated another address than the selected one.
        is_new_selection: bool,
    },
    /// A check that is refused with this error code. The error response, which is no longer than
    /// the check, is to be sent to its source.
    Error(u16),
}

/// The user fragment of the agent that a check is for, if the datagram is one. It is not yet
/// authenticated.
#[must_use]
pub fn called_ufrag(datagram: &[u8]) -> Option<&str> {
    let message = Message::parse(datagram).ok().filter(is_binding_request)?;
    Some(ufrags_of(&message)?.0)
}

impl LiteAgent {
    /// An agent with these credentials, which its description announces.
    #[must_use]
    pub const fn new(local: Credentials) -> Self {
        Self { local, remote: None, selected: None, checked: None }
    }

    /// The credentials of this end.
    #[must_use]
    pub const fn local(&self) -> &Credentials {
        &self.local
    }

    /// Sets the user fragment of the peer's description. Checks may precede it. Another fragment
    /// than before is another peer, such as the second callee of a forked call: it nominates an
    /// address of any priority.
    pub fn set_remote(&mut self, ufrag: &str) {
        if self.remote.as_deref().is_some_and(|before| before != ufrag) {
            self.forget_priority();
        }
        self.remote = Some(ufrag.into());
    }

    /// Restarts ICE with new credentials (RFC 8445 section 9). Media go to the selected address
    /// until the peer nominates another one, of any priority.
    pub fn restart(&mut self, local: Credentials) {
        (self.local, self.remote) = (local, None);
        self.forget_priority();
    }

    const fn forget_priority(&mut self) {
        if let Some(selected) = &mut self.selected {
            selected.priority = 0;
        }
    }

    /// The address that the peer has nominated: the destination of media.
    #[must_use]
    pub fn selected(&self) -> Option<SocketAddr> {
        self.selected.map(|selected| selected.address)
    }

    /// Returns true if an authentic check came from this address: it is the selected one, or that
    /// of the last check. The peer may send datagrams from there before it nominates it.
    #[must_use]
    pub fn is_checked(&self, from: SocketAddr) -> bool {
        self.selected() == Some(from) || self.checked.is_some_and(|(_, address)| address == from)
    }

    /// The time at which the consent of the peer ends without a further check: no media are sent
    /// to it afterwards (RFC 7675). Only a check from the selected address is consent to media
    /// there. `None` before the first check.
    #[must_use]
    pub fn consent_end(&self) -> Option<Duration> {
        let last = self.checked.map(|(checked, _)| checked);
        let checked = self.selected.map(|selected| selected.checked).or(last);
        checked.map(|checked| checked + CONSENT)
    }

    /// Handles a datagram from `from`. The response to a check is in `out`.
    pub fn receive(
        &mut self,
        now: Duration,
        from: SocketAddr,
        datagram: &[u8],
        out: &mut Vec<u8>,
    ) -> CheckOutcome {
        let Ok(check) = Message::parse(datagram) else { return CheckOutcome::Ignored };
        if !is_binding_request(&check) {
            return CheckOutcome::Ignored;
        }
        let accepted = self.accept(&check);
        let written = match accepted {
            Ok(_) => self.write_success(from, &check, out),
            Err(code) => self.write_error(code, &check, out),
        };
        match (accepted, written) {
            (_, Err(_)) => CheckOutcome::Ignored,
            // A forged check must not make a larger datagram.
            (Err(_), _) if out.len() > datagram.len() => CheckOutcome::Ignored,
            (Err(code), _) => CheckOutcome::Error(code),
            (Ok(nomination), _) => {
                self.checked = Some((now, from));
                if let Some(selected) = self.selected.as_mut().filter(|it| it.address == from) {
                    selected.checked = now;
                }
                let is_new_selection =
                    nomination.is_some_and(|priority| self.nominate(now, from, priority));
                CheckOutcome::Success { is_new_selection }
            }
        }
    }

    /// Verifies a check. Returns its priority if it nominates its pair, or the code of an error
    /// (RFC 8445 section 7.3, RFC 8489 section 9.1.3).
    fn accept(&self, check: &Message<'_>) -> Result<Option<u32>, u16> {
        let Some((ours, theirs)) = ufrags_of(check) else { return Err(400) };
        if check.value(at::MESSAGE_INTEGRITY).is_none() || !check.has_fingerprint {
            return Err(400);
        }
        let is_for_us = ours == self.local.ufrag
            && self.remote.as_ref().is_none_or(|remote| theirs == remote)
            && check.has_integrity(self.local.password.as_bytes());
        if !is_for_us {
            return Err(401);
        }
        if check.unknown_attributes(KNOWN).next().is_some() {
            return Err(420);
        }
        // A lite agent is the controlled one, and so the peer has to control.
        if check.value(at::ICE_CONTROLLED).is_some() {
            return Err(487);
        }
        let priority = check.value(at::PRIORITY).and_then(|value| value.try_into().ok());
        let priority = u32::from_be_bytes(priority.ok_or(400_u16)?);
        Ok(check.value(at::USE_CANDIDATE).map(|_| priority))
    }

    /// Follows a nomination. The peer may nominate several pairs, and then uses that of the highest
    /// priority (RFC 5245 section 8.1.1.2). It may change to one of a lower priority later, and
    /// then stops the checks of the former one. Returns true if another address is selected.
    fn nominate(&mut self, now: Duration, address: SocketAddr, priority: u32) -> bool {
        let new = Selected { address, priority, nominated: now, checked: now };
        match &mut self.selected {
            Some(selected) if selected.address == address => {
                *selected = new;
                false
            }
            Some(selected)
                if priority < selected.priority
                    && now.saturating_sub(selected.nominated) < IN_USE =>
            {
                false
            }
            selected => {
                *selected = Some(new);
                true
            }
        }
    }

    fn write_success(
        &self,
        from: SocketAddr,
        check: &Message<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), WriteError> {
        let mut writer = Writer::new(Class::Success, BINDING, check.id, out);
        writer.xor_mapped_address(from)?;
        writer.integrity(self.local.password.as_bytes())?;
        writer.fingerprint()
    }

    /// An error response has a MESSAGE-INTEGRITY only if the check was authentic.
    fn write_error(
        &self,
        code: u16,
        check: &Message<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), WriteError> {
        let mut writer = Writer::new(Class::Error, BINDING, check.id, out);
        writer.error(code, "")?;
        if code == 420 {
            let mut numbers = [0; 8];
            let mut length = 0;
            for (place, number) in numbers.chunks_mut(2).zip(check.unknown_attributes(KNOWN)) {
                place.copy_from_slice(&number.to_be_bytes());
                length += 2;
            }
            writer.attribute(at::UNKNOWN_ATTRIBUTES, &numbers[..length])?;
        }
        if !matches!(code, 400 | 401) {
            writer.integrity(self.local.password.as_bytes())?;
        }
        writer.fingerprint()
    }
}

fn is_binding_request(message: &Message<'_>) -> bool {
    message.class == Class::Request && message.method == BINDING
}

/// The user fragments of the receiver and of the sender of a check.
fn ufrags_of<'a>(check: &Message<'a>) -> Option<(&'a str, &'a str)> {
    let name = core::str::from_utf8(check.value(at::USERNAME)?).ok()?;
    name.split_once(':')
}
