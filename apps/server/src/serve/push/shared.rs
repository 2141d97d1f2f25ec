//! The calls and messages that wait for phones that sleep, for all threads.

use super::hook::{Notification, PushHook, Reason};
use super::waiting::Waiting;
use crate::failure::Failure;
use crate::log;
use crate::push::PushSettings;
use crate::serve::counted::Named;
use crate::serve::local::Local;
use parking_lot::{Condvar, Mutex};
use sip::Instant;
use sip_server::{Ticket, Wake, WakeReason};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time;

/// The push notifications of the server.
pub(crate) struct SharedPush {
    wait: time::Duration,
    waiting: Mutex<Waiting<Ticket>>,
    /// Notified after a wait has failed.
    changed: Condvar,
    queue: SyncSender<Notification>,
    /// The other end of `queue`, which one thread at a time waits at.
    queued: Mutex<Receiver<Notification>>,
    hook: PushHook,
    /// Counts calls and messages that did not wait because of a limit.
    refused: AtomicU64,
}

impl SharedPush {
    /// Opens the push notifications, if there are any.
    ///
    /// # Errors
    /// [`Failure`] if the hook cannot be used.
    pub(in crate::serve) fn open(settings: &PushSettings) -> Result<Option<Self>, Failure> {
        let Some(url) = &settings.url else { return Ok(None) };
        let (queue, queued) = sync_channel(settings.max_waiting);
        Ok(Some(Self {
            wait: settings.wait,
            waiting: Mutex::new(Waiting::new(settings.max_waiting, settings.user_rate)),
            changed: Condvar::new(),
            queue,
            queued: Mutex::new(queued),
            hook: PushHook::new(url, settings.timeout)?,
            refused: AtomicU64::new(0),
        }))
    }

    /// Takes the phones that the engine wants woken, and continues with the requests for phones
    /// that have registered.
    pub(in crate::serve) fn exchange(&self, now: Instant, local: &mut Local) {
        for wake in std::mem::take(&mut local.wakes) {
            let (user, ticket) = (wake.user.clone(), wake.ticket.clone());
            match self.admit(wake) {
                // The phone may have registered meanwhile.
                Ok(number) => {
                    if local.worker.woken(now, ticket, &mut local.out).is_ok() {
                        self.waiting.lock().registered(&user, &[number]);
                    }
                }
                Err(ticket) => local.worker.not_woken(now, ticket, &mut local.out),
            }
        }
        for user in std::mem::take(&mut local.registered) {
            // They stay in their places meanwhile: another phone may register now.
            let mut waiting = self.waiting.lock().of_user(&user);
            waiting.retain(|(_, ticket)| {
                local.worker.woken(now, ticket.clone(), &mut local.out).is_ok()
            });
            let woken: Vec<u64> = waiting.iter().map(|(number, _)| *number).collect();
            self.waiting.lock().registered(&user, &woken);
        }
    }

    /// Gives back the places of cancelled requests, and of requests of ended transactions.
    pub(in crate::serve) fn sweep(&self, local: &Local) {
        self.waiting.lock().sweep(|ticket| local.worker.is_waiting(ticket));
    }

    /// Has the phone of `wake` notified. Returns the number of the request that waits, or its
    /// ticket if a limit forbids it.
    fn admit(&self, wake: Wake) -> Result<u64, Ticket> {
        let Wake { ticket, user, provider, prid, param, reason, payers } = wake;
        let reason = match reason {
            WakeReason::Call => Reason::Call,
            WakeReason::Message => Reason::Message,
            WakeReason::Dialog => Reason::Dialog,
        };
        let notification = Notification { user, provider, prid, param, reason };
        let deadline = time::Instant::now() + self.wait;
        let mut waiting = self.waiting.lock();
        let (user, prid) = (&notification.user, &notification.prid);
        let admitted = waiting.add(user, prid, ticket, payers, deadline);
        let admitted = admitted.inspect_err(|_| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            log::warn("push", || {
                let user = String::from_utf8_lossy(&notification.user).into_owned();
                format!(
                    "a phone of {user} is not notified: too many notifications, or requests that \
                     wait, in all, for this user or of this caller"
                )
            });
        })?;
        drop(waiting);
        if admitted.is_new {
            self.notify(notification);
        }
        Ok(admitted.number)
    }

    /// Queues `notification`. Returns false if the queue is full.
    fn notify(&self, notification: Notification) -> bool {
        match self.queue.try_send(notification) {
            Ok(()) => true,
            Err(TrySendError::Full(it) | TrySendError::Disconnected(it)) => {
                log::warn("push", || "the queue of the hook is full".to_owned());
                self.refused.fetch_add(1, Ordering::Relaxed);
                self.fail(&it);
                false
            }
        }
    }

    /// Ends the waits for the phone of `notification`, which cannot be notified.
    fn fail(&self, notification: &Notification) {
        self.waiting.lock().fail(&notification.user, &notification.prid);
        self.changed.notify_all();
    }

    /// The next notification of the queue, if there is one within `time`.
    ///
    /// # Errors
    /// No notification came in time, or the queue has ended.
    pub(in crate::serve) fn next(
        &self,
        time: time::Duration,
    ) -> Result<Notification, RecvTimeoutError> {
        self.queued.lock().recv_timeout(time)
    }

    /// Requests `notification`, and blocks until the hook responds. If it fails, the waits for the
    /// phone end.
    pub(in crate::serve) fn request(&self, notification: &Notification) {
        if !self.hook.request(notification) {
            self.fail(notification);
        }
    }

    /// Waits for the end of a wait, at most until `latest`. Returns the tickets that have waited
    /// long enough.
    pub(in crate::serve) fn wait(&self, latest: time::Instant) -> Vec<Ticket> {
        let mut waiting = self.waiting.lock();
        let until = waiting.next_deadline().map_or(latest, |it| it.min(latest));
        self.changed.wait_until(&mut waiting, until);
        waiting.expired(time::Instant::now())
    }

    /// Queues `notification`, which nothing waits for, unless its user has had too many. Returns
    /// false if it is not queued.
    pub(in crate::serve) fn refresh(&self, notification: Notification) -> bool {
        let now = time::Instant::now();
        self.waiting.lock().may_notify(&notification.user, now) && self.notify(notification)
    }

    /// The counters of notifications.
    pub(in crate::serve) fn counters(&self) -> Vec<Named> {
        let [sent, failed] = self.hook.counts();
        vec![
            ("push-notifications", "Push notifications that the hook has accepted.", sent),
            ("push-failures", "Push notifications that the hook has not accepted.", failed),
            (
                "push-refused",
                "Calls and messages that did not wait for a phone because of a limit of [push].",
                self.refused.load(Ordering::Relaxed),
            ),
        ]
    }
}
