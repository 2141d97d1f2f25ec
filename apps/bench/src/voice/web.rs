//! The media path of an end as in a browser: checks of ICE, and the keys of a DTLS handshake.

use dtls::{Association, AssociationError, Event, Identity, SrtpKeys};
use ice::Credentials;
use ice::stun::{BINDING, Class, Message, TransactionId, WriteError, Writer, attribute_type as at};
use media::DtlsPeer;
use media::demultiplex::Kind;
use sdp::SessionDescription;
use sdp::ice::IceParameters;
use sip::{Duration, Instant};
use srtp::{Policy, PolicyError};
use std::net::SocketAddr;

/// The interval of checks before the first response (RFC 8445 section 14.2), and of those that keep
/// the consent afterwards (RFC 7675 section 5.1).
const CHECKS: Duration = Duration::from_millis(50);
const CONSENT: Duration = Duration::from_secs(5);
/// The priority of a host candidate, and that of a peer-reflexive one (RFC 8445 section 5.1.2.1).
const PRIORITY: u32 = (126 << 24) | (65_535 << 8) | 255;
const PEER_REFLEXIVE: u32 = (110 << 24) | (65_535 << 8) | 255;

/// The checks and the handshake of one end, the controlling agent: that of the server is lite.
pub(crate) struct WebPath {
    credentials: Credentials,
    remote: Option<Remote>,
    /// The transaction of the last check.
    check: TransactionId,
    next_check: Instant,
    is_selected: bool,
    association: Option<Association>,
    /// The time at which the call was answered.
    pub(crate) answered: Option<Instant>,
}

/// The agent of the other end.
struct Remote {
    ufrag: String,
    password: String,
    address: SocketAddr,
}

/// The transforms by the keys of a handshake.
pub(crate) struct WebKeys {
    receiver: srtp::Receiver,
    sender: srtp::Sender,
}

impl WebPath {
    pub(crate) fn new(random: fn(&mut [u8])) -> Self {
        let mut bytes = [0; 32];
        random(&mut bytes);
        Self {
            credentials: Credentials::new(&bytes),
            remote: None,
            check: TransactionId([0; 12]),
            next_check: Instant::ZERO,
            is_selected: false,
            association: None,
            answered: None,
        }
    }

    /// The lines of ICE in the description, with the address of the socket.
    pub(crate) fn lines(&self, local: SocketAddr) -> String {
        let Credentials { ufrag, password } = &self.credentials;
        let (ip, port) = (local.ip(), local.port());
        format!(
            "a=ice-ufrag:{ufrag}\r\na=ice-pwd:{password}\r\n\
             a=candidate:1 1 UDP {PRIORITY} {ip} {port} typ host\r\n"
        )
    }

    /// Begins the checks by the description of the other end, `theirs`, and the handshake with
    /// `peer`, at the answer of the call.
    ///
    /// # Errors
    /// A message if the other end has not what they need.
    pub(crate) fn begin(
        &mut self,
        theirs: &[u8],
        peer: &DtlsPeer,
        identity: &Identity,
        now: Instant,
    ) -> Result<(), String> {
        self.remote = Some(remote_in(theirs).ok_or("the other end has no ICE")?);
        let begun = Association::new(identity, peer.is_client, std::time::Instant::now());
        let mut association = begun.map_err(|error| error.to_string())?;
        association.expect(&peer.fingerprints);
        self.association = Some(association);
        (self.next_check, self.answered) = (now, Some(now));
        Ok(())
    }

    /// Writes the check that is due at `now`, and returns its destination.
    pub(crate) fn poll_check(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<SocketAddr> {
        let remote = self.remote.as_ref().filter(|_| now >= self.next_check)?;
        self.next_check = now + if self.is_selected { CONSENT } else { CHECKS };
        // Checks of a call follow each other: a counter is enough for a load.
        let next = u32::from_be_bytes(*self.check.0.first_chunk()?).wrapping_add(1);
        self.check.0[..4].copy_from_slice(&next.to_be_bytes());
        let user = format!("{}:{}", remote.ufrag, self.credentials.ufrag);
        let write = |out: &mut Vec<u8>| -> Result<(), WriteError> {
            let mut writer = Writer::new(Class::Request, BINDING, self.check, out);
            writer.attribute(at::USERNAME, user.as_bytes())?;
            writer.attribute(at::PRIORITY, &PEER_REFLEXIVE.to_be_bytes())?;
            writer.attribute(at::ICE_CONTROLLING, &[1; 8])?;
            writer.attribute(at::USE_CANDIDATE, &[])?;
            writer.integrity(remote.password.as_bytes())?;
            writer.fingerprint()
        };
        write(out).is_ok().then_some(remote.address)
    }

    /// Handles a datagram. Returns false if it is of the media.
    ///
    /// # Errors
    /// The handshake has failed.
    pub(crate) fn receive(&mut self, datagram: &[u8]) -> Result<bool, AssociationError> {
        match Kind::of(datagram) {
            Kind::Stun => {
                // The integrity proves that it answers one of the checks. On a busy machine that
                // need not be the last one.
                let password = self.remote.as_ref().map(|remote| remote.password.as_bytes());
                let is_success = Message::parse(datagram).is_ok_and(|response| {
                    response.class == Class::Success
                        && password.is_some_and(|password| response.has_integrity(password))
                });
                self.is_selected |= is_success;
                Ok(true)
            }
            Kind::Dtls => {
                if let Some(association) = &mut self.association {
                    association.receive(std::time::Instant::now(), datagram)?;
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Advances the handshake, once a check has selected the path. Returns the keys, once.
    ///
    /// # Errors
    /// The handshake has failed.
    pub(crate) fn drive(
        &mut self,
        mut send: impl FnMut(SocketAddr, &[u8]),
    ) -> Result<Option<SrtpKeys>, AssociationError> {
        let (Some(association), Some(remote)) = (&mut self.association, &self.remote) else {
            return Ok(None);
        };
        if !self.is_selected {
            return Ok(None);
        }
        association.on_timeout(std::time::Instant::now())?;
        let mut found = None;
        loop {
            match association.poll()? {
                Event::Send(datagram) => send(remote.address, datagram),
                Event::Keys(keys) => found = Some(keys),
                Event::Wait(_) => return Ok(found),
            }
        }
    }
}

/// The agent in a description.
fn remote_in(description: &[u8]) -> Option<Remote> {
    let session = SessionDescription::parse(description).ok()?;
    let medium = session.media.first()?;
    let parameters = IceParameters::of(medium, &session).ok()??;
    let (ufrag, password) = (parameters.ufrag.to_owned(), parameters.password.to_owned());
    let address = SocketAddr::new(session.address(medium)?.parse().ok()?, medium.port);
    Some(Remote { ufrag, password, address })
}

impl WebKeys {
    /// # Errors
    /// The keys are unusable.
    pub(crate) fn new(keys: SrtpKeys) -> Result<Self, PolicyError> {
        let policy = Policy::new(keys.suite);
        let receiver = srtp::Receiver::new(&policy, vec![keys.remote])?;
        let sender = srtp::Sender::new(&policy, vec![keys.local])?;
        Ok(Self { receiver, sender })
    }

    /// Decrypts a packet in place, and returns its length; `None` if it is refused.
    pub(crate) fn decrypt(&mut self, packet: &mut [u8]) -> Option<usize> {
        let plain = match Kind::of(packet) {
            Kind::Rtp => self.receiver.unprotect(packet),
            Kind::Rtcp => self.receiver.unprotect_rtcp(packet),
            _ => return None,
        };
        Some(plain.ok()?.len())
    }

    /// Encrypts the packet in the first `length` bytes of `buffer`, and returns its length.
    pub(crate) fn encrypt(&mut self, buffer: &mut [u8], length: usize) -> Option<usize> {
        match Kind::of(buffer.get(..length)?) {
            Kind::Rtcp => self.sender.protect_rtcp(buffer, length).ok(),
            _ => self.sender.protect(buffer, length).ok(),
        }
    }
}
