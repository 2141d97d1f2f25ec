//! Warnings: printed to standard error, or kept for the full-screen interface.

use crate::terminal;
use std::sync::{Mutex, PoisonError};

/// The warnings kept for the screen; `None` without a screen.
static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// Prints `text`, or keeps it for the screen.
pub(crate) fn warn(text: String) {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    match &mut *held {
        // More lines than the screen has are dropped.
        Some(texts) if texts.len() < 100 => texts.push(text),
        Some(_) => {}
        None => terminal::say(&text),
    }
}

/// Starts to keep warnings for [`take`], or prints them again directly.
pub(crate) fn hold(holds: bool) {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let before = std::mem::replace(&mut *held, holds.then(Vec::new));
    drop(held);
    before.into_iter().flatten().for_each(warn);
}

/// Returns the warnings since [`hold`] or the last call.
pub(crate) fn take() -> Vec<String> {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.as_mut().map(std::mem::take).unwrap_or_default()
}
