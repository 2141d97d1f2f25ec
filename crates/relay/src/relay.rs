//! The table of relayed calls.

use crate::account::{Accounts, Charge};
use crate::bandwidth::{Share, Total};
use crate::call::{Attachment, Branch};
use crate::calls::{Calls, Selection};
use crate::digits::{Digit, Pressed, Reports};
use crate::error::RelayError;
use crate::host::{Host, Ports};
use crate::limits::{Limits, Refusals};
use crate::message_ends::Ends;
use crate::passage::{Passage, Role};
use crate::report::CallReport;
use crate::side::Side;
use crate::stream::{Activity, Relayed, Stream};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use hashbrown::HashMap;
use lock_api::{Mutex, RawMutex};
use siphasher::sip::SipHasher13;
use smallvec::SmallVec;

const SHARDS: usize = 16;

/// The maximum number of branches of one Call-ID.
const MAX_BRANCHES: usize = 32;

/// Relayed calls, for all threads.
pub struct Relay<R: RawMutex, H: Host<R>> {
    shards: Shards<R, H::Ports>,
    accounts: Arc<Accounts<R>>,
    /// The traffic of all calls.
    total: Arc<Total>,
    /// The charges for media whose audio may be converted.
    conversions: Arc<Accounts<R>>,
    calls: AtomicUsize,
    /// Counts calls without media after the answer.
    without_media: AtomicU64,
    refused: Refused,
    reports: Arc<Reports<R>>,
    playing: Mutex<R, Vec<Playing<R>>>,
    /// The time of the next packet of a played digit in microseconds, to be read without the lock.
    next_digit: AtomicU64,
    key: [u8; 16],
    host: H,
    limits: Limits,
    /// The shard that [`Calls::expire`] looks at next.
    next: AtomicUsize,
}

/// A stream in which digits are played.
struct Playing<R> {
    stream: Weak<Stream<R>>,
    /// The side that has pressed them.
    side: Side,
    /// The port of RTP towards the other side.
    port: u16,
}

/// Counts refused calls and media, see [`Refusals`].
#[derive(Default)]
struct Refused {
    calls: AtomicU64,
    calls_of_owner: AtomicU64,
    ports: AtomicU64,
    bandwidth: AtomicU64,
}

impl Refused {
    fn count(&self, error: &RelayError) {
        let counter = match error {
            RelayError::TooManyCalls => &self.calls,
            RelayError::Share => &self.calls_of_owner,
            RelayError::NoPort => &self.ports,
            RelayError::Bandwidth => &self.bandwidth,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

type Shards<R, P> = Box<[Mutex<R, Shard<R, P>>]>;

/// The least time after which a call without a relayed medium ends: it has no port, and its ends
/// may exchange other media than datagrams.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Branches by their Call-ID.
type Shard<R, P> = HashMap<Box<[u8]>, Vec<Branch<R, P>>>;

impl<R: RawMutex, H: Host<R>> fmt::Debug for Relay<R, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls = self.calls.load(Ordering::Relaxed);
        f.debug_struct("Relay").field("calls", &calls).finish_non_exhaustive()
    }
}

impl<R: RawMutex, H: Host<R>> Relay<R, H> {
    /// Creates a relay without calls.
    pub fn new(host: H, limits: Limits) -> Self {
        let mut key = [0; 16];
        host.random(&mut key);
        Self {
            shards: (0..SHARDS).map(|_| Mutex::new(HashMap::default())).collect(),
            accounts: Arc::new(Accounts::new(limits.calls_of_owner, usize::MAX)),
            total: Arc::new(Total::new(limits.bandwidth)),
            conversions: Arc::new(Accounts::new(limits.conversions_of_owner, limits.conversions)),
            calls: AtomicUsize::new(0),
            without_media: AtomicU64::new(0),
            refused: Refused::default(),
            reports: Arc::new(Reports::new()),
            playing: Mutex::new(Vec::new()),
            next_digit: AtomicU64::new(u64::MAX),
            key,
            host,
            limits,
            next: AtomicUsize::new(0),
        }
    }

    #[cfg(test)]
    pub(crate) const fn host_mut(&mut self) -> &mut H {
        &mut self.host
    }

    /// The owner of the ports.
    pub const fn host(&self) -> &H {
        &self.host
    }

    /// The time of the next call of [`Relay::play`]. `None` if no digit is played.
    pub fn next_digit(&self) -> Option<Duration> {
        let next = self.next_digit.load(Ordering::Acquire);
        (next < u64::MAX).then(|| Duration::from_micros(next))
    }

    /// Writes the packets of played digits that are due at `now` to `buffer`, which has room for
    /// what SRTP adds. `send` is called for each with the port of the relay that it leaves from.
    pub fn play(
        &self,
        now: Duration,
        buffer: &mut [u8],
        mut send: impl FnMut(u16, &[u8], SocketAddr),
    ) {
        if self.next_digit().is_none_or(|next| next > now) {
            return;
        }
        let mut playing = core::mem::take(&mut *self.playing.lock());
        playing.retain(|it| {
            let Some(stream) = it.stream.upgrade() else { return false };
            while let Some(Relayed { to, length, .. }) = stream.play(it.side, buffer, now) {
                if length > 0 {
                    send(it.port, &buffer[..length], to);
                }
            }
            stream.next_digit(it.side).is_some()
        });
        let mut all = self.playing.lock();
        all.append(&mut playing);
        self.note_next_digit(&all);
    }

    fn note_next_digit(&self, playing: &[Playing<R>]) {
        let times = playing.iter().filter_map(|it| it.stream.upgrade()?.next_digit(it.side));
        let next = times.min().map_or(u64::MAX, |next| next.as_micros() as u64);
        self.next_digit.store(next, Ordering::Release);
    }

    fn shard(&self, call_id: &[u8]) -> &Mutex<R, Shard<R, H::Ports>> {
        let hash = SipHasher13::new_with_key(&self.key).hash(call_id);
        &self.shards[hash as usize % SHARDS]
    }

    /// Calls `act` with the branches of a call. The entry of a call without branches is removed.
    fn with_branches<T>(
        &self,
        call_id: &[u8],
        act: impl FnOnce(&mut Vec<Branch<R, H::Ports>>) -> T,
    ) -> T {
        let mut shard = self.shard(call_id).lock();
        let Some(branches) = shard.get_mut(call_id) else {
            let mut branches = Vec::new();
            let result = act(&mut branches);
            if !branches.is_empty() {
                shard.insert(call_id.into(), branches);
            }
            return result;
        };
        let result = act(branches);
        if branches.is_empty() {
            shard.remove(call_id);
        }
        result
    }

    /// Returns the branch of `passage` and the side of its sender. A new branch begins if none is
    /// found, and the passage may begin one.
    fn find_or_begin(
        &self,
        branches: &mut Vec<Branch<R, H::Ports>>,
        passage: &Passage<'_>,
    ) -> Result<Option<(usize, Side)>, RelayError> {
        if let Some(found) = find(branches, passage) {
            return Ok(Some(found));
        }
        if !passage.begins {
            return Ok(None);
        }
        if branches.len() >= MAX_BRANCHES {
            return Err(RelayError::TooManyBranches);
        }
        let charge = self.admit(passage.owner, passage.now)?;
        let caller_tag = match passage.side {
            Side::Caller => passage.from_tag,
            Side::Callee => passage.to_tag,
        };
        let id = passage.branch.unwrap_or_default();
        let share = Share::new(charge.traffic(), Arc::clone(&self.total));
        let charges = (charge, Arc::clone(&self.conversions), share);
        // Nearly all calls have one.
        branches.reserve_exact(1);
        branches.push(Branch::new(id, caller_tag, charges, &self.reports, passage));
        Ok(Some((branches.len() - 1, passage.side)))
    }

    fn describe_in(
        &self,
        branches: &mut Vec<Branch<R, H::Ports>>,
        passage: &Passage<'_>,
        body: &[u8],
    ) -> Result<Option<String>, RelayError> {
        let before = branches.len();
        let Some((at, side)) = self.find_or_begin(branches, passage)? else { return Ok(None) };
        // Packets run up the branches or down, so never in a circle.
        let joined: SmallVec<[u16; 4]> = match side {
            Side::Caller => branches[..at].iter().flat_map(|it| it.ports(Side::Callee)).collect(),
            Side::Callee => {
                branches[at + 1..].iter().flat_map(|it| it.ports(Side::Caller)).collect()
            }
        };
        let branch = &mut branches[at];
        #[cfg(feature = "forks")]
        let early;
        let body = match passage.role {
            #[cfg(feature = "forks")]
            Role::Confirmation { .. } => {
                let Some(found) = branch.early.settle(passage.from_tag) else { return Ok(None) };
                early = found;
                &early
            }
            _ => body,
        };
        let is_answered = matches!(passage.role, Role::Response { .. } | Role::Answer);
        if is_answered && side == Side::Callee && passage.branch.is_some() {
            branch.add_callee(passage.from_tag)?;
        }
        let ends = Ends { side, from: &passage.from, to: &passage.to, joined: &joined };
        let described = branch.describe(&self.host, passage.role, &ends, body, passage.now);
        #[cfg(feature = "forks")]
        {
            let is_early = matches!(passage.role, Role::Response { is_final: false, .. });
            match is_early && side == Side::Callee && described.is_ok() {
                true => branch.early.note(passage.from_tag, body),
                false => branch.early.clear(),
            }
        }
        if described.is_err() && branches.len() > before {
            branches.pop();
            self.release();
        }
        described.map(Some)
    }

    /// Ends the branch that `is_it` finds.
    fn end(
        &self,
        call_id: &[u8],
        now: Option<Duration>,
        is_it: impl Fn(&Branch<R, H::Ports>) -> bool,
    ) -> Option<CallReport> {
        let (branch, report) = self.with_branches(call_id, |branches| {
            let at = branches.iter().position(is_it)?;
            let mut branch = branches.remove(at);
            if let Some(now) = now {
                self.check_media(&mut branch, now);
            }
            branch.settle(&self.host);
            let report = CallReport::new(call_id, &branch, branches);
            Some((branch, report))
        })?;
        self.release();
        drop(branch);
        Some(report)
    }

    /// Counts the call if media have not begun in time.
    fn check_media(&self, branch: &mut Branch<R, H::Ports>, now: Duration) {
        if branch.lacks_media(now) {
            self.without_media.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// True if the call rings for too long, is silent though an end announces to send, or is on
    /// hold for too long without a sign of its ends.
    fn is_over(&self, branch: &Branch<R, H::Ports>, now: Duration) -> bool {
        let Some(answered) = branch.answered else {
            return now.saturating_sub(branch.signalled) > self.limits.ringing;
        };
        if branch.web_fault(now).is_some() {
            return true;
        }
        let (mut is_silent, mut sign) = (false, answered.max(branch.signalled));
        for stream in branch.streams() {
            let activity = stream.activity();
            sign = sign.max(activity.heard.unwrap_or_default());
            if activity.is_on_hold {
                continue;
            }
            let Activity { since, last, has_left, .. } = activity;
            is_silent = true;
            let last = last.max(since).unwrap_or(answered).max(answered);
            let Limits { departure, inactivity, .. } = self.limits;
            let limit = if has_left == [false; 2] { inactivity } else { departure.min(inactivity) };
            if now.saturating_sub(last) <= limit {
                return false;
            }
        }
        let hold = match branch.streams().next() {
            Some(_) => self.limits.hold,
            None => self.limits.hold.max(DAY),
        };
        is_silent || now.saturating_sub(sign) > hold
    }

    /// Counts a call, and charges `owner` for it.
    fn admit(&self, owner: u64, now: Duration) -> Result<Charge<R>, RelayError> {
        if self.total.pace.is_busy(now) || self.accounts.is_busy(owner, now) {
            return Err(RelayError::Bandwidth);
        }
        let charge = self.accounts.charge(owner)?;
        let add = |calls| (calls < self.limits.calls).then_some(calls + 1);
        let added = self.calls.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        added.map(|_| charge).map_err(|_| RelayError::TooManyCalls)
    }

    fn release(&self) {
        self.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<R, H> Calls for Relay<R, H>
where
    R: RawMutex + Send + Sync,
    H: Host<R> + Send + Sync,
    H::Ports: Send,
{
    fn describe(&self, passage: &Passage<'_>, body: &[u8]) -> Result<Option<String>, RelayError> {
        self.with_branches(passage.call_id, |branches| self.describe_in(branches, passage, body))
            .inspect_err(|error| self.refused.count(error))
    }

    fn takes_browsers(&self) -> bool {
        cfg!(feature = "web") && self.host.fingerprint().is_some()
    }

    fn begin(&self, passage: &Passage<'_>) -> Result<(), RelayError> {
        self.with_branches(passage.call_id, |branches| {
            self.find_or_begin(branches, passage).map(|_| ())
        })
        .inspect_err(|error| self.refused.count(error))
    }

    fn progress(&self, call_id: &[u8], id: &[u8], rings: bool, now: Duration) {
        self.with_branches(call_id, |branches| {
            if let Some(branch) = branches.iter_mut().find(|branch| *branch.id == *id) {
                branch.signalled = now;
                if rings {
                    branch.ringing.get_or_insert(now);
                }
            }
        });
    }

    fn note_answer(&self, call_id: &[u8], tags: [&[u8]; 2], now: Duration) {
        self.with_branches(call_id, |branches| {
            let is_it =
                |branch: &&mut Branch<R, H::Ports>| branch.side_of(tags[0], tags[1]).is_some();
            branches.iter_mut().filter(is_it).for_each(|branch| branch.signalled = now);
        });
    }

    fn confirm(&self, call_id: &[u8], id: &[u8], callee_tag: &[u8], now: Duration) -> bool {
        self.with_branches(call_id, |branches| {
            let Some(branch) = branches.iter_mut().find(|branch| *branch.id == *id) else {
                return false;
            };
            // The dialog of one callee too many is not relayed.
            let _ = branch.add_callee(callee_tag);
            #[cfg(feature = "forks")]
            branch.early.clear();
            branch.answered.get_or_insert(now);
            branch.attachment.is_none()
        })
    }

    fn follow(&self, call_id: &[u8], id: &[u8], earlier: &CallReport) {
        self.with_branches(call_id, |branches| {
            if let Some(branch) = branches.iter_mut().find(|branch| *branch.id == *id) {
                branch.created = branch.created.min(earlier.created);
                branch.ringing = branch.ringing.into_iter().chain(earlier.ringing).min();
            }
        });
    }

    fn attach(&self, call_id: &[u8], id: &[u8], attachment: Attachment) {
        self.with_branches(call_id, |branches| {
            if let Some(branch) = branches.iter_mut().find(|branch| *branch.id == *id) {
                branch.attachment = Some(attachment);
            }
        });
    }

    fn end_branch(&self, call_id: &[u8], id: &[u8]) -> Option<CallReport> {
        self.end(call_id, None, |branch| *branch.id == *id && branch.answered.is_none())
    }

    fn has_end(&self, call_id: &[u8], tags: [&[u8]; 2], places: [SocketAddr; 2]) -> bool {
        self.with_branches(call_id, |branches| {
            let is_it = |branch: &Branch<R, H::Ports>| branch.side_of(tags[0], tags[1]).is_some();
            let mut ends = branches.iter().filter(|it| is_it(it)).flat_map(|it| &it.ends);
            ends.any(|end| places.contains(&end.signalling))
        })
    }

    fn end_dialog(&self, call_id: &[u8], tags: [&[u8]; 2], now: Duration) -> Option<CallReport> {
        self.end(call_id, Some(now), |branch| branch.side_of(tags[0], tags[1]).is_some())
    }

    fn end_all(&self, call_id: &[u8], selection: Selection<'_>) -> Vec<CallReport> {
        // The ports are closed when the lock is free again.
        let (_ended, reports) = self.with_branches(call_id, |branches| {
            let ended: Vec<_> =
                branches.extract_if(.., |branch| selection.contains(branch)).collect();
            let settled = |branch: &Branch<R, H::Ports>| {
                self.release();
                branch.settle(&self.host);
                CallReport::new(call_id, branch, branches)
            };
            let reports = ended.iter().map(settled).collect();
            (ended, reports)
        });
        reports
    }

    fn expire(&self, now: Duration) -> Vec<CallReport> {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % SHARDS;
        let mut ended = Vec::new();
        self.shards[at].lock().retain(|call_id, branches| {
            branches.iter_mut().for_each(|branch| self.check_media(branch, now));
            let is_over = |branch: &Branch<R, H::Ports>| self.is_over(branch, now);
            while let Some(at) = branches.iter().position(is_over) {
                let branch = branches.remove(at);
                self.release();
                branch.settle(&self.host);
                let mut report = CallReport::new(call_id, &branch, branches);
                report.web_fault = branch.web_fault(now);
                ended.push(report);
            }
            !branches.is_empty()
        });
        ended
    }

    fn reports(&self) -> Vec<CallReport> {
        let of_shard = |shard: &Mutex<R, Shard<R, H::Ports>>| {
            let shard = shard.lock();
            let branches = shard.iter().flat_map(|(call_id, branches)| {
                branches.iter().map(move |branch| CallReport::new(call_id, branch, branches))
            });
            branches.collect::<Vec<_>>()
        };
        self.shards.iter().flat_map(of_shard).collect()
    }

    fn reports_of(&self, call_id: &[u8], selection: Selection<'_>) -> Vec<CallReport> {
        self.with_branches(call_id, |branches| {
            let selected = branches.iter().filter(|branch| selection.contains(branch));
            selected.map(|branch| CallReport::new(call_id, branch, branches)).collect()
        })
    }

    fn find(&self, passage: &Passage<'_>) -> Option<(CallReport, Side)> {
        self.with_branches(passage.call_id, |branches| {
            let (at, side) = find(branches, passage)?;
            Some((CallReport::new(passage.call_id, &branches[at], branches), side))
        })
    }

    fn press(
        &self,
        call_id: &[u8],
        caller_tag: &[u8],
        side: Side,
        digit: Digit,
        now: Duration,
    ) -> bool {
        let pressed = self.with_branches(call_id, |branches| {
            let is_it =
                |it: &&Branch<R, H::Ports>| *it.caller_tag == *caller_tag && it.answered.is_some();
            let branch = branches.iter().find(is_it)?;
            let (stream, port) = branch.press(side, digit, now)?;
            Some(Playing { stream: Arc::downgrade(stream), side, port })
        });
        let Some(pressed) = pressed else { return false };
        let mut playing = self.playing.lock();
        let is_same = |it: &Playing<R>| it.side == side && it.stream.ptr_eq(&pressed.stream);
        if !playing.iter().any(is_same) {
            playing.push(pressed);
        }
        self.note_next_digit(&playing);
        true
    }

    fn take_pressed(&self) -> Vec<Pressed> {
        self.reports.take()
    }

    fn count(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    fn conversions(&self) -> usize {
        self.conversions.count()
    }

    fn conversions_refused(&self) -> u64 {
        self.conversions.refused()
    }

    fn without_media(&self) -> u64 {
        self.without_media.load(Ordering::Relaxed)
    }

    fn refusals(&self) -> Refusals {
        let Refused { calls, calls_of_owner, ports, bandwidth } = &self.refused;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Refusals {
            calls: load(calls),
            calls_of_owner: load(calls_of_owner),
            ports: load(ports),
            bandwidth: load(bandwidth),
            packets: load(&self.total.dropped),
        }
    }
}

impl Selection<'_> {
    fn contains<R: RawMutex, P: Ports>(self, branch: &Branch<R, P>) -> bool {
        let is_callee = |tag: &[u8]| branch.callee_tags.iter().any(|known| **known == *tag);
        match self {
            Self::All => true,
            Self::Branch(id) => *branch.id == *id,
            Self::Tag(tag) => *branch.caller_tag == *tag || is_callee(tag),
            Self::Dialog([one, other]) => branch.side_of(one, other).is_some(),
        }
    }
}

/// Finds the branch of `passage`, and the side of its sender. Of several branches with the same
/// dialog, as where a call passes twice, it is that with the address of the sender.
fn find<R: RawMutex, P: Ports>(
    branches: &[Branch<R, P>],
    passage: &Passage<'_>,
) -> Option<(usize, Side)> {
    if let Some(id) = passage.branch
        && let Some(at) = branches.iter().position(|branch| *branch.id == *id)
    {
        return Some((at, passage.side));
    }
    let mut sides = branches.iter().enumerate().filter_map(|(at, branch)| {
        branch.side_of(passage.from_tag, passage.to_tag).map(|side| (at, side))
    });
    let is_near = |&(at, side): &(usize, Side)| {
        branches[at].ends[side.index()].signalling == passage.from.signalling
    };
    let first = sides.next()?;
    Some(if is_near(&first) { first } else { sides.find(is_near).unwrap_or(first) })
}
