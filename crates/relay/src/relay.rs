//! The table of relayed calls.

use crate::account::{Accounts, Charge};
use crate::call::{Attachment, Branch, Ends, Role};
use crate::end::{End, EndReport};
use crate::error::RelayError;
use crate::host::{Host, Ports};
use crate::statistics::Direction;
use crate::stream::Side;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use hashbrown::HashMap;
use lock_api::{Mutex, RawMutex};
use siphasher::sip::SipHasher13;
use smallvec::SmallVec;

const SHARDS: usize = 16;

/// The maximum number of branches of one Call-ID.
const MAX_BRANCHES: usize = 32;

/// The limits of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of calls, counting each branch of a fork.
    pub calls: usize,
    /// The maximum number of calls of one owner. Each medium after the first counts as a call.
    pub calls_of_owner: usize,
    /// A call that is not answered ends after this time.
    pub ringing: Duration,
    /// A call without a packet from an end that announces to send ends after this time.
    pub inactivity: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            calls: 5_000,
            calls_of_owner: 500,
            ringing: Duration::from_secs(300),
            inactivity: Duration::from_secs(60),
        }
    }
}

/// A description that passes the relay, and its place in the call.
#[derive(Clone, Copy, Debug)]
pub struct Passage<'a> {
    /// The Call-ID.
    pub call_id: &'a [u8],
    /// The identifier of the branch that the request is sent on, if it may be the first one of the
    /// call.
    pub branch: Option<&'a [u8]>,
    /// The tag of the end that sends the description.
    pub from_tag: &'a [u8],
    /// The tag of the other end. Empty before it is known.
    pub to_tag: &'a [u8],
    /// The end that sends the description.
    pub from: End<'a>,
    /// The end that gets it.
    pub to: End<'a>,
    /// The place of the description among offers and answers.
    pub role: Role,
    /// The side of the sender on that branch. Within a dialog the tags tell it.
    pub side: Side,
    /// True if a new call is relayed. Otherwise only calls that are relayed already.
    pub begins: bool,
    /// The account that is charged for a new call.
    pub owner: u64,
    /// The time since an epoch of the owner.
    pub now: Duration,
}

/// A call that is relayed, or was.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CallReport {
    /// The Call-ID.
    pub call_id: Box<[u8]>,
    /// The identifier of the branch.
    pub branch: Box<[u8]>,
    /// The tag of the caller.
    pub caller_tag: Box<[u8]>,
    /// The last tag of a callee.
    pub callee_tag: Box<[u8]>,
    /// The ends, the caller first.
    pub ends: [EndReport; 2],
    /// The time of the first description.
    pub created: Duration,
    /// The time of the last description.
    pub described: Duration,
    /// The time of the final answer.
    pub answered: Option<Duration>,
    /// The packets of each stream: those of the caller, and those of the callee.
    pub streams: Vec<[Direction; 2]>,
    /// The value that the owner has kept with the call.
    pub attachment: Option<Attachment>,
}

/// The branches of a Call-ID to which a command applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection<'a> {
    /// All.
    All,
    /// The branch with this identifier.
    Branch(&'a [u8]),
    /// Those with an end of this tag.
    Tag(&'a [u8]),
    /// The dialog with these tags, in any order.
    Dialog([&'a [u8]; 2]),
}

/// The calls of a relay, for the owner of the signalling.
pub trait Calls: Send + Sync {
    /// Returns the description `body` with the ports of the relay, for the other end. Returns
    /// `None` if the call is not relayed: the description passes unchanged.
    ///
    /// # Errors
    /// [`RelayError`]. The state of the call is unchanged, or as after an offer without an answer.
    fn describe(&self, passage: &Passage<'_>, body: &[u8]) -> Result<Option<String>, RelayError>;

    /// Begins a call whose first request has no description. Its sender is the caller.
    ///
    /// # Errors
    /// A limit is reached.
    fn begin(&self, passage: &Passage<'_>) -> Result<(), RelayError>;

    /// Records that the callee with this tag has answered on the branch `id`. Returns true if the
    /// call is relayed and has no [attachment](Calls::attach).
    fn confirm(&self, call_id: &[u8], id: &[u8], callee_tag: &[u8], now: Duration) -> bool;

    /// Keeps a value of the owner with the branch `id` of a call, for its report.
    fn attach(&self, call_id: &[u8], id: &[u8], attachment: Attachment);

    /// Ends the branch `id` of a call, which was not answered.
    fn end_branch(&self, call_id: &[u8], id: &[u8]) -> Option<CallReport>;

    /// True if the signalling of an end of this dialog comes from one of the addresses `places`.
    fn has_end(&self, call_id: &[u8], tags: [&[u8]; 2], places: [SocketAddr; 2]) -> bool;

    /// Ends the dialog of a call. The order of the tags does not matter.
    fn end_dialog(&self, call_id: &[u8], tags: [&[u8]; 2]) -> Option<CallReport>;

    /// Ends the branches of `selection`, answered or not.
    fn end_all(&self, call_id: &[u8], selection: Selection<'_>) -> Vec<CallReport>;

    /// Ends the calls that are over by [`Limits`], of some of the shards. To be called a few times
    /// a second.
    fn expire(&self, now: Duration) -> Vec<CallReport>;

    /// The calls at this time.
    fn reports(&self) -> Vec<CallReport>;

    /// The branches of `selection` at this time.
    fn reports_of(&self, call_id: &[u8], selection: Selection<'_>) -> Vec<CallReport>;

    /// The branch that [`Calls::describe`] finds for `passage`, and the side of its sender.
    fn find(&self, passage: &Passage<'_>) -> Option<(CallReport, Side)>;

    /// The number of calls, counting each branch of a fork.
    fn count(&self) -> usize;
}

/// Relayed calls, for all threads.
pub struct Relay<R: RawMutex, H: Host<R>> {
    shards: Shards<R, H::Ports>,
    accounts: Arc<Accounts<R>>,
    calls: AtomicUsize,
    key: [u8; 16],
    host: H,
    limits: Limits,
    /// The shard that [`Calls::expire`] looks at next.
    next: AtomicUsize,
}

type Shards<R, P> = Box<[Mutex<R, Shard<R, P>>]>;

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
            accounts: Arc::new(Accounts::new(limits.calls_of_owner)),
            calls: AtomicUsize::new(0),
            key,
            host,
            limits,
            next: AtomicUsize::new(0),
        }
    }

    /// The owner of the ports.
    pub const fn host(&self) -> &H {
        &self.host
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
        let charge = self.admit(passage.owner)?;
        let caller_tag = match passage.side {
            Side::Caller => passage.from_tag,
            Side::Callee => passage.to_tag,
        };
        let id = passage.branch.unwrap_or_default();
        branches.push(Branch::new(id, caller_tag, charge, passage.now));
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
        let is_answered = matches!(passage.role, Role::Response { .. } | Role::Answer);
        if is_answered && side == Side::Callee && passage.branch.is_some() {
            branch.add_callee(passage.from_tag)?;
        }
        let ends = Ends { side, from: &passage.from, to: &passage.to, joined: &joined };
        let described = branch.describe(&self.host, passage.role, &ends, body, passage.now);
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
        is_it: impl Fn(&Branch<R, H::Ports>) -> bool,
    ) -> Option<CallReport> {
        let branch = self.with_branches(call_id, |branches| {
            let at = branches.iter().position(is_it)?;
            Some(branches.remove(at))
        })?;
        self.release();
        branch.settle(&self.host);
        Some(report(call_id, &branch))
    }

    /// True if the call rings for too long, or is silent though an end announces to send.
    fn is_over(&self, branch: &Branch<R, H::Ports>, now: Duration) -> bool {
        let Some(answered) = branch.answered else {
            return now.saturating_sub(branch.created) > self.limits.ringing;
        };
        let mut is_silent = false;
        for stream in branch.streams() {
            let (since, last) = stream.activity();
            let Some(since) = since else { continue };
            is_silent = true;
            let last = last.unwrap_or(answered).max(answered).max(since);
            if now.saturating_sub(last) <= self.limits.inactivity {
                return false;
            }
        }
        is_silent
    }

    /// Counts a call, and charges `owner` for it.
    fn admit(&self, owner: u64) -> Result<Charge<R>, RelayError> {
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
    }

    fn begin(&self, passage: &Passage<'_>) -> Result<(), RelayError> {
        self.with_branches(passage.call_id, |branches| {
            self.find_or_begin(branches, passage).map(|_| ())
        })
    }

    fn confirm(&self, call_id: &[u8], id: &[u8], callee_tag: &[u8], now: Duration) -> bool {
        self.with_branches(call_id, |branches| {
            let Some(branch) = branches.iter_mut().find(|branch| *branch.id == *id) else {
                return false;
            };
            // The dialog of one callee too many is not relayed.
            let _ = branch.add_callee(callee_tag);
            branch.answered.get_or_insert(now);
            branch.attachment.is_none()
        })
    }

    fn attach(&self, call_id: &[u8], id: &[u8], attachment: Attachment) {
        self.with_branches(call_id, |branches| {
            if let Some(branch) = branches.iter_mut().find(|branch| *branch.id == *id) {
                branch.attachment = Some(attachment);
            }
        });
    }

    fn end_branch(&self, call_id: &[u8], id: &[u8]) -> Option<CallReport> {
        self.end(call_id, |branch| *branch.id == *id && branch.answered.is_none())
    }

    fn has_end(&self, call_id: &[u8], tags: [&[u8]; 2], places: [SocketAddr; 2]) -> bool {
        self.with_branches(call_id, |branches| {
            let is_it = |branch: &Branch<R, H::Ports>| branch.side_of(tags[0], tags[1]).is_some();
            let mut found = branches.iter().filter(|branch| is_it(branch));
            found.any(|branch| branch.ends.iter().any(|end| places.contains(&end.signalling)))
        })
    }

    fn end_dialog(&self, call_id: &[u8], tags: [&[u8]; 2]) -> Option<CallReport> {
        self.end(call_id, |branch| branch.side_of(tags[0], tags[1]).is_some())
    }

    fn end_all(&self, call_id: &[u8], selection: Selection<'_>) -> Vec<CallReport> {
        let ended: Vec<_> = self.with_branches(call_id, |branches| {
            branches.extract_if(.., |branch| selection.contains(branch)).collect()
        });
        let settled = |branch: &Branch<R, H::Ports>| {
            self.release();
            branch.settle(&self.host);
            report(call_id, branch)
        };
        ended.iter().map(settled).collect()
    }

    fn expire(&self, now: Duration) -> Vec<CallReport> {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % SHARDS;
        let mut ended = Vec::new();
        self.shards[at].lock().retain(|call_id, branches| {
            branches.retain(|branch| {
                let is_over = self.is_over(branch, now);
                if is_over {
                    self.release();
                    branch.settle(&self.host);
                    ended.push(report(call_id, branch));
                }
                !is_over
            });
            !branches.is_empty()
        });
        ended
    }

    fn reports(&self) -> Vec<CallReport> {
        let of_shard = |shard: &Mutex<R, Shard<R, H::Ports>>| {
            let shard = shard.lock();
            let branches = shard.iter().flat_map(|(call_id, branches)| {
                branches.iter().map(move |branch| report(call_id, branch))
            });
            branches.collect::<Vec<_>>()
        };
        self.shards.iter().flat_map(of_shard).collect()
    }

    fn reports_of(&self, call_id: &[u8], selection: Selection<'_>) -> Vec<CallReport> {
        self.with_branches(call_id, |branches| {
            let branches = branches.iter().filter(|branch| selection.contains(branch));
            branches.map(|branch| report(call_id, branch)).collect()
        })
    }

    fn find(&self, passage: &Passage<'_>) -> Option<(CallReport, Side)> {
        self.with_branches(passage.call_id, |branches| {
            let (at, side) = find(branches, passage)?;
            Some((report(passage.call_id, &branches[at]), side))
        })
    }

    fn count(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
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

fn report<R: RawMutex, P: Ports>(call_id: &[u8], branch: &Branch<R, P>) -> CallReport {
    CallReport {
        call_id: call_id.into(),
        caller_tag: branch.caller_tag.clone(),
        callee_tag: branch.callee_tags.last().cloned().unwrap_or_default(),
        branch: branch.id.clone(),
        ends: branch.ends.clone(),
        created: branch.created,
        described: branch.described,
        answered: branch.answered,
        streams: branch.summaries().collect(),
        attachment: branch.attachment.clone(),
    }
}
