//! The binding of one contact to an address-of-record (RFC 3261 section 10), and its stored form.

use crate::core::ended::Phone;
use crate::core::flow::{Connection, Flow};
use crate::core::journal_record::StoredBinding;
use crate::core::keys::Key;
use crate::core::push::PushParams;
use alloc::boxed::Box;
use sip::Instant;
use smallvec::SmallVec;

/// The binding of one contact to an address-of-record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    /// Most contacts fit inline, without a heap allocation.
    pub(crate) contact: SmallVec<[u8; 48]>,
    pub(crate) extra: Option<Box<Extra>>,
    pub(crate) call_id: u64,
    pub(crate) cseq: u32,
    pub(crate) q: u16,
    pub(crate) flow_bound: bool,
    /// The identifier of the binding in storage, 0 until it is written.
    pub(crate) id: u64,
    /// The key of the contact in [`Contacts`], 0 for none.
    pub(crate) claim: u64,
    pub(crate) expires: Instant,
    pub(crate) flow: Flow,
}

/// Fields that few bindings have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extra {
    pub(crate) path: Box<[u8]>,
    pub(crate) instance: Box<[u8]>,
    pub(crate) reg_id: u32,
    /// The start of the User-Agent of the REGISTER.
    #[cfg(feature = "office")]
    pub(crate) agent: Box<[u8]>,
    /// Set if the phone may sleep: the time until which it is awake on UDP.
    #[cfg(feature = "office")]
    pub(crate) awake_until: Option<Instant>,
}

impl Binding {
    pub(crate) fn path(&self) -> &[u8] {
        self.extra.as_ref().map_or(&[], |extra| &extra.path)
    }

    /// `+sip.instance` (RFC 5626). Empty for none.
    pub(crate) fn instance(&self) -> &[u8] {
        self.extra.as_ref().map_or(&[], |extra| &extra.instance)
    }

    /// The phone, the number of its flow (RFC 5626), and the Path to it.
    pub(crate) fn flow_of_phone(&self) -> (&[u8], u32, &[u8]) {
        let reg_id = self.extra.as_ref().map_or(0, |extra| extra.reg_id);
        (self.instance(), reg_id, self.path())
    }

    /// The `+sip.instance` of the phone, if the binding is one of its numbered flows (`reg-id`, RFC
    /// 5626).
    pub(crate) fn phone_of_flow(&self) -> Option<&[u8]> {
        let numbered = self.extra.as_ref().filter(|extra| extra.reg_id != 0);
        numbered.map(|extra| &extra.instance[..]).filter(|instance| !instance.is_empty())
    }

    /// The start of the User-Agent of the REGISTER. Empty for none.
    pub(crate) fn agent(&self) -> &[u8] {
        #[cfg(feature = "office")]
        return self.extra.as_ref().map_or(&[], |extra| &extra.agent);
        #[cfg(not(feature = "office"))]
        &[]
    }

    /// The identity of the phone, by which it is recognised at another contact.
    pub(crate) fn phone(&self, key: &Key) -> Phone {
        let instance = Some(self.instance()).filter(|instance| !instance.is_empty());
        Phone { instance: instance.map(|instance| key.hash_one(instance)), call_id: self.call_id }
    }

    /// The connection that the binding depends on, if any. A phone that may sleep keeps its
    /// binding.
    pub(crate) fn connection(&self) -> Option<Connection> {
        self.flow.connection.filter(|_| self.flow_bound && self.awake_until().is_none())
    }

    /// Set if the phone may sleep: the time until which it is awake on UDP.
    pub(crate) fn awake_until(&self) -> Option<Instant> {
        #[cfg(feature = "office")]
        return self.extra.as_ref()?.awake_until;
        #[cfg(not(feature = "office"))]
        None
    }

    /// The variable part of the length in storage, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.contact.len() + self.path().len() + self.instance().len()
    }

    pub(crate) fn as_stored(&self) -> StoredBinding<'_> {
        StoredBinding {
            contact: &self.contact,
            path: self.path(),
            instance: self.instance(),
            call_id: self.call_id,
            cseq: self.cseq,
            q: self.q,
            reg_id: self.extra.as_ref().map_or(0, |extra| extra.reg_id),
            expires: self.expires,
            flow: self.flow,
            flow_bound: self.flow_bound,
            agent: self.agent(),
        }
    }

    /// Returns the binding that was `stored` as `id`. It may be that of a phone that sleeps if
    /// `may_sleep`.
    pub(crate) fn from_stored(id: u64, stored: &StoredBinding<'_>, may_sleep: bool) -> Self {
        let may_sleep =
            may_sleep && stored.flow_bound && PushParams::of_contact(stored.contact).is_some();
        let texts = [stored.path, stored.instance, stored.agent];
        let plain = texts.iter().all(|text| text.is_empty()) && stored.reg_id == 0 && !may_sleep;
        let extra = || {
            Box::new(Extra {
                path: stored.path.into(),
                instance: stored.instance.into(),
                reg_id: stored.reg_id,
                #[cfg(feature = "office")]
                agent: stored.agent.into(),
                #[cfg(feature = "office")]
                awake_until: may_sleep.then_some(Instant::ZERO),
            })
        };
        Self {
            contact: SmallVec::from_slice(stored.contact),
            extra: (!plain).then(extra),
            call_id: stored.call_id,
            cseq: stored.cseq,
            q: stored.q,
            flow_bound: stored.flow_bound,
            id,
            claim: 0,
            expires: stored.expires,
            flow: stored.flow,
        }
    }
}
