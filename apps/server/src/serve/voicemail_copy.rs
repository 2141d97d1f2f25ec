//! The copy of the state of voice messages in the database of accounts: a thread writes the changes
//! of mailboxes to PostgreSQL. While that is gone, it forgets none: the state is in the data
//! directory, with the sound.

use super::background::{Background, Ending, Pause};
use super::copy_error::CopyError;
use super::hub::Hub;
use super::media_server::{Counts, Index};
use super::record_copy::server_name;
use crate::failure::Failure;
use crate::log;
use crate::settings::Settings;
use crate::voicemail::Message;
use media_server::Mailboxes;
use parking_lot::Mutex;
use sip::Instant;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use store::postgres::{AccountsPlace, VoicemailCopy};
use store::{Storage, VoiceMessage};

/// The time between two looks for changes.
const PERIOD: Duration = Duration::from_secs(1);

/// The number of changed messages after which a transaction takes no further mailbox.
const BATCH: usize = 500;

/// The messages in the copy, by mailbox, and true for each that was heard.
type Copied = HashMap<String, HashMap<i64, bool>>;

/// Starts the thread, if `settings` say so.
///
/// # Errors
/// The storage fails, or the system gives no thread.
pub(super) fn start(
    settings: &Settings,
    hub: &Hub,
    storage: &Arc<dyn Storage>,
) -> Result<Option<Background>, Failure> {
    let Some(accounts) = settings.accounts.as_ref().filter(|it| it.has_voicemail) else {
        return Ok(None);
    };
    let Some(media_server) = &hub.media_server else {
        log::warn("voicemail", || {
            "accounts.voicemail has no effect without media_server.enabled".to_owned()
        });
        return Ok(None);
    };
    let changed = Arc::<Mutex<BTreeSet<String>>>::default();
    let copy = Copy {
        place: accounts.place.clone(),
        server: server_name(&storage.secret()?),
        index: Arc::clone(&media_server.index),
        counts: Arc::clone(&media_server.counts),
        changed: Arc::clone(&changed),
    };
    copy.index.watch(Box::new(move |mailbox| {
        changed.lock().insert(mailbox.to_owned());
    }));
    Ok(Some(Background::start("voicemail-copy", move |ending| copy.run(ending))?))
}

/// The state of the thread.
struct Copy {
    place: AccountsPlace,
    server: String,
    index: Arc<Index>,
    counts: Arc<Counts>,
    /// The mailboxes that have changed since they were copied.
    changed: Arc<Mutex<BTreeSet<String>>>,
}

impl Copy {
    fn run(&self, ending: &Ending) {
        let mut pause = Pause::new();
        while let Err(error) = self.follow(ending, &mut pause) {
            self.counts.copy_failures.fetch_add(1, Ordering::Relaxed);
            log::warn("voicemail", || {
                format!(
                    "the state of voice messages is not copied to {}: {error}; it is in the data \
                     directory; the next attempt is in {} s",
                    self.place,
                    pause.seconds()
                )
            });
            if pause.wait(ending) {
                return;
            }
        }
    }

    /// Connects, and copies the state until the server ends.
    fn follow(&self, ending: &Ending, pause: &mut Pause) -> Result<(), CopyError> {
        let mut copy = VoicemailCopy::connect(&self.place, &self.server)?;
        let mut copied = copy.all()?;
        // All are compared: some have changed meanwhile, or are gone.
        let known = copied.keys().cloned();
        self.changed.lock().extend(known.chain(self.index.names()));
        log::info("voicemail", || {
            format!("the state of voice messages is copied to {}", self.place)
        });
        loop {
            // Asked before the last look, so that nothing is left.
            let has_ended = ending.wait(Duration::ZERO);
            while self.turn(&mut copy, &mut copied)? {}
            pause.reset();
            if has_ended {
                return Ok(());
            }
            ending.wait(PERIOD);
        }
    }

    /// Copies some mailboxes. Returns false if there are no more.
    fn turn(&self, copy: &mut VoicemailCopy, copied: &mut Copied) -> Result<bool, CopyError> {
        let (mut removed, mut put) = (Vec::new(), Vec::new());
        let mut mailboxes = Vec::new();
        while removed.len() + put.len() < BATCH {
            let Some(mailbox) = self.changed.lock().pop_first() else { break };
            let messages = self.index.messages(&mailbox);
            let known = copied.entry(mailbox.clone()).or_default();
            let left = |id: &i64| messages.iter().any(|it| it.id.cast_signed() == *id);
            removed.extend(known.keys().filter(|id| !left(id)).map(|id| (mailbox.clone(), *id)));
            let differs = |it: &&Message| known.get(&it.id.cast_signed()) != Some(&it.heard);
            put.extend(messages.iter().filter(differs).map(|it| voice_message(&mailbox, it)));
            mailboxes.push(mailbox);
        }
        if mailboxes.is_empty() {
            return Ok(false);
        }
        if !(removed.is_empty() && put.is_empty()) {
            copy.change(&removed, &put)?;
        }
        for (mailbox, id) in removed {
            copied.entry(mailbox).or_default().remove(&id);
        }
        for message in put {
            copied.entry(message.mailbox).or_default().insert(message.id, message.is_heard);
        }
        for mailbox in mailboxes {
            if copied.get(&mailbox).is_some_and(HashMap::is_empty) {
                copied.remove(&mailbox);
            }
        }
        Ok(true)
    }
}

fn voice_message(mailbox: &str, message: &Message) -> VoiceMessage {
    VoiceMessage {
        mailbox: mailbox.to_owned(),
        id: message.id.cast_signed(),
        caller: message.caller.clone(),
        is_proved: message.proved,
        ended: Instant::from_micros(message.at.saturating_mul(1_000_000)),
        duration: message.duration(),
        is_heard: message.heard,
    }
}
