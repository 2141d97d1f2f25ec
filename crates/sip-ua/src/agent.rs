//! The agent: what comes in finds whom it is for.

use crate::admission;
use crate::call::{Call, CallError, Cause, refuse_answer};
use crate::capabilities::{self, ALLOW};
use crate::client_transaction::{Heard, Owner};
use crate::config::{Account, AccountId, Config};
use crate::core::{Core, News};
use crate::event::{CallId, Event, Failure, Location, MessageId, Ticket, Transmit};
use crate::message::ACCEPT;
use crate::registration::Registration;
use crate::replaces::Replaces;
use crate::server_transaction::{Answer, Arrival, Asked, ServerKey};
use crate::summary::ALLOW_EVENTS;
use crate::uac::{split_headers, subject_line};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::SocketAddr;
use sip::message::Flaw;
use sip::{Emit, Flow, Instant, Message, Method, Transport, Uri};

/// A user agent. See the [crate] for how it is used.
pub struct Agent {
    core: Core,
    registrations: Vec<Registration>,
    calls: BTreeMap<CallId, Call>,
}

impl Agent {
    /// An agent that works by `config`. Of `secret`, which must be random, all is made that others
    /// must not guess.
    #[must_use]
    pub fn new(config: Config, secret: &[u8; 32]) -> Self {
        let mut core = Core::new(config, secret);
        let accounts = 0..core.config.accounts.len();
        let registrations = accounts
            .filter_map(|account| Registration::new(&mut core, AccountId(account)))
            .collect();
        Self { core, registrations, calls: BTreeMap::new() }
    }

    /// Has `shorten` make session descriptions shorter whose requests are too large for a datagram
    /// and go by UDP all the same, since their receiver takes no TCP. It may leave out what the
    /// answer need not choose from.
    pub const fn shorten_by(&mut self, shorten: fn(&[u8]) -> Vec<u8>) {
        self.core.shorten = Some(shorten);
    }

    /// The next message to send, if there is one.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.core.transmits.pop_front()
    }

    /// The next event, if there is one.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.core.events.pop_front()
    }

    /// When [`Agent::on_timer`] is to be called next.
    #[must_use]
    pub fn next_timer(&self) -> Option<Instant> {
        let calls = self.calls.values().filter_map(Call::next_timer).min();
        let registrations = self.registrations.iter().filter_map(Registration::next_timer).min();
        let transactions = [self.core.clients.next_timer(), self.core.servers.next_timer()];
        transactions.into_iter().chain([calls, registrations]).flatten().min()
    }

    /// Does what is due at `now`.
    pub fn on_timer(&mut self, now: Instant) {
        self.core.poll_servers(now);
        for heard in self.core.poll_clients(now) {
            self.hear(heard, now);
        }
        self.calls.values_mut().for_each(|call| call.on_timer(&mut self.core, now));
        for registration in &mut self.registrations {
            registration.on_timer(&mut self.core, now);
        }
        self.tidy(now);
    }

    /// A datagram, or a message on a stream, has come on `flow`. As long as the owner does not
    /// fetch what there is to send and to be told of, others pile up no more than
    /// [`Config::server_transactions`] of each: what comes beyond that is passed over, but for
    /// final responses.
    pub fn receive(&mut self, now: Instant, flow: &Flow, bytes: &[u8]) {
        let Ok(message) = Message::parse(bytes) else { return };
        // What is taken from it would break the lines of what is sent.
        if message.flaw() == Some(Flaw::LineEnd) {
            return;
        }
        let is_final = message.status().is_some_and(|status| status >= 200);
        if !is_final && self.core.is_full() {
            return;
        }
        if message.status().is_some() {
            if !admission::is_sound(&message) {
                return;
            }
            if let Some(heard) = self.core.on_response(&message, now) {
                self.hear(heard, now);
            }
        } else {
            self.on_request(&message, flow, now);
        }
        self.tidy(now);
    }

    /// A message that [`Agent::poll_transmit`] gave could not be sent, for the reason `failure`. Of
    /// `bytes` the beginning is enough, with Via in it.
    pub fn undeliverable(&mut self, now: Instant, bytes: &[u8], failure: Failure) {
        if let Some(heard) = self.core.on_undeliverable(bytes, failure, now) {
            self.hear(heard, now);
        }
        self.tidy(now);
    }

    /// A connection to `remote` has ended. Whoever is registered through it is not reached any
    /// more, and registers anew.
    pub fn closed(&mut self, now: Instant, transport: Transport, remote: SocketAddr) {
        for registration in &mut self.registrations {
            registration.on_closed(&mut self.core, transport, remote, now);
        }
    }

    /// The answer to [`Event::Locate`]: where the destination is, the preferred first; empty where
    /// it is nowhere.
    pub fn located(&mut self, now: Instant, ticket: Ticket, locations: &[Location]) {
        if let Some((call, ack)) = self.core.acknowledge_at(ticket, locations) {
            if let Some(call) = self.calls.get_mut(&call) {
                call.note_ack(ack);
            }
            return;
        }
        if let Some(heard) = self.core.on_located(ticket, locations, now) {
            self.hear(heard, now);
        }
        self.tidy(now);
    }

    /// Whether what is said about `call` goes to the next server, or to the other end, over a
    /// connection that nobody on the way can read.
    #[must_use]
    pub fn is_secured(&self, call: CallId) -> bool {
        let flow = self.calls.get(&call).and_then(Call::flow);
        flow.is_some_and(|flow| flow.transport.is_secure())
    }

    /// How many calls there are.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.calls.values().filter(|call| !call.has_ended()).count()
    }

    /// How many requests, of either side, are in progress or remembered.
    #[must_use]
    pub fn transactions(&self) -> usize {
        self.core.clients.len() + self.core.servers.len()
    }

    /// Whether a request of ours waits for its answer.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        self.core.clients.is_waiting()
    }

    /// Takes one more account, which registers once [`Agent::register`] says so. `None` where its
    /// URI is no SIP URI.
    pub fn add_account(&mut self, account: Account) -> Option<AccountId> {
        let id = AccountId(self.core.config.accounts.len());
        self.core.config.accounts.push(account);
        let registration = Registration::new(&mut self.core, id);
        if registration.is_none() {
            self.core.config.accounts.pop();
        }
        self.registrations.push(registration?);
        Some(id)
    }

    /// Asks the registrar of an account for nothing more; a registration that is in force runs out.
    /// For an account whose place another one takes, as after a wrong password.
    pub fn forget_account(&mut self, account: AccountId) {
        if let Some(registration) = self.registrations.get_mut(account.0) {
            registration.forget();
        }
    }

    /// Registers an account and keeps it registered.
    pub fn register(&mut self, now: Instant, account: AccountId) {
        if let Some(registration) = self.registrations.get_mut(account.0) {
            registration.start(&mut self.core, now);
        }
    }

    /// Ends the registration of an account.
    pub fn unregister(&mut self, now: Instant, account: AccountId) {
        if let Some(registration) = self.registrations.get_mut(account.0) {
            registration.stop(&mut self.core, now);
        }
    }

    /// The addresses of this machine have changed: registrations are made anew, and calls that
    /// stand go on from the new ones ([`Event::Moved`]).
    pub fn network_changed(&mut self, now: Instant) {
        for registration in &mut self.registrations {
            registration.network_changed(&mut self.core, now);
        }
        self.calls.values_mut().for_each(|call| call.network_changed(&mut self.core, now));
    }

    /// Calls `uri`, as `account` or directly, with the offer `session`; if that is empty, the other
    /// end makes the offer ([`Event::Offer`]). A URI with Replaces in it has another call's place
    /// taken (RFC 3891), and Subject is that of the call; other header fields in it are left out.
    ///
    /// # Errors
    /// [`CallError::Uri`] where it is no SIP URI or there is no such account.
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
            ("Replaces: ", &replaces, "\r\nRequire: replaces\r\n").emit(&mut cause.lines);
        }
        let routes = account.and_then(|account| self.registrations.get(account.0));
        let routes = routes.map_or(&[][..], |registration| &registration.service_route);
        let dialog = self.core.dialog_to(account, address, routes).ok_or(CallError::Uri)?;
        let id = self.core.new_call();
        let call = Call::place(&mut self.core, id, account, dialog, session, cause, now);
        self.calls.insert(id, call);
        Ok(id)
    }

    /// Tells the caller that it rings here; with a `session`, that there is early media. That is
    /// sent reliably where the caller takes it (RFC 3262), and is the answer then, or our offer:
    /// [`Agent::answer`] need not repeat it. What comes before the one before is acknowledged waits
    /// for that.
    ///
    /// # Errors
    /// [`CallError`] where the call does not ring here.
    pub fn ring(&mut self, now: Instant, call: CallId, session: &[u8]) -> Result<(), CallError> {
        self.with(call, |call, core| call.ring(core, session, now))
    }

    /// Answers a call with `session`: the answer to its offer, or an offer where it had none. It
    /// goes out as soon as what was said before, with a session, is acknowledged.
    ///
    /// # Errors
    /// [`CallError`] where the call does not ring here.
    pub fn answer(&mut self, now: Instant, call: CallId, session: &[u8]) -> Result<(), CallError> {
        self.with(call, |call, core| call.answer(core, session, now))?;
        let replaced = self.calls.get(&call).and_then(|call| call.replaces);
        if let Some(replaced) = replaced.and_then(|replaced| self.calls.get_mut(&replaced)) {
            replaced.be_replaced(&mut self.core, call, now);
            self.tidy(now);
        }
        Ok(())
    }

    /// Refuses a call with `status`, 300 to 699.
    ///
    /// # Errors
    /// [`CallError`] where the call does not ring here.
    pub fn decline(&mut self, now: Instant, call: CallId, status: u16) -> Result<(), CallError> {
        self.with(call, |call, core| {
            if !call.is_ringing_here() {
                return Err(CallError::State("ringing"));
            }
            call.decline(core, status, now);
            Ok(())
        })
    }

    /// Sends the caller elsewhere, to `uri` (302).
    ///
    /// # Errors
    /// [`CallError`] where the call does not ring here, or the URI is none.
    pub fn redirect(&mut self, now: Instant, call: CallId, uri: &str) -> Result<(), CallError> {
        let is_address = matches!(Uri::parse(uri.as_bytes()), Ok(Uri::Sip(_)));
        if !is_address || uri.contains(['<', '>']) {
            return Err(CallError::Uri);
        }
        self.with(call, |call, core| call.redirect_caller(core, uri, now))
    }

    /// Ends a call, however far it is.
    ///
    /// # Errors
    /// [`CallError::Unknown`] where it is over.
    pub fn hang_up(&mut self, now: Instant, call: CallId) -> Result<(), CallError> {
        self.with(call, |call, core| {
            call.hang_up(core, now);
            Ok(())
        })
    }

    /// Whether [`Agent::offer`] may be made: the call stands, and no change of its session is under
    /// way.
    #[must_use]
    pub fn may_offer(&self, call: CallId) -> bool {
        self.calls.get(&call).is_some_and(Call::may_offer)
    }

    /// Whether the other end of a call has shown that it hears us: it has answered, or has
    /// acknowledged our answer. Who calls under another's address has not, and media would go to
    /// whomever he names.
    #[must_use]
    pub fn is_confirmed(&self, call: CallId) -> bool {
        self.calls.get(&call).is_some_and(Call::is_confirmed)
    }

    /// Offers another `session` within a call that stands, or that rings with a session that is
    /// settled. It is offered again by itself where both ends have offered at once; another one
    /// takes its place until then.
    ///
    /// # Errors
    /// [`CallError`] where the call is not so far, or a change is under way.
    pub fn offer(&mut self, now: Instant, call: CallId, session: Vec<u8>) -> Result<(), CallError> {
        self.with(call, |call, core| call.offer(core, session, now))
    }

    /// Takes the change of the session that the other end asks for ([`Event::Offer`]).
    ///
    /// # Errors
    /// [`CallError`] where none was asked for.
    pub fn accept(&mut self, now: Instant, call: CallId, session: &[u8]) -> Result<(), CallError> {
        self.with(call, |call, core| call.accept(core, session, now))
    }

    /// Refuses the change of the session that the other end asks for, with `status`, such as 488.
    ///
    /// # Errors
    /// [`CallError`] where none was asked for.
    pub fn refuse(&mut self, now: Instant, call: CallId, status: u16) -> Result<(), CallError> {
        self.with(call, |call, core| call.refuse(core, status, now))
    }

    /// Asks the other end to call `uri` instead (RFC 3515). What becomes of it:
    /// [`Event::Transfer`]. Both ends stay in the call until one hangs up.
    ///
    /// # Errors
    /// [`CallError`] where the call does not stand, or the URI is none.
    pub fn transfer(&mut self, now: Instant, call: CallId, uri: &str) -> Result<(), CallError> {
        let is_address = matches!(Uri::parse(uri.as_bytes()), Ok(Uri::Sip(_)));
        if !is_address || uri.contains(['<', '>', '?']) {
            return Err(CallError::Uri);
        }
        self.with(call, |call, core| call.refer(core, uri.as_bytes(), now))
    }

    /// Asks the other end of `call` to take the place of this end in the call `with` (RFC 5589
    /// section 7).
    ///
    /// # Errors
    /// [`CallError`] where one of the calls does not stand.
    pub fn transfer_to(
        &mut self,
        now: Instant,
        call: CallId,
        with: CallId,
    ) -> Result<(), CallError> {
        let target = self.calls.get(&with).filter(|_| call != with).ok_or(CallError::Unknown)?;
        let refer_to = target.refer_to_here()?;
        self.with(call, |call, core| call.refer(core, &refer_to, now))
    }

    /// Calls whom the other end of `call` wishes ([`Event::TransferAsked`]), with the offer
    /// `session`. The other end is told how that goes.
    ///
    /// # Errors
    /// [`CallError`] where nothing was wished.
    pub fn follow(
        &mut self,
        now: Instant,
        call: CallId,
        session: Vec<u8>,
    ) -> Result<CallId, CallError> {
        let found = self.calls.get_mut(&call).ok_or(CallError::Unknown)?;
        let account = found.account;
        let (uri, cause) = found.follow(&mut self.core, now)?;
        let id = self.place(now, account, &uri, session, cause)?;
        self.core.news.push(News { to: call, status: 100 });
        self.tidy(now);
        Ok(id)
    }

    /// Does not call whom the other end wishes, and says so with `status`, such as 603.
    ///
    /// # Errors
    /// [`CallError`] where nothing was wished.
    pub fn refuse_transfer(
        &mut self,
        now: Instant,
        call: CallId,
        status: u16,
    ) -> Result<(), CallError> {
        self.with(call, |call, core| call.refuse_transfer(core, status, now))
    }

    /// Tells the other end by INFO of a key: for where it takes no telephone events.
    ///
    /// # Errors
    /// [`CallError`] where the call does not stand.
    pub fn press(&mut self, now: Instant, call: CallId, key: char) -> Result<(), CallError> {
        self.with(call, |call, core| call.press(core, key, now))
    }

    /// Sends `text` to `uri`, as `account` or directly. What becomes of it: [`Event::MessageSent`].
    ///
    /// # Errors
    /// [`CallError::Uri`] where it is no SIP URI or there is no such account.
    pub fn message(
        &mut self,
        now: Instant,
        account: Option<AccountId>,
        uri: &str,
        text: &str,
    ) -> Result<MessageId, CallError> {
        let routes = account.and_then(|account| self.registrations.get(account.0));
        let routes = routes.map_or(&[][..], |registration| &registration.service_route);
        self.core.send_message(account, uri, routes, text, now).ok_or(CallError::Uri)
    }

    fn with(
        &mut self,
        call: CallId,
        act: impl FnOnce(&mut Call, &mut Core) -> Result<(), CallError>,
    ) -> Result<(), CallError> {
        let found = self.calls.get_mut(&call).filter(|call| !call.has_ended());
        let found = found.ok_or(CallError::Unknown)?;
        let done = act(found, &mut self.core);
        self.calls.retain(|_, call| !call.is_over());
        done
    }

    /// Tells news of calls to whom they are for, and forgets calls that are over.
    fn tidy(&mut self, now: Instant) {
        for News { to, status } in core::mem::take(&mut self.core.news) {
            if let Some(call) = self.calls.get_mut(&to) {
                call.tell_referrer(&mut self.core, status, now);
            }
        }
        self.calls.retain(|_, call| !call.is_over());
    }

    /// Something has come of one of our requests.
    fn hear(&mut self, heard: Heard<'_>, now: Instant) {
        match heard.owner {
            Owner::Registration(account) => {
                if let Some(registration) = self.registrations.get_mut(account.0) {
                    registration.on_heard(&mut self.core, &heard, now);
                }
            }
            Owner::Call(call) => match self.calls.get_mut(&call) {
                Some(call) => call.on_heard(&mut self.core, heard, now),
                None => self.on_stray_answer(&heard, now),
            },
            Owner::Message(message) => self.core.on_message_heard(message, &heard),
            Owner::Nobody => self.on_stray_answer(&heard, now),
        }
    }

    /// Something has come of a request whose call is over: whoever answers then is hung up.
    fn on_stray_answer(&mut self, heard: &Heard<'_>, now: Instant) {
        if let Ok(response) = heard.what
            && heard.method == Method::Invite
            && response.status().is_some_and(|status| (200..300).contains(&status))
        {
            refuse_answer(&mut self.core, None, response, heard.flow, now);
        }
    }

    fn on_request(&mut self, request: &Message<'_>, flow: &Flow, now: Instant) {
        let head = match request.check() {
            Ok(head) => head,
            Err(fault) => {
                if request.method() != Some(Method::Ack) {
                    let answer = Answer::status(fault.status(), b"bad");
                    self.core.respond_once(request, flow, &answer);
                }
                return;
            }
        };
        match head.method {
            Method::Ack => return self.on_ack(request, now),
            Method::Cancel => return self.on_cancel(request, flow, now),
            _ => {}
        }
        let has_tag = head.to.tag().is_some();
        let call = self.calls.values_mut().find(|call| has_tag && call.has(request));
        let Arrival::New(key) = self.core.arrive(request, flow, call.is_some()) else { return };
        let unsupported = capabilities::unsupported_lines(&self.core.config, request);
        match call {
            Some(call) if !unsupported.is_empty() => {
                let tag = call.local_tag();
                let answer = Answer { status: 420, tag: &tag, lines: &unsupported, body: b"" };
                self.core.respond(request, flow, key, &answer, now);
            }
            Some(call) => call.on_request(&mut self.core, request, flow, key, now),
            None if !unsupported.is_empty() => self.reply(request, flow, key, 420, &unsupported),
            None if has_tag => self.reply(request, flow, key, 481, b""),
            None => self.on_new_request(request, flow, key, now),
        }
    }

    fn on_ack(&mut self, ack: &Message<'_>, now: Instant) {
        if !self.core.acknowledge(ack, now) {
            return;
        }
        if let Some(call) = self.calls.values_mut().find(|call| call.has(ack)) {
            call.on_ack(&mut self.core, ack);
        }
    }

    fn on_cancel(&mut self, cancel: &Message<'_>, flow: &Flow, now: Instant) {
        let Some((_, call)) = self.core.invite_of(cancel) else {
            return self.core.respond_once(cancel, flow, &Answer::status(481, b"none"));
        };
        let call = call.and_then(|call| self.calls.get_mut(&call));
        let tag = call.as_ref().map_or(Vec::new(), |call| call.local_tag());
        self.core.respond_once(cancel, flow, &Answer::status(200, &tag));
        if let Some(call) = call {
            call.on_cancel(&mut self.core, cancel, now);
        }
    }

    /// A request outside of any dialog.
    fn on_new_request(&mut self, request: &Message<'_>, flow: &Flow, key: ServerKey, now: Instant) {
        let begins =
            matches!(request.method(), Some(Method::Invite | Method::Message | Method::Notify));
        if begins && !self.core.admits(flow) {
            return self.reply(request, flow, key, 403, b"");
        }
        match request.method() {
            Some(Method::Invite) => self.on_invite(request, flow, key, now),
            Some(Method::Options) => {
                let lines = [ALLOW, b"Accept: application/sdp\r\n"].concat();
                self.reply(request, flow, key, 200, &lines);
            }
            Some(Method::Message) => {
                let account = self.core.account_of(request);
                match self.core.on_message(account, request, flow) {
                    // Once more it would be told once more.
                    200 => {
                        let tag = self.core.tag_of(key);
                        let answer = Answer::status(200, &tag);
                        self.core.respond(request, flow, key, &answer, now);
                    }
                    status => self.reply(request, flow, key, status, ACCEPT),
                }
            }
            Some(Method::Notify) => match self.core.on_unasked_notify(request) {
                // Once more it would be told once more.
                200 => {
                    let tag = self.core.tag_of(key);
                    self.core.respond(request, flow, key, &Answer::status(200, &tag), now);
                }
                status => self.reply(request, flow, key, status, ALLOW_EVENTS),
            },
            Some(Method::Bye | Method::Info | Method::Update | Method::Prack) => {
                self.reply(request, flow, key, 481, b"");
            }
            Some(Method::Other(_)) | None => self.reply(request, flow, key, 501, b""),
            Some(_) => self.reply(request, flow, key, 405, ALLOW),
        }
    }

    fn on_invite(&mut self, invite: &Message<'_>, flow: &Flow, key: ServerKey, now: Instant) {
        let replaces = match admission::admit(&self.core, &self.calls, invite, key) {
            Ok(replaces) => replaces,
            Err(status) => return self.reply(invite, flow, key, status, b""),
        };
        let account = self.core.account_of(invite);
        let id = self.core.new_call();
        let asked = Asked { request: invite.as_bytes().to_vec(), flow: *flow, key };
        match Call::take(&mut self.core, id, account, invite, asked, replaces, now) {
            Ok(call) => drop(self.calls.insert(id, call)),
            Err((status, lines)) => self.reply(invite, flow, key, status, &lines),
        }
    }

    /// Answers a request outside of any dialog of which nothing comes here.
    fn reply(
        &mut self,
        request: &Message<'_>,
        flow: &Flow,
        key: ServerKey,
        status: u16,
        lines: &[u8],
    ) {
        self.core.respond_statelessly(request, flow, key, status, lines);
    }
}
