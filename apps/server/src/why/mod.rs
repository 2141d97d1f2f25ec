//! The last refusals of requests, with their reasons. They are kept in memory only, in a bounded
//! number.

pub(crate) mod judge;
pub(crate) mod reasons;

use crate::call_lines::party;
use crate::trace::is_with;
use parking_lot::Mutex;
use reasons::{ReasonSet, reasons_of};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};

/// The maximum number of refusals of one worker.
const MAX_KEPT: usize = 512;

/// The maximum number of refusals of one source for the same reasons. A further one replaces the
/// last of them, which counts both.
const MAX_OF_SOURCE: usize = 8;

/// The refusals among which those of a source are counted, the latest ones.
const COMPARED: usize = 64;

/// The maximum number of refusals that one worker keeps in a second. Further ones are only counted.
pub(crate) const MAX_PER_SECOND: u32 = 100;

/// A refused or dropped request.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    /// The time in microseconds since 1970.
    pub(crate) at: u64,
    pub(crate) method: String,
    /// The URIs in From and To.
    pub(crate) parties: [String; 2],
    pub(crate) call_id: String,
    /// The flow of the request, as in `udp:192.0.2.1:5060`, or the part of this server.
    pub(crate) flow: String,
    pub(crate) source: SocketAddr,
    /// The status of the response. Zero without a response.
    pub(crate) status: u16,
    /// The reason phrase of the response, and its Warning, Reason and Unsupported.
    pub(crate) phrase: String,
    pub(crate) reasons: ReasonSet,
    /// The flow of the phone or server that sent the response, or the part of this server, if it is
    /// not the proxy.
    pub(crate) answered_by: Option<String>,
}

/// A refusal in an answer of the administration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RefusalRow {
    /// The time in microseconds since 1970.
    pub(crate) at: u64,
    pub(crate) method: String,
    /// The user or URI in From.
    pub(crate) from: String,
    /// The user or URI in To.
    pub(crate) to: String,
    pub(crate) call_id: String,
    /// See [`Refusal::flow`].
    pub(crate) source: String,
    /// The status of the response. `None` if the request was dropped.
    pub(crate) status: Option<u16>,
    pub(crate) phrase: String,
    /// The reasons. Empty if another phone or server refused, or the phrase says it.
    pub(crate) reasons: Vec<ReasonRow>,
    /// See [`Refusal::answered_by`].
    pub(crate) answered_by: Option<String>,
    /// The number of refusals that it stands for.
    pub(crate) count: u64,
}

/// A reason in an answer of the administration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReasonRow {
    /// The rule in words.
    pub(crate) rule: String,
    /// The name of the counter.
    pub(crate) counter: String,
    /// The keys and commands to look at.
    pub(crate) see: String,
}

/// The refusals of a worker, the oldest first, each with the number that it stands for.
type Kept = VecDeque<(Refusal, u64)>;

/// The refusals of all workers.
#[derive(Debug)]
pub(crate) struct Refusals {
    workers: Box<[Mutex<Kept>]>,
    /// The number of refusals that were only counted.
    left_out: AtomicU64,
}

impl Refusals {
    /// Room for the refusals of `workers` workers.
    pub(crate) fn new(workers: usize) -> Self {
        let workers = (0..workers.max(1)).map(|_| Mutex::default()).collect();
        Self { workers, left_out: AtomicU64::new(0) }
    }

    /// Keeps the refusals of a worker, and counts `left_out` others.
    pub(crate) fn keep(
        &self,
        worker: usize,
        refusals: impl Iterator<Item = Refusal>,
        left_out: u64,
    ) {
        if left_out > 0 {
            self.left_out.fetch_add(left_out, Ordering::Relaxed);
        }
        let mut kept = self.workers[worker % self.workers.len()].lock();
        for refusal in refusals {
            let mut count = 1;
            if let Some(place) = place_of_earlier(&kept, &refusal) {
                let Some((earlier, earlier_count)) = kept.remove(place) else { continue };
                count = earlier_count + u64::from(!refusal.is_again(&earlier));
            } else if kept.len() == MAX_KEPT {
                kept.pop_front();
            }
            kept.push_back((refusal, count));
        }
    }

    /// The number of refusals that were only counted.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// The refusals with a Call-ID of `legs`, a user or a source, the oldest first. `target` is an
    /// address with or without a port; `user` is `user@domain`, or `user` in any domain. An empty
    /// target fits all.
    pub(crate) fn find(&self, target: &str, legs: &[String], user: &str) -> Vec<RefusalRow> {
        let fits = |refusal: &Refusal| {
            let ip = refusal.source.ip().to_canonical();
            target.is_empty()
                || legs.contains(&refusal.call_id)
                || target.parse::<SocketAddr>().is_ok_and(|it| {
                    (it.ip().to_canonical(), it.port()) == (ip, refusal.source.port())
                })
                || target.parse::<IpAddr>().is_ok_and(|it| it.to_canonical() == ip)
                || is_with(user, &refusal.parties)
        };
        let mut rows = Vec::new();
        for worker in &self.workers {
            let kept = worker.lock();
            rows.extend(kept.iter().filter(|(it, _)| fits(it)).map(|(it, count)| it.row(*count)));
        }
        rows.sort_by_key(|row| row.at);
        rows
    }
}

/// The place of the refusal that counts `refusal`, too: of its source for the same reasons, if
/// there are many of them, or a retransmission.
fn place_of_earlier(kept: &Kept, refusal: &Refusal) -> Option<usize> {
    let latest = kept.iter().enumerate().rev().take(COMPARED);
    let mut alike = latest.filter(|(_, (other, _))| refusal.is_like(other)).map(|(place, _)| place);
    let again = alike.clone().find(|place| refusal.is_again(&kept[*place].0));
    let last = alike.next();
    again.or_else(|| alike.nth(MAX_OF_SOURCE - 2).and(last))
}

impl Refusal {
    /// True if it has the source and the reasons of `other`.
    fn is_like(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.source.ip(), it.reasons, it.status);
        key(self) == key(other)
    }

    /// True if its response is probably a retransmission of that of `other`.
    fn is_again(&self, other: &Self) -> bool {
        let is_same = self.call_id == other.call_id && self.method == other.method;
        self.status > 0 && is_same && self.is_like(other)
    }

    fn row(&self, count: u64) -> RefusalRow {
        let [from, to] = self.parties.each_ref().map(|uri| party(uri));
        let reasons = reasons_of(self.reasons).map(|reason| ReasonRow {
            rule: reason.rule.to_owned(),
            counter: reason.counter.to_owned(),
            see: reason.see.to_owned(),
        });
        RefusalRow {
            at: self.at,
            method: self.method.clone(),
            from,
            to,
            call_id: self.call_id.clone(),
            source: self.flow.clone(),
            status: (self.status > 0).then_some(self.status),
            phrase: self.phrase.clone(),
            reasons: reasons.collect(),
            answered_by: self.answered_by.clone(),
            count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(call_id: &str, host: u8, reasons: ReasonSet) -> Refusal {
        let source: SocketAddr = ([192, 0, 2, host], 5060).into();
        Refusal {
            at: 1,
            method: "INVITE".to_owned(),
            parties: ["sip:alice@Example.com", "sip:bob@example.com"].map(str::to_owned),
            call_id: call_id.to_owned(),
            flow: format!("udp:{source}"),
            source,
            status: 404,
            phrase: "Not Found".to_owned(),
            reasons,
            answered_by: None,
        }
    }

    fn keep(refusals: &Refusals, refusal: Refusal) {
        refusals.keep(0, [refusal].into_iter(), 0);
    }

    #[test]
    fn refusals_are_found_by_call_id_by_user_and_by_source() {
        let refusals = Refusals::new(2);
        keep(&refusals, refusal("x", 1, 1));
        refusals.keep(3, [Refusal { at: 0, ..refusal("y", 2, 3) }].into_iter(), 7);
        for (target, expected) in [
            ("x", 1),
            ("bob", 2),
            ("alice@example.com", 2),
            ("alice@example.org", 0),
            ("192.0.2.2", 1),
            ("192.0.2.1:5060", 1),
            ("192.0.2.1:5061", 0),
        ] {
            assert_eq!(
                refusals.find(target, &[target.to_owned()], target).len(),
                expected,
                "{target}"
            );
        }
        assert_eq!(refusals.find("", &[], "").len(), 2);
        let legs = ["x", "y"].map(str::to_owned);
        assert_eq!(refusals.find("x", &legs, "x").len(), 2);
        let rows = refusals.find("alice", &[], "alice");
        assert_eq!(rows.iter().map(|row| &row.call_id[..]).collect::<Vec<_>>(), ["y", "x"]);
        assert_eq!((rows[0].reasons.len(), &rows[0].from[..]), (2, "alice@example.com"));
        assert_eq!(refusals.left_out(), 7);
    }

    #[test]
    fn one_source_does_not_replace_the_refusals_of_others() {
        let refusals = Refusals::new(1);
        keep(&refusals, refusal("other", 1, 1));
        for number in 0..1000 {
            keep(&refusals, refusal(&number.to_string(), 2, 1));
        }
        assert_eq!(refusals.find("other", &["other".to_owned()], "").len(), 1);
        let rows = refusals.find("192.0.2.2", &[], "");
        assert_eq!(rows.len(), MAX_OF_SOURCE);
        assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), 1000);
        assert_eq!(rows[MAX_OF_SOURCE - 1].call_id, "999");
        // A retransmission is no further one.
        keep(&refusals, refusal("999", 2, 1));
        let rows = refusals.find("192.0.2.2", &[], "");
        assert_eq!(rows.len(), MAX_OF_SOURCE);
        assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), 1000);
    }

    #[test]
    fn the_number_is_limited() {
        let refusals = Refusals::new(1);
        for host in 0..=255 {
            (0..3).for_each(|call| keep(&refusals, refusal(&format!("{host} {call}"), host, 1)));
        }
        assert_eq!(refusals.find("bob", &[], "bob").len(), MAX_KEPT);
    }
}
