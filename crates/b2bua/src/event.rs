//! The events for the owner, by which it can end the calls of a program that did not stop in order.

use crate::b2bua::{B2bua, BridgeId};
use crate::bridge::Side;
use alloc::boxed::Box;
use sip_ua::{CallId, Transmit};

/// The Reason of those calls.
const RESTARTED: &[u8] = b"Reason: SIP;cause=503;text=\"Restarted\"\r\n";

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A call is answered.
    Answered {
        /// Its number.
        call: u64,
        /// The requests that end it at the caller and at the callee, if this engine has lost it:
        /// the owner stores them, and sends them after its next start.
        byes: Box<[Transmit; 2]>,
    },
    /// An answered call has ended: the requests are no longer needed.
    Ended {
        /// Its number.
        call: u64,
    },
}

impl B2bua {
    /// Returns the next event, if any.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Reports the call of the leg `call` once both legs are established.
    pub(crate) fn report_answered(&mut self, call: CallId) {
        let Some((id, _)) = self.find(call) else { return };
        let Some(bridge) = self.bridges.get(&id).filter(|bridge| !bridge.is_reported) else {
            return;
        };
        let legs = [Side::Caller, Side::Callee].map(|side| bridge.call(side));
        let byes = legs.map(|leg| self.agent.last_bye(leg?, RESTARTED));
        let [Some(caller), Some(callee)] = byes else { return };
        let byes = [caller, callee].map(|(flow, bytes)| Transmit { flow, bytes });
        self.events.push_back(Event::Answered { call: id, byes: Box::new(byes) });
        if let Some(bridge) = self.bridges.get_mut(&id) {
            bridge.is_reported = true;
        }
    }

    /// Reports the end of the bridge `id`.
    pub(crate) fn report_ended(&mut self, id: BridgeId) {
        self.events.push_back(Event::Ended { call: id });
    }
}
