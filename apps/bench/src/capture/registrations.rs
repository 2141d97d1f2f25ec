//! Registrations: TReg and T200_OK of row C3 of docs/sources.md, RRD of RFC 6076 section 4.1.

use super::seen::{Keys, Seen, text};
use super::transactions::{Owner, Place, T1};
use crate::record::Histogram;
use serde::Serialize;
use sip::Duration;
use sip::header::HeaderName;
use std::collections::HashMap;
use std::net::SocketAddr;

/// What became of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RegistrationOutcome {
    /// 2xx.
    Succeeded,
    /// A final response of another kind; also a challenge that was not met.
    Failed,
    /// Its last REGISTER has no final response in the capture.
    Lost,
    /// The same, but so near the end of the capture that one may have been still under way.
    Pending,
}

/// A registration on one hop: a REGISTER, and where it was challenged, those after it that meet the
/// challenge. Times are microseconds since the Unix epoch.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Registration {
    /// Who sent the REGISTER.
    pub(crate) source: SocketAddr,
    /// To whom.
    pub(crate) destination: SocketAddr,
    /// The Call-ID, as far as it fits in 128 bytes.
    pub(crate) call_id: String,
    /// The address of record, from To.
    pub(crate) user: String,
    /// How many Via the REGISTER has: 1 on the first hop.
    pub(crate) vias: u16,
    /// TReg: the first REGISTER.
    pub(crate) register_us: u64,
    /// The first 401 or 407.
    pub(crate) challenge_us: Option<u64>,
    /// The last REGISTER, which meets the challenge.
    pub(crate) authorised_us: Option<u64>,
    /// T200_OK, or the other final response.
    pub(crate) final_us: Option<u64>,
    /// The status of the last response but for 1xx.
    pub(crate) status: Option<u16>,
    /// What became of it.
    pub(crate) outcome: RegistrationOutcome,
    /// Whether the last that was seen of it is a challenge.
    #[serde(skip)]
    challenged: bool,
}

/// All registrations. The figures are of the hop nearest to the user that the capture shows.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Registrations {
    /// Registrations that were begun.
    pub(crate) attempts: u64,
    /// Those with 2xx.
    pub(crate) succeeded: u64,
    /// Those refused (ineffective registration attempts, RFC 6076 section 4.2).
    pub(crate) failed: u64,
    /// Those without a final response (row C2).
    pub(crate) lost: u64,
    /// Those that cannot be told to be lost, at the end of the capture.
    pub(crate) pending: u64,
    /// Those that were challenged.
    pub(crate) challenged: u64,
    /// Registration delay, T200_OK - TReg, with the challenge in it: RRD.
    pub(crate) delay: Histogram,
    /// From the first REGISTER to its challenge.
    pub(crate) challenge_delay: Histogram,
    /// From the challenge to the REGISTER that meets it: the user agent's own time.
    pub(crate) client_delay: Histogram,
    /// From the REGISTER that meets the challenge to its 2xx.
    pub(crate) authorised_delay: Histogram,
    /// Registrations that were not followed: there were more than [`REGISTRATIONS`].
    pub(crate) left_out: u64,
    /// Each, on every hop, in the order of time.
    pub(crate) list: Vec<Registration>,
    #[serde(skip)]
    book: Book,
}

/// The most registrations that are followed.
const REGISTRATIONS: usize = 300_000;
/// How long after a challenge a REGISTER belongs to it, in microseconds: 64*T1.
const PATIENCE: u64 = 64 * T1;

/// Where registrations are found again.
#[derive(Clone, Default)]
struct Book {
    /// The last registration of a Call-ID on a hop.
    last: HashMap<u128, usize>,
    keys: std::sync::Arc<Keys>,
    /// The name of the Call-ID of each of the list.
    call_ids: Vec<u128>,
}

impl std::fmt::Debug for Book {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Book").finish_non_exhaustive()
    }
}

impl Registrations {
    /// Takes a REGISTER, or a response to one. Returns whose transaction it is from now on.
    pub(super) fn take(&mut self, seen: &Seen<'_>, place: &Place) -> Option<Owner> {
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

    fn request(&mut self, seen: &Seen<'_>) -> Option<Owner> {
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

    /// Works out the figures, in a capture that ends at `end`.
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
    /// A challenge waits for the REGISTER that meets it. A second challenge does too: the nonce may
    /// have been stale.
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

/// Counts the time between two moments, where both were seen, and in this order.
pub(super) fn record(histogram: &mut Histogram, from: Option<u64>, to: Option<u64>) {
    if let (Some(from), Some(to)) = (from, to)
        && let Some(delay) = to.checked_sub(from)
    {
        histogram.record(Duration::from_micros(delay));
    }
}
