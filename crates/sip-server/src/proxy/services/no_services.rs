//! A server without call services: the type of stages has no values.

use crate::core::address_of_record::AddressOfRecord;
use crate::core::counters::Counters;
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::settings::Settings;
use crate::proxy::media_services::NewCall;
use crate::proxy::route::Preprocessed;
use crate::proxy::target::Targets;
use alloc::boxed::Box;
use alloc::vec::Vec;
use lock_api::RawMutex;
use sip::{Instant, Message, Status};

pub(crate) enum Stages {}

/// Returns `None`: no user has call services.
pub(crate) const fn begin<R: RawMutex>(
    _: &NewCall<'_, '_, R>,
    _: &Preprocessed<'_>,
    _: &AddressOfRecord,
    _: bool,
    _: &mut Targets,
    _: &mut Env<'_>,
) -> Option<Result<Option<Box<Stages>>, Status>> {
    None
}

impl Stages {
    pub(crate) const fn of_request(_: &Message<'_>, _: Flow, _: &Settings) -> Option<Self> {
        None
    }

    pub(crate) const fn bytes(&self) -> usize {
        match *self {}
    }

    pub(crate) const fn first_branch(&self) -> usize {
        match *self {}
    }

    pub(crate) const fn until(&self) -> Option<Instant> {
        match *self {}
    }

    pub(crate) const fn is_looking_up(&self) -> bool {
        match *self {}
    }

    pub(crate) const fn announces(&mut self) -> bool {
        match *self {}
    }

    pub(crate) const fn time_out(&mut self, _: usize) {
        match *self {}
    }

    pub(crate) const fn deflect(&mut self, _: &Message<'_>, _: usize, _: &Settings) -> bool {
        match *self {}
    }

    pub(crate) fn end(&mut self, _: Option<(u16, Vec<u8>)>, _: &Counters) -> bool {
        match *self {}
    }

    pub(crate) const fn take_best(&mut self) -> Option<(u16, Vec<u8>)> {
        match *self {}
    }
}
