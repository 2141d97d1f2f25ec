//! Tombstones: the REGISTERs of removed bindings, while copies of them may still arrive. A
//! restarted phone uses a new Call-ID, so the order within one Call-ID (RFC 3261 section 10.3 step
//! 7) does not show that such a copy is late.

use alloc::boxed::Box;
use sip::Instant;
use smallvec::SmallVec;

/// The maximum number of entries of one address-of-record. The oldest is replaced.
const MOST: usize = 16;

/// The tombstones of one address-of-record. Nearly always empty.
#[derive(Debug, Default)]
pub(crate) struct Tombstones(Option<Box<SmallVec<[Tombstone; 2]>>>);

/// The last REGISTER with this Call-ID. Its binding has been removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tombstone {
    pub(crate) call_id: u64,
    pub(crate) cseq: u32,
    /// True if the REGISTER removed the binding, false if it created it.
    pub(crate) removes: bool,
    /// The time after which no copy is expected.
    pub(crate) until: Instant,
}

impl Tombstones {
    /// Drops the entries for which no copy is expected any more.
    pub(crate) fn forget(&mut self, now: Instant) {
        if let Some(all) = &mut self.0 {
            all.retain(|tombstone| tombstone.until > now);
            if all.is_empty() {
                self.0 = None;
            }
        }
    }

    pub(crate) fn note(&mut self, tombstone: Tombstone) {
        let all = self.0.get_or_insert_default();
        match all.iter_mut().find(|known| known.call_id == tombstone.call_id) {
            Some(known) if known.cseq > tombstone.cseq => known.until = tombstone.until,
            Some(known) => {
                let removes = tombstone.removes && (known.removes || tombstone.cseq > known.cseq);
                *known = Tombstone { removes, ..tombstone };
            }
            None => {
                if all.len() == MOST {
                    all.remove(0);
                }
                all.push(tombstone);
            }
        }
    }

    /// Drops the entry of this Call-ID.
    pub(crate) fn retract(&mut self, call_id: u64) {
        if let Some(all) = &mut self.0 {
            all.retain(|tombstone| tombstone.call_id != call_id);
        }
    }

    /// True if the REGISTER with this Call-ID and CSeq, which adds a binding, is a late copy.
    pub(crate) fn adds_again(&self, call_id: u64, cseq: u32) -> bool {
        self.find(call_id).is_some_and(|tombstone| {
            cseq < tombstone.cseq || (cseq == tombstone.cseq && !tombstone.removes)
        })
    }

    /// True if the REGISTER, which removes a binding that it did not create, is a late copy.
    pub(crate) fn removes_again(&self, call_id: u64, cseq: u32) -> bool {
        self.find(call_id).is_some_and(|tombstone| cseq <= tombstone.cseq)
    }

    fn find(&self, call_id: u64) -> Option<&Tombstone> {
        self.0.as_ref()?.iter().find(|tombstone| tombstone.call_id == call_id)
    }
}
