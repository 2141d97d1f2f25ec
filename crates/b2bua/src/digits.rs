//! Digits of keys (DTMF). An INFO with a digit passes, unless the owner plays it to the other party
//! as a telephone event (RFC 4733). A telephone event that the other party cannot receive reaches
//! it as an INFO.

use crate::b2bua::{B2bua, BridgeId};
use crate::bridge::Side;
use crate::event::Event;
use crate::leg_digits::MAX_DIGITS;
use alloc::vec::Vec;
use sip::{Instant, Message, Method, Status};
use sip_ua::{CallId, Failure, InfoDigit, PassedRequest, RequestId};

impl B2bua {
    /// Asks the owner to play the digit in the INFO `message` of `call`. Returns false if it has
    /// none, or if the call is not answered.
    pub(crate) fn asks_to_play(
        &mut self,
        call: CallId,
        request: RequestId,
        message: &Message<'_>,
    ) -> bool {
        if message.method() != Some(Method::Info) {
            return false;
        }
        let (Ok(digit), Some((id, side))) = (InfoDigit::read(message), self.find(call)) else {
            return false;
        };
        let callee = self.bridges.get(&id).and_then(|bridge| bridge.call(Side::Callee));
        let Some(dialog) = callee.and_then(|callee| self.agent.dialog(callee)) else {
            return false;
        };
        let (call_id, caller_tag) = (dialog.id().call_id.into(), dialog.id().local_tag.into());
        let is_of_caller = side == Side::Caller;
        self.events.push_back(Event::Digit { request, call_id, caller_tag, is_of_caller, digit });
        self.asked.insert(request, (call, message.as_bytes().to_vec()));
        true
    }

    /// Answers [`Event::Digit`]: `is_played` is true if the other party gets a telephone event.
    /// Otherwise the INFO passes.
    pub fn answer_digit(&mut self, now: Instant, request: RequestId, is_played: bool) {
        let Some((call, bytes)) = self.asked.remove(&request) else { return };
        let message = Message::parse(&bytes).ok();
        let digit = message.as_ref().and_then(|message| InfoDigit::read(message).ok());
        let passes = !is_played
            && digit.is_none_or(|digit| {
                let leg = self
                    .find(call)
                    .and_then(|(id, side)| Some(self.bridges.get_mut(&id)?.leg(side)));
                leg.is_none_or(|leg| leg.digits.is_new(digit, false, now))
            });
        match message.filter(|_| passes) {
            Some(message) => self.pass_on(call, request, &message, now),
            None => self.respond(now, request, Status::OK.code()),
        }
        self.process(now);
    }

    /// Sends a digit by INFO to a party of the call. The callee's leg has the Call-ID `call_id`
    /// and the caller's tag `caller_tag`. The other party, the caller if `is_of_caller`, has sent
    /// it as a telephone event.
    pub fn press(
        &mut self,
        now: Instant,
        call_id: &[u8],
        caller_tag: &[u8],
        is_of_caller: bool,
        digit: InfoDigit,
    ) {
        let found = self.agent.call_of_tag(call_id, caller_tag).and_then(|call| self.find(call));
        let Some((id, Side::Callee)) = found else { return };
        let Some(bridge) = self.bridges.get_mut(&id) else { return };
        let side = if is_of_caller { Side::Caller } else { Side::Callee };
        if !bridge.leg(side).digits.is_new(digit, true, now) {
            return;
        }
        let waiting = &mut bridge.leg(side.other()).digits.waiting;
        if waiting.len() >= MAX_DIGITS {
            self.counters.lost_digits += 1;
            return;
        }
        waiting.push_back(digit);
        self.send_digit(id, side.other(), now);
        self.process(now);
    }

    /// Sends the next digit to the party of `side`. One at a time is sent: the party would refuse
    /// one that is overtaken.
    fn send_digit(&mut self, id: BridgeId, side: Side, now: Instant) {
        let Some(bridge) = self.bridges.get_mut(&id) else { return };
        let call = bridge.call(side);
        let digits = &mut bridge.leg(side).digits;
        let (Some(call), None) = (call, digits.sent) else { return };
        let Some(digit) = digits.waiting.pop_front() else { return };
        let (body_type, body) = match digits.is_plain {
            true => (InfoDigit::PLAIN_TYPE, digit.plain_body()),
            false => (InfoDigit::RELAY_TYPE, digit.relay_body()),
        };
        let request = PassedRequest { method: Method::Info, lines: b"", body_type, body: &body };
        if let Ok((sent, _)) = self.agent.request(now, call, &request) {
            digits.sent = Some(digit);
            self.digits.insert(sent, (id, side));
        }
    }

    /// Processes the response to such an INFO. Returns false if `sent` is another
    /// request.
    pub(crate) fn on_digit_response(
        &mut self,
        sent: RequestId,
        response: &Result<Vec<u8>, Failure>,
        now: Instant,
    ) -> bool {
        const UNSUPPORTED_MEDIA_TYPE: u16 = 415;
        let Some((id, side)) = self.digits.remove(&sent) else { return false };
        let status = response.as_ref().ok().and_then(|it| Message::parse(it).ok()?.status());
        if let Some(bridge) = self.bridges.get_mut(&id) {
            let digits = &mut bridge.leg(side).digits;
            let digit = digits.sent.take();
            if status == Some(UNSUPPORTED_MEDIA_TYPE) && !digits.is_plain {
                digits.is_plain = true;
                digits.waiting.extend(digit);
                digits.waiting.rotate_right(usize::from(digit.is_some()));
            }
            self.send_digit(id, side, now);
        }
        true
    }
}
