//! A server without call services: no call is led to another user.

use alloc::string::String;
use alloc::vec::Vec;
use sip::Message;

#[derive(Clone, Debug)]
pub(crate) enum Retargeted {}

impl Retargeted {
    pub(crate) const fn uri(&self) -> &[u8] {
        match *self {}
    }

    pub(crate) const fn bytes(&self) -> usize {
        match *self {}
    }

    pub(crate) const fn label(&self) -> String {
        match *self {}
    }

    pub(crate) const fn write_diversions(&self, _: &mut Vec<u8>) {
        match *self {}
    }

    pub(crate) const fn write_history(&self, _: &Message<'_>, _: bool, _: &mut Vec<u8>) {
        match *self {}
    }
}
