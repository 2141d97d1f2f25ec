//! The branches to phones that sleep (RFC 8599): an INVITE or MESSAGE, or a request within a
//! dialog, waits until a push notification has woken the phone, and it has registered.

use super::super::fork::ForkState;
use super::super::search::Search;
use super::super::target::{Target, Targets, keep_scheme};
use super::Context;
use crate::core::event::Env;
use crate::core::output::{Event, Wake, WakeReason};
use crate::core::push::{self, PushParams};
use crate::core::ticket::{Sleeper, Ticket, Waiting};
use alloc::boxed::Box;
use sip::uri::is_sips;
use sip::{Message, Method, Status};

impl Context {
    /// Has the phone of the new branch `index` woken, if it sleeps. Returns false if the request is
    /// sent at once.
    pub(super) fn waits_for_phone(
        &mut self,
        search: &Search,
        index: usize,
        request: &Message<'_>,
        env: &mut Env<'_>,
    ) -> bool {
        let target = &search.aims[index].target;
        // The B2BUA of the owner calls the phone.
        let asleep = target.asleep.as_ref().filter(|_| target.detour.is_none());
        let Some(asleep) = asleep else { return false };
        let reason = match request.method() {
            _ if asleep.is_in_dialog => WakeReason::Dialog,
            Some(Method::Invite) => WakeReason::Call,
            Some(Method::Message) => WakeReason::Message,
            _ => return false,
        };
        let params = PushParams::of_contact(&asleep.contact);
        let params =
            params.filter(|params| push::is_provider(&env.settings.config, params.provider));
        let Some(PushParams { provider, prid, param }) = params else { return false };
        self.branches[index].state = ForkState::Locating;
        env.counters.sleeping.add();
        let phone = (**asleep).clone();
        let sleeper = Sleeper { handle: self.handle, index: index as u8, phone };
        env.out.events.push(Event::Wake(Box::new(Wake {
            ticket: Ticket(Waiting::Phone(Box::new(sleeper))),
            user: asleep.user.as_bytes().into(),
            provider: provider.into(),
            prid: prid.into(),
            param: param.into(),
            reason,
            payers: search.plan.payers,
        })));
        true
    }

    /// Sends the request of branch `index` to the phone that was asleep and is now at `woken`.
    pub(crate) fn on_woken(&mut self, index: u8, woken: Target, env: &mut Env<'_>) {
        if !self.ends_waiting(index) {
            return;
        }
        env.counters.woken.add();
        self.with_search(|context, search, request| {
            let index = usize::from(index);
            let mut woken = Targets::from_iter([woken]);
            keep_scheme(&mut woken, request.request_uri().is_some_and(is_sips));
            let (Some(aim), Some(woken)) = (search.aims.get_mut(index), woken.pop()) else {
                return search.fail(Status::TEMPORARILY_UNAVAILABLE);
            };
            let Target { uri, path, next_hop, flow_bound, origin, .. } = woken;
            let mut known = aim.target.clone();
            let asleep = known.asleep.take();
            let uri = match asleep.is_some_and(|asleep| asleep.is_in_dialog) {
                true => known.uri.clone(),
                false => uri,
            };
            aim.target = Target { uri, path, next_hop, flow_bound, origin, ..known };
            if !context.is_closing {
                context.begin(search, index, request, env);
            }
        });
        self.conclude(env);
    }

    /// Handles the failure to wake the phone of branch `index`.
    pub(crate) fn on_not_woken(&mut self, index: u8, env: &mut Env<'_>) {
        if !self.ends_waiting(index) {
            return;
        }
        if !self.fail_over(index, true, env) {
            self.fail(Status::TEMPORARILY_UNAVAILABLE);
        }
        self.conclude(env);
    }

    /// Returns true if branch `index` waits for a phone.
    pub(crate) fn is_waiting(&self, index: u8) -> bool {
        let fork = self.branches.get(usize::from(index));
        fork.is_some_and(|fork| matches!(fork.state, ForkState::Locating))
    }

    /// Returns true if branch `index` waited.
    fn ends_waiting(&mut self, index: u8) -> bool {
        if !self.is_waiting(index) {
            return false;
        }
        self.branches[usize::from(index)].state = ForkState::Over;
        true
    }
}
