//! Transactions and retransmissions.

use super::captured::{Captured, Keys, method_label};
use serde::Serialize;
use sip::Method;
use sip::header::HeaderName;
use std::collections::{BTreeMap, HashMap};

/// The requests of one method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct MethodCounts {
    /// Requests, each counted once on every hop.
    pub(crate) requests: u64,
    /// Retransmissions: the same branch, CSeq and Call-ID between the same two hosts again.
    pub(crate) retransmissions: u64,
    /// Requests with a response.
    pub(crate) answered: u64,
    /// Requests with a final response.
    pub(crate) concluded: u64,
    /// Requests without a response. An ACK has no response and never counts as lost.
    pub(crate) lost: u64,
    /// Requests without a response less than [`T1`] before the end of the capture, whose response
    /// may follow.
    pub(crate) pending: u64,
}

/// The responses of one status to one method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ResponseCounts {
    /// Responses, each counted once on every hop.
    pub(crate) responses: u64,
    /// Retransmissions: the same status, To tag and RSeq in the same transaction again.
    pub(crate) retransmissions: u64,
}

/// T1 of RFC 3261 in microseconds: the time to the first retransmission.
pub(super) const T1: u64 = 500_000;

/// The limit of transactions.
const TRANSACTIONS: usize = 1_000_000;
/// The limit of different responses to one request.
const RESPONSES: usize = 16;
/// The limit of different methods, and of pairs of status and method; those beyond are `other`.
const KINDS: usize = 1024;

/// The owner of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A registration.
    Registration(usize),
    /// An INVITE transaction of a call.
    Invite(usize, usize),
    /// A BYE of a call.
    Bye(usize),
}

struct Transaction {
    method: String,
    first: u64,
    requested: bool,
    answered: bool,
    concluded: bool,
    responses: Vec<(u16, u128)>,
    owner: Option<Owner>,
}

/// The place of a message in the transactions.
pub(super) struct Place {
    /// The number of the transaction, for [`Transactions::set_owner`].
    pub(super) transaction: usize,
    /// True if the message is a retransmission.
    pub(super) repeated: bool,
    /// True for a response whose request is not in the capture.
    pub(super) stray: bool,
    pub(super) owner: Option<Owner>,
}

/// The transactions of a capture.
#[derive(Default)]
pub(super) struct Transactions {
    pub(super) methods: BTreeMap<String, MethodCounts>,
    pub(super) responses: BTreeMap<String, ResponseCounts>,
    /// Messages of transactions beyond the limit.
    pub(super) left_out: u64,
    /// Responses to requests that are not in the capture.
    pub(super) stray_responses: u64,
    numbers: HashMap<u128, usize>,
    transactions: Vec<Transaction>,
    keys: Keys,
}

impl Transactions {
    /// Returns the key of the transaction of a message. The ports are not part of it: a response
    /// may go to the port in Via.
    fn key(&self, seen: &Captured<'_>, method: Method<'_>) -> u128 {
        let (one, other) = (seen.source.ip(), seen.destination.ip());
        let hosts = (one.min(other), one.max(other));
        self.keys.of((seen.branch, method.as_bytes(), seen.cseq, seen.call_id, hosts))
    }

    /// Returns true if an INVITE with the branch of `seen` is known: an ACK with that branch is
    /// part of its transaction, and acknowledges a failure (RFC 3261 section 17.1.1.3).
    pub(super) fn has_invite(&self, seen: &Captured<'_>) -> bool {
        self.numbers.contains_key(&self.key(seen, Method::Invite))
    }

    /// Counts a message, and returns its place in its transaction; `None` beyond the limit of
    /// transactions.
    pub(super) fn take(&mut self, seen: &Captured<'_>) -> Option<Place> {
        let key = self.key(seen, seen.method);
        let number = match self.numbers.get(&key) {
            Some(&number) => number,
            None if self.transactions.len() >= TRANSACTIONS => {
                self.left_out += 1;
                return None;
            }
            None => {
                self.transactions.push(Transaction {
                    method: method_label(seen.method),
                    first: seen.time,
                    requested: false,
                    answered: false,
                    concluded: false,
                    responses: Vec::new(),
                    owner: None,
                });
                self.numbers.insert(key, self.transactions.len() - 1);
                self.transactions.len() - 1
            }
        };
        let transaction = &mut self.transactions[number];
        let repeated = match seen.status {
            None => {
                let counts = entry(&mut self.methods, transaction.method.clone());
                let repeated = transaction.requested;
                transaction.requested = true;
                *(if repeated { &mut counts.retransmissions } else { &mut counts.requests }) += 1;
                repeated
            }
            Some(status) => {
                let rseq = seen.message.value(HeaderName::RSeq);
                let response = (status, self.keys.of((seen.to_tag, rseq)));
                let repeated = transaction.responses.contains(&response);
                if !repeated && transaction.responses.len() < RESPONSES {
                    transaction.responses.push(response);
                }
                transaction.answered = true;
                transaction.concluded |= status >= 200;
                let counts = entry(&mut self.responses, seen.label());
                *(if repeated { &mut counts.retransmissions } else { &mut counts.responses }) += 1;
                repeated
            }
        };
        let stray = !transaction.requested;
        self.stray_responses += u64::from(stray);
        Some(Place { transaction: number, repeated, stray, owner: transaction.owner })
    }

    /// Sets the owner of a transaction.
    pub(super) fn set_owner(&mut self, transaction: usize, owner: Owner) {
        self.transactions[transaction].owner = Some(owner);
    }

    /// Counts answered and unanswered requests, in a capture that ends at `end`.
    pub(super) fn finish(&mut self, end: u64) {
        for transaction in self.transactions.iter().filter(|one| one.requested) {
            let counts = entry(&mut self.methods, transaction.method.clone());
            counts.answered += u64::from(transaction.answered);
            counts.concluded += u64::from(transaction.concluded);
            if !transaction.answered && transaction.method != "ACK" {
                let is_late = end.saturating_sub(transaction.first) < T1;
                *(if is_late { &mut counts.pending } else { &mut counts.lost }) += 1;
            }
        }
    }
}

fn entry<T: Default>(table: &mut BTreeMap<String, T>, name: String) -> &mut T {
    let is_known = table.len() < KINDS || table.contains_key(&name);
    table.entry(if is_known { name } else { "other".to_owned() }).or_default()
}
