//! The decision where a call goes next: the forwards of users and the members of groups, as a state
//! machine without branches and times.
//!
//! A call is led to each user and group once at most, so loops end and no chain of forwards
//! multiplies.

use crate::core::call_services::{CallServices, Group, Strategy};
use crate::core::counters::Counters;
use crate::proxy::retargeting::{Retargeted, Step, Why, uri_of};
use crate::proxy::target::Targets;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use sip::{Duration, Status};
use smallvec::SmallVec;

/// The maximum number of forwards of one call.
pub(super) const MAX_FORWARDS: usize = 5;

/// The maximum number of users and groups that one call is led to.
pub(super) const MAX_LED: usize = 64;

/// The users and groups that a call may be led to.
pub(crate) trait Directory {
    /// Finds `name`, which is `user@domain`. The call is charged to `forwarder` if that is set: the
    /// forward of a user to a number needs the right of the user to call it.
    fn resolve(&mut self, name: &[u8], forwarder: Option<&[u8]>) -> Found;
}

/// The result of [`Directory::resolve`].
pub(crate) enum Found {
    /// A group, and the place of the member to begin with.
    Group(Group, usize),
    /// A user with the phones that are registered.
    User(Option<Arc<CallServices>>, Targets),
    /// Neither.
    Unknown,
}

/// The end of a stage without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Busy,
    NoAnswer,
    /// No phone is registered, or none responds.
    Unreachable,
    /// A phone has redirected the call to this user.
    Deflected(Box<[u8]>),
    /// Calls do not reach the phones.
    DoNotDisturb,
    /// The call has failed otherwise, and is not forwarded.
    Failed,
}

/// A user or a group that the call was led to.
struct Entry {
    name: Box<[u8]>,
    why: Why,
    /// The place of the entry that has led here.
    by: usize,
}

/// A user or a group that the call is led to next.
struct Next {
    name: Box<[u8]>,
    why: Why,
    by: usize,
}

/// A group that is called, with its members.
struct Course {
    /// The place of its entry.
    entry: usize,
    /// The members that are still to be called.
    waiting: VecDeque<Box<[u8]>>,
    timeout: Duration,
    fallback: Option<Box<[u8]>>,
    forwards: bool,
}

/// The way of a call.
pub(crate) struct Itinerary {
    entries: Vec<Entry>,
    /// The groups that are called, the innermost last.
    courses: Vec<Course>,
    /// The services of the user that is called, if its forwards apply.
    services: Option<Arc<CallServices>>,
    /// True if the phones of one user ring, and a forward of it may follow.
    may_deflect: bool,
    /// The place of the entry that rings.
    at: usize,
    next: Option<Next>,
    forwards: usize,
}

/// The next stage of a call.
pub(crate) struct Stage {
    /// The phones that ring. If it is empty, the call has ended.
    pub(crate) targets: Targets,
    /// The time after which the call goes on.
    pub(crate) timeout: Option<Duration>,
    /// The failures of users and groups that the call was led to meanwhile.
    pub(crate) failures: SmallVec<[Status; 1]>,
    /// True if a forward has led to this stage.
    pub(crate) is_forwarded: bool,
    /// The users with ringing phones, `user@domain`.
    pub(crate) users: Vec<Box<str>>,
}

impl Itinerary {
    /// The way of a call to `name`, which [`Itinerary::lead`] leads.
    pub(super) fn new(name: &[u8]) -> Self {
        let next = Next { name: name.into(), why: Why::Called, by: 0 };
        Self {
            entries: Vec::new(),
            courses: Vec::new(),
            services: None,
            may_deflect: false,
            at: 0,
            next: Some(next),
            forwards: 0,
        }
    }

    /// The way of a call to `name`, a user without services. The phones ring already.
    pub(super) fn of_ringing(name: &[u8]) -> Self {
        let mut itinerary = Self::new(name);
        if let Some(Next { name, why, by }) = itinerary.next.take() {
            itinerary.entries.push(Entry { name, why, by });
        }
        itinerary.may_deflect = true;
        itinerary
    }

    /// The memory on the heap, in bytes, approximately.
    pub(super) fn bytes(&self) -> usize {
        let names: usize = self.entries.iter().map(|entry| entry.name.len()).sum();
        let of_course = |course: &Course| {
            let members: usize = course.waiting.iter().map(|member| 16 + member.len()).sum();
            size_of::<Course>() + members
        };
        names
            + self.entries.capacity() * size_of::<Entry>()
            + self.courses.iter().map(of_course).sum::<usize>()
    }

    /// True if a redirection by a phone that rings is followed.
    pub(super) const fn may_deflect(&self) -> bool {
        self.may_deflect
    }

    /// Decides after the end of a stage with `outcome`. Returns true if the call goes on:
    /// [`Itinerary::lead`] leads it.
    pub(super) fn decide(&mut self, outcome: Outcome, counters: &Counters) -> bool {
        let services = self.services.take();
        let may_deflect = core::mem::take(&mut self.may_deflect);
        if let Some((target, why)) = forward_of(services.as_deref(), outcome, may_deflect)
            && self.forward(&target, why, self.at, counters)
        {
            return true;
        }
        while let Some(course) = self.courses.last_mut() {
            let by = course.entry;
            while let Some(member) = course.waiting.pop_front() {
                if self.entries.iter().all(|entry| entry.name != member) {
                    self.next = Some(Next { name: member, why: Why::Member, by });
                    return true;
                }
            }
            let fallback = self.courses.pop().and_then(|course| course.fallback);
            if let Some(fallback) = fallback
                && self.forward(&fallback, Why::NoAnswer, by, counters)
            {
                return true;
            }
        }
        false
    }

    /// Leads the call by a forward of the entry `by` to `target`, unless it was there before.
    fn forward(&mut self, target: &[u8], why: Why, by: usize, counters: &Counters) -> bool {
        if self.entries.iter().any(|entry| *entry.name == *target) {
            counters.forward_loops.add();
            return false;
        }
        if self.forwards >= MAX_FORWARDS {
            counters.forward_limit.add();
            return false;
        }
        self.forwards += 1;
        counters.forwards.add();
        self.next = Some(Next { name: target.into(), why, by });
        true
    }

    /// Leads the call on until phones ring, or it has ended.
    pub(crate) fn lead(&mut self, directory: &mut dyn Directory, counters: &Counters) -> Stage {
        let mut stage = Stage {
            targets: Targets::new(),
            timeout: None,
            failures: SmallVec::new(),
            is_forwarded: false,
            users: Vec::new(),
        };
        while let Some(next) = self.next.take() {
            if self.entries.len() >= MAX_LED {
                counters.forward_limit.add();
                break;
            }
            let forwarder = next.why.diversion().and_then(|_| self.entries.get(next.by));
            let found = directory.resolve(&next.name, forwarder.map(|entry| &*entry.name));
            stage.is_forwarded |= next.why.diversion().is_some();
            self.at = self.entries.len();
            let Next { name, why, by } = next;
            self.entries.push(Entry { name, why, by });
            let is_ringing = match found {
                Found::Group(group, first) => {
                    self.enter_group(&group, first, directory, &mut stage, counters)
                }
                Found::User(services, targets) => {
                    self.enter_user(services, targets, &mut stage, counters)
                }
                Found::Unknown => {
                    stage.failures.push(Status::NOT_FOUND);
                    self.decide(Outcome::Failed, counters);
                    false
                }
            };
            if is_ringing {
                break;
            }
        }
        stage
    }

    /// Enters the user of the last entry. Returns true if phones ring.
    fn enter_user(
        &mut self,
        services: Option<Arc<CallServices>>,
        mut targets: Targets,
        stage: &mut Stage,
        counters: &Counters,
    ) -> bool {
        let is_disturbed = services.as_ref().is_none_or(|it| !it.do_not_disturb);
        self.may_deflect = self.courses.last().is_none_or(|course| course.forwards);
        self.services = services.filter(|_| self.may_deflect);
        if let Some(target) = self.services.as_ref().and_then(|it| it.always.clone()) {
            if !self.forward(target.as_bytes(), Why::Always, self.at, counters) {
                stage.failures.push(Status::LOOP_DETECTED);
                self.services = None;
                self.decide(Outcome::Failed, counters);
            }
            return false;
        }
        if !is_disturbed || targets.is_empty() {
            stage.failures.push(Status::TEMPORARILY_UNAVAILABLE);
            let outcome = match is_disturbed {
                true => Outcome::Unreachable,
                false => {
                    counters.do_not_disturb.add();
                    Outcome::DoNotDisturb
                }
            };
            self.decide(outcome, counters);
            return false;
        }
        let of_user = self.services.as_ref().filter(|it| it.no_answer.is_some());
        let of_user = of_user.map(|it| it.no_answer_after);
        let of_group = self.courses.last().map(|course| course.timeout);
        stage.timeout = of_user.into_iter().chain(of_group).min();
        self.mark(&mut targets, self.at);
        stage.users.extend(self.user_of(self.at, &targets));
        stage.targets = targets;
        true
    }

    /// Enters the `group` of the last entry. The member at `first` is the first one. Returns true
    /// if phones ring.
    fn enter_group(
        &mut self,
        group: &Group,
        first: usize,
        directory: &mut dyn Directory,
        stage: &mut Stage,
        counters: &Counters,
    ) -> bool {
        let (before, after) = group.members.split_at(first.min(group.members.len()));
        let members = after.iter().chain(before).map(|member| member.as_bytes());
        let mut course = Course {
            entry: self.at,
            waiting: members.map(Box::from).collect(),
            timeout: group.timeout,
            fallback: group.fallback.as_ref().map(|target| target.as_bytes().into()),
            forwards: group.forwards,
        };
        let members = match group.strategy {
            Strategy::Together => core::mem::take(&mut course.waiting),
            Strategy::InTurn | Strategy::RoundRobin => VecDeque::new(),
        };
        let by = course.entry;
        self.courses.push(course);
        for member in members {
            self.add_member(member, by, group.forwards, directory, stage, counters);
        }
        if stage.targets.is_empty() {
            self.decide(Outcome::Failed, counters);
            return false;
        }
        // All phones of all members ring.
        stage.targets.iter_mut().for_each(|target| target.q = 1000);
        stage.timeout = Some(group.timeout);
        self.at = by;
        true
    }

    /// Adds the phones of a member of a group with [`Strategy::Together`]. With `forwards`, a
    /// forward of all its calls is followed to the phones of another user.
    fn add_member(
        &mut self,
        member: Box<[u8]>,
        by: usize,
        forwards: bool,
        directory: &mut dyn Directory,
        stage: &mut Stage,
        counters: &Counters,
    ) {
        let mut next = Some(Next { name: member, why: Why::Member, by });
        while let Some(Next { name, why, by }) = next.take() {
            let is_known = self.entries.iter().any(|entry| entry.name == name);
            if is_known || self.entries.len() >= MAX_LED {
                match (is_known, why) {
                    (true, Why::Member) => {}
                    (true, _) => counters.forward_loops.add(),
                    (false, _) => counters.forward_limit.add(),
                }
                return;
            }
            let forwarder = why.diversion().and_then(|_| self.entries.get(by));
            let found = directory.resolve(&name, forwarder.map(|entry| &*entry.name));
            let at = self.entries.len();
            self.entries.push(Entry { name, why, by });
            let Found::User(services, mut targets) = found else {
                stage.failures.push(Status::NOT_FOUND);
                return;
            };
            let always = services.as_ref().and_then(|it| it.always.clone());
            if let Some(target) = always.filter(|_| forwards && self.forwards < MAX_FORWARDS) {
                self.forwards += 1;
                counters.forwards.add();
                next = Some(Next { name: target.into_bytes().into(), why: Why::Always, by: at });
                continue;
            }
            if services.is_some_and(|it| it.do_not_disturb) {
                counters.do_not_disturb.add();
                targets.clear();
            }
            if targets.is_empty() {
                stage.failures.push(Status::TEMPORARILY_UNAVAILABLE);
            }
            self.mark(&mut targets, at);
            stage.users.extend(self.user_of(at, &targets));
            stage.targets.append(&mut targets);
        }
    }

    /// The name of the entry at `at`, if it is a user with phones among `targets`.
    fn user_of(&self, at: usize, targets: &Targets) -> Option<Box<str>> {
        let entry = self.entries.get(at)?;
        let has_phone = targets.iter().any(|target| target.is_registered);
        has_phone.then(|| String::from_utf8_lossy(&entry.name).into())
    }

    /// Notes in `targets` the way to the entry at `at`, their user.
    fn mark(&self, targets: &mut Targets, at: usize) {
        let Some(way) = Retargeted::new(self.way_to(at)).map(Arc::new) else { return };
        for target in targets {
            target.retargeted = Some(Arc::clone(&way));
        }
    }

    /// The steps from the called user or group to the entry at `at`.
    fn way_to(&self, at: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut place = at;
        while let Some(entry) = self.entries.get(place) {
            steps.push(Step {
                uri: uri_of(&entry.name),
                name: String::from_utf8_lossy(&entry.name).into_owned(),
                why: entry.why,
            });
            // An entry is led to by an earlier one.
            if entry.by >= place {
                break;
            }
            place = entry.by;
        }
        steps.reverse();
        steps
    }
}

/// The target of a forward after `outcome`.
fn forward_of(
    services: Option<&CallServices>,
    outcome: Outcome,
    may_deflect: bool,
) -> Option<(Box<[u8]>, Why)> {
    let (target, why) = match outcome {
        Outcome::Deflected(target) => return may_deflect.then_some((target, Why::Deflected)),
        Outcome::Busy => (services?.busy.as_ref(), Why::Busy),
        Outcome::DoNotDisturb => (services?.busy.as_ref(), Why::DoNotDisturb),
        Outcome::NoAnswer => (services?.no_answer.as_ref(), Why::NoAnswer),
        Outcome::Unreachable => {
            let services = services?;
            (services.unreachable.as_ref().or(services.no_answer.as_ref()), Why::Unreachable)
        }
        Outcome::Failed => return None,
    };
    Some((target?.as_bytes().into(), why))
}

#[cfg(test)]
#[path = "itinerary_tests.rs"]
mod tests;
