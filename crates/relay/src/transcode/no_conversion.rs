//! A relay without the feature `convert`: packets pass in the codec in which they came.

use super::counts::Conversions;
use super::route::Route;
use crate::error::Drop;
use core::time::Duration;

/// The conversion of the packets of one end, which does not exist.
#[derive(Debug)]
pub(crate) enum Conversion {}

impl Conversion {
    pub(crate) const fn update(_slot: &mut Option<Self>, _route: Option<&Route>) {}

    pub(crate) const fn route(&self) -> Option<&Route> {
        match *self {}
    }

    pub(crate) const fn counts(&self) -> Conversions {
        match *self {}
    }

    pub(crate) const fn convert(
        &mut self,
        _buffer: &mut [u8],
        _length: usize,
        _now: Duration,
    ) -> Result<usize, Drop> {
        match *self {}
    }

    pub(crate) const fn pop(&mut self, _buffer: &mut [u8]) -> Option<usize> {
        match *self {}
    }

    pub(crate) const fn is_ready(&self) -> bool {
        match *self {}
    }

    pub(crate) const fn rewrite_reports(
        _both: [Option<&Self>; 2],
        _buffer: &mut [u8],
        length: usize,
    ) -> Option<usize> {
        Some(length)
    }
}
