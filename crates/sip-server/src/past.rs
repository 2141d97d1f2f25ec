//! REGISTERs whose bindings are gone, as long as copies of them may still arrive: a phone that was
//! started anew has another Call-ID, so the order within one (RFC 3261 section 10.3 step 7) does
//! not tell that they are late.

use alloc::boxed::Box;
use sip::Instant;
use smallvec::SmallVec;

/// How many are remembered of one address of record. The oldest makes room.
const MOST: usize = 16;

/// Those of one address of record: nearly always none.
#[derive(Debug, Default)]
pub(crate) struct Past(Option<Box<SmallVec<[Undone; 2]>>>);

/// The last REGISTER with this Call-ID whose binding is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Undone {
    pub(crate) call_id: u64,
    pub(crate) cseq: u32,
    /// Whether it is the one that removed the binding, and not the one that made it.
    pub(crate) removes: bool,
    /// Copies are not expected after this.
    pub(crate) until: Instant,
}

impl Past {
    /// Forgets those of which no copy is on its way any more.
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

    /// Forgets what is remembered of this Call-ID.
    pub(crate) fn retract(&mut self, call_id: u64) {
        if let Some(all) = &mut self.0 {
            all.retain(|undone| undone.call_id != call_id);
        }
    }

    /// Whether the REGISTER with this Call-ID and CSeq is a late copy where it adds a binding.
    pub(crate) fn adds_again(&self, call_id: u64, cseq: u32) -> bool {
        self.find(call_id)
            .is_some_and(|undone| cseq < undone.cseq || (cseq == undone.cseq && !undone.removes))
    }

    /// Whether it is one where it removes a binding that it did not know.
    pub(crate) fn removes_again(&self, call_id: u64, cseq: u32) -> bool {
        self.find(call_id).is_some_and(|undone| cseq <= undone.cseq)
    }

    fn find(&self, call_id: u64) -> Option<&Undone> {
        self.0.as_ref()?.iter().find(|undone| undone.call_id == call_id)
    }
}
