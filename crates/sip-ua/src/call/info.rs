//! Pressed keys over INFO, for phones without telephone events.

use super::error::CallError;
use super::state::Call;
use crate::client_transaction::Owner;
use crate::core::Core;
use crate::draft::Draft;
use crate::event::Event;
use crate::info_digit::{InfoDigit, NoDigit};
use sip::{Duration, Instant, Message, Method};

/// The reported duration of a key.
const DURATION: Duration = Duration::from_millis(160);

impl Call {
    /// Sends a key to the other end by INFO.
    pub(crate) fn press(
        &mut self,
        core: &mut Core,
        key: char,
        now: Instant,
    ) -> Result<(), CallError> {
        let account = self.account;
        let established = self.established()?;
        let body = InfoDigit { key, duration: DURATION }.relay_body();
        let mut draft = Draft::within(account, &mut established.dialog, Method::Info, body);
        draft.body_type = InfoDigit::RELAY_TYPE.into();
        let way = self.way_to(draft.dialog.next_hop());
        core.request(draft, Owner::None, way, now);
        Ok(())
    }

    /// Processes an INFO. Returns the status of the response.
    pub(super) fn on_info(&self, core: &mut Core, info: &Message<'_>) -> u16 {
        if info.body().is_empty() {
            // Some phones only probe the call.
            return 200;
        }
        match InfoDigit::read(info) {
            Ok(InfoDigit { key, .. }) => {
                core.tell(Event::Key { call: self.id, key });
                200
            }
            Err(NoDigit::Type) => 415,
            Err(NoDigit::Content) => 400,
        }
    }
}
