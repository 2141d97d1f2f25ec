//! The state that all parts of the agent share.

use crate::acks::Acks;
use crate::client_transaction::{ClientId, Clients};
use crate::config::{AccountId, Config};
use crate::event::{CallId, Event, MessageId, RequestId, Ticket};
use crate::server_transaction::{Asked, ServerKey, Servers};
use crate::table::Fate;
use crate::timer_queue::TimerQueue;
use crate::token::{Token, Tokens};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use sip::uri::is_sips;
use sip::{Encode, Flow, Transmit, Transport};

/// The progress of a call that another call's peer has requested.
pub(crate) struct News {
    /// The call to notify.
    pub(crate) to: CallId,
    pub(crate) status: u16,
}

/// A request that the owner passes on.
pub(crate) struct Passed {
    pub(crate) call: CallId,
    pub(crate) asked: Asked,
    /// The tag of its response.
    pub(crate) tag: Vec<u8>,
}

/// An owner of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TimerKey {
    Server(ServerKey),
    Client(ClientId),
    Call(CallId),
    Registration(AccountId),
}

/// The key of the dialogs of a call: a keyed hash of the Call-ID and the local tag, which all
/// dialogs of one INVITE share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DialogKey(u64);

/// Shortens a session description, or returns it unchanged.
pub(crate) type Shorten = fn(&[u8]) -> Vec<u8>;

/// The configuration, the transactions, and the outputs.
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) tokens: Tokens,
    pub(crate) clients: Clients,
    pub(crate) servers: Servers,
    pub(crate) timers: TimerQueue<TimerKey>,
    pub(crate) transmits: VecDeque<Transmit>,
    pub(crate) events: VecDeque<Event>,
    /// The first account with each user part.
    users: BTreeMap<Vec<u8>, AccountId>,
    /// True if an account registers.
    pub(crate) has_registrar: bool,
    /// Pending progress reports to the calls that requested transfers.
    pub(crate) news: Vec<News>,
    /// The addresses of the servers where accounts are registered. Requests from them are admitted.
    pub(crate) proxies: BTreeSet<IpAddr>,
    /// Peers that have refused TCP for a request that exceeds a datagram.
    pub(crate) without_tcp: BTreeSet<SocketAddr>,
    /// See [`Agent::shorten_by`](crate::Agent::shorten_by).
    pub(crate) shorten: Option<Shorten>,
    /// The ACKs of 2xx that may have to be sent, or sent again, on another flow.
    pub(crate) acks: Acks,
    /// The requests that the owner passes on, and their number for each call that has some.
    pub(crate) passed: BTreeMap<RequestId, Passed>,
    pub(crate) passed_of: BTreeMap<CallId, usize>,
    /// The number of ended calls whose BYE waits for an ACK.
    pub(crate) leaving: usize,
    numbers: u64,
}

impl Core {
    pub(crate) fn new(config: Config, secret: &[u8; 32]) -> Self {
        let accounts = (0..config.accounts.len()).map(AccountId);
        let mut core = Self {
            config,
            tokens: Tokens::new(secret),
            clients: Clients::default(),
            servers: Servers::default(),
            timers: TimerQueue::default(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            users: BTreeMap::new(),
            has_registrar: false,
            news: Vec::new(),
            proxies: BTreeSet::new(),
            without_tcp: BTreeSet::new(),
            shorten: None,
            acks: Acks::default(),
            passed: BTreeMap::new(),
            passed_of: BTreeMap::new(),
            leaving: 0,
            numbers: 0,
        };
        accounts.for_each(|account| core.note_account(account));
        core
    }

    /// Records a new account of the configuration.
    pub(crate) fn note_account(&mut self, id: AccountId) {
        let Some(account) = self.config.accounts.get(id.0) else { return };
        self.has_registrar |= account.registers;
        let uri = sip::Uri::parse(account.uri.as_bytes()).ok();
        let user = uri.as_ref().and_then(|uri| uri.as_sip()).and_then(|uri| uri.user);
        if let Some(user) = user {
            self.users.entry(user.to_vec()).or_insert(id);
        }
    }

    /// Returns the first account with the user part `user`.
    pub(crate) fn account_with(&self, user: &[u8]) -> Option<AccountId> {
        self.users.get(user).copied()
    }

    pub(crate) fn send(&mut self, flow: Flow, bytes: Vec<u8>) {
        self.transmits.push_back(Transmit { flow, bytes });
    }

    pub(crate) fn tell(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Returns true if the outputs are full, so that peers have to wait until the owner polls them.
    pub(crate) fn is_full(&self) -> bool {
        self.transmits.len().max(self.events.len()) >= self.config.server_transactions
    }

    /// Sets the timers of changed transactions.
    pub(crate) fn settle(&mut self) {
        let Self { clients, servers, timers, .. } = self;
        clients.settle(timers, TimerKey::Client);
        servers
            .all
            .settle(timers, TimerKey::Server, |server| Fate::Keep(server.machine.next_timer()));
    }

    pub(crate) fn dialog_key(&self, call_id: &[u8], local_tag: &[u8]) -> DialogKey {
        DialogKey(self.tokens.hash(&[call_id, local_tag]))
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(crate) fn new_call(&mut self) -> CallId {
        CallId(self.number())
    }

    pub(crate) fn new_message(&mut self) -> MessageId {
        MessageId(self.number())
    }

    pub(crate) fn new_request(&mut self) -> RequestId {
        RequestId(self.number())
    }

    pub(crate) fn new_ticket(&mut self) -> Ticket {
        Ticket(self.number())
    }

    /// Returns the user part of the local contact for `account`, and `@` with the host if that is
    /// not the local address.
    #[cfg(feature = "web")]
    pub(crate) fn contact_user(&self, account: Option<AccountId>) -> Vec<u8> {
        let mut user = self.user_of_contact(account);
        let account = account.filter(|_| !self.config.passes);
        let account = account.and_then(|account| self.config.accounts.get(account.0));
        if let Some(host) = account.and_then(|account| account.contact_host.as_ref()) {
            ("@", host.as_str()).encode(&mut user);
        }
        user
    }

    /// Returns the user part of the local contact for `account`.
    #[cfg(not(feature = "web"))]
    pub(crate) fn contact_user(&self, account: Option<AccountId>) -> Vec<u8> {
        self.user_of_contact(account)
    }

    fn user_of_contact(&self, account: Option<AccountId>) -> Vec<u8> {
        // The contact of a call on behalf of another party is that of the agent.
        let account = account.filter(|_| !self.config.passes);
        let account = account.and_then(|account| self.config.accounts.get(account.0));
        if let Some(contact) = account.and_then(|account| account.contact.as_ref()) {
            return sip::uri::escape_user(contact.as_bytes()).into_owned();
        }
        let uri = account.map(|account| &account.uri).or(self.config.from.as_ref());
        let uri = uri.and_then(|uri| sip::Uri::parse(uri.as_bytes()).ok());
        let user = uri.and_then(|uri| uri.as_sip().and_then(|uri| uri.user.map(<[u8]>::to_vec)));
        user.unwrap_or_else(|| sip::uri::escape_user(self.config.user.as_bytes()).into_owned())
    }
}

/// Returns the local contact on `flow` for a request for `uri`, in angle brackets. It is a SIPS URI
/// if `uri` is one (RFC 3261 section 8.1.1.8). The host is the local address, unless `user` has
/// one.
pub fn contact<'a>(user: &'a [u8], flow: &Flow, uri: &[u8]) -> impl Encode + use<'a> {
    let transport = flow.transport;
    let is_sips = is_sips(uri);
    // A SIPS URI implies TLS (RFC 5630 section 3.1.3).
    let is_said = is_sips && transport == Transport::Tls;
    let params =
        (transport.is_stream() && !is_said).then(|| (";transport=", transport.uri_param()));
    // The user part has no `@`: it is escaped.
    let has_host = cfg!(feature = "web") && user.contains(&b'@');
    let local = (!has_host).then_some(("@", flow.local));
    (if is_sips { "<sips:" } else { "<sip:" }, user, local, params, ">")
}

/// Returns the value of the local Via for a request on `flow`.
pub fn via(flow: &Flow, branch: Token) -> impl Encode {
    let transport = flow.transport.via_name();
    ("SIP/2.0/", transport, " ", flow.local, ";rport;branch=z9hG4bK", branch)
}
