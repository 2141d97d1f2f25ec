//! The negotiation of a leg with a handshake: fingerprints and roles, and credentials of ICE.

use super::attributes::WebAttributes;
use crate::error::RelayError;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::SocketAddr;
use ice::Credentials;
use media::DtlsPeer;
use sdp::dtls::{self, DtlsParameters, Fingerprint, Setup};
use sdp::ice::IceParameters;
use sdp::negotiation::Profile;
use sdp::{MediaDescription, SessionDescription};

/// The priority of the only candidate: a host candidate of component 1 (RFC 8445 section 5.1.2.1).
const PRIORITY: u32 = (126 << 24) | (65_535 << 8) | 255;

/// The state of offers and answers on a leg with a handshake.
#[derive(Debug)]
pub(crate) struct WebKeying {
    /// The fingerprint of the owner's certificate.
    fingerprint: Fingerprint,
    /// The ends of the leg in use.
    pub(super) ends: WebEnds,
    /// The ends by the last offer of the end. They are in use from its answer on: an offer that is
    /// refused changes nothing (RFC 8839 section 4.4.1.1.1).
    offered: Option<WebEnds>,
    /// The protocol and the identifier of the medium.
    medium: WebAttributes,
}

/// Both ends of a leg with a handshake.
#[derive(Clone, Debug)]
pub(super) struct WebEnds {
    /// The ends for ICE. `None` for a phone without it.
    pub(super) ice: Option<IceEnds>,
    pub(super) peer: Option<DtlsPeer>,
    /// The identifier of the association at this end, if the other one has one (RFC 8842).
    tls_id: Option<String>,
}

/// Both ends for ICE.
#[derive(Clone, Debug)]
pub(super) struct IceEnds {
    pub(super) local: Credentials,
    /// The user fragment in the last description of the browser.
    pub(super) remote: Option<String>,
}

/// Returns true if the author of a medium has keys by a handshake.
pub(crate) fn is_web(medium: &MediaDescription<'_>) -> bool {
    Profile::of(medium.protocol) == Some(Profile::Dtls) && medium.port != 0
}

/// Returns true if the author of a medium with a handshake has ICE, too.
pub(crate) fn has_ice(session: &SessionDescription<'_>, medium: &MediaDescription<'_>) -> bool {
    matches!(IceParameters::of(medium, session), Ok(Some(_)))
}

/// Returns true if the author of a session description is a browser: its first medium has ICE, and
/// keys by DTLS.
#[must_use]
pub fn is_from_browser(description: &[u8]) -> bool {
    SessionDescription::parse(description).is_ok_and(|session| {
        let mut media = session.media.iter().filter(|medium| medium.port != 0);
        media.next().is_some_and(|medium| is_web(medium) && has_ice(&session, medium))
    })
}

impl WebKeying {
    /// Returns the state before the first description, or `None` without the feature `web`. A
    /// browser has ICE.
    pub(crate) fn create(
        fingerprint: Fingerprint,
        has_ice: bool,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Option<Self> {
        let ice = has_ice.then(|| IceEnds { local: credentials(random), remote: None });
        let protocol = match has_ice {
            true => "UDP/TLS/RTP/SAVPF",
            false => "UDP/TLS/RTP/SAVP",
        };
        Some(Self {
            fingerprint,
            ends: WebEnds { ice, peer: None, tls_id: None },
            offered: None,
            medium: WebAttributes { protocol, has_ice, lines: Vec::new() },
        })
    }

    /// Reads a description of the end. Other credentials of ICE in an offer restart it.
    ///
    /// # Errors
    /// [`RelayError::Handshake`]: it lacks fingerprints, or the ICE that it had before, or it takes
    /// the other role in the association that it has.
    pub(crate) fn read(
        &mut self,
        session: &SessionDescription<'_>,
        medium: &MediaDescription<'_>,
        is_offer: bool,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), RelayError> {
        let mut ends = self.ends.clone();
        let ice = IceParameters::of(medium, session).ok().flatten();
        match (&mut ends.ice, ice) {
            (Some(known), Some(ice)) => {
                if is_offer && known.remote.as_deref().is_some_and(|before| before != ice.ufrag) {
                    known.local = credentials(random);
                }
                known.remote = Some(ice.ufrag.to_string());
            }
            (Some(_), None) => return Err(RelayError::Handshake),
            // An answer with ICE to an offer without it means nothing.
            (none @ None, Some(ice)) if is_offer => {
                let remote = Some(ice.ufrag.to_string());
                *none = Some(IceEnds { local: credentials(random), remote });
            }
            (None, _) => {}
        }
        let dtls = DtlsParameters::of(medium, session).ok().flatten();
        let dtls = dtls.ok_or(RelayError::Handshake)?;
        // The relay is the server if it may choose, as for browsers: a client may have an RSA
        // certificate. An answer with `actpass` is not permitted; its author waits for a client.
        let is_client = match dtls.setup {
            Setup::Active => false,
            Setup::ActPass => !is_offer,
            Setup::Passive => true,
            Setup::HoldConn => return Err(RelayError::Handshake),
        };
        let peer = DtlsPeer::new(&dtls, is_client);
        match &ends.peer {
            // The roles of an association stay (RFC 8842 section 5).
            Some(before) if before.is_same(&peer) => {
                if before.is_client != is_client && dtls.setup != Setup::ActPass {
                    return Err(RelayError::Handshake);
                }
            }
            _ => {
                ends.tls_id = peer.tls_id.as_ref().map(|_| dtls::tls_id(random));
                ends.peer = Some(peer);
            }
        }
        match is_offer {
            true => self.offered = Some(ends),
            false => self.ends = ends,
        }
        if let Some(medium) = WebAttributes::of_rejected(medium) {
            self.medium = medium;
        }
        Ok(())
    }

    /// Returns the attributes of a description for the end, with the address of the port.
    pub(crate) fn write(&mut self, is_offer: bool, place: SocketAddr) -> WebAttributes {
        if let Some(offered) = self.offered.take_if(|_| !is_offer) {
            self.ends = offered;
        }
        let WebEnds { ice, tls_id, peer } = &self.ends;
        let setup = match peer {
            _ if is_offer => Setup::ActPass,
            Some(peer) if peer.is_client => Setup::Active,
            _ => Setup::Passive,
        };
        let (ip, port) = (place.ip(), place.port());
        let mut attributes = self.rejected();
        let lines = &mut attributes.lines;
        if let Some(IceEnds { local, .. }) = ice {
            lines.push(format!("ice-ufrag:{}", local.ufrag));
            lines.push(format!("ice-pwd:{}", local.password));
            lines.push(format!("candidate:1 1 UDP {PRIORITY} {ip} {port} typ host"));
            lines.push("end-of-candidates".to_string());
        }
        lines.extend(dtls::attributes(&self.fingerprint, setup, tls_id.as_deref()));
        attributes
    }

    /// Returns the attributes of a medium that is rejected.
    pub(crate) fn rejected(&self) -> WebAttributes {
        WebAttributes { has_ice: self.has_ice(), ..self.medium.clone() }
    }

    /// True for the leg of a browser.
    pub(crate) const fn has_ice(&self) -> bool {
        self.ends.ice.is_some()
    }

    /// True if the end waits for the first message of the handshake.
    pub(crate) fn is_client(&self) -> bool {
        self.ends.peer.as_ref().is_some_and(|peer| peer.is_client)
    }
}

fn credentials(random: &mut dyn FnMut(&mut [u8])) -> Credentials {
    let mut bytes = [0; 32];
    random(&mut bytes);
    Credentials::new(&bytes)
}
