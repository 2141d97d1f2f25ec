//! A relay without the feature `convert`: no packets are converted.

use ::codec::Codec;

/// The conversion of the packets from one leg, which does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {}

impl Route {
    pub(crate) const fn accepted(&self) -> u128 {
        match *self {}
    }

    pub(crate) const fn codec(&self) -> Codec {
        match *self {}
    }
}
