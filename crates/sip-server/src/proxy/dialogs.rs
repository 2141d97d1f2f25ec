//! The state of dialogs through this server (RFC 3261 section 12): the time of their last
//! confirmation, and the moves of their ends. All other state of a dialog is in the Record-Route of
//! this server.

use super::token::TargetHash;
use crate::core::flow::Flow;
use crate::core::keys::Key;
use crate::core::rates::Rates;
use crate::core::reach::Scope;
use alloc::boxed::Box;
use hashbrown::HashTable;
use lock_api::{Mutex, RawMutex};
#[cfg(test)]
use sip::Duration;
use sip::dialog::DialogId;
use sip::header::NameAddr;
use sip::message::RequestHead;
use sip::{Instant, Method};

const SHARDS: usize = 16;

/// The rate and the burst of requests per second within one dialog, which is more than DTMF digits
/// and refreshes need.
const RATE: u32 = 20;
const BURST: u32 = 100;

/// The table of dialogs. Its memory is limited by two generations: when the younger one is full, it
/// replaces the older one. A dialog that changes moves to the younger generation.
pub(crate) struct Dialogs<R: RawMutex> {
    key: Key,
    shards: Box<[Mutex<R, Shard>]>,
    rates: Rates,
}

#[derive(Default)]
struct Shard {
    young: Generation,
    old: Generation,
}

#[derive(Default)]
struct Generation {
    table: HashTable<Dialog>,
    /// The number of dialogs with [`Dialog::moves`].
    moved: usize,
}

struct Dialog {
    /// The key from [`hash_of`].
    hash: u64,
    /// The time of the last 2xx.
    confirmed: Instant,
    moves: Option<Box<Moves>>,
}

/// The current places of the ends of a dialog, indexed by [`end_of`].
#[derive(Default)]
struct Moves {
    ends: [Option<Place>; 2],
    proposed: [Option<Proposal>; 2],
}

/// A target refresh request without a final response.
struct Proposal {
    cseq: u32,
    place: Place,
    /// The place of the answering end, except for the target, which the response names.
    answerer: Place,
}

/// The place of an end of a dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Hash of the request URI of requests to the end.
    pub(crate) target: TargetHash,
    /// The flow to the end, if requests must follow one.
    pub(crate) flow: Option<Flow>,
    /// The network scope of the end.
    pub(crate) scope: Scope,
}

/// The state of a dialog as seen from one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// The time of the last 2xx, if there was one.
    pub(crate) confirmed: Option<Instant>,
    /// The new place of the end, if it has moved.
    pub(crate) place: Option<Place>,
    /// The place in a pending target refresh request of the end.
    pub(crate) proposed: Option<Place>,
}

/// The dialog of a request, as seen from the end that the request goes to: its tag is the local
/// one.
pub(crate) fn id_of<'a>(head: &RequestHead<'a>) -> DialogId<'a> {
    let tag = |address: &NameAddr<'a>| address.tag().unwrap_or_default();
    DialogId { call_id: head.call_id, local_tag: tag(&head.to), remote_tag: tag(&head.from) }
}

/// The same dialog as seen from the other end.
pub(crate) const fn from_other_end<'a>(id: &DialogId<'a>) -> DialogId<'a> {
    DialogId { call_id: id.call_id, local_tag: id.remote_tag, remote_tag: id.local_tag }
}

/// True if the ends can be told apart. A callee chooses its tag, and may choose that of the caller.
pub(crate) fn has_two_ends(id: &DialogId<'_>) -> bool {
    id.local_tag != id.remote_tag && !id.local_tag.is_empty()
}

/// The index of the local end, in an order that both ends share.
fn end_of(id: &DialogId<'_>) -> usize {
    (id.local_tag > id.remote_tag).into()
}

/// The key of a dialog, the same for both ends.
fn hash_of(id: &DialogId<'_>, key: &Key) -> u64 {
    let (first, second) = match end_of(id) {
        0 => (id.local_tag, id.remote_tag),
        _ => (id.remote_tag, id.local_tag),
    };
    key.hash(&[id.call_id, first, second])
}

/// The memory of one table entry in bytes, including spare capacity.
const DIALOG_BYTES: usize = 2 * (size_of::<Dialog>() + 1);

impl Generation {
    fn bytes(&self) -> usize {
        self.table.len() * DIALOG_BYTES + self.moved * size_of::<Moves>()
    }

    fn take(&mut self, hash: u64) -> Option<Dialog> {
        let found = self.table.find_entry(hash, |dialog| dialog.hash == hash).ok()?;
        let dialog = found.remove().0;
        self.moved -= usize::from(dialog.moves.is_some());
        Some(dialog)
    }
}

impl Shard {
    /// Calls `act` with the dialog of this `hash`, which is added if it is not in the table.
    fn change(&mut self, hash: u64, max_bytes: usize, act: impl FnOnce(&mut Dialog)) {
        let known = self.young.take(hash).or_else(|| self.old.take(hash));
        let mut dialog = known.unwrap_or(Dialog { hash, confirmed: Instant::ZERO, moves: None });
        act(&mut dialog);
        if self.young.bytes() >= max_bytes / (2 * SHARDS) {
            self.old = core::mem::take(&mut self.young);
        }
        self.young.moved += usize::from(dialog.moves.is_some());
        self.young.table.insert_unique(hash, dialog, |dialog| dialog.hash);
    }
}

impl<R: RawMutex> Dialogs<R> {
    pub(crate) fn new(key: Key) -> Self {
        Self {
            rates: Rates::new(key.clone()),
            key,
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect(),
        }
    }

    fn shard(&self, hash: u64) -> &Mutex<R, Shard> {
        // The hash table uses bits from both ends of the hash.
        &self.shards[(hash >> 40) as usize % SHARDS]
    }

    /// Returns the state of the dialog and of the end.
    pub(crate) fn look_up(&self, id: &DialogId<'_>) -> Known {
        let hash = hash_of(id, &self.key);
        let shard = self.shard(hash).lock();
        let find = |generation: &Generation| {
            let dialog = generation.table.find(hash, |dialog| dialog.hash == hash)?;
            let moves = dialog.moves.as_ref();
            let place = moves.and_then(|moves| moves.ends[end_of(id)]);
            let proposed = moves.and_then(|moves| moves.proposed[end_of(id)].as_ref());
            let proposed = proposed.map(|proposal| proposal.place);
            let confirmed = (dialog.confirmed > Instant::ZERO).then_some(dialog.confirmed);
            Some(Known { confirmed, place, proposed })
        };
        find(&shard.young).or_else(|| find(&shard.old)).unwrap_or_default()
    }

    /// True if the rate of the dialog allows one more request with this method to the end. BYE and
    /// ACK have a rate of their own each, so that other requests cannot block them. The tag of the
    /// sender is not part of the key, because it is not always known.
    pub(crate) fn admit(&self, id: &DialogId<'_>, method: Method<'_>, now: Instant) -> bool {
        let kind = match method {
            Method::Bye => 1,
            Method::Ack => 2,
            _ => 0,
        };
        self.rates.take(&[id.call_id, id.local_tag, &[kind]], now, RATE, BURST)
    }

    /// Records a target refresh request `cseq` of the end from `place`. `answerer` is the place of
    /// the other end; its response names its target. The change takes effect with a 2xx.
    pub(crate) fn propose(
        &self,
        id: &DialogId<'_>,
        cseq: u32,
        place: Place,
        answerer: Place,
        max_bytes: usize,
    ) {
        let hash = hash_of(id, &self.key);
        self.shard(hash).lock().change(hash, max_bytes, |dialog| {
            let proposal = Proposal { cseq, place, answerer };
            dialog.moves.get_or_insert_default().proposed[end_of(id)] = Some(proposal);
        });
    }

    /// Handles a 2xx to the request `cseq` of the end: the dialog is confirmed, and both ends are
    /// at their proposed places. `target` returns the target of the other end; its argument is true
    /// if requests follow a flow.
    pub(crate) fn confirm(
        &self,
        id: &DialogId<'_>,
        cseq: u32,
        target: impl FnOnce(bool) -> TargetHash,
        now: Instant,
        max_bytes: usize,
    ) {
        let hash = hash_of(id, &self.key);
        self.shard(hash).lock().change(hash, max_bytes, |dialog| {
            dialog.confirmed = now;
            let Some(moves) = &mut dialog.moves else { return };
            let sender = end_of(id);
            let fits = |proposal: &mut Proposal| proposal.cseq == cseq;
            if let Some(Proposal { place, answerer, .. }) = moves.proposed[sender].take_if(fits) {
                moves.ends[sender] = Some(place);
                let target = target(answerer.flow.is_some());
                if target != TargetHash::NONE {
                    moves.ends[1 - sender] = Some(Place { target, ..answerer });
                }
            }
        });
    }

    /// Records that the end is at another place than its first response said. A later move takes
    /// precedence.
    pub(crate) fn place(&self, id: &DialogId<'_>, place: Place, max_bytes: usize) {
        let hash = hash_of(id, &self.key);
        self.shard(hash).lock().change(hash, max_bytes, |dialog| {
            dialog.moves.get_or_insert_default().ends[end_of(id)].get_or_insert(place);
        });
    }

    /// Removes the dialog, which has ended.
    pub(crate) fn end(&self, id: &DialogId<'_>) {
        let hash = hash_of(id, &self.key);
        let mut shard = self.shard(hash).lock();
        if shard.young.take(hash).is_none() {
            shard.old.take(hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_BYTES: usize = 1 << 20;
    const ALICE: DialogId<'_> = DialogId { call_id: b"c", local_tag: b"alice", remote_tag: b"bob" };
    const BOB: DialogId<'_> = DialogId { call_id: b"c", local_tag: b"bob", remote_tag: b"alice" };

    fn dialogs() -> Dialogs<parking_lot::RawMutex> {
        Dialogs::new(Key::derive(&[4; 32], "dialogs"))
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_micros(1_000_000_000) + Duration::from_secs(seconds)
    }

    fn target(uri: &str, follows_flow: bool) -> TargetHash {
        let contact = alloc::format!("<{uri}>");
        let key = Key::derive(&[5; 32], "token");
        TargetHash::of_contact(&key, Some(contact.as_bytes()), follows_flow)
    }

    fn place(target: TargetHash, flow: Option<Flow>) -> Place {
        Place { target, flow, scope: Scope::Global }
    }

    fn flow() -> Flow {
        Flow {
            transport: sip::Transport::Udp,
            local: "192.0.2.1:5060".parse().unwrap(),
            remote: "198.51.100.9:4000".parse().unwrap(),
            connection: None,
        }
    }

    #[test]
    fn ends_move_once_the_other_has_agreed() {
        let dialogs = dialogs();
        let place = place(target("sip:alice@192.0.2.77", false), None);
        let answerer = self::place(TargetHash::NONE, Some(flow()));
        dialogs.propose(&ALICE, 7, place, answerer, MAX_BYTES);
        let proposed = Known { proposed: Some(place), ..Known::default() };
        assert_eq!(dialogs.look_up(&ALICE), proposed);
        let bob = |follows_flow| target("sip:bob@192.0.2.88", follows_flow);
        dialogs.confirm(&ALICE, 6, bob, at(0), MAX_BYTES);
        assert_eq!(dialogs.look_up(&ALICE), Known { confirmed: Some(at(0)), ..proposed });
        dialogs.confirm(&BOB, 7, bob, at(0), MAX_BYTES);
        assert_eq!(dialogs.look_up(&ALICE).place, None, "it was not bob's");
        dialogs.confirm(&ALICE, 7, bob, at(9), MAX_BYTES);
        let place_of_bob = self::place(bob(true), Some(flow()));
        let known = |place| Known { confirmed: Some(at(9)), place: Some(place), proposed: None };
        assert_eq!(dialogs.look_up(&ALICE), known(place));
        assert_eq!(dialogs.look_up(&BOB), known(place_of_bob));
        dialogs.end(&BOB);
        assert_eq!(dialogs.look_up(&ALICE), Known::default());
    }

    #[test]
    fn the_table_is_bounded_in_bytes_and_forgets_the_oldest() {
        let dialogs = dialogs();
        let place = place(target("sip:alice@192.0.2.77", false), None);
        fn id(call_id: &[u8]) -> DialogId<'_> {
            DialogId { call_id, ..ALICE }
        }
        for number in 0..20_000u32 {
            let call_id = number.to_be_bytes();
            if number % 3 == 0 {
                dialogs.propose(&id(&call_id), 1, place, place, MAX_BYTES);
            }
            dialogs.confirm(&id(&call_id), 1, |_| TargetHash::NONE, at(1), MAX_BYTES);
        }
        let bytes = |shard: &Mutex<_, Shard>| {
            let shard = shard.lock();
            shard.young.bytes() + shard.old.bytes()
        };
        let bytes: usize = dialogs.shards.iter().map(bytes).sum();
        let margin = 2 * SHARDS * (DIALOG_BYTES + size_of::<Moves>());
        assert!(bytes <= MAX_BYTES + margin, "{bytes}");
        assert!(dialogs.look_up(&id(&19_999u32.to_be_bytes())).confirmed.is_some());
        assert_eq!(dialogs.look_up(&id(&0u32.to_be_bytes())), Known::default());
    }

    #[test]
    fn requests_within_a_dialog_have_a_rate() {
        let dialogs = dialogs();
        let admit = |id: &DialogId<'_>, seconds| dialogs.admit(id, Method::Info, at(seconds));
        assert!((0..BURST).all(|_| admit(&ALICE, 0)));
        assert!(!admit(&DialogId { remote_tag: b"carol", ..ALICE }, 0), "another sender");
        assert!((0..BURST).all(|_| dialogs.admit(&ALICE, Method::Ack, at(0))));
        assert!(!dialogs.admit(&ALICE, Method::Ack, at(0)));
        assert!(dialogs.admit(&ALICE, Method::Bye, at(0)), "BYE after INFO and ACK");
        assert!(admit(&BOB, 0), "the other end");
        assert!(admit(&DialogId { call_id: b"other", ..ALICE }, 0));
        assert!((0..RATE).all(|_| admit(&ALICE, 1)));
        assert!(!admit(&ALICE, 1));
    }
}
