//! One handshake, and the keys that it yields.

use crate::record::is_plausible;
use crate::{AssociationError, Identity, fingerprint, request, rsa};
use dimpl::crypto::rust_crypto;
use dimpl::{Config, Dtls, KeyingMaterial, Output, SrtpProfile};
use sdp::dtls::Fingerprint;
use srtp::{MasterKey, Suite};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Enough for a datagram of a handshake; `dimpl` names the length if it is not.
const DATAGRAM: usize = 1500;

/// A DTLS association on the path of one medium.
///
/// The owner passes the received datagrams of DTLS (RFC 7983: their first byte is 20 to 63), and
/// after each input and at each due time it polls until [`Event::Wait`].
pub struct Association {
    dtls: Dtls,
    is_client: bool,
    /// The fingerprints by the strongest hash function of the peer's description, once it is here.
    expected: Option<Vec<Fingerprint>>,
    certificate: Option<Vec<u8>>,
    material: Option<(KeyingMaterial, SrtpProfile)>,
    is_connected: bool,
    buffer: Vec<u8>,
}

/// The result of [`Association::poll`].
#[derive(Debug)]
pub enum Event<'a> {
    /// Send this datagram to the peer.
    Send(&'a [u8]),
    /// The keys of SRTP. The certificate of the peer is that of its description.
    Keys(SrtpKeys),
    /// Nothing to do before this time, when [`Association::on_timeout`] is due.
    Wait(Instant),
}

/// The keys of both directions.
#[derive(Debug)]
pub struct SrtpKeys {
    /// The suite.
    pub suite: Suite,
    /// The key of sent packets.
    pub local: MasterKey,
    /// The key of received packets.
    pub remote: MasterKey,
}

impl Association {
    /// An association of an end with this identity. A client sends the first message (`a=setup`:
    /// active).
    ///
    /// # Errors
    /// [`AssociationError::Handshake`]: the settings are refused, which is a fault of this library.
    pub fn new(
        identity: &Identity,
        is_client: bool,
        now: Instant,
    ) -> Result<Self, AssociationError> {
        let config = config(is_client)?;
        let mut dtls = Dtls::new_auto(config, identity.certificate.clone(), now);
        dtls.set_active(is_client);
        let mut association = Self {
            dtls,
            is_client,
            expected: None,
            certificate: None,
            material: None,
            is_connected: false,
            buffer: vec![0; DATAGRAM],
        };
        association.on_timeout(now)?;
        Ok(association)
    }

    /// Sets the fingerprints of the peer's description. The handshake may have begun before: there
    /// are no keys until then.
    pub fn expect<'f>(&mut self, fingerprints: impl IntoIterator<Item = &'f Fingerprint>) {
        self.expected = Some(fingerprints.into_iter().cloned().collect());
    }

    /// Handles a received datagram.
    ///
    /// # Errors
    /// The handshake has failed. Malformed and foreign datagrams are no error.
    pub fn receive(&mut self, now: Instant, datagram: &[u8]) -> Result<(), AssociationError> {
        self.on_timeout(now)?;
        if !is_plausible(datagram) {
            return Ok(());
        }
        self.dtls.handle_packet(datagram).map_err(AssociationError::Handshake)
    }

    /// Repeats a flight that was lost. To be called when due.
    ///
    /// # Errors
    /// The peer has not answered for 40 s.
    pub fn on_timeout(&mut self, now: Instant) -> Result<(), AssociationError> {
        self.dtls.handle_timeout(now).map_err(AssociationError::Handshake)
    }

    /// The next datagram, the keys once, or the time of the next call.
    ///
    /// # Errors
    /// The certificate of the peer is not that of its description, there are no keys, or the peer
    /// has closed the association.
    pub fn poll(&mut self) -> Result<Event<'_>, AssociationError> {
        let wait = loop {
            match self.dtls.poll_output(&mut self.buffer) {
                Output::Packet(packet) => {
                    let length = packet.len();
                    let datagram = &mut self.buffer[..length];
                    if !self.is_client {
                        request::amend_datagram(datagram);
                    }
                    return Ok(Event::Send(datagram));
                }
                Output::BufferTooSmall { needed } => self.buffer.resize(needed, 0),
                Output::PeerCert(certificate) => self.certificate = Some(certificate.to_vec()),
                Output::KeyingMaterial(material, profile) => {
                    self.material = Some((material, profile));
                }
                Output::Connected => self.is_connected = true,
                Output::CloseNotify => return Err(AssociationError::Closed),
                Output::Timeout(time) => break time,
                _ => {}
            }
        };
        let Some(expected) = self.expected.as_ref().filter(|_| self.is_connected) else {
            return Ok(Event::Wait(wait));
        };
        let certificate = self.certificate.as_ref().ok_or(AssociationError::NoCertificate)?;
        let is_expected =
            |it: &Fingerprint| fingerprint::of(certificate, it.hash).as_ref() == Some(it);
        if !expected.iter().any(is_expected) {
            return Err(AssociationError::Fingerprint);
        }
        match self.material.take() {
            Some((material, profile)) => {
                self.expected = None;
                let keys = split(&material, profile, self.is_client);
                Ok(Event::Keys(keys.ok_or(AssociationError::NoProfile)?))
            }
            None => Err(AssociationError::NoProfile),
        }
    }
}

impl fmt::Debug for Association {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Association")
            .field("is_client", &self.is_client)
            .field("is_connected", &self.is_connected)
            .finish_non_exhaustive()
    }
}

/// The settings of all clients, or of all servers. `dimpl` tests its cryptography whenever it makes
/// them.
fn config(is_client: bool) -> Result<Arc<Config>, AssociationError> {
    static CONFIGS: [OnceLock<Arc<Config>>; 2] = [const { OnceLock::new() }; 2];
    let slot = &CONFIGS[usize::from(is_client)];
    if let Some(config) = slot.get() {
        return Ok(Arc::clone(config));
    }
    let provider = match is_client {
        true => rust_crypto::default_provider(),
        false => rsa::provider_of_server(),
    };
    // The peer is known by its ICE check or its signalling: a cookie would cost a round trip.
    let config = Config::builder().use_server_cookie(false).with_crypto_provider(provider).build();
    let config = Arc::new(config.map_err(AssociationError::Handshake)?);
    Ok(Arc::clone(slot.get_or_init(|| config)))
}

/// The keys in exported material (RFC 5764 section 4.2): the keys of client and server, then their
/// salts. `None` for an unknown profile.
fn split(material: &[u8], profile: SrtpProfile, is_client: bool) -> Option<SrtpKeys> {
    let suite = match profile {
        SrtpProfile::AES128_CM_SHA1_80 => Suite::AesCm128HmacSha1_80,
        SrtpProfile::AEAD_AES_128_GCM => Suite::AeadAes128Gcm,
        SrtpProfile::AEAD_AES_256_GCM => Suite::AeadAes256Gcm,
        _ => return None,
    };
    let (keys, salts) = material.split_at_checked(2 * suite.key_length())?;
    let key = |place: usize| {
        let key = keys.chunks(suite.key_length()).nth(place)?;
        let salt = salts.chunks(suite.salt_length()).nth(place)?;
        MasterKey::new(suite, &[key, salt].concat()).ok()
    };
    let (client, server) = (key(0)?, key(1)?);
    let (local, remote) = if is_client { (client, server) } else { (server, client) };
    Some(SrtpKeys { suite, local, remote })
}
