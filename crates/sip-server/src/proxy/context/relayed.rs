//! The relayed call that a request begins or ends.

use super::super::ending::{Refused, end_branch, end_dialog, is_recorded, on_bye};
use super::super::via_branch::{self, DialogFields, ViaBranch};
use super::Context;
use crate::core::call_record::Party;
use crate::core::event::Env;
use crate::core::output::Event;
use crate::core::ticket::Handle;
use alloc::vec::Vec;
use core::net::SocketAddr;
use sip::transaction::TransactionKind;
use sip::{HeaderName, Message, Method};

impl Context {
    /// Ends the branch of a relayed call that the final `response` refuses, or the call whose BYE
    /// it answers. `request` is the BYE as it was sent, `there` the address that responds.
    pub(super) fn end_relayed(
        &mut self,
        request: &[u8],
        response: &Message<'_>,
        (status, there): (u16, SocketAddr),
        env: &mut Env<'_>,
    ) {
        let Some(relay) = env.relay else { return };
        if self.kind == TransactionKind::NonInvite {
            on_bye(request, response, [there, self.back.flow().remote], env);
        } else if status >= 300
            && let Some(report) = end_branch(response, relay)
            && let Some(search) = &mut self.search
        {
            search.failing.add(report);
        }
    }

    /// Ends what is left of the relayed call after the final response and the end of all branches.
    /// Records the call if it has failed.
    pub(super) fn conclude_relayed(&mut self, env: &mut Env<'_>) {
        let (Some(relay), Some(search)) = (env.relay, &mut self.search) else { return };
        let is_invite = self.kind == TransactionKind::Invite;
        let may_be_relayed = relay.count() > 0
            || search.failing.has_report()
            || is_recorded(&search.plan.arrived_on, env);
        let may_end = is_invite || search.failing.by() == Some(Party::Server);
        if !may_be_relayed || !may_end {
            return;
        }
        let Ok(request) = Message::parse(&search.request) else { return };
        if !is_invite {
            // The other end has not answered the BYE.
            if request.method() == Some(Method::Bye) {
                let sender = search.plan.arrived_on.remote;
                end_dialog(&request, request.value(HeaderName::Reason), [sender; 2], env);
            }
            return;
        }
        let Some(said) = DialogFields::read(&request).filter(|said| said.to_tag.is_empty()) else {
            return;
        };
        let Handle { shard, slot, .. } = self.handle;
        let loop_hash = search.plan.loop_hash;
        // A branch that timed out had no final response.
        for index in 0..self.branches.len() as u8 {
            let seal = via_branch::seal(&env.keys.branch, &self.handle, index);
            let mut id = Vec::new();
            ViaBranch::Stateful { shard, slot, index, seal, loop_hash }.write(&mut id);
            if let Some(report) = relay.end_branch(said.call_id, &id) {
                search.failing.add(report);
            }
        }
        let failing = core::mem::take(&mut search.failing);
        let is_joined = search.aims.iter().any(|aim| aim.target.detour.is_some());
        // A branch may have been refused, and the call answered on another one.
        if failing.by().is_some()
            && let Ok(response) = Message::parse(self.back.last_response())
            && response.status().is_some_and(|status| status >= 300)
        {
            let record = match failing.has_report() {
                true => failing.record(&response, env),
                false => {
                    let refused = Refused {
                        request: &request,
                        from: search.plan.arrived_on,
                        began: search.began,
                        is_proven: search.plan.is_proven(env),
                        is_first_leg: is_joined,
                    };
                    failing.record_unreached(&refused, &response, env)
                }
            };
            env.out.events.extend(record.map(Event::CallEnded));
        }
    }
}
