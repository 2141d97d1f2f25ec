//! The conversion of audio between two legs that use different codecs.

mod budget;
mod conversion;
mod event;
mod format;
mod negotiation;
mod output;
mod report;
mod rules;
mod transcoder;
mod window;

pub(crate) use conversion::Conversion;
pub(crate) use negotiation::{FormatChange, MediumCodecs};
pub use rules::CodecRules;
pub use transcoder::Conversions;
