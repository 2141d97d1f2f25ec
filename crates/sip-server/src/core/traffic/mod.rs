//! Requests and responses by method and status, and the results and delays of sessions, for
//! monitoring. Without the feature `metrics` nothing is counted.

#[cfg(feature = "metrics")]
mod counted;
#[cfg(not(feature = "metrics"))]
mod uncounted;

#[cfg(feature = "metrics")]
pub(crate) use counted::{Attempt, Traffic};
#[cfg(feature = "metrics")]
pub use counted::{DELAYS, Responses, Summary};
#[cfg(not(feature = "metrics"))]
pub(crate) use uncounted::{Attempt, Traffic};
