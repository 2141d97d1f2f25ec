//! Call services: forwards, do not disturb, and groups. A call with services has stages: in each of
//! them the phones of one user, or of the members of a group, ring. The response context runs the
//! stages; the itinerary decides where the call goes next.
//!
//! Without the feature `office` each call has one stage.

#[cfg(feature = "office")]
mod directory;
#[cfg(feature = "office")]
mod itinerary;
#[cfg(not(feature = "office"))]
mod no_services;
#[cfg(feature = "office")]
mod party;
#[cfg(feature = "office")]
mod stages;

#[cfg(feature = "office")]
pub(crate) use directory::{House, begin};
#[cfg(feature = "office")]
pub(crate) use itinerary::{Itinerary, Stage};
#[cfg(not(feature = "office"))]
pub(crate) use no_services::{Stages, begin};
#[cfg(feature = "office")]
pub(crate) use party::Led;
#[cfg(feature = "office")]
pub(crate) use stages::Stages;
