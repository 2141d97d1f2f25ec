//! The way of a call that call services have led to another user. Without the feature `office` the
//! type has no values.

#[cfg(not(feature = "office"))]
mod no_way;
#[cfg(feature = "office")]
mod way;

#[cfg(not(feature = "office"))]
pub(crate) use no_way::Retargeted;
#[cfg(feature = "office")]
pub(crate) use way::{Retargeted, Step, Why, uri_of};
