//! A phone that sleeps until a push notification wakes it.

use crate::core::address_of_record::AddressOfRecord;
use crate::core::binding::Binding;
use crate::core::push::PushParams;
use alloc::boxed::Box;

/// A phone that sleeps.
#[derive(Clone, Debug)]
pub(crate) struct Asleep {
    pub(crate) user: AddressOfRecord,
    /// The URI of its binding.
    pub(crate) contact: Box<[u8]>,
    /// `+sip.instance`. Empty for none.
    pub(crate) instance: Box<[u8]>,
    /// True for a request within a dialog, which keeps its request URI.
    pub(crate) is_in_dialog: bool,
}

impl Asleep {
    /// True if `binding` is one of the phone.
    pub(crate) fn is_of(&self, binding: &Binding) -> bool {
        let params = [&self.contact[..], &binding.contact].map(PushParams::of_contact);
        let is_same = matches!(params, [Some(one), Some(other)] if one.is_same_phone(&other));
        is_same || (!self.instance.is_empty() && *self.instance == *binding.instance())
    }

    /// The memory that it uses, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.user.as_bytes().len() + self.contact.len() + self.instance.len()
    }
}
