//! A relay without legs with a handshake: the types have no values.

use super::fault::WebFault;
use crate::error::RelayError;
use alloc::boxed::Box;
use alloc::string::String;
use core::net::SocketAddr;
use core::time::Duration;
use media::DtlsPeer;
use sdp::dtls::Fingerprint;
use sdp::{MediaDescription, SessionDescription};

#[derive(Clone, Debug)]
pub(crate) enum WebAttributes {}

#[derive(Debug)]
pub(crate) enum WebKeying {}

pub(crate) enum WebLeg {}

pub(crate) const fn is_web(_: &MediaDescription<'_>) -> bool {
    false
}

pub(crate) const fn has_ice(_: &SessionDescription<'_>, _: &MediaDescription<'_>) -> bool {
    false
}

/// Returns false: no leg is a browser's.
#[must_use]
pub const fn is_from_browser(_: &[u8]) -> bool {
    false
}

pub(crate) const fn is_of_browser(_: &str) -> bool {
    false
}

impl WebAttributes {
    pub(crate) const fn of_rejected(_: &MediaDescription<'_>) -> Option<Self> {
        None
    }

    pub(crate) const fn protocol(&self) -> &'static str {
        match *self {}
    }

    pub(crate) const fn has_ice(&self) -> bool {
        match *self {}
    }

    pub(crate) const fn lines(&self) -> &[String] {
        match *self {}
    }
}

impl WebKeying {
    pub(crate) fn create(_: Fingerprint, _: bool, _: &mut dyn FnMut(&mut [u8])) -> Option<Self> {
        None
    }

    pub(crate) const fn read(
        &mut self,
        _: &SessionDescription<'_>,
        _: &MediaDescription<'_>,
        _: bool,
        _: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), RelayError> {
        match *self {}
    }

    pub(crate) const fn write(&mut self, _: bool, _: SocketAddr) -> WebAttributes {
        match *self {}
    }

    pub(crate) const fn rejected(&self) -> WebAttributes {
        match *self {}
    }

    pub(crate) const fn has_ice(&self) -> bool {
        match *self {}
    }

    pub(crate) const fn is_client(&self) -> bool {
        match *self {}
    }
}

impl WebLeg {
    pub(crate) const fn update(_: &mut Option<Box<Self>>, keying: &WebKeying) {
        match *keying {}
    }

    pub(crate) const fn has_ice(&self) -> bool {
        match *self {}
    }

    pub(crate) const fn peer(&self) -> Option<&DtlsPeer> {
        match *self {}
    }

    pub(crate) const fn check(
        &mut self,
        _: Duration,
        _: SocketAddr,
        _: &mut [u8],
        _: usize,
    ) -> Option<usize> {
        match *self {}
    }

    pub(crate) const fn selected(&self) -> Option<SocketAddr> {
        match *self {}
    }

    pub(crate) const fn is_checked(&self, _: SocketAddr) -> bool {
        match *self {}
    }

    pub(crate) const fn refuse_keys(&mut self) {
        match *self {}
    }

    pub(crate) const fn fault(&self, _: Duration) -> Option<WebFault> {
        match *self {}
    }
}
