//! A relay without the feature `convert`: digits are not translated.

use super::{Digit, EventTypes};
use alloc::boxed::Box;
use core::time::Duration;
use rtp::Header;
use rtp::event::TelephoneEvent;
use rtp::packet::HeaderFields;

/// The digits in the packets of one direction, which are never translated.
#[derive(Debug)]
pub(crate) enum Digits {}

impl Digits {
    pub(crate) fn update(
        _slot: &mut Option<Box<Self>>,
        _received: EventTypes,
        _sent: EventTypes,
        _random: &mut dyn FnMut(&mut [u8]),
    ) {
    }

    pub(crate) const fn stop(&mut self) {
        match *self {}
    }

    pub(crate) const fn takes(&self, _payload_type: u8) -> bool {
        match *self {}
    }

    pub(crate) fn receive(
        &mut self,
        _header: &Header<'_>,
        _payload: &[u8],
        _report: impl FnMut(Digit),
    ) {
        match *self {}
    }

    pub(crate) const fn remove(&mut self, _header: &Header<'_>) {
        match *self {}
    }

    pub(crate) const fn pass(&mut self, _packet: &mut [u8], _rate: u32, _now: Duration) -> bool {
        match *self {}
    }

    pub(crate) const fn press(&mut self, _digit: Digit, _now: Duration) -> bool {
        match *self {}
    }

    pub(crate) const fn next_time(&self) -> Option<Duration> {
        match *self {}
    }

    pub(crate) const fn next_packet(
        &mut self,
        _now: Duration,
    ) -> Option<(HeaderFields, [u8; TelephoneEvent::LENGTH])> {
        match *self {}
    }
}
