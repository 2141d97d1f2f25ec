//! The state of the phone, as the views show it.

use super::history::History;
use crate::call::Stage;
use crate::figures::Media;
use crate::leg::Leg;
use crate::phone::Phone;
use crate::report::Answered;
use crate::trace::Traced;
use media::Mapping;
use sip_ua::AccountId;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// The state of the phone.
pub(super) struct Model<'a> {
    /// The accounts, by their URIs, and true for those that register.
    pub(super) accounts: Vec<(AccountId, String, bool)>,
    pub(super) calls: Vec<CallShown>,
    /// The listening addresses of SIP.
    pub(super) locals: Vec<SocketAddr>,
    /// The addresses of SIP as registrars see them, with the URI of the account.
    pub(super) seen: Vec<(String, SocketAddr)>,
    pub(super) trace: &'a VecDeque<Traced>,
    /// The media address of the next call, its public address, and the kind of NAT mapping.
    pub(super) outside: Option<(SocketAddr, Option<SocketAddr>, Mapping)>,
}

/// A call.
#[derive(Clone, Debug)]
pub(super) struct CallShown {
    pub(super) number: u64,
    pub(super) party: String,
    pub(super) is_incoming: bool,
    pub(super) stage: Stage,
    /// Seconds since the answer, or since the beginning before the answer.
    pub(super) seconds: u64,
    pub(super) held_here: bool,
    pub(super) held_there: bool,
    pub(super) mutes: bool,
    /// True if the remote end has requested a transfer.
    pub(super) is_asked: bool,
    /// Local address of the media.
    pub(super) local: Option<SocketAddr>,
    /// Remote address of the media.
    pub(super) remote: Option<SocketAddr>,
    /// The negotiated media and their statistics.
    pub(super) media: Option<(Answered, Media)>,
}

impl CallShown {
    pub(super) fn is_talking(&self) -> bool {
        self.stage == Stage::Talking
    }
}

impl<'a> Model<'a> {
    /// The current state of `phone`.
    pub(super) fn of(phone: &'a Phone, history: &History) -> Self {
        let lines = phone.lines();
        // The last account with the same URI counts.
        let is_last =
            |number: usize| lines[number + 1..].iter().all(|line| line.uri != lines[number].uri);
        let accounts = lines.iter().enumerate().filter(|(number, _)| is_last(*number));
        let accounts: Vec<_> = accounts
            .map(|(number, line)| (AccountId(number), line.uri.clone(), line.registers))
            .collect();
        let seen = accounts.iter().filter_map(|(id, uri, _)| Some((uri.clone(), phone.seen(*id)?)));
        let seen = seen.collect();
        let calls = phone.calls().iter().map(|(&number, call)| {
            let record = history.of(number);
            let leg = call.leg.as_ref();
            let session = call.session();
            CallShown {
                number,
                party: record.map_or(&call.party, |record| &record.party).clone(),
                is_incoming: record.is_some_and(|record| record.is_incoming),
                stage: call.stage,
                seconds: call.answered.unwrap_or(call.begun).elapsed().as_secs(),
                held_here: call.holds(),
                held_there: call.is_held(),
                mutes: leg.is_some_and(|leg| leg.call.is_muted()),
                is_asked: call.wish.is_some(),
                local: leg.and_then(|leg| leg.ports.rtp.local_addr().ok()),
                remote: session.and_then(|session| session.stream().remote),
                media: session.and_then(|session| {
                    let is_secured = phone.is_secured(call);
                    let answered = Answered::new(
                        number,
                        session,
                        &call.party,
                        is_secured,
                        leg.and_then(Leg::proof),
                    );
                    Some((answered, leg?.figures(number)?))
                }),
            }
        });
        Self {
            accounts,
            calls: calls.collect(),
            locals: phone.locals(),
            seen,
            trace: phone.trace(),
            outside: phone.outside(),
        }
    }
}
