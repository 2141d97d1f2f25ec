//! The leg of an end with SRTP by the keys of a DTLS handshake (RFC 5763), which for a browser has
//! ICE lite, too (RFC 8827).
//!
//! The owner of the ports makes the handshake. Without the feature `web` there are no such legs.

#[cfg(feature = "web")]
mod attributes;
mod fault;
#[cfg(feature = "web")]
mod keying;
#[cfg(feature = "web")]
mod leg;
#[cfg(not(feature = "web"))]
mod no_web;

#[cfg(feature = "web")]
pub(crate) use attributes::{WebAttributes, is_of_browser};
pub use fault::WebFault;
#[cfg(feature = "web")]
pub use keying::is_from_browser;
#[cfg(feature = "web")]
pub(crate) use keying::{WebKeying, has_ice, is_web};
#[cfg(feature = "web")]
pub(crate) use leg::WebLeg;
#[cfg(not(feature = "web"))]
pub use no_web::is_from_browser;
#[cfg(not(feature = "web"))]
pub(crate) use no_web::{WebAttributes, WebKeying, WebLeg, has_ice, is_of_browser, is_web};
