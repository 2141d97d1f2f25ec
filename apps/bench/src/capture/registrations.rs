//! Registrations: the times TReg and T200_OK (see docs/sources.md), and RRD of RFC 6076 section
//! 4.1.

use super::captured::{Captured, Keys, text};
use super::transactions::{Owner, Place, T1};
use crate::record::Histogram;
use serde::Serialize;
use sip::Duration;
use sip::header::HeaderName;
use std::collections::HashMap;
use std::net::SocketAddr;

/// The outcome of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RegistrationOutcome {
    /// 2xx.
    Succeeded,
    /// A final response other than 2xx; also an unanswered challenge.
    Failed,
    /// The last REGISTER has no final response in the capture.
    Lost,
    /// No final response, but the REGISTER is so near the end of the capture that one may follow.
    Pending,
}

/// A registration on one hop: a REGISTER and, after a challenge, those that answer it. Times are
/// microseconds since the Unix epoch.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Registration {
    /// The sender of the REGISTER.
    pub(crate) source: SocketAddr,
    /// The receiver of the REGISTER.
    pub(crate) destination: SocketAddr,
    /// The Call-ID, as far as it fits in 128 bytes.
    pub(crate) call_id: String,
    /// The address-of-record, from To.
    pub(crate) user: String,
    /// The number of Via values of the REGISTER: 1 on the first hop.
    pub(crate) vias: u16,
    /// TReg: the first REGISTER.
    pub(crate) register_us: u64,
    /// The first 401 or 407.
    pub(crate) challenge_us: Option<u64>,
    /// The last REGISTER, which answers the challenge.
    pub(crate) authorised_us: Option<u64>,
    /// T200_OK, or the other final response.
    pub(crate) final_us: Option<u64>,
    /// The status of the last response other than 1xx.
    pub(crate) status: Option<u16>,
    /// The outcome.
    pub(crate) outcome: RegistrationOutcome,
    /// True if the last message so far is a challenge.
    #[serde(skip)]
    challenged: bool,
}

/// All registrations. The figures are those of the hop nearest to the user in the capture.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Registrations {
    /// Started registrations.
    pub(crate) attempts: u64,
    /// Registrations with 2xx.
    pub(crate) succeeded: u64,
    /// Rejected registrations (ineffective registration attempts, RFC 6076 section 4.2).
    pub(crate) failed: u64,
    /// Registrations without a final response.
    pub(crate) lost: u64,
    /// Registrations near the end of the capture whose response may follow.
    pub(crate) pending: u64,
    /// Challenged registrations.
    pub(crate) challenged: u64,
    /// Registration delay, T200_OK - TReg, including the challenge: RRD.
    pub(crate) delay: Histogram,
    /// The time from the first REGISTER to its challenge.
    pub(crate) challenge_delay: Histogram,
    /// The time from the challenge to the REGISTER that answers it: the processing time of the user
    /// agent.
    pub(crate) client_delay: Histogram,
    /// The time from the REGISTER that answers the challenge to its 2xx.
    pub(crate) authorised_delay: Histogram,
    /// Registrations beyond the limit of [`REGISTRATIONS`].
    pub(crate) left_out: u64,
    /// All registrations on every hop, in chronological order.
    pub(crate) list: Vec<Registration>,
    #[serde(skip)]
    book: Book,
}

/// The limit of registrations.
const REGISTRATIONS: usize = 300_000;
/// The longest time from a challenge to the REGISTER that answers it, in microseconds: 64*T1.
const PATIENCE: u64 = 64 * T1;

/// The index of registrations.
#[derive(Clone, Default)]
struct Book {
    /// The last registration of a Call-ID on a hop.
    last: HashMap<u128, usize>,
    keys: std::sync::Arc<Keys>,
    /// The hash of the Call-ID of each registration.
    call_ids: Vec<u128>,
}

impl std::fmt::Debug for Book {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Book").finish_non_exhaustive()
    }
}

impl Registrations {
    /// Adds a REGISTER, or a response to one. Returns the owner of a new transaction.
    pub(super) fn take(&mut self, seen: &Captured<'_>, place: &Place) -> Option<Owner> {
        match seen.status {
            None if !place.repeated => self.request(seen),
            None => None,
            Some(status) => {
                if let Some(Owner::Registration(index)) = place.owner {
                    self.list[index].respond(status, seen.time);
                }
                None
            }
        }
    }

    fn request(&mut self, seen: &Captured<'_>) -> Option<Owner> {
        let key = self.book.keys.of((seen.call_id, seen.source, seen.destination));
        if let Some(&index) = self.book.last.get(&key)
            && let registration = &mut self.list[index]
            && registration.waits_for_credentials(seen.time)
        {
            registration.authorised_us = Some(seen.time);
            registration.challenged = false;
            return Some(Owner::Registration(index));
        }
        if self.list.len() >= REGISTRATIONS {
            self.left_out += 1;
            return None;
        }
        self.list.push(Registration {
            source: seen.source,
            destination: seen.destination,
            call_id: text(seen.call_id),
            user: seen.address_of_record(HeaderName::To),
            vias: seen.vias,
            register_us: seen.time,
            challenge_us: None,
            authorised_us: None,
            final_us: None,
            status: None,
            outcome: RegistrationOutcome::Lost,
            challenged: false,
        });
        let index = self.list.len() - 1;
        self.book.last.insert(key, index);
        self.book.call_ids.push(self.book.keys.of(seen.call_id));
        Some(Owner::Registration(index))
    }

    /// Computes the figures, in a capture that ends at `end`.
    pub(super) fn finish(&mut self, end: u64) {
        let book = std::mem::take(&mut self.book);
        let mut nearest: HashMap<u128, u16> = HashMap::new();
        for (registration, &call_id) in self.list.iter().zip(&book.call_ids) {
            let vias = nearest.entry(call_id).or_insert(registration.vias);
            *vias = registration.vias.min(*vias);
        }
        let mut list = std::mem::take(&mut self.list);
        for (registration, call_id) in list.iter_mut().zip(&book.call_ids) {
            registration.finish(end);
            if nearest.get(call_id) == Some(&registration.vias) {
                self.count(registration);
            }
        }
        self.list = list;
    }

    fn count(&mut self, registration: &Registration) {
        use RegistrationOutcome::{Failed, Lost, Pending, Succeeded};
        self.attempts += 1;
        let Registration { register_us, challenge_us, authorised_us, final_us, .. } = *registration;
        match registration.outcome {
            Succeeded => {
                self.succeeded += 1;
                record(&mut self.delay, Some(register_us), final_us);
            }
            Failed => self.failed += 1,
            Lost => self.lost += 1,
            Pending => self.pending += 1,
        }
        if challenge_us.is_some() {
            self.challenged += 1;
            record(&mut self.challenge_delay, Some(register_us), challenge_us);
            record(&mut self.client_delay, challenge_us, authorised_us);
            if registration.outcome == Succeeded {
                record(&mut self.authorised_delay, authorised_us, final_us);
            }
        }
    }
}

impl Registration {
    /// Returns true if a challenge still waits for the REGISTER that answers it. A second challenge
    /// waits too: the nonce may have been stale.
    fn waits_for_credentials(&self, now: u64) -> bool {
        self.challenged
            && now.saturating_sub(self.challenge_us.max(self.authorised_us).unwrap_or(now))
                < PATIENCE
    }

    fn respond(&mut self, status: u16, now: u64) {
        match status {
            ..200 => {}
            _ if self.final_us.is_some() => {}
            401 | 407 => {
                self.challenge_us.get_or_insert(now);
                self.status = Some(status);
                self.challenged = true;
            }
            _ => {
                self.final_us = Some(now);
                self.status = Some(status);
                self.challenged = false;
            }
        }
    }

    fn finish(&mut self, end: u64) {
        let last = self.authorised_us.unwrap_or(self.register_us);
        self.outcome = match (self.final_us, self.status) {
            (Some(_), Some(200..300)) => RegistrationOutcome::Succeeded,
            (Some(_), _) => RegistrationOutcome::Failed,
            (None, _) if self.challenged => RegistrationOutcome::Failed,
            (None, _) if end.saturating_sub(last) < T1 => RegistrationOutcome::Pending,
            (None, _) => RegistrationOutcome::Lost,
        };
    }
}

/// Records the time between two events, if both are known and in this order.
pub(crate) fn record(histogram: &mut Histogram, from: Option<u64>, to: Option<u64>) {
    if let (Some(from), Some(to)) = (from, to)
        && let Some(delay) = to.checked_sub(from)
    {
        histogram.record(Duration::from_micros(delay));
    }
}
