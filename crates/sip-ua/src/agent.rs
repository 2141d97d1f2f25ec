//! The agent: its timers and outputs, and the commands of its owner.

use crate::call::{Call, CallError, Cause};
use crate::calls::Calls;
use crate::config::{Account, AccountError, AccountId, Config};
use crate::core::{Core, News, TimerKey};
use crate::event::{CallId, Event, MessageId};
use crate::registration::Registration;
use crate::replaces::Replaces;
use crate::table::{Fate, Table};
use crate::uac::{split_headers, subject_line};
use alloc::vec::Vec;
use core::net::SocketAddr;
use sip::{Encode, Flow, Instant, Transmit, Uri};

/// A user agent. See the [crate] for its use.
pub struct Agent {
    pub(crate) core: Core,
    pub(crate) registrations: Table<AccountId, Registration>,
    pub(crate) calls: Calls,
}

impl Agent {
    /// Returns an agent with this configuration. All unpredictable values are derived from
    /// `secret`, which has to be random.
    #[must_use]
    pub fn new(config: Config, secret: &[u8; 32]) -> Self {
        let mut core = Core::new(config, secret);
        let mut registrations = Table::default();
        for account in (0..core.config.accounts.len()).map(AccountId) {
            if let Some(registration) = Registration::new(&mut core, account) {
                registrations.insert(account, registration);
            }
        }
        Self { core, registrations, calls: Calls::default() }
    }

    /// Sets a function that shortens session descriptions of requests that exceed a datagram but go
    /// by UDP, because the receiver does not accept TCP. It may leave out the parts that the answer
    /// does not depend on.
    pub const fn shorten_by(&mut self, shorten: fn(&[u8]) -> Vec<u8>) {
        self.core.shorten = Some(shorten);
    }

    /// Returns the next message to send, if any.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.core.transmits.pop_front()
    }

    /// Returns the next event, if any.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.core.events.pop_front()
    }

    /// Returns the time of the next call to [`Agent::on_timer`].
    #[must_use]
    pub fn next_timer(&self) -> Option<Instant> {
        self.core.timers.next()
    }

    /// Processes the timers that are due at `now`.
    pub fn on_timer(&mut self, now: Instant) {
        for owner in self.core.timers.take_due(now) {
            match owner {
                TimerKey::Server(key) => self.core.poll_server(key, now),
                TimerKey::Client(id) => {
                    if let Some(result) = self.core.poll_client(id, now) {
                        self.on_result(result, now);
                    }
                }
                TimerKey::Call(id) => {
                    if let Some(call) = self.calls.take_due(id) {
                        call.on_timer(&mut self.core, now);
                    }
                }
                TimerKey::Registration(account) => {
                    if let Some(registration) = self.registrations.take_due(account) {
                        registration.on_timer(&mut self.core, now);
                    }
                }
            }
        }
        self.settle(now);
    }

    /// Returns true if the signalling of `call` goes to the next server, or to the other end, over
    /// an encrypted connection.
    #[must_use]
    pub fn is_secured(&self, call: CallId) -> bool {
        let flow = self.calls.get(call).and_then(Call::flow);
        flow.is_some_and(|flow| flow.transport.is_secure())
    }

    /// Returns the branch of a placed call with the current session: see [`Event::Ringing`]. `None`
    /// without a session.
    #[must_use]
    pub fn branch(&self, call: CallId) -> Option<u32> {
        self.calls.get(call).and_then(Call::branch)
    }

    /// Returns the number of calls.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.calls.live()
    }

    /// Returns the number of client and server transactions.
    #[must_use]
    pub fn transactions(&self) -> usize {
        self.core.clients.all.len() + self.core.servers.all.len()
    }

    /// Returns true if a local request waits for its response, or for the time at which it may be
    /// sent.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        self.core.clients.is_waiting() || self.core.leaving > 0
    }

    /// Adds an account. It registers after [`Agent::register`].
    ///
    /// # Errors
    /// [`AccountError::Uri`] if its URI is not a SIP URI.
    pub fn add_account(&mut self, account: Account) -> Result<AccountId, AccountError> {
        let id = AccountId(self.core.config.accounts.len());
        self.core.config.accounts.push(account);
        let Some(registration) = Registration::new(&mut self.core, id) else {
            self.core.config.accounts.pop();
            return Err(AccountError::Uri);
        };
        self.registrations.insert(id, registration);
        self.core.note_account(id);
        Ok(id)
    }

    /// Stops all registration requests of an account. A binding that exists expires. It is for an
    /// account that another one replaces, as after a wrong password.
    pub fn forget_account(&mut self, account: AccountId) {
        if let Some(registration) = self.registrations.get_mut(account) {
            registration.forget();
            self.settle_registrations();
        }
    }

    /// Registers an account and keeps it registered.
    pub fn register(&mut self, now: Instant, account: AccountId) {
        if let Some(registration) = self.registrations.get_mut(account) {
            registration.start(&mut self.core, now);
        }
        self.settle(now);
    }

    /// The address and port that the registrar of an account sees, as its last 200 says: the public
    /// ones behind a NAT.
    #[must_use]
    pub fn seen(&self, account: AccountId) -> Option<SocketAddr> {
        self.registrations.get(account)?.seen
    }

    /// The flow of the last REGISTER of an account that had a result: that of the state which
    /// [`Event::Registration`] reports. `None` if it was not sent.
    #[must_use]
    pub fn registrar_flow(&self, account: AccountId) -> Option<Flow> {
        self.registrations.get(account)?.last_flow
    }

    /// Ends the registration of an account.
    pub fn unregister(&mut self, now: Instant, account: AccountId) {
        if let Some(registration) = self.registrations.get_mut(account) {
            registration.stop(&mut self.core, now);
        }
        self.settle(now);
    }

    /// Handles a change of the local addresses: accounts register again, and established calls move
    /// to the new address ([`Event::Moved`]).
    pub fn network_changed(&mut self, now: Instant) {
        for registration in self.registrations.values_mut() {
            registration.network_changed(&mut self.core, now);
        }
        self.calls.values_mut().for_each(|call| call.network_changed(&mut self.core, now));
        self.settle(now);
    }

    /// Calls `uri`, as `account` or directly, with the offer `session`. If it is empty, the other
    /// end makes the offer ([`Event::Offer`]). A Replaces header field in the URI makes the call
    /// replace another one (RFC 3891), and a Subject header field sets the subject. Other header
    /// fields in the URI are ignored.
    ///
    /// # Errors
    /// [`CallError::Uri`] if it is not a SIP URI, [`CallError::Account`] if the account does not
    /// exist.
    pub fn call(
        &mut self,
        now: Instant,
        account: Option<AccountId>,
        uri: &str,
        session: Vec<u8>,
    ) -> Result<CallId, CallError> {
        let headers = split_headers(uri.as_bytes()).map(|(_, headers)| headers);
        let lines = headers.and_then(subject_line).unwrap_or_default();
        self.place(now, account, uri, session, Cause { lines, ..Cause::default() })
    }

    pub(crate) fn check_account(&self, account: Option<AccountId>) -> Result<(), CallError> {
        let exists = account.is_none_or(|account| account.0 < self.core.config.accounts.len());
        if exists { Ok(()) } else { Err(CallError::Account) }
    }

    fn place(
        &mut self,
        now: Instant,
        account: Option<AccountId>,
        uri: &str,
        session: Vec<u8>,
        mut cause: Cause,
    ) -> Result<CallId, CallError> {
        let (address, headers) = split_headers(uri.as_bytes()).ok_or(CallError::Uri)?;
        let address = uri.get(..address.len()).ok_or(CallError::Uri)?;
        if let Some(replaces) = Replaces::of_headers(headers) {
            ("Replaces: ", &replaces, "\r\nRequire: replaces\r\n").encode(&mut cause.lines);
        }
        self.check_account(account)?;
        let routes = account.and_then(|account| self.registrations.get(account));
        let routes = routes.map_or(&[][..], |registration| &registration.service_route);
        let dialog = self.core.dialog_to(account, address, routes).ok_or(CallError::Uri)?;
        let id = self.core.new_call();
        let call = Call::place(&mut self.core, id, account, dialog, session, cause, now);
        self.calls.insert(call);
        self.settle(now);
        Ok(id)
    }

    /// Sends a ringing response to the caller. With a `session` it announces early media. It is
    /// sent reliably if the caller supports that (RFC 3262). The session is then the answer, or the
    /// offer of this end, and [`Agent::answer`] need not repeat it. A response waits until the
    /// previous one is acknowledged.
    ///
    /// # Errors
    /// [`CallError`] if the call is not an unanswered incoming call.
    pub fn ring(&mut self, now: Instant, call: CallId, session: &[u8]) -> Result<(), CallError> {
        let status = if session.is_empty() { 180 } else { 183 };
        self.progress(now, call, status, b"", session, None)
    }

    /// Answers a call with `session`: the answer to its offer, or an offer if it has none. The
    /// response is sent once an earlier response with a session is acknowledged.
    ///
    /// # Errors
    /// [`CallError`] if the call is not an unanswered incoming call.
    pub fn answer(&mut self, now: Instant, call: CallId, session: &[u8]) -> Result<(), CallError> {
        self.answer_with(now, call, b"", session, None)
    }

    /// Ends the call that the answered `call` replaces, if any.
    pub(crate) fn end_replaced(&mut self, now: Instant, call: CallId) {
        let replaced = self.calls.get(call).and_then(|call| call.replaces);
        if let Some(replaced) = replaced.and_then(|replaced| self.calls.get_mut(replaced)) {
            replaced.be_replaced(&mut self.core, call, now);
            self.settle(now);
        }
    }

    /// Rejects a call with `status`, 300 to 699.
    ///
    /// # Errors
    /// [`CallError`] if the call is not an unanswered incoming call.
    pub fn decline(&mut self, now: Instant, call: CallId, status: u16) -> Result<(), CallError> {
        self.decline_with(now, call, status, b"")
    }

    /// Redirects the caller to `uri` (302).
    ///
    /// # Errors
    /// [`CallError`] if the call is not an unanswered incoming call, or the URI is invalid.
    pub fn redirect(&mut self, now: Instant, call: CallId, uri: &str) -> Result<(), CallError> {
        let is_address = matches!(Uri::parse(uri.as_bytes()), Ok(Uri::Sip(_)));
        if !is_address || uri.contains(['<', '>']) {
            return Err(CallError::Uri);
        }
        self.with(now, call, |call, core| call.redirect_caller(core, uri, now))
    }

    /// Ends a call in any state.
    ///
    /// # Errors
    /// [`CallError::Unknown`] if it has ended.
    pub fn hang_up(&mut self, now: Instant, call: CallId) -> Result<(), CallError> {
        self.hang_up_with(now, call, b"")
    }

    /// Returns true if [`Agent::offer`] is allowed at once: the call is established, and no change
    /// of its session is in progress.
    #[must_use]
    pub fn may_offer(&self, call: CallId) -> bool {
        self.calls.get(call).is_some_and(Call::may_offer)
    }

    /// Returns true if the other end has proved that it receives: it has answered, or has
    /// acknowledged the local answer. A caller with a forged source address has not, and media
    /// would go to any address that it names.
    #[must_use]
    pub fn is_confirmed(&self, call: CallId) -> bool {
        self.calls.get(call).is_some_and(Call::is_confirmed)
    }

    /// Offers a new `session` within an established call, or within a ringing call with a settled
    /// session. It is repeated automatically if both ends have offered at the same time. Until then
    /// a further offer replaces it.
    ///
    /// # Errors
    /// [`CallError`] if the state of the call does not allow it, or a change is in progress.
    pub fn offer(&mut self, now: Instant, call: CallId, session: Vec<u8>) -> Result<(), CallError> {
        self.with(now, call, |call, core| call.offer(core, session, now))
    }

    /// Accepts the change of the session that the other end requests ([`Event::Offer`]).
    ///
    /// # Errors
    /// [`CallError`] if there is no such request.
    pub fn accept(&mut self, now: Instant, call: CallId, session: &[u8]) -> Result<(), CallError> {
        self.with(now, call, |call, core| call.accept(core, session, None, now))
    }

    /// Rejects the change of the session that the other end requests, with `status`, such as 488.
    ///
    /// # Errors
    /// [`CallError`] if there is no such request.
    pub fn refuse(&mut self, now: Instant, call: CallId, status: u16) -> Result<(), CallError> {
        self.with(now, call, |call, core| call.refuse(core, status, b"", now))
    }

    /// Cancels an own offer in a re-INVITE that has no final response: with a CANCEL, as soon as
    /// the other end or a proxy has sent a provisional response (RFC 3261 section 9.1).
    /// [`Event::OfferFailed`] with 487 follows, unless the answer crosses the CANCEL.
    ///
    /// # Errors
    /// [`CallError`] if there is no such offer.
    pub fn cancel_offer(&mut self, now: Instant, call: CallId) -> Result<(), CallError> {
        self.with(now, call, |call, core| call.cancel_offer(core, now))
    }

    /// Transfers the other end: asks it to call `uri` (RFC 3515). [`Event::Transfer`] reports the
    /// progress. Both ends stay in the call until one hangs up.
    ///
    /// # Errors
    /// [`CallError`] if the call is not established, or the URI is invalid.
    pub fn transfer(&mut self, now: Instant, call: CallId, uri: &str) -> Result<(), CallError> {
        let is_address = matches!(Uri::parse(uri.as_bytes()), Ok(Uri::Sip(_)));
        if !is_address || uri.contains(['<', '>', '?']) {
            return Err(CallError::Uri);
        }
        self.with(now, call, |call, core| call.refer(core, uri.as_bytes(), now))
    }

    /// Asks the other end of `call` to replace this end in the call `with` (RFC 5589 section 7).
    ///
    /// # Errors
    /// [`CallError`] if one of the calls is not established.
    pub fn transfer_to(
        &mut self,
        now: Instant,
        call: CallId,
        with: CallId,
    ) -> Result<(), CallError> {
        let target = self.calls.get(with).filter(|_| call != with).ok_or(CallError::Unknown)?;
        let refer_to = target.refer_to_here()?;
        self.with(now, call, |call, core| call.refer(core, &refer_to, now))
    }

    /// Calls the target that the other end of `call` has requested ([`Event::TransferAsked`]), with
    /// the offer `session`. The other end is notified of the progress.
    ///
    /// # Errors
    /// [`CallError`] if there is no such request.
    pub fn follow(
        &mut self,
        now: Instant,
        call: CallId,
        session: Vec<u8>,
    ) -> Result<CallId, CallError> {
        let found = self.calls.get_mut(call).ok_or(CallError::Unknown)?;
        let account = found.account;
        let (uri, cause) = found.follow(&mut self.core, now)?;
        let id = self.place(now, account, &uri, session, cause)?;
        self.core.news.push(News { to: call, status: 100 });
        self.settle(now);
        Ok(id)
    }

    /// Rejects the requested transfer with `status`, such as 603.
    ///
    /// # Errors
    /// [`CallError`] if there is no such request.
    pub fn refuse_transfer(
        &mut self,
        now: Instant,
        call: CallId,
        status: u16,
    ) -> Result<(), CallError> {
        self.with(now, call, |call, core| call.refuse_transfer(core, status, now))
    }

    /// Sends a key to the other end by INFO, for an end that does not accept telephone events.
    ///
    /// # Errors
    /// [`CallError`] if the call is not established.
    pub fn press(&mut self, now: Instant, call: CallId, key: char) -> Result<(), CallError> {
        self.with(now, call, |call, core| call.press(core, key, now))
    }

    /// Sends `text` to `uri`, as `account` or directly. [`Event::MessageSent`] reports the result.
    ///
    /// # Errors
    /// [`CallError::Uri`] if it is not a SIP URI, [`CallError::Account`] if the account does not
    /// exist.
    pub fn message(
        &mut self,
        now: Instant,
        account: Option<AccountId>,
        uri: &str,
        text: &str,
    ) -> Result<MessageId, CallError> {
        self.check_account(account)?;
        let routes = account.and_then(|account| self.registrations.get(account));
        let routes = routes.map_or(&[][..], |registration| &registration.service_route);
        let message = self.core.send_message(account, uri, routes, text, now);
        self.settle(now);
        message.ok_or(CallError::Uri)
    }

    pub(crate) fn with<T>(
        &mut self,
        now: Instant,
        call: CallId,
        act: impl FnOnce(&mut Call, &mut Core) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let found = self.calls.get_mut(call).filter(|call| !call.has_ended());
        let found = found.ok_or(CallError::Unknown)?;
        let done = act(found, &mut self.core);
        self.settle(now);
        done
    }

    /// Delivers progress reports to the calls that requested transfers, removes calls that are
    /// over, and sets the timers of everything that was changed. Each input ends with it.
    pub(crate) fn settle(&mut self, now: Instant) {
        for News { to, status } in core::mem::take(&mut self.core.news) {
            if let Some(call) = self.calls.get_mut(to) {
                call.tell_referrer(&mut self.core, status, now);
            }
        }
        self.calls.settle(&mut self.core);
        self.core.settle();
        self.settle_registrations();
    }

    fn settle_registrations(&mut self) {
        let timers = &mut self.core.timers;
        self.registrations.settle(timers, TimerKey::Registration, |registration| {
            Fate::Keep(registration.next_timer())
        });
    }
}
