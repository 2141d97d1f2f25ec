//! What the engine asks its owner to do.

use crate::flow::Flow;
use alloc::vec::Vec;
use core::ops::Range;

/// A message to send: bytes of [`Output::bytes`] and the flow to send them on.
#[derive(Clone, Debug)]
pub struct Transmit {
    /// Where to send.
    pub flow: Flow,
    /// The message, as a range of [`Output::bytes`].
    pub range: Range<usize>,
}

/// Something that the owner has to do or may want to know, beside messages.
#[derive(Clone, Debug)]
pub enum Event {}

/// Buffers that the owner keeps and the engine fills. The owner first appends `journal` to its
/// storage, then sends `transmits`, so that no binding is answered before it is kept; then calls
/// [`Output::clear`].
#[derive(Debug, Default)]
pub struct Output {
    /// The bytes of all messages.
    pub bytes: Vec<u8>,
    /// The messages, in the order to send them.
    pub transmits: Vec<Transmit>,
    /// Changes of bindings, to be appended to storage as they are.
    pub journal: Vec<u8>,
    /// Everything else.
    pub events: Vec<Event>,
}

impl Output {
    /// Forgets what was handed out, and keeps the buffers.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.transmits.clear();
        self.journal.clear();
        self.events.clear();
    }
}
