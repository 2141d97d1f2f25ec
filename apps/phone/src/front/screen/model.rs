//! What the phone has, as the views show it.

use super::history::History;
use crate::call::Stage;
use crate::figures::Media;
use crate::phone::Phone;
use crate::report::Answered;
use crate::trace::Traced;
use media::Mapping;
use sip_ua::AccountId;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// What the phone has.
pub(super) struct Model<'a> {
    /// Accounts that can be called as, by their URIs, and whether they register.
    pub(super) accounts: Vec<(AccountId, String, bool)>,
    pub(super) calls: Vec<CallShown>,
    /// Where SIP comes in.
    pub(super) locals: Vec<SocketAddr>,
    pub(super) trace: &'a VecDeque<Traced>,
    /// What the next call's port of media is, and what it looks like from outside.
    pub(super) outside: Option<(SocketAddr, Option<SocketAddr>, Mapping)>,
}

/// A call.
#[derive(Clone, Debug)]
pub(super) struct CallShown {
    pub(super) number: u64,
    pub(super) party: String,
    pub(super) is_incoming: bool,
    pub(super) stage: Stage,
    /// Since the answer, or since it began.
    pub(super) seconds: u64,
    pub(super) held_here: bool,
    pub(super) held_there: bool,
    pub(super) mutes: bool,
    /// Whether the other end wishes somebody else to be called.
    pub(super) is_asked: bool,
    /// Where its media come in.
    pub(super) local: Option<SocketAddr>,
    /// Where they go.
    pub(super) remote: Option<SocketAddr>,
    /// How it is carried, once that is agreed, and how well.
    pub(super) media: Option<(Answered, Media)>,
}

impl CallShown {
    pub(super) fn is_talking(&self) -> bool {
        self.stage == Stage::Talking
    }
}

impl<'a> Model<'a> {
    /// What `phone` has now.
    pub(super) fn of(phone: &'a Phone, history: &History) -> Self {
        let lines = phone.lines();
        // Of those with the same URI the last one counts.
        let is_last =
            |number: usize| lines[number + 1..].iter().all(|line| line.uri != lines[number].uri);
        let accounts = lines.iter().enumerate().filter(|(number, _)| is_last(*number));
        let accounts =
            accounts.map(|(number, line)| (AccountId(number), line.uri.clone(), line.registers));
        let calls = phone.calls().iter().map(|(&number, call)| {
            let record = history.of(number);
            let leg = call.leg.as_ref();
            let session = leg.and_then(|leg| leg.session.as_ref());
            CallShown {
                number,
                party: record.map_or(&call.party, |record| &record.party).clone(),
                is_incoming: record.is_some_and(|record| record.is_incoming),
                stage: call.stage,
                seconds: call.answered.unwrap_or(call.begun).elapsed().as_secs(),
                held_here: call.holds,
                held_there: call.is_held,
                mutes: leg.is_some_and(|leg| leg.mutes),
                is_asked: call.wish.is_some(),
                local: leg.and_then(|leg| leg.ports.rtp.local_addr().ok()),
                remote: session.and_then(|session| session.stream().remote),
                media: session.and_then(|session| {
                    let is_secured = phone.is_secured(call);
                    let answered = Answered::new(number, session.stream(), &call.party, is_secured);
                    Some((answered, leg?.figures(number)?))
                }),
            }
        });
        Self {
            accounts: accounts.collect(),
            calls: calls.collect(),
            locals: phone.locals(),
            trace: phone.trace(),
            outside: phone.outside(),
        }
    }
}
