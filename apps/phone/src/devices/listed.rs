//! The list entry of a sound device.

/// A sound device.
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) hears: bool,
    pub(crate) plays: bool,
    pub(crate) is_default: bool,
}
