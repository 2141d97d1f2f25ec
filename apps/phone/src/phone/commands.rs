//! Commands to the phone. The errors are texts for the user.

use super::Phone;
use crate::audio::Source;
use crate::call::{Call, Stage};
use crate::config::dialled;
use crate::leg::Sound;
use crate::lookups::Asker;
use crate::outcome::Outcome;
use crate::random::random;
use crate::report::PhoneEvent;
use media::Security;
use sip_ua::{AccountId, CallId, End, Failure};
use std::net::SocketAddr;
use std::time::Instant;

/// Returns true if `digit` is a DTMF key.
const fn is_key(digit: char) -> bool {
    matches!(digit, '0'..='9' | '*' | '#' | 'A'..='D' | 'a'..='d')
}

impl Phone {
    /// Registers all accounts that are to be registered.
    pub(crate) fn register(&mut self) {
        let now = self.clock.now();
        let lines = self.lines.iter().enumerate().filter(|(_, line)| line.registers);
        lines.for_each(|(number, _)| self.agent.register(now, AccountId(number)));
    }

    /// Registers an account, even if it is not configured to register.
    pub(crate) fn register_as(&mut self, account: AccountId) {
        self.agent.register(self.clock.now(), account);
    }

    /// Removes the binding of an account.
    pub(crate) fn unregister_as(&mut self, account: AccountId) {
        self.agent.unregister(self.clock.now(), account);
    }

    /// The URI for `text` typed by a user of `account`.
    pub(crate) fn dialled(&self, text: &str, account: Option<AccountId>) -> String {
        let line = account.and_then(|account| self.lines.get(account.0));
        dialled(text, line.map(|line| line.uri.as_str()))
    }

    /// Calls `text`, as `account` or without one. Returns the number of the call; the result
    /// follows as events.
    pub(crate) fn call(&mut self, text: &str, account: Option<AccountId>) -> u64 {
        let uri = self.dialled(text, account);
        self.last += 1;
        let number = self.last;
        self.tell(PhoneEvent::Calling { call: number, to: uri.clone() });
        self.calls.insert(number, Call::new(uri, account, Stage::Calling));
        self.find_way(number);
        number
    }

    /// Starts the look-up of the first hop of a call.
    pub(super) fn find_way(&mut self, number: u64) {
        let Some(call) = self.calls.get(&number) else { return };
        let line = call.account.and_then(|account| self.lines.get(account.0));
        let first = line.and_then(|line| line.proxy.as_deref()).unwrap_or(&call.party);
        match sip_ua::destination(first.as_bytes()) {
            Ok(destination) => self.lookups.ask(Asker::Call(number), destination),
            Err(_) => self.fail(number, &Failure::NotLocated),
        }
    }

    /// Places a call with the first hop `towards`.
    pub(super) fn place(&mut self, number: u64, towards: Option<SocketAddr>) {
        let Some(towards) = towards else { return self.fail(number, &Failure::NotLocated) };
        if self.waits_for_mapping(number, towards) {
            return;
        }
        let local = self.links.local_towards(towards).ip();
        let Some(call) = self.calls.get(&number) else { return };
        let (uri, account) = (call.party.clone(), call.account);
        let has_retried = call.has_retried;
        let mut leg = match self.leg(local) {
            Ok(leg) => leg,
            Err(outcome) => return self.end(number, outcome),
        };
        if has_retried {
            leg.call.require_security();
        }
        let now = self.clock.now();
        match leg.call.place(&mut self.agent, now, account, &uri, &mut random) {
            Ok(_) => self.set_leg(number, leg),
            Err(error) => {
                let text = format!("{uri}: {error}, such as sip:bob@example.org");
                self.end(number, Outcome::Usage(text));
            }
        }
    }

    fn fail(&mut self, number: u64, failure: &Failure) {
        let Some(call) = self.calls.get(&number) else { return };
        let outcome = Outcome::of_end(&End::Failed(failure.clone()), &call.party);
        self.end(number, outcome);
    }

    /// Places a call again with an offer of SRTP alone. Phones that require SRTP refuse an offer of
    /// both; RFC 8643 describes such offers.
    pub(super) fn places_anew(&mut self, number: u64, end: &End) -> bool {
        let is_refused =
            matches!(end, End::Failed(Failure::Refused { status: 415 | 488 | 606, .. }));
        let Some(call) = self.calls.get_mut(&number) else { return false };
        let is_placing = matches!(call.stage, Stage::Calling | Stage::Ringing);
        let may_retry = is_placing && !call.has_retried;
        if !is_refused || !may_retry || self.media_config.security != Security::Optional {
            return false;
        }
        if let Some(id) = call.id() {
            self.numbers.remove(&id);
        }
        (call.has_retried, call.leg) = (true, None);
        self.find_way(number);
        true
    }

    pub(super) fn id_of(&self, number: u64) -> Result<CallId, String> {
        let call = self.calls.get(&number).ok_or(format!("there is no call {number}"))?;
        call.id().ok_or(format!("call {number} is only being placed"))
    }

    /// Answers a call that rings here.
    pub(crate) fn answer(&mut self, number: u64) -> Result<(), String> {
        self.id_of(number)?;
        let (now, agent) = (self.clock.now(), &mut self.agent);
        let Some(call) = self.calls.get_mut(&number) else { return Ok(()) };
        let Some(leg) = call.leg.as_mut().filter(|_| call.stage == Stage::RingingHere) else {
            return Err(format!("call {number} does not ring here"));
        };
        leg.call.answer(agent, now).map_err(|error| format!("call {number}: {error}"))?;
        leg.follow_first_offer();
        call.stage = Stage::Talking;
        call.answered = Some(Instant::now());
        self.open(number);
        self.tell_answered(number);
        Ok(())
    }

    /// Declines a call that rings here.
    pub(crate) fn decline(&mut self, number: u64, status: u16) -> Result<(), String> {
        let id = self.id_of(number)?;
        let declined = self.agent.decline(self.clock.now(), id, status);
        declined.map_err(|error| format!("call {number}: {error}"))
    }

    /// Redirects a call that rings here to `to`.
    pub(crate) fn redirect(&mut self, number: u64, to: &str) -> Result<(), String> {
        let id = self.id_of(number)?;
        let account = self.calls.get(&number).and_then(|call| call.account);
        let uri = self.dialled(to, account);
        let redirected = self.agent.redirect(self.clock.now(), id, &uri);
        redirected.map_err(|error| format!("call {number}: {error}"))
    }

    /// Ends a call at any stage.
    pub(crate) fn hang_up(&mut self, number: u64) -> Result<(), String> {
        match self.id_of(number) {
            Ok(id) => {
                let ended = self.agent.hang_up(self.clock.now(), id);
                ended.map_err(|error| format!("call {number}: {error}"))
            }
            Err(text) if !self.calls.contains_key(&number) => Err(text),
            Err(_) => {
                self.end(number, Outcome::Done);
                Ok(())
            }
        }
    }

    /// Holds the remote end, or resumes the call.
    pub(crate) fn hold(&mut self, number: u64, holds: bool) -> Result<(), String> {
        self.id_of(number)?;
        let now = self.clock.now();
        let Some(call) = self.calls.get_mut(&number) else { return Ok(()) };
        let Some(leg) = call.leg.as_mut().filter(|_| call.stage == Stage::Talking) else {
            return Err(format!("call {number} is not answered"));
        };
        if leg.call.holds() != holds && leg.call.is_changing_hold() {
            return Err(format!("call {number} is being held or taken back already"));
        }
        let offered = leg.call.hold(&mut self.agent, now, holds, &mut random);
        offered.map_err(|error| format!("call {number}: {error}"))
    }

    /// Sends DTMF keys, such as `12#`.
    pub(crate) fn press(&mut self, number: u64, digits: &str) -> Result<(), String> {
        if let Some(digit) = digits.chars().find(|digit| !is_key(*digit)) {
            return Err(format!("{digit} is no key: 0 to 9, *, #, A to D"));
        }
        self.id_of(number)?;
        let now = self.clock.now();
        let leg = self.calls.get_mut(&number).and_then(|call| call.leg.as_mut());
        let leg = leg.filter(|leg| leg.session().is_some());
        let leg = leg.ok_or(format!("there is no call {number} that is answered"))?;
        for digit in digits.chars() {
            let pressed = leg.call.press(&mut self.agent, now, digit);
            pressed.map_err(|error| format!("call {number}: {error}"))?;
        }
        Ok(())
    }

    /// Sends `text` to `to`, as `account` or without one. Returns the number of the message; the
    /// result follows as an event.
    pub(crate) fn message(
        &mut self,
        to: &str,
        account: Option<AccountId>,
        text: &str,
    ) -> Result<u64, String> {
        let uri = self.dialled(to, account);
        let sent = self.agent.message(self.clock.now(), account, &uri, text);
        let sent = sent.map_err(|error| format!("{uri}: {error}, such as sip:bob@example.org"))?;
        Ok(sent.0)
    }

    /// Mutes or unmutes the sound sent.
    pub(crate) fn mute(&mut self, number: u64, mutes: bool) -> Result<(), String> {
        let leg = self.calls.get_mut(&number).and_then(|call| call.leg.as_mut());
        leg.ok_or(format!("there is no call {number} with media"))?.call.mute(mutes);
        Ok(())
    }

    /// The user says that the short authentication strings of both ends are the same, or not.
    pub(crate) fn verify(&mut self, number: u64, is_same: bool) -> Result<(), String> {
        let leg = self.calls.get_mut(&number).and_then(|call| call.leg.as_mut());
        if !leg.is_some_and(|leg| leg.set_verified(is_same)) {
            return Err(format!("there is no call {number} with a string to compare"));
        }
        self.tell_secured(number);
        Ok(())
    }

    /// Changes the sound source.
    pub(crate) fn play(&mut self, number: u64, what: &str) -> Result<(), String> {
        let source = Source::named(what)?;
        let leg = self.calls.get_mut(&number).and_then(|call| call.leg.as_mut());
        leg.ok_or(format!("there is no call {number} with media"))?.sound = Sound::Source(source);
        Ok(())
    }
}
