//! The stages of a call with call services: the phones of one user or group after the other. A call
//! without them has one stage.

use super::super::fork::{Cancel, Fork, reason_line};
use super::super::search::Search;
#[cfg(feature = "office")]
use super::super::search::in_order;
use super::super::services::Stages;
#[cfg(feature = "office")]
use super::super::services::{Itinerary, Led, Stage};
#[cfg(feature = "office")]
use super::super::{
    call_changes,
    fork::ELSEWHERE,
    media::{param_of_pass, uri_of},
    media_target,
    token::Identity,
};
use super::Context;
use crate::core::event::Env;
use alloc::boxed::Box;
#[cfg(feature = "office")]
use alloc::vec::Vec;
#[cfg(feature = "office")]
use sip::HeaderName;
use sip::transaction::TransactionKind;
use sip::{Instant, Message, Status};

/// The provisional response to the caller of a forwarded call (RFC 3261 section 21.1.3).
const FORWARDED: Status = Status(181);

impl Context {
    fn stages(&self) -> Option<&Stages> {
        self.search.as_ref()?.stages.as_deref()
    }

    /// True if all branches of the present stage have ended, and no next one begins.
    pub(super) fn stage_has_ended(&self) -> bool {
        let stages = self.stages();
        let first = stages.map_or(0, Stages::first_branch);
        stages.is_none_or(|stages| !stages.is_looking_up())
            && self.branches.iter().skip(first).all(Fork::has_ended)
    }

    /// The time at which the present stage ends.
    pub(super) fn end_of_stage(&self) -> Option<Instant> {
        self.stages()?.until()
    }

    /// True if a branch of a call with stages is cancelled, and the call goes on without it.
    pub(super) fn is_withdrawn(&self, index: u8) -> bool {
        let fork = self.branches.get(usize::from(index));
        self.stages().is_some()
            && !self.is_cancelled
            && fork.is_some_and(|fork| !matches!(fork.cancel, Cancel::No))
    }

    /// Ends the present stage after the end of all its branches. Returns true if the call goes on:
    /// the next users are looked up before the worker returns.
    pub(super) fn leads_on(&mut self, env: &mut Env<'_>) -> bool {
        if self.is_cancelled {
            return false;
        }
        let Some(search) = &mut self.search else { return false };
        let Some(stages) = &mut search.stages else { return false };
        if stages.end(search.best.take(), env.counters) {
            env.out.ended_stages.push(self.handle);
            return true;
        }
        search.best = stages.take_best();
        false
    }

    /// Ends the present stage if its time is over.
    pub(super) fn end_stage_in_time(&mut self, env: &mut Env<'_>) {
        if self.has_final() || self.end_of_stage().is_none_or(|until| until > env.now) {
            return;
        }
        self.withdraw(&reason_line(Status::REQUEST_TIMEOUT), env);
        let branches = self.branches.len();
        let Some(search) = &mut self.search else { return };
        if let Some(stages) = &mut search.stages {
            stages.time_out(branches);
        }
        search.fail(Status::TEMPORARILY_UNAVAILABLE);
    }

    /// Cancels the branches of the present stage with the Reason lines `reason`, and opens no
    /// further one in it.
    fn withdraw(&mut self, reason: &[u8], env: &mut Env<'_>) {
        if let Some(search) = &mut self.search {
            search.waiting.clear();
        }
        self.branches.iter_mut().for_each(|fork| fork.request_cancel(reason, env));
    }

    /// Follows the redirection `response` of the phone on branch `index`, in place of its user.
    /// Returns false if the caller gets the response.
    pub(super) fn deflect(&mut self, index: u8, response: &Message<'_>, env: &mut Env<'_>) -> bool {
        let is_of_phone = self.aim(index).is_some_and(|aim| aim.target.is_registered);
        let begins_call = self.kind == TransactionKind::Invite && !self.has_to_tag;
        if self.is_closing || !begins_call || !is_of_phone {
            return false;
        }
        let branches = self.branches.len();
        let deflected = self.with_search(|_, search, request| {
            let is_followed = match &mut search.stages {
                Some(stages) => stages.deflect(response, branches, env.settings),
                none => {
                    // A call without stages gets them by a redirection.
                    let flow = search.plan.arrived_on;
                    let mut stages = Stages::of_request(request, flow, env.settings);
                    let has_target = |it: &mut Stages| it.deflect(response, branches, env.settings);
                    *none = stages
                        .as_mut()
                        .is_some_and(has_target)
                        .then_some(stages)
                        .flatten()
                        .map(Box::new);
                    none.is_some()
                }
            };
            if is_followed {
                search.fail(Status::TEMPORARILY_UNAVAILABLE);
            }
            is_followed
        });
        let is_followed = deflected == Some(true);
        if is_followed {
            self.withdraw(&reason_line(Status::MOVED_TEMPORARILY), env);
        }
        is_followed
    }

    /// Closes the other branches after the 6xx on branch `index`. It is the response of its user:
    /// other members of a group and targets of forwards may still answer.
    pub(super) fn close_after_rejection(&mut self, index: u8, reason: &[u8], env: &mut Env<'_>) {
        let Some(Search { waiting, aims, stages: Some(_), .. }) = self.search.as_deref_mut() else {
            return self.close_others(Some(index), reason, env);
        };
        let Some(rejecting) = aims.get(usize::from(index)).map(|aim| &aim.target) else { return };
        waiting.retain(|target| !target.is_of_user_of(rejecting));
        for (fork, aim) in self.branches.iter_mut().zip(aims.iter()) {
            if aim.target.is_of_user_of(rejecting) {
                fork.request_cancel(reason, env);
            }
        }
    }

    /// Tells the caller that the call is forwarded, once.
    pub(super) fn announce(
        &mut self,
        search: &mut Search,
        request: &Message<'_>,
        env: &mut Env<'_>,
    ) {
        if search.stages.as_mut().is_some_and(|stages| stages.announces()) {
            self.back.respond(request, search.plan.arrived_on.remote, FORWARDED, env);
        }
        #[cfg(feature = "office")]
        if let Some(users) = search.stages.as_mut().map(|stages| stages.take_ringing()) {
            self.tell_led(request, users, env);
        }
    }
}

#[cfg(feature = "office")]
impl Context {
    /// Tells the owner that the call is led to `users`.
    fn tell_led(&self, request: &Message<'_>, users: Vec<Box<str>>, env: &mut Env<'_>) {
        let is_call = self.kind == TransactionKind::Invite && !self.has_to_tag;
        if users.is_empty() || !is_call {
            return;
        }
        let caller = match self.begins_call() {
            true => None,
            false => param_of_pass(request, "caller"),
        };
        if self.begins_call() || caller.is_some() {
            call_changes::retarget(self.handle, caller.as_deref(), users, env);
        }
    }

    /// Tells the owner the user of branch `index`, which has answered, if call services have led
    /// the call there.
    pub(super) fn tell_answerer(&mut self, index: u8, env: &mut Env<'_>) {
        // The request is parsed for a call that was led only.
        let aims = self.search.as_ref().map_or(&[][..], |search| &search.aims);
        let way = aims.get(usize::from(index)).and_then(|aim| aim.target.retargeted.as_ref());
        let Some(user) = way.and_then(|way| way.user()).map(Box::<str>::from) else { return };
        self.with_search(|context, _, request| context.tell_led(request, [user].into(), env));
    }

    /// Leads the ringing call away from its phones, to the owner's media server, where it meets the
    /// call of `user`. A call from a trunk stays in the B2BUA.
    pub(in super::super) fn meet(&mut self, name: &str, user: Box<str>, env: &mut Env<'_>) {
        let is_from_trunk = self.search.as_ref().is_some_and(|search| search.plan.is_from_trunk);
        let is_ringing = (self.begins_call() || is_from_trunk)
            && !self.is_closing
            && !self.has_final()
            && self.stages().is_none_or(|stages| !stages.is_looking_up());
        if !is_ringing {
            return;
        }
        let branches = self.branches.len();
        self.withdraw(ELSEWHERE, env);
        self.with_search(|context, search, request| {
            let flow = search.plan.arrived_on;
            let uri = search.plan.named.as_deref().or_else(|| request.request_uri());
            let call = (uri.unwrap_or_default(), &flow);
            let target = media_target::meeting(name, None, call, env);
            search.stages = Some(Box::new(Stages::leave(search.stages.take(), flow, branches)));
            search.waiting = in_order([target].into_iter().collect());
            context.tell_led(request, [user].into(), env);
        });
        self.conclude(env);
    }

    /// Takes the itinerary of the call, and its caller.
    pub(in super::super) fn take_led(&mut self, env: &Env<'_>) -> Option<Led> {
        let led = self.with_search(|_, search, request| {
            let (itinerary, is_for_sips, flow) = search.stages.as_mut()?.take_itinerary()?;
            let plan = &search.plan;
            Some(Led {
                itinerary,
                is_for_sips,
                flow,
                from: uri_of(request, HeaderName::From).to_vec(),
                identity: plan.record_route.map_or(Identity::NONE, |names| names.sender),
                is_known: plan.is_proven(env) || plan.is_from_trunk,
            })
        });
        led.flatten()
    }

    /// Begins `stage`, to which `itinerary` has led the call.
    pub(in super::super) fn begin_stage(
        &mut self,
        itinerary: Box<Itinerary>,
        stage: Stage,
        env: &mut Env<'_>,
    ) {
        let branches = self.branches.len();
        let goes_on = !self.is_cancelled && !self.has_final();
        self.with_search(|context, search, request| {
            if let Some(stages) = &mut search.stages {
                stages.begin(itinerary, &stage, branches, env.now);
            }
            stage.failures.iter().for_each(|status| search.fail(*status));
            if goes_on {
                search.waiting = in_order(stage.targets);
                context.announce(search, request, env);
            }
        });
        self.conclude(env);
    }
}
