//! The mailboxes in memory: their messages, and the space that they and the messages being recorded
//! use.

use crate::log;
use crate::voicemail::{Files, MAX_MESSAGES, Message, space_of};
use media_server::{Mailboxes, MessageCounts, MessageId, RATE, Summary};
use parking_lot::Mutex;
use sip_server::MediaServices;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::time::SystemTime;

/// The share of a mailbox, and of the space of all, that callers without authentication may fill:
/// three quarters.
const SHARE_OF_STRANGERS: (u64, u64) = (3, 4);

/// The limits of mailboxes.
#[derive(Clone, Debug)]
pub(in crate::serve) struct Limits {
    /// The users with a mailbox.
    pub(in crate::serve) services: MediaServices,
    /// The maximum size of a mailbox in bytes.
    pub(in crate::serve) mailbox: u64,
    /// The maximum size of all mailboxes in bytes.
    pub(in crate::serve) all: u64,
    /// The space of the longest message in bytes.
    pub(in crate::serve) message: u64,
}

impl Limits {
    /// The space of a message of `seconds`.
    pub(in crate::serve) const fn space(seconds: u64) -> u64 {
        space_of(seconds * RATE as u64)
    }
}

/// A mailbox.
#[derive(Default)]
struct Mailbox {
    messages: Vec<Message>,
    /// The number of messages being recorded.
    reserved: u64,
    /// The time of the last known change of its folder.
    changed: Option<SystemTime>,
}

impl Mailbox {
    fn counts(&self) -> MessageCounts {
        let old = self.messages.iter().filter(|message| message.heard).count();
        MessageCounts { new: (self.messages.len() - old) as u32, old: old as u32 }
    }

    fn bytes(&self, limits: &Limits) -> u64 {
        let stored: u64 = self.messages.iter().map(Message::bytes).sum();
        stored + self.reserved * limits.message
    }
}

type Watcher = Box<dyn Fn(&str) + Send + Sync>;

/// The mailboxes.
pub(crate) struct Index {
    files: Files,
    state: Mutex<State>,
    watchers: Mutex<Vec<Watcher>>,
}

struct State {
    limits: Limits,
    mailboxes: HashMap<String, Mailbox>,
}

impl Index {
    /// The mailboxes of `files`.
    ///
    /// # Errors
    /// The folder of all mailboxes cannot be read.
    pub(in crate::serve) fn open(files: Files, limits: Limits) -> io::Result<Self> {
        let mut mailboxes = HashMap::new();
        for name in files.mailboxes()? {
            files.clean(&name);
            mailboxes.insert(name, Mailbox::default());
        }
        let state = Mutex::new(State { limits, mailboxes });
        let index = Self { files, state, watchers: Mutex::default() };
        index.refresh();
        Ok(index)
    }

    /// The files.
    pub(in crate::serve) const fn files(&self) -> &Files {
        &self.files
    }

    /// The names of the mailboxes.
    pub(in crate::serve) fn names(&self) -> Vec<String> {
        self.state.lock().mailboxes.keys().cloned().collect()
    }

    /// Changes the limits.
    pub(in crate::serve) fn limit(&self, limits: Limits) {
        self.state.lock().limits = limits;
    }

    /// Reads the mailboxes again that a command has changed.
    pub(in crate::serve) fn refresh(&self) {
        let mut names: BTreeSet<_> = self.state.lock().mailboxes.keys().cloned().collect();
        // A restored backup adds mailboxes.
        match self.files.mailboxes() {
            Ok(stored) => names.extend(stored),
            Err(error) => log::warn("voicemail", || format!("mailboxes cannot be read: {error}")),
        }
        for name in names {
            let changed = self.files.changed(&name);
            if self.state.lock().mailboxes.get(&name).is_some_and(|it| it.changed == changed) {
                continue;
            }
            match self.files.messages(&name) {
                Ok(messages) => self.change(&name, |mailbox| {
                    (mailbox.messages, mailbox.changed) = (messages, changed);
                }),
                Err(error) => {
                    log::warn("voicemail", || format!("mailbox {name} cannot be read: {error}"));
                }
            }
        }
    }

    /// Reserves the space of the longest message. Returns false if the mailbox is full. For callers
    /// that have not authenticated it is full, as are all of them together, when
    /// [`SHARE_OF_STRANGERS`] is used.
    pub(in crate::serve) fn reserve(&self, mailbox: &str, is_proved: bool) -> bool {
        let mut state = self.state.lock();
        let State { limits, mailboxes } = &mut *state;
        let all: u64 = mailboxes.values().map(|mailbox| mailbox.bytes(limits)).sum();
        let found = mailboxes.entry(mailbox.to_owned()).or_default();
        let count = found.messages.len() as u64 + found.reserved;
        let (part, whole) = if is_proved { (1, 1) } else { SHARE_OF_STRANGERS };
        let of = |limit: u64| limit / whole * part;
        let has_room = count < of(MAX_MESSAGES as u64)
            && found.bytes(limits) + limits.message <= of(limits.mailbox)
            && all + limits.message <= of(limits.all);
        found.reserved += u64::from(has_room);
        has_room
    }

    /// Gives back the space that [`Index::reserve`] has reserved.
    pub(in crate::serve) fn release(&self, mailbox: &str) {
        if let Some(mailbox) = self.state.lock().mailboxes.get_mut(mailbox) {
            mailbox.reserved = mailbox.reserved.saturating_sub(1);
        }
    }

    /// The messages in the order of playing: the new ones, then the others, each the oldest first.
    pub(in crate::serve) fn list(&self, mailbox: &str) -> Vec<Summary> {
        let state = self.state.lock();
        let messages = state.mailboxes.get(mailbox).map_or(&[][..], |it| &it.messages);
        let summary = |it: &Message| Summary { id: it.id, is_heard: it.heard };
        let mut list: Vec<_> = messages.iter().map(summary).collect();
        list.sort_by_key(|message| message.is_heard);
        list
    }

    /// The messages of a mailbox, the oldest first.
    pub(in crate::serve) fn messages(&self, mailbox: &str) -> Vec<Message> {
        let state = self.state.lock();
        state.mailboxes.get(mailbox).map_or_else(Vec::new, |it| it.messages.clone())
    }

    /// A number for the next message of a mailbox.
    pub(in crate::serve) fn next_id(&self, mailbox: &str, now: SystemTime) -> MessageId {
        let state = self.state.lock();
        let messages = state.mailboxes.get(mailbox).map_or(&[][..], |it| &it.messages);
        let last = messages.last().map_or(0, |message| message.id);
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // The time of day, so that the number of a deleted message is not used again.
        (now.as_millis() as MessageId).max(last + 1)
    }

    /// The message `id`.
    pub(in crate::serve) fn message(&self, mailbox: &str, id: MessageId) -> Option<Message> {
        let state = self.state.lock();
        let messages = &state.mailboxes.get(mailbox)?.messages;
        messages.iter().find(|message| message.id == id).cloned()
    }

    /// Adds a message that is stored.
    pub(in crate::serve) fn add(&self, mailbox: &str, message: Message) {
        self.change(mailbox, |mailbox| mailbox.messages.push(message));
    }

    /// Removes a message that is deleted.
    pub(in crate::serve) fn remove(&self, mailbox: &str, id: MessageId) {
        self.change(mailbox, |mailbox| mailbox.messages.retain(|message| message.id != id));
    }

    /// Notes that a message was heard.
    pub(in crate::serve) fn mark_heard(&self, mailbox: &str, id: MessageId) {
        self.change(mailbox, |mailbox| {
            let mut messages = mailbox.messages.iter_mut();
            messages.find(|it| it.id == id).into_iter().for_each(|it| it.heard = true);
        });
    }

    /// Changes a mailbox, and tells the watchers if its numbers have changed.
    fn change(&self, name: &str, change: impl FnOnce(&mut Mailbox)) {
        let has_changed = {
            let mut state = self.state.lock();
            let mailbox = state.mailboxes.entry(name.to_owned()).or_default();
            let before = mailbox.counts();
            change(mailbox);
            mailbox.counts() != before
        };
        if has_changed {
            self.watchers.lock().iter().for_each(|notify| notify(name));
        }
    }
}

impl Mailboxes for Index {
    fn counts(&self, mailbox: &str) -> Option<MessageCounts> {
        let (user, _) = mailbox.rsplit_once('@')?;
        let state = self.state.lock();
        let found = state.mailboxes.get(mailbox);
        let has_mailbox = state.limits.services.has_mailbox(user.as_bytes());
        has_mailbox.then(|| found.map(Mailbox::counts).unwrap_or_default())
    }

    fn watch(&self, notify: Watcher) {
        self.watchers.lock().push(notify);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use media_server::Recording;
    use sip_server::MediaService;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const BOB: &str = "bob@example.com";

    fn limits() -> Limits {
        let names = vec![("voicemail".to_owned(), MediaService::Retrieval)];
        let mailboxes = vec!["bob".to_owned(), "carol".to_owned()];
        let services = MediaServices { names, mailboxes, open_conferences: false };
        let message = Limits::space(10);
        Limits { services, mailbox: 2 * message, all: 3 * message, message }
    }

    fn keep(index: &Index, mailbox: &str, samples: usize) -> MessageId {
        let id = index.next_id(mailbox, SystemTime::UNIX_EPOCH);
        let recording =
            Recording { caller: "sip:a@b".into(), is_proved: false, samples: vec![0; samples] };
        let message = index.files().keep(mailbox, id, &recording, SystemTime::now());
        index.add(mailbox, message.expect("a message"));
        id
    }

    #[test]
    fn a_mailbox_has_its_share_of_the_space() {
        let data = tempfile::tempdir().expect("a folder");
        let index = Index::open(Files::new(data.path(), false), limits()).expect("an index");
        let reserve = |mailbox| index.reserve(mailbox, true);
        assert!(reserve(BOB) && reserve(BOB) && !reserve(BOB));
        assert!(reserve("carol@example.com") && !reserve("carol@example.com"));
        index.release(BOB);
        assert!(reserve(BOB));
        index.release(BOB);
        index.release(BOB);
        index.release("carol@example.com");
        keep(&index, BOB, 81_000);
        assert!(!reserve(BOB));
        assert!(reserve("carol@example.com"));
    }

    #[test]
    fn a_quarter_of_the_space_is_for_callers_that_have_authenticated() {
        let data = tempfile::tempdir().expect("a folder");
        let message = Limits::space(10);
        let wide = Limits { mailbox: 4 * message, all: 8 * message, ..limits() };
        let index = Index::open(Files::new(data.path(), false), wide).expect("an index");
        let fill = |mailbox: &str, is_proved: bool| {
            (0..9).take_while(|_| index.reserve(mailbox, is_proved)).count()
        };
        assert_eq!(fill(BOB, false), 3, "three of four");
        assert_eq!(fill("carol@example.com", false), 3, "six of eight in all");
        assert_eq!(fill("dave@example.com", false), 0);
        assert_eq!(fill(BOB, true), 1);
        assert_eq!(fill("dave@example.com", true), 1);
    }

    #[test]
    fn changes_of_the_numbers_are_told_also_those_by_commands() {
        let data = tempfile::tempdir().expect("a folder");
        let files = Files::new(data.path(), false);
        let index = Index::open(files.clone(), limits()).expect("an index");
        let changes = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&changes);
        index.watch(Box::new(move |mailbox| {
            assert_eq!(mailbox, BOB);
            seen.fetch_add(1, Ordering::Relaxed);
        }));
        assert_eq!(index.counts(BOB), Some(MessageCounts::default()));
        assert_eq!(index.counts("dave@example.com"), None);
        let (first, second) = (keep(&index, BOB, 10), keep(&index, BOB, 10));
        assert!(second > first);
        index.mark_heard(BOB, first);
        index.mark_heard(BOB, first);
        assert_eq!(index.counts(BOB), Some(MessageCounts { new: 1, old: 1 }));
        assert_eq!(changes.load(Ordering::Relaxed), 3);
        let order: Vec<_> = index.list(BOB).iter().map(|message| message.id).collect();
        assert_eq!(order, [second, first]);
        files.delete(BOB, second).expect("a message");
        index.refresh();
        // The first message is stored as a new one here.
        assert_eq!(index.counts(BOB), Some(MessageCounts { new: 1, old: 0 }));
        let again = Index::open(files, limits()).expect("an index");
        assert_eq!(again.counts(BOB), Some(MessageCounts { new: 1, old: 0 }));
    }
}
