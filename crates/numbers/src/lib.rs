#![doc = include_str!("../README.md")]
//!
//! ## Contents
//!
//! - [`Plan`], [`PlanConfig`]: the plan and the values that it is built from.
//! - [`Query`], [`Route`], [`Outcome`]: a call, and the decision with its steps.
//! - [`Dialing`]: numbers as dialed, and their form by E.164.
//! - [`usage`]: calls at once and minutes a day, and their limits.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod build;
mod class;
mod config;
mod number;
mod pattern;
mod plan;
mod prefix;
mod route;
pub mod usage;

pub use class::ClassId;
pub use config::{
    DEFAULT_EMERGENCY, DEFAULT_LIMIT, DEFAULT_RIGHTS, DidConfig, Digits, IdentityConfig,
    LimitConfig, NamedPrefixes, Part, Place, PlanConfig, PlanError, Range, RightsConfig,
    RuleConfig, ServiceKind, TargetConfig, TrunkUse,
};
pub use number::{Dialing, Form, LocalForm, MAX_DIGITS, digits};
pub use plan::Plan;
pub use route::{Attempt, Caller, Outcome, Query, Refusal, Route, Service, Step, TrunkId};
