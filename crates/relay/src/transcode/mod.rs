//! The conversion of audio between two legs that use different codecs.

#[cfg(feature = "convert")]
mod budget;
#[cfg_attr(not(feature = "convert"), allow(dead_code))]
mod changes;
#[cfg(feature = "convert")]
mod conversion;
#[cfg(not(feature = "convert"))]
#[path = "no_conversion.rs"]
mod conversion;
mod counts;
#[cfg(feature = "convert")]
mod event;
#[cfg_attr(not(feature = "convert"), allow(dead_code))]
mod format;
#[cfg(feature = "convert")]
mod negotiation;
#[cfg(not(feature = "convert"))]
#[path = "no_negotiation.rs"]
mod negotiation;
#[cfg(feature = "convert")]
mod output;
#[cfg(feature = "convert")]
mod report;
#[cfg(feature = "convert")]
mod route;
#[cfg(not(feature = "convert"))]
#[path = "no_route.rs"]
mod route;
mod rules;
#[cfg(feature = "convert")]
mod transcoder;
#[cfg(feature = "convert")]
mod window;

pub(crate) use changes::{Additions, Answered};
pub(crate) use conversion::Conversion;
pub use counts::Conversions;
pub(crate) use format::FormatChange;
pub(crate) use negotiation::MediumCodecs;
pub use rules::CodecRules;
