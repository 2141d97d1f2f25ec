//! The client transactions (RFC 3261 section 17.1). A request has a new one for each location, and
//! when it is sent with credentials.

use crate::config::AccountId;
use crate::draft::Draft;
use crate::event::{CallId, Failure, MessageId, RequestId, Ticket};
use crate::table::{Fate, Table};
use crate::timer_queue::TimerQueue;
use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use hashbrown::HashMap;
use sip::transaction::{ClientTransaction, Timers, TransactionKind};
use sip::{Flow, HeaderName, Instant, Message, Method, Transport};

/// The identifier of a local request over all its transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientId(u64);

impl ClientId {
    const MIN: Self = Self(0);
    const MAX: Self = Self(u64::MAX);
}

/// The receiver of the result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Registration(AccountId),
    Call(CallId),
    Message(MessageId),
    /// The owner of the agent, for an OPTIONS outside of any dialog.
    Options(RequestId),
    /// The subscription to message counts of the account.
    #[cfg(feature = "messages")]
    Messages(AccountId),
    /// The owner of the agent, for a request that it passes on.
    Passed(RequestId),
    /// No receiver: the result of a CANCEL is that of its INVITE.
    None,
}

/// The result of a request: a response or a failure.
pub(crate) struct RequestResult<'m> {
    pub(crate) owner: Owner,
    /// The request.
    pub(crate) id: ClientId,
    pub(crate) method: Method<'static>,
    /// The flow of the request, if it was sent.
    pub(crate) flow: Option<Flow>,
    pub(crate) outcome: Result<&'m Message<'m>, Failure>,
}

impl RequestResult<'_> {
    /// Returns the final result. `None` for a provisional response.
    pub(crate) fn final_result(&self) -> Option<Result<(), Failure>> {
        match &self.outcome {
            Ok(response) => match response.status().unwrap_or_default() {
                ..200 => None,
                200..300 => Some(Ok(())),
                _ => Some(Err(Failure::refused_by(response))),
            },
            Err(failure) => Some(Err(failure.clone())),
        }
    }
}

/// A local request.
pub(crate) struct Client {
    pub(crate) draft: Draft,
    pub(crate) owner: Owner,
    /// The remaining locations to try.
    pub(crate) others: VecDeque<Flow>,
    /// Header field lines with credentials.
    pub(crate) authorization: Vec<u8>,
    pub(crate) challenges: u8,
    /// True if another party has chosen the target. Then only a server where the account is
    /// registered receives credentials.
    pub(crate) is_redirected: bool,
    pub(crate) state: State,
    /// The header field lines of its CANCEL.
    pub(crate) cancel_lines: Vec<u8>,
    /// True if [`Clients::waiting`] counts it.
    is_counted: bool,
}

pub(crate) enum State {
    /// The destination is being located.
    Locating(Ticket),
    /// The destination cannot be located: the request fails at the next timer, as for a name that
    /// is not found.
    Unlocatable,
    Sent(Sent),
}

pub(crate) struct Sent {
    pub(crate) flow: Flow,
    /// True if the request goes by TCP because it exceeds a datagram.
    pub(crate) is_promoted: bool,
    pub(crate) branch: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) machine: ClientTransaction,
    /// The ACK of the final response to an INVITE, which is sent again for each retransmission of
    /// it, and its flow.
    pub(crate) ack: Option<Box<(Flow, Vec<u8>)>>,
    /// True after a provisional response. Only then CANCEL is allowed (RFC 3261 section 9.1).
    pub(crate) is_proceeding: bool,
    /// True after a provisional response other than 100, which each proxy on the path may send.
    pub(crate) is_passed_on: bool,
    pub(crate) cancel: Cancel,
    /// The time until which a late 2xx is still accepted and ended. The owner has received the
    /// timeout.
    pub(crate) given_up: Option<Instant>,
}

/// The state of the cancellation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    No,
    /// CANCEL follows the first provisional response.
    Wanted,
    /// CANCEL was sent. The request ends at this time at the latest.
    Sent(Instant),
}

impl Sent {
    /// Returns the state of a transaction that starts with `bytes`, a request of `method`.
    pub(crate) fn new(
        flow: Flow,
        branch: u64,
        method: Method<'_>,
        bytes: Vec<u8>,
        timers: &Timers,
        now: Instant,
    ) -> Self {
        let kind = if method == Method::Invite {
            TransactionKind::Invite
        } else {
            TransactionKind::NonInvite
        };
        Self {
            flow,
            is_promoted: false,
            branch,
            bytes,
            machine: ClientTransaction::new(kind, flow.transport.is_stream(), timers, now),
            ack: None,
            is_proceeding: false,
            is_passed_on: false,
            cancel: Cancel::No,
            given_up: None,
        }
    }

    /// Returns the flow as it was located, without the promotion to TCP. The next request may use
    /// it.
    pub(crate) fn chosen_flow(&self) -> Flow {
        match self.is_promoted {
            true => Flow { transport: Transport::Udp, connection: None, ..self.flow },
            false => self.flow,
        }
    }

    /// Returns true if the owner has received the final result, except for further 2xx.
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

impl Client {
    /// Returns true for an INVITE.
    fn is_invite(&self) -> bool {
        self.draft.method == Method::Invite
    }

    /// Returns true until the final response.
    fn is_waiting(&self) -> bool {
        match &self.state {
            State::Locating(_) | State::Unlocatable => true,
            State::Sent(sent) => !sent.only_waits(),
        }
    }

    /// Drops the text of a request that is not sent again: its transaction only waits for
    /// retransmissions of the final response. The ACK of an INVITE needs its credentials (RFC 3261
    /// section 13.2.2.4).
    pub(crate) fn drop_request(&mut self) {
        let is_invite = self.is_invite();
        let State::Sent(sent) = &mut self.state else { return };
        if sent.only_waits() {
            (sent.bytes, self.draft.body, self.cancel_lines) = Default::default();
            let lines = core::mem::take(&mut self.draft.lines);
            match is_invite {
                true => self.authorization.extend(credentials_in(&lines)),
                false => self.authorization = Vec::new(),
            }
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        match &self.state {
            State::Locating(_) => None,
            State::Unlocatable => Some(Instant::ZERO),
            State::Sent(sent) => sent.next_timer(),
        }
    }
}

/// Returns the header field lines with credentials among the complete ones in `lines`.
fn credentials_in(lines: &[u8]) -> impl Iterator<Item = &u8> {
    let names = [HeaderName::Authorization, HeaderName::ProxyAuthorization];
    let lines = lines.split_inclusive(|byte| *byte == b'\n');
    let with = lines.filter(move |line| {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        names.contains(&HeaderName::new(name.trim_ascii_end()))
    });
    with.flatten()
}

/// All client transactions.
#[derive(Default)]
pub(crate) struct Clients {
    pub(crate) all: Table<ClientId, Client>,
    /// The sent requests by the token of the branch. The flag is true for a CANCEL, which has the
    /// branch of its INVITE.
    by_branch: HashMap<(u64, bool), ClientId>,
    /// The requests that are being located.
    by_ticket: HashMap<Ticket, ClientId>,
    /// The INVITEs of calls.
    invites: BTreeSet<(CallId, ClientId)>,
    count: u64,
    /// The number of requests that wait for their final response.
    waiting: usize,
}

impl Clients {
    /// Adds a request.
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
            cancel_lines: Vec::new(),
            is_counted: false,
        };
        match &client.state {
            State::Locating(ticket) => drop(self.by_ticket.insert(*ticket, id)),
            State::Sent(sent) => drop(self.by_branch.insert(branch_key(&client, sent), id)),
            State::Unlocatable => {}
        }
        if let Owner::Call(call) = client.owner
            && client.is_invite()
        {
            self.invites.insert((call, id));
        }
        self.all.insert(id, client);
        id
    }

    /// Starts a transaction of a request, in place of its previous one.
    pub(crate) fn start(&mut self, id: ClientId, sent: Sent) {
        let Some(client) = self.all.get_mut(id) else { return };
        self.by_branch.insert(branch_key(client, &sent), id);
        let before = core::mem::replace(&mut client.state, State::Sent(sent));
        match before {
            State::Locating(ticket) => drop(self.by_ticket.remove(&ticket)),
            State::Sent(sent) => drop(self.by_branch.remove(&branch_key(client, &sent))),
            State::Unlocatable => {}
        }
    }

    /// Removes a request.
    pub(crate) fn remove(&mut self, id: ClientId) -> Option<Client> {
        let client = self.all.remove(id)?;
        self.waiting -= usize::from(client.is_counted);
        match &client.state {
            State::Locating(ticket) => drop(self.by_ticket.remove(ticket)),
            State::Sent(sent) => drop(self.by_branch.remove(&branch_key(&client, sent))),
            State::Unlocatable => {}
        }
        if let Owner::Call(call) = client.owner {
            self.invites.remove(&(call, id));
        }
        Some(client)
    }

    /// Returns the request by the token `branch` of its current transaction: a CANCEL, or another
    /// request.
    pub(crate) fn of_branch(&self, branch: u64, is_cancel: bool) -> Option<ClientId> {
        self.by_branch.get(&(branch, is_cancel)).copied()
    }

    /// Returns the request that waits for the answer to `ticket`.
    pub(crate) fn of_ticket(&self, ticket: Ticket) -> Option<ClientId> {
        self.by_ticket.get(&ticket).copied()
    }

    /// Returns the INVITE of `call` that has no final result yet.
    pub(crate) fn pending_invite(&self, call: CallId) -> Option<ClientId> {
        let invites = self.invites.range((call, ClientId::MIN)..=(call, ClientId::MAX));
        let is_pending = |id: &ClientId| self.all.get(*id).is_some_and(Client::is_waiting);
        invites.map(|(_, id)| *id).find(is_pending)
    }

    pub(crate) fn method_of(&self, id: ClientId) -> Option<Method<'static>> {
        self.all.get(id).map(|client| client.draft.method)
    }

    /// Sets the timers of the changed requests, and counts those that wait for their final
    /// response.
    /// `owner` returns their keys in the queue.
    pub(crate) fn settle<T: Copy + Ord>(
        &mut self,
        timers: &mut TimerQueue<T>,
        owner: impl Fn(ClientId) -> T,
    ) {
        let waiting = &mut self.waiting;
        self.all.settle(timers, owner, |client| {
            *waiting -= usize::from(client.is_counted);
            client.is_counted = client.is_waiting();
            *waiting += usize::from(client.is_counted);
            Fate::Keep(client.next_timer())
        });
    }

    /// Returns true if a request waits for its final response. It is exact after
    /// [`Clients::settle`].
    pub(crate) fn is_waiting(&self) -> bool {
        debug_assert_eq!(
            self.waiting,
            self.all.values().filter(|client| client.is_waiting()).count(),
            "each waiting request is counted once"
        );
        self.waiting > 0
    }
}

/// Returns the key of the transaction `sent` of `client`.
fn branch_key(client: &Client, sent: &Sent) -> (u64, bool) {
    (sent.branch, client.draft.method == Method::Cancel)
}
