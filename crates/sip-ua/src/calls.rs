//! The calls of an agent, by identifier and by dialog.

use crate::call::Call;
use crate::core::{Core, DialogKey, TimerKey};
use crate::event::CallId;
use crate::table::{Fate, Table};
use hashbrown::HashMap;
use sip::Message;
use sip::dialog::DialogId;

/// All calls.
#[derive(Default)]
pub(crate) struct Calls {
    all: Table<CallId, Call>,
    by_dialog: HashMap<DialogKey, CallId>,
    /// The number of calls that have not ended.
    live: usize,
    /// The number of those that are incoming.
    incoming: usize,
}

impl Calls {
    pub(crate) const fn live(&self) -> usize {
        self.live
    }

    pub(crate) const fn incoming(&self) -> usize {
        self.incoming
    }

    pub(crate) fn get(&self, id: CallId) -> Option<&Call> {
        self.all.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: CallId) -> Option<&mut Call> {
        self.all.get_mut(id)
    }

    /// Returns the call whose timer is due.
    pub(crate) fn take_due(&mut self, id: CallId) -> Option<&mut Call> {
        self.all.take_due(id)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Call> {
        self.all.values_mut()
    }

    pub(crate) fn insert(&mut self, call: Call) {
        self.live += 1;
        self.incoming += usize::from(call.is_of_others());
        if let Some(replaced) = call.replaces.and_then(|replaced| self.all.get_mut(replaced)) {
            replaced.replacement = Some(call.id);
        }
        self.by_dialog.insert(call.key, call.id);
        self.all.insert(call.id, call);
    }

    /// Returns the call with the dialog of the received `message`.
    pub(crate) fn of(&mut self, core: &Core, message: &Message<'_>) -> Option<&mut Call> {
        let dialog = DialogId::of(message).ok()?;
        let call = *self.by_dialog.get(&core.dialog_key(dialog.call_id, dialog.local_tag))?;
        self.all.get_mut(call).filter(|call| call.has(dialog))
    }

    /// Returns a call with the Call-ID and the local tag `local_tag`, which may have other dialogs.
    pub(crate) fn of_tag(&self, core: &Core, call_id: &[u8], local_tag: &[u8]) -> Option<&Call> {
        let call = *self.by_dialog.get(&core.dialog_key(call_id, local_tag))?;
        self.all.get(call)
    }

    /// Returns true if an incoming call that has not ended replaces `call`.
    pub(crate) fn is_being_replaced(&self, call: CallId) -> bool {
        let replacement = self.all.get(call).and_then(|call| call.replacement);
        replacement.and_then(|by| self.all.get(by)).is_some_and(Call::is_of_others)
    }

    /// Sets the timers of changed calls, and removes calls that are over.
    pub(crate) fn settle(&mut self, core: &mut Core) {
        let Self { all, by_dialog, live, incoming } = self;
        all.settle(&mut core.timers, TimerKey::Call, |call| {
            if call.has_ended() && !core::mem::replace(&mut call.is_counted_out, true) {
                *live -= 1;
                *incoming -= usize::from(!call.is_ours);
            }
            if call.is_over() {
                by_dialog.remove(&call.key);
                return Fate::Remove;
            }
            Fate::Keep(call.next_timer())
        });
    }
}
