//! The common state of sender and receiver: the master keys of a session, and its sources.
//!
//! The fields that each packet needs are adjacent in memory (`repr(C)` keeps the order of fields),
//! which reduces cache misses of a cold session. The session keys come last, because only longer
//! ones use the end of their space.

use crate::error::PolicyError;
use crate::key::{MasterKey, Use};
use crate::plus;
use crate::policy::Policy;
use crate::timings::{Probe, Step};
use crate::transform::Transform;
use alloc::boxed::Box;
use alloc::vec::Vec;
use smallvec::SmallVec;

/// The maximum length of an MKI in bytes (RFC 4568 section 6.1).
const MAX_MKI: usize = 128;

/// The number of bytes of stack to zeroize: twice what deriving and storing keys takes in a release
/// build.
const STACK: usize = 1 << 14;

/// The master keys of one direction of a session.
#[repr(C)]
pub(crate) struct Keys {
    pub(crate) policy: Policy,
    /// The keys after the first one.
    others: Vec<Entry>,
    first: Entry,
}

/// A master key and the keys derived from it.
#[repr(C)]
pub(crate) struct Entry {
    /// The index in the list.
    pub(crate) number: usize,
    rtcp: Box<Transform>,
    rtcp_packets: u64,
    master: MasterKey,
    pub(crate) plus: Option<Box<plus::Keys>>,
    rtp_packets: u64,
    /// The session keys of RTP if they never change; otherwise those of index 0.
    rtp: Transform,
}

impl Keys {
    /// Builds a value that contains these keys in its final place, and zeroizes the stack used.
    pub(crate) fn build<T>(
        policy: &Policy,
        masters: Vec<MasterKey>,
        with: impl FnOnce(Self) -> T,
    ) -> Result<Box<T>, PolicyError> {
        // A separate frame, which has been released when the stack is zeroized.
        #[inline(never)]
        fn call<T>(build: impl FnOnce() -> T) -> T {
            build()
        }
        let built = call(|| Ok(Box::new(with(Self::new(policy, masters)?))));
        zeroize::zeroize_stack::<STACK>();
        built
    }

    fn new(policy: &Policy, masters: Vec<MasterKey>) -> Result<Self, PolicyError> {
        policy.check()?;
        let length = masters.first().ok_or(PolicyError::NoKey)?.mki().len();
        if length > MAX_MKI || length == 0 && masters.len() > 1 {
            return Err(PolicyError::Mki);
        }
        for (place, master) in masters.iter().enumerate() {
            if master.suite() != policy.suite {
                return Err(PolicyError::SuiteMismatch(master.suite()));
            }
            let is_known = masters[..place].iter().any(|other| other.mki() == master.mki());
            if master.mki().len() != length || is_known {
                return Err(PolicyError::Mki);
            }
        }
        let entries = masters.into_iter().zip(0..);
        let mut entries = entries.map(|(master, number)| Entry::new(policy, number, master));
        let first = entries.next().ok_or(PolicyError::NoKey)?;
        // Allocated at once: a growing list would leave copies of keys behind.
        Ok(Self { policy: policy.clone(), first, others: entries.collect() })
    }

    /// The policy, and the key with this index.
    ///
    /// # Panics
    /// There is no such key.
    #[inline]
    pub(crate) fn policy_and_entry(&mut self, key: usize) -> (&Policy, &mut Entry) {
        let entry = match key.checked_sub(1) {
            None => &mut self.first,
            Some(other) => &mut self.others[other],
        };
        (&self.policy, entry)
    }

    /// The index of the key with this MKI.
    #[inline]
    pub(crate) fn find(&self, mki: &[u8]) -> Option<usize> {
        if mki.is_empty() {
            // The only key. (Comparing empty slices takes 80 ns where memcmp loads invalid memory
            // under a mask.)
            return self.first.mki().is_empty().then_some(0);
        }
        let mut all = core::iter::once(&self.first).chain(&self.others);
        all.position(|entry| entry.mki() == mki)
    }

    #[inline]
    pub(crate) fn mki_length(&self) -> usize {
        self.first.mki().len()
    }

    /// A secret number derived from the master keys.
    pub(crate) fn secret(&self) -> u64 {
        plus::secret(&self.first.master.derivation())
    }
}

impl Entry {
    fn new(policy: &Policy, number: usize, master: MasterKey) -> Self {
        let derivation = master.derivation();
        let plus = policy.plus.map(|plus| plus::Keys::derive(plus.scheme, &derivation));
        Self {
            number,
            rtp: Transform::derive(policy, &derivation, Use::Rtp, 0),
            rtcp: Box::new(Transform::derive(policy, &derivation, Use::Rtcp, 0)),
            plus: plus.map(Box::new),
            master,
            rtp_packets: 0,
            rtcp_packets: 0,
        }
    }

    #[inline]
    pub(crate) fn mki(&self) -> &[u8] {
        self.master.mki()
    }

    /// Returns true if the lifetime allows one more packet.
    #[inline]
    pub(crate) fn may_use(&self, usage: Use) -> bool {
        let used = match usage {
            Use::Rtp => self.rtp_packets,
            Use::Rtcp => self.rtcp_packets,
        };
        used < self.master.lifetime()
    }

    /// Counts a packet.
    #[inline]
    pub(crate) fn count(&mut self, usage: Use) {
        match usage {
            Use::Rtp => self.rtp_packets += 1,
            Use::Rtcp => self.rtcp_packets += 1,
        }
    }

    /// The session keys of a packet. With a key derivation rate they are stored per source, in
    /// `derived`.
    #[inline]
    pub(crate) fn transform<'a>(
        &'a mut self,
        policy: &Policy,
        usage: Use,
        index: u64,
        derived: &'a mut Derived,
        probe: &mut impl Probe,
    ) -> &'a mut Transform {
        let Some(rate) = policy.key_derivation_rate else {
            return match usage {
                Use::Rtp => &mut self.rtp,
                Use::Rtcp => &mut self.rtcp,
            };
        };
        let index = index >> rate;
        derived.get(self.number, index, || {
            probe.time(Step::Derivation, || {
                Transform::derive(policy, &self.master.derivation(), usage, index)
            })
        })
    }

    /// Keeps the session keys of an authentic packet.
    #[inline]
    pub(crate) fn keep(&self, policy: &Policy, index: u64, derived: &mut Derived) {
        if let Some(rate) = policy.key_derivation_rate {
            derived.keep(self.number, index >> rate);
        }
    }
}

/// The session keys of a source's newest packets, and those of a packet that may be forged and must
/// not replace them.
#[derive(Default)]
pub(crate) struct Derived([Option<Box<DerivedKeys>>; 2]);

struct DerivedKeys {
    key: usize,
    index: u64,
    transform: Transform,
}

impl Derived {
    fn get(
        &mut self,
        key: usize,
        index: u64,
        derive: impl FnOnce() -> Transform,
    ) -> &mut Transform {
        let is_wanted = |kept: &Option<Box<DerivedKeys>>| {
            kept.as_ref().is_some_and(|kept| kept.key == key && kept.index == index)
        };
        let place = self.0.iter().position(is_wanted).unwrap_or(1);
        let kept = &mut self.0[place];
        if !is_wanted(kept) {
            *kept = Some(Box::new(DerivedKeys { key, index, transform: derive() }));
        }
        &mut kept.as_mut().expect("the keys were stored above").transform
    }

    fn keep(&mut self, key: usize, index: u64) {
        let [kept, last] = &mut self.0;
        if last.as_ref().is_some_and(|last| last.key == key && last.index == index) {
            core::mem::swap(kept, last);
        }
    }
}

/// The sources of a session. The last one used is found first.
pub(crate) struct Sources<T> {
    /// Most sessions have one source.
    sources: SmallVec<[(u32, T); 1]>,
    last: usize,
}

impl<T> Sources<T> {
    pub(crate) fn new() -> Self {
        Self { sources: SmallVec::new(), last: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.sources.len()
    }

    /// Returns true if the source is known, and makes it the last one used.
    #[inline]
    pub(crate) fn contains(&mut self, ssrc: u32) -> bool {
        if self.sources.get(self.last).is_some_and(|source| source.0 == ssrc) {
            return true;
        }
        let found = self.sources.iter().position(|source| source.0 == ssrc);
        self.last = found.unwrap_or(self.last);
        found.is_some()
    }

    /// The last source used.
    ///
    /// # Panics
    /// There is no source.
    #[inline]
    pub(crate) fn last(&mut self) -> &mut T {
        &mut self.sources[self.last].1
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, ssrc: u32) -> Option<&mut T> {
        if self.contains(ssrc) { Some(self.last()) } else { None }
    }

    pub(crate) fn insert(&mut self, ssrc: u32, source: T) {
        self.last = self.sources.len();
        self.sources.push((ssrc, source));
    }

    pub(crate) fn ssrcs(&self) -> impl Iterator<Item = u32> + '_ {
        self.sources.iter().map(|source| source.0)
    }

    pub(crate) fn remove(&mut self, ssrc: u32) -> bool {
        let length = self.len();
        self.sources.retain(|source| source.0 != ssrc);
        self.len() < length
    }
}
