//! REGISTERs of removed bindings, while copies of them may still arrive. A restarted phone uses a
//! new Call-ID, so the order within one Call-ID (RFC 3261 section 10.3 step 7) does not show that
//! such a copy is late.

use alloc::boxed::Box;
use sip::Instant;
use smallvec::SmallVec;

/// The maximum number of entries of one address-of-record. The oldest is replaced.
const MOST: usize = 16;

/// The entries of one address-of-record. Nearly always empty.
#[derive(Debug, Default)]
pub(crate) struct Past(Option<Box<SmallVec<[Undone; 2]>>>);

/// The last REGISTER with this Call-ID. Its binding has been removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Undone {
    pub(crate) call_id: u64,
    pub(crate) cseq: u32,
    /// True if the REGISTER removed the binding, false if it created it.
    pub(crate) removes: bool,
    /// The time after which no copy is expected.
    pub(crate) until: Instant,
}

impl Past {
    /// Drops the entries for which no copy is expected any more.
    pub(crate) fn forget(&mut self, now: Instant) {
        if let Some(all) = &mut self.0 {
            all.retain(|undone| undone.until > now);
            if all.is_empty() {
                self.0 = None;
            }
        }
    }

    pub(crate) fn note(&mut self, undone: Undone) {
        let all = self.0.get_or_insert_default();
        match all.iter_mut().find(|known| known.call_id == undone.call_id) {
            Some(known) if known.cseq > undone.cseq => known.until = undone.until,
            Some(known) => {
                let removes = undone.removes && (known.removes || undone.cseq > known.cseq);
                *known = Undone { removes, ..undone };
            }
            None => {
                if all.len() == MOST {
                    all.remove(0);
                }
                all.push(undone);
            }
        }
    }

    /// Drops the entry of this Call-ID.
    pub(crate) fn retract(&mut self, call_id: u64) {
        if let Some(all) = &mut self.0 {
            all.retain(|undone| undone.call_id != call_id);
        }
    }

    /// True if the REGISTER with this Call-ID and CSeq, which adds a binding, is a late copy.
    pub(crate) fn adds_again(&self, call_id: u64, cseq: u32) -> bool {
        self.find(call_id)
            .is_some_and(|undone| cseq < undone.cseq || (cseq == undone.cseq && !undone.removes))
    }

    /// True if the REGISTER, which removes a binding that it did not create, is a late copy.
    pub(crate) fn removes_again(&self, call_id: u64, cseq: u32) -> bool {
        self.find(call_id).is_some_and(|undone| cseq <= undone.cseq)
    }

    fn find(&self, call_id: u64) -> Option<&Undone> {
        self.0.as_ref()?.iter().find(|undone| undone.call_id == call_id)
    }
}
