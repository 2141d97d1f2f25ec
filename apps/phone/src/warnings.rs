//! What goes wrong beside the calls: told on standard error, but not into the middle of a full
//! screen.

use crate::terminal;
use std::sync::{Mutex, PoisonError};

/// What the screen has to show; `None` where there is no screen.
static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// Tells `text`, now or when the screen asks.
pub(crate) fn warn(text: String) {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    match &mut *held {
        // More than a screen has lines nobody reads.
        Some(texts) if texts.len() < 100 => texts.push(text),
        Some(_) => {}
        None => terminal::say(&text),
    }
}

/// Keeps what is told for [`take`], or tells it at once again.
pub(crate) fn hold(holds: bool) {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let before = std::mem::replace(&mut *held, holds.then(Vec::new));
    drop(held);
    before.into_iter().flatten().for_each(warn);
}

/// What was told since [`hold`] or the last time.
pub(crate) fn take() -> Vec<String> {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.as_mut().map(std::mem::take).unwrap_or_default()
}
