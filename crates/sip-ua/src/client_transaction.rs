//! Requests of ours on their way: each is a client transaction (RFC 3261 section 17.1), and another
//! one each time that it goes elsewhere or with credentials.

use crate::config::AccountId;
use crate::draft::Draft;
use crate::event::{CallId, Failure, MessageId, Ticket};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use sip::transaction::{ClientTransaction, Kind, Timers};
use sip::{Flow, Instant, Message, Method, Transport};

/// One of our requests, however often it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClientId(u64);

/// Who is told what comes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Registration(AccountId),
    Call(CallId),
    Message(MessageId),
    /// Nobody: what comes of a CANCEL comes of its INVITE.
    Nobody,
}

/// What has come of a request.
pub(crate) struct Heard<'m> {
    pub(crate) owner: Owner,
    /// Which request it was.
    pub(crate) id: ClientId,
    pub(crate) method: Method<'static>,
    /// The way that it went, where it went any.
    pub(crate) flow: Option<Flow>,
    pub(crate) what: Result<&'m Message<'m>, Failure>,
}

/// A request on its way.
pub(crate) struct Client {
    pub(crate) draft: Draft,
    pub(crate) owner: Owner,
    /// Ways to try when this one fails.
    pub(crate) others: VecDeque<Flow>,
    /// Lines with credentials.
    pub(crate) authorization: Vec<u8>,
    pub(crate) challenges: u8,
    /// Whether somebody else has said where it goes: credentials are given then to where the
    /// account is registered, and to nobody else.
    pub(crate) is_redirected: bool,
    pub(crate) state: State,
}

pub(crate) enum State {
    /// It is being found out where it goes.
    Locating(Ticket),
    Sent(Sent),
}

pub(crate) struct Sent {
    pub(crate) flow: Flow,
    /// Whether it goes by TCP since it is too large for a datagram.
    pub(crate) is_promoted: bool,
    pub(crate) branch: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) machine: ClientTransaction,
    /// The ACK of a final response that was none of 2xx, to be sent again with it.
    pub(crate) ack: Vec<u8>,
    /// Whether there was a provisional response: only then may it be cancelled (RFC 3261 section
    /// 9.1).
    pub(crate) is_proceeding: bool,
    /// Whether one was more than 100, which each proxy on the way may send.
    pub(crate) is_passed_on: bool,
    pub(crate) cancel: Cancel,
    /// Its owner has heard that nobody answers. A 2xx that comes until then all the same is ended.
    pub(crate) given_up: Option<Instant>,
}

/// Whether a request is to be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    No,
    /// As soon as there is a provisional response.
    Wanted,
    /// It was sent; by then there has to be an end.
    Sent(Instant),
}

impl Sent {
    /// A transaction that begins with `bytes`, a request of `method`.
    pub(crate) fn new(
        flow: Flow,
        branch: u64,
        method: Method<'_>,
        bytes: Vec<u8>,
        timers: &Timers,
        now: Instant,
    ) -> Self {
        let kind = if method == Method::Invite { Kind::Invite } else { Kind::NonInvite };
        Self {
            flow,
            is_promoted: false,
            branch,
            bytes,
            machine: ClientTransaction::new(kind, flow.transport.is_stream(), timers, now),
            ack: Vec::new(),
            is_proceeding: false,
            is_passed_on: false,
            cancel: Cancel::No,
            given_up: None,
        }
    }

    /// The flow as it was chosen, which the next request may take.
    pub(crate) fn chosen_flow(&self) -> Flow {
        match self.is_promoted {
            true => Flow { transport: Transport::Udp, connection: None, ..self.flow },
            false => self.flow,
        }
    }

    /// Whether its owner has heard all that there was to hear, but for further 2xx.
    pub(crate) fn only_waits(&self) -> bool {
        self.machine.only_waits() || self.given_up.is_some()
    }

    fn next_timer(&self) -> Option<Instant> {
        let cancel = match self.cancel {
            _ if self.given_up.is_some() => return self.given_up,
            Cancel::Sent(give_up) if !self.machine.only_waits() => Some(give_up),
            _ => None,
        };
        [self.machine.next_timer(), cancel].into_iter().flatten().min()
    }
}

/// All requests on their way.
#[derive(Default)]
pub(crate) struct Clients {
    pub(crate) all: BTreeMap<ClientId, Client>,
    /// By what stands in the branch; a CANCEL has that of its INVITE.
    pub(crate) by_branch: BTreeMap<(u64, bool), ClientId>,
    /// Requests to URIs that lead nowhere.
    pub(crate) unlocatable: Vec<Ticket>,
    count: u64,
}

impl Clients {
    /// Takes a new request in.
    pub(crate) fn insert(&mut self, draft: Draft, owner: Owner, state: State) -> ClientId {
        self.count += 1;
        let id = ClientId(self.count);
        let client = Client {
            draft,
            owner,
            others: VecDeque::new(),
            authorization: Vec::new(),
            challenges: 0,
            is_redirected: false,
            state,
        };
        self.all.insert(id, client);
        id
    }

    /// Forgets a request.
    pub(crate) fn remove(&mut self, id: ClientId) -> Option<Client> {
        let client = self.all.remove(&id)?;
        if let State::Sent(sent) = &client.state {
            let key = (sent.branch, client.draft.method == Method::Cancel);
            if self.by_branch.get(&key) == Some(&id) {
                self.by_branch.remove(&key);
            }
        }
        Some(client)
    }

    pub(crate) fn method_of(&self, id: ClientId) -> Option<Method<'static>> {
        self.all.get(&id).map(|client| client.draft.method)
    }

    /// Whether a request waits for its answer.
    pub(crate) fn is_waiting(&self) -> bool {
        let is_waiting = |client: &Client| match &client.state {
            State::Locating(_) => true,
            State::Sent(sent) => !sent.only_waits(),
        };
        self.all.values().any(is_waiting)
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn next_timer(&self) -> Option<Instant> {
        if !self.unlocatable.is_empty() {
            return Some(Instant::ZERO);
        }
        let next = |client: &Client| match &client.state {
            State::Sent(sent) => sent.next_timer(),
            State::Locating(_) => None,
        };
        self.all.values().filter_map(next).min()
    }
}
