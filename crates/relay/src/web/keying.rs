//! The negotiation of a browser's leg: credentials of ICE, fingerprints and roles.

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

/// The state of offers and answers on a browser's leg.
#[derive(Debug)]
pub(crate) struct WebKeying {
    /// The fingerprint of the owner's certificate.
    fingerprint: Fingerprint,
    /// The ends of the leg in use.
    pub(super) ends: WebEnds,
    /// The ends by the last offer of the browser. They are in use from its answer on: an offer that
    /// is refused changes nothing (RFC 8839 section 4.4.1.1.1).
    offered: Option<WebEnds>,
    /// The protocol and the identifier of the medium.
    medium: WebAttributes,
}

/// Both ends of a browser's leg, for ICE and for the handshake.
#[derive(Clone, Debug)]
pub(super) struct WebEnds {
    pub(super) local: Credentials,
    /// The user fragment in the last description of the browser.
    pub(super) remote: Option<String>,
    pub(super) peer: Option<DtlsPeer>,
    /// The identifier of the association at this end, if the browser has one (RFC 8842).
    tls_id: Option<String>,
}

/// Returns true if the author of a medium is a browser: it has ICE, and keys by DTLS.
pub(crate) fn is_web(session: &SessionDescription<'_>, medium: &MediaDescription<'_>) -> bool {
    let has_ice = || matches!(IceParameters::of(medium, session), Ok(Some(_)));
    Profile::of(medium.protocol) == Some(Profile::Dtls) && medium.port != 0 && has_ice()
}

/// Returns true if the author of a session description is a browser: its first medium has ICE, and
/// keys by DTLS.
#[must_use]
pub fn is_from_browser(description: &[u8]) -> bool {
    SessionDescription::parse(description).is_ok_and(|session| {
        let mut media = session.media.iter().filter(|medium| medium.port != 0);
        media.next().is_some_and(|medium| is_web(&session, medium))
    })
}

impl WebKeying {
    /// Returns the state before the first description, or `None` without the feature `web`.
    pub(crate) fn create(
        fingerprint: Fingerprint,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Option<Self> {
        Some(Self {
            fingerprint,
            ends: WebEnds { local: credentials(random), remote: None, peer: None, tls_id: None },
            offered: None,
            medium: WebAttributes { protocol: "UDP/TLS/RTP/SAVPF", lines: Vec::new() },
        })
    }

    /// Reads a description of the browser. Other credentials in an offer restart ICE.
    ///
    /// # Errors
    /// [`RelayError::Handshake`]: it lacks ICE or fingerprints, or wants the role of the server.
    pub(crate) fn read(
        &mut self,
        session: &SessionDescription<'_>,
        medium: &MediaDescription<'_>,
        is_offer: bool,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), RelayError> {
        let ice = IceParameters::of(medium, session).ok().flatten().ok_or(RelayError::Handshake)?;
        let dtls = DtlsParameters::of(medium, session).ok().flatten();
        let dtls = dtls.ok_or(RelayError::Handshake)?;
        // The relay is the server, as browsers choose when they may.
        if !matches!(dtls.setup, Setup::ActPass | Setup::Active) {
            return Err(RelayError::Handshake);
        }
        let mut ends = self.ends.clone();
        if is_offer && ends.remote.as_deref().is_some_and(|before| before != ice.ufrag) {
            ends.local = credentials(random);
        }
        ends.remote = Some(ice.ufrag.to_string());
        let peer = DtlsPeer::new(&dtls, false);
        if ends.peer.as_ref().is_none_or(|before| !before.is_same(&peer)) {
            ends.tls_id = peer.tls_id.as_ref().map(|_| dtls::tls_id(random));
            ends.peer = Some(peer);
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

    /// Returns the attributes of a description for the browser, with the address of the port.
    pub(crate) fn write(&mut self, is_offer: bool, place: SocketAddr) -> WebAttributes {
        if let Some(offered) = self.offered.take_if(|_| !is_offer) {
            self.ends = offered;
        }
        let WebEnds { local, tls_id, .. } = &self.ends;
        let setup = if is_offer { Setup::ActPass } else { Setup::Passive };
        let (ip, port) = (place.ip(), place.port());
        let mut attributes = self.rejected();
        let lines = &mut attributes.lines;
        lines.push(format!("ice-ufrag:{}", local.ufrag));
        lines.push(format!("ice-pwd:{}", local.password));
        lines.push(format!("candidate:1 1 UDP {PRIORITY} {ip} {port} typ host"));
        lines.push("end-of-candidates".to_string());
        lines.extend(dtls::attributes(&self.fingerprint, setup, tls_id.as_deref()));
        attributes
    }

    /// Returns the attributes of a medium that is rejected.
    pub(crate) fn rejected(&self) -> WebAttributes {
        self.medium.clone()
    }
}

fn credentials(random: &mut dyn FnMut(&mut [u8])) -> Credentials {
    let mut bytes = [0; 32];
    random(&mut bytes);
    Credentials::new(&bytes)
}
