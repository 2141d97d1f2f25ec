//! Calls that this engine loses, because its program is killed: the owner is given the requests
//! that end them.

use crate::b2bua::{B2bua, BridgeId};
use crate::bridge::Side;
use crate::event::Event;
use alloc::boxed::Box;
use sip_ua::{CallId, Transmit};

/// The Reason of those calls.
const RESTARTED: &[u8] = b"Reason: SIP;cause=503;text=\"Restarted\"\r\n";

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
