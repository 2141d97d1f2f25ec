//! The HTTP hook that requests push notifications.

use crate::failure::Failure;
use crate::serve::hook::Hook;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The reason of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::serve) enum Reason {
    /// A call waits.
    Call,
    /// A message waits.
    Message,
    /// A request within a dialog waits, such as the end of a call.
    Dialog,
    /// The registration of the phone ends soon.
    Refresh,
}

/// A notification of a phone.
#[derive(Clone, Debug)]
pub(in crate::serve) struct Notification {
    /// `name@domain`.
    pub(in crate::serve) user: Box<[u8]>,
    pub(in crate::serve) provider: Box<[u8]>,
    pub(in crate::serve) prid: Box<[u8]>,
    /// It may be empty.
    pub(in crate::serve) param: Box<[u8]>,
    pub(in crate::serve) reason: Reason,
}

/// The content of a request of the hook.
#[derive(Serialize)]
struct Content<'n> {
    user: &'n str,
    provider: &'n str,
    prid: &'n str,
    #[serde(skip_serializing_if = "str::is_empty")]
    param: &'n str,
    reason: Reason,
}

/// The hook.
pub(super) struct PushHook {
    hook: Hook,
    sent: AtomicU64,
    failed: AtomicU64,
}

impl PushHook {
    /// The hook at `url`, with a `timeout` of its requests.
    ///
    /// # Errors
    /// [`Failure`] if the system has no issuers for TLS.
    pub(super) fn new(url: &str, timeout: Duration) -> Result<Self, Failure> {
        let hook = Hook::new(url, "push.url", "push", timeout)?;
        Ok(Self { hook, sent: AtomicU64::new(0), failed: AtomicU64::new(0) })
    }

    /// The numbers of notifications that the hook has accepted, and of others.
    pub(super) fn counts(&self) -> [u64; 2] {
        [&self.sent, &self.failed].map(|count| count.load(Ordering::Relaxed))
    }

    /// Requests `notification`, and blocks until the hook responds. Returns false if it fails.
    pub(super) fn request(&self, notification: &Notification) -> bool {
        let Notification { user, provider, prid, param, reason } = notification;
        let texts = [user, provider, prid, param].map(|text| String::from_utf8_lossy(text));
        let [user, provider, prid, param] = &texts;
        let content = Content { user, provider, prid, param, reason: *reason };
        let missed = || format!("a phone of {user} is not notified");
        let is_success = self.hook.ask(&content, |_| Ok(()), missed).is_some();
        let count = if is_success { &self.sent } else { &self.failed };
        count.fetch_add(1, Ordering::Relaxed);
        is_success
    }
}
