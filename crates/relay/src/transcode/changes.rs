//! The changes that an answer causes, and the additions to an offer.

use super::format::FormatChange;
use super::route::Route;
use crate::digits::EventTypes;
use crate::side::Side;

/// The telephone events of the only end that has some. Its digits are translated for the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Translation {
    /// The side of that end.
    pub(crate) side: Side,
    /// The events that it sends, and those that it gets.
    pub(crate) received: EventTypes,
    pub(crate) sent: EventTypes,
}

/// The changes that an answer causes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answered {
    /// The change to the answer.
    pub(crate) formats: FormatChange,
    /// The conversions of the packets of the caller and of the callee, if there are some.
    pub(crate) routes: Option<[Route; 2]>,
    /// The translation of digits, if there is one.
    pub(crate) digits: Option<Translation>,
}

/// The additions that an offer may get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Additions {
    /// Codecs that the relay converts.
    pub(crate) codecs: bool,
    /// Telephone events, whose digits the relay translates for the offerer.
    pub(crate) events: bool,
}
