//! Kept messages in a database that may be gone: meanwhile they are in a queue in the data
//! directory.

use crate::{Error, KeptMessage, KeptMessages, Log, MessageLimits, Oldest};
use parking_lot::Mutex;
use sip::Instant;
use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{self, Duration};

/// The kind of the log lines.
const KIND: &str = "messages";
/// The number of messages that are moved from the queue at once.
const BATCH: usize = 100;
/// The maximum number of messages that were delivered, and not yet deleted in the database.
const MOST_DELIVERED: usize = 10_000;

/// The times of [`QueuedMessages`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The time after which the database counts as gone, if it has not answered.
    pub answer: Duration,
    /// The pause before the first attempt to reach a database that is gone. It doubles with each
    /// failure.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(5),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(30),
        }
    }
}

/// A query that the thread of the database carries out.
type Query = Box<dyn FnOnce(&dyn KeptMessages) + Send>;

/// Messages of a database. While it does not answer, new ones are stored in a queue, and move to
/// the database when it is back. Those of the queue are delivered meanwhile.
pub struct QueuedMessages {
    /// The queries of the database, for a thread that may wait for it longer than the caller does.
    database: SyncSender<Query>,
    queue: Arc<dyn KeptMessages>,
    patience: Patience,
    log: Log,
    /// Counts messages that were stored in the queue.
    queued: Arc<AtomicU64>,
    state: Mutex<State>,
}

struct State {
    /// The end of the pause, if the database is gone or was not asked yet.
    gone_until: Option<time::Instant>,
    pause: Duration,
    /// The users with messages in the queue.
    users: HashSet<String>,
    /// The identifiers of messages that were delivered, and not yet deleted in the database.
    delivered: VecDeque<i64>,
}

impl QueuedMessages {
    /// The messages of `database`, with those in `queue`, which are moved to it. `queued` counts
    /// messages that were stored in the queue. The database is not asked yet.
    ///
    /// # Errors
    /// The queue cannot be read, or the system gives no thread.
    pub fn start(
        database: Box<dyn KeptMessages>,
        queue: Arc<dyn KeptMessages>,
        patience: Patience,
        log: Log,
        queued: Arc<AtomicU64>,
    ) -> Result<Self, Error> {
        let users = queue.users_with_messages()?.into_iter().collect();
        // One more than the one that is carried out, which may be late.
        let (sender, queries) = sync_channel::<Query>(1);
        let carry_out = move || {
            while let Ok(query) = queries.recv() {
                query(&*database);
            }
        };
        // It ends after the last query. The end of the server does not wait for it.
        let thread = std::thread::Builder::new().name("message-table".to_owned());
        drop(thread.spawn(carry_out).map_err(|error| Error::Database {
            doing: "start its thread",
            source: Box::new(error),
            remedy: "",
        })?);
        let state = State {
            gone_until: Some(time::Instant::now()),
            pause: patience.first_pause,
            users,
            delivered: VecDeque::new(),
        };
        let state = Mutex::new(state);
        Ok(Self { database: sender, queue, patience, log, queued, state })
    }

    /// To be called about every second: deletes the messages that were delivered while the database
    /// was gone, and moves those of the queue there, but for those of `busy` users, to which one is
    /// being delivered. If the database is back, the users are returned that have messages there.
    pub fn catch_up(&self, busy: &HashSet<String>) -> Option<Vec<String>> {
        let was_gone = self.state.lock().gone_until.is_some();
        let found = was_gone.then(|| self.ask(|database| database.users_with_messages()));
        if found == Some(None) || !self.delete_delivered() {
            return None;
        }
        let idle = |user: &&String| !busy.contains(*user);
        let users: Vec<_> =
            self.state.lock().users.iter().filter(idle).take(BATCH).cloned().collect();
        let mut left = BATCH;
        for user in users {
            if !self.move_messages(&user, &mut left) {
                break;
            }
        }
        found.flatten()
    }

    /// Deletes the messages in the database that were delivered while it was gone. Returns false if
    /// it is gone still.
    fn delete_delivered(&self) -> bool {
        loop {
            let next = self.state.lock().delivered.front().copied();
            let Some(id) = next else { return true };
            if self.ask(move |database| database.delete_message(id)).is_none() {
                return false;
            }
            self.state.lock().delivered.pop_front();
        }
    }

    /// Moves at most `left` messages of `user` to the database. Returns false if it is gone.
    fn move_messages(&self, user: &str, left: &mut usize) -> bool {
        while *left > 0 {
            *left -= 1;
            let (id, message) = match self.queue.oldest_message(user) {
                Ok(Oldest::Message { id, message }) => (id, message),
                Ok(Oldest::None | Oldest::Claimed) => {
                    self.state.lock().users.remove(user);
                    return true;
                }
                Err(error) => {
                    self.log.error(KIND, || error.to_string());
                    return true;
                }
            };
            let name = user.to_owned();
            // The queue had a limit of its own.
            let limits = MessageLimits { of_user: u64::MAX, all: u64::MAX };
            let moved = self.ask(move |database| database.keep_message(&name, &message, limits));
            match moved {
                Some(true) => {}
                // It stays in the queue, and is delivered from there.
                Some(false) => return true,
                None => return false,
            }
            if let Err(error) = self.queue.delete_message(id) {
                // It will be moved again, which has no effect.
                self.log.error(KIND, || error.to_string());
                return true;
            }
        }
        true
    }

    /// The answer of the database to `query`. `None` if it is gone.
    fn ask<T: Send + 'static>(
        &self,
        query: impl FnOnce(&dyn KeptMessages) -> Result<T, Error> + Send + 'static,
    ) -> Option<T> {
        let is_paused =
            self.state.lock().gone_until.is_some_and(|until| time::Instant::now() < until);
        if is_paused {
            return None;
        }
        let (sender, answer) = sync_channel(1);
        let asked = self.database.try_send(Box::new(move |database| {
            // The caller may have given up.
            let _ = sender.send(query(database));
        }));
        let answer = match asked {
            Ok(()) => answer.recv_timeout(self.patience.answer).map_err(|_| silence()),
            Err(_) => Err(silence()),
        };
        match answer.flatten() {
            Ok(answer) => {
                let mut state = self.state.lock();
                state.gone_until = None;
                state.pause = self.patience.first_pause;
                Some(answer)
            }
            Err(error) => {
                self.note_failure(&error);
                None
            }
        }
    }

    /// Takes note that the database is gone.
    fn note_failure(&self, error: &Error) {
        let pause = {
            let mut state = self.state.lock();
            let pause = state.pause;
            state.gone_until = Some(time::Instant::now() + pause);
            state.pause = (2 * pause).min(self.patience.longest_pause);
            pause
        };
        self.log.warn(KIND, || {
            format!(
                "{error}; new messages are stored in the data directory, and those in the database \
                 wait there; the next attempt is in {} s",
                pause.as_secs()
            )
        });
    }
}

/// The error of a database that does not answer.
fn silence() -> Error {
    Error::Database {
        doing: "answer about kept messages",
        source: Box::new(io::Error::from(io::ErrorKind::TimedOut)),
        remedy: "",
    }
}

/// Identifiers of messages in the queue are negative.
impl KeptMessages for QueuedMessages {
    fn keep_message(
        &self,
        user: &str,
        message: &KeptMessage,
        limits: MessageLimits,
    ) -> Result<bool, Error> {
        // Behind those that are in the queue.
        if !self.state.lock().users.contains(user) {
            let (name, copy) = (user.to_owned(), message.clone());
            let kept = self.ask(move |database| database.keep_message(&name, &copy, limits));
            if let Some(kept) = kept {
                return Ok(kept);
            }
        }
        let is_kept = self.queue.keep_message(user, message, limits)?;
        if is_kept {
            self.queued.fetch_add(1, Ordering::Relaxed);
            self.state.lock().users.insert(user.to_owned());
        }
        Ok(is_kept)
    }

    fn oldest_message(&self, user: &str) -> Result<Oldest, Error> {
        let name = user.to_owned();
        let found = self
            .delete_delivered()
            .then(|| self.ask(move |database| database.oldest_message(&name)))
            .flatten();
        if let Some(found @ (Oldest::Message { .. } | Oldest::Claimed)) = found {
            return Ok(found);
        }
        let is_queued = self.state.lock().users.contains(user);
        let queued = if is_queued { self.queue.oldest_message(user)? } else { Oldest::None };
        match queued {
            Oldest::Message { id, message } => Ok(Oldest::Message { id: -id, message }),
            other if found.is_some() => Ok(other),
            // There may be messages in the database.
            _ => Err(silence()),
        }
    }

    fn delete_message(&self, id: i64) -> Result<(), Error> {
        if id < 0 {
            return self.queue.delete_message(-id);
        }
        if self.ask(move |database| database.delete_message(id)).is_none() {
            let mut state = self.state.lock();
            if state.delivered.len() == MOST_DELIVERED {
                state.delivered.pop_front();
            }
            state.delivered.push_back(id);
        }
        Ok(())
    }

    /// Those in the database are deleted only while it answers.
    fn purge_messages(&self, time: Instant) -> Result<u64, Error> {
        let in_database = self.ask(move |database| database.purge_messages(time));
        Ok(in_database.unwrap_or(0) + self.queue.purge_messages(time)?)
    }

    /// Those of the database only while it answers.
    fn users_with_messages(&self) -> Result<Vec<String>, Error> {
        let mut users: HashSet<_> = self.queue.users_with_messages()?.into_iter().collect();
        users.extend(self.ask(|database| database.users_with_messages()).into_iter().flatten());
        Ok(users.into_iter().collect())
    }
}

impl std::fmt::Debug for QueuedMessages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueuedMessages").field("patience", &self.patience).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Severity;
    use crate::sqlite::tests::open;
    use parking_lot::MutexGuard;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::{Receiver, Sender, channel};

    const LIMITS: MessageLimits = MessageLimits { of_user: 5, all: 10 };
    const PATIENCE: Patience = Patience {
        answer: Duration::from_secs(60),
        first_pause: Duration::ZERO,
        longest_pause: Duration::ZERO,
    };

    /// The identifier, the user and the message.
    type Row = (i64, String, KeptMessage);

    /// A database in memory that can be gone, or wait before each answer.
    #[derive(Clone, Default)]
    struct Database {
        rows: Arc<Mutex<Vec<Row>>>,
        is_gone: Arc<AtomicBool>,
        answers: Arc<Mutex<Option<Receiver<()>>>>,
    }

    impl Database {
        fn rows(&self) -> Result<MutexGuard<'_, Vec<Row>>, Error> {
            if let Some(answers) = &*self.answers.lock() {
                let _ = answers.recv();
            }
            match self.is_gone.load(Ordering::SeqCst) {
                true => Err(silence()),
                false => Ok(self.rows.lock()),
            }
        }

        fn bodies(&self) -> Vec<String> {
            let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
            self.rows.lock().iter().map(|(_, _, it)| text(&it.body)).collect()
        }
    }

    impl KeptMessages for Database {
        fn keep_message(
            &self,
            user: &str,
            message: &KeptMessage,
            limits: MessageLimits,
        ) -> Result<bool, Error> {
            let mut rows = self.rows()?;
            if rows.iter().any(|(_, of, it)| of == user && it == message) {
                return Ok(true);
            }
            let count = rows.iter().filter(|(_, of, _)| of == user).count() as u64;
            let has_room = count < limits.of_user;
            if has_room {
                let id = rows.last().map_or(1, |(id, ..)| id + 1);
                rows.push((id, user.to_owned(), message.clone()));
            }
            Ok(has_room)
        }

        fn oldest_message(&self, user: &str) -> Result<Oldest, Error> {
            let rows = self.rows()?;
            let found = rows.iter().find(|(_, of, _)| of == user);
            Ok(found.map_or(Oldest::None, |(id, _, message)| Oldest::Message {
                id: *id,
                message: message.clone(),
            }))
        }

        fn delete_message(&self, id: i64) -> Result<(), Error> {
            self.rows()?.retain(|(at, ..)| *at != id);
            Ok(())
        }

        fn purge_messages(&self, time: Instant) -> Result<u64, Error> {
            let mut rows = self.rows()?;
            let before = rows.len();
            rows.retain(|(.., message)| message.received >= time);
            Ok((before - rows.len()) as u64)
        }

        fn users_with_messages(&self) -> Result<Vec<String>, Error> {
            Ok(self.rows()?.iter().map(|(_, user, _)| user.clone()).collect())
        }
    }

    fn message(second: u64, body: &str) -> KeptMessage {
        KeptMessage {
            received: Instant::from_micros(second * 1_000_000),
            sender: b"<sip:alice@example.com>".to_vec(),
            content_type: b"text/plain".to_vec(),
            body: body.into(),
            is_proved: true,
        }
    }

    /// The messages of a database with a queue in `folder`.
    fn start(database: &Database, folder: &std::path::Path, answer: Duration) -> QueuedMessages {
        let log = Log { write: |_: Severity, _, _| {} };
        let patience = Patience { answer, ..PATIENCE };
        let queue = Arc::new(open(folder));
        QueuedMessages::start(Box::new(database.clone()), queue, patience, log, Arc::default())
            .expect("a thread")
    }

    /// The oldest message of bob.
    fn oldest(messages: &QueuedMessages) -> (i64, KeptMessage) {
        match messages.oldest_message("bob@a").expect("it") {
            Oldest::Message { id, message } => (id, message),
            other => panic!("{other:?}"),
        }
    }

    /// Delivers all messages of `user`. Returns their bodies.
    fn deliver(messages: &QueuedMessages, user: &str) -> Vec<String> {
        let mut bodies = Vec::new();
        while let Ok(Oldest::Message { id, message }) = messages.oldest_message(user) {
            bodies.push(String::from_utf8_lossy(&message.body).into_owned());
            messages.delete_message(id).expect("deleted");
        }
        bodies
    }

    #[test]
    fn messages_wait_in_the_queue_while_the_database_is_gone_and_keep_their_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let database = Database::default();
        let messages = start(&database, folder.path(), PATIENCE.answer);
        let keep = |second, body: &str| {
            messages.keep_message("bob@a", &message(second, body), LIMITS).expect("an answer")
        };
        assert!(keep(1, "one"));
        database.is_gone.store(true, Ordering::SeqCst);
        assert!(keep(2, "two") && keep(3, "three"));
        assert_eq!(messages.queued.load(Ordering::SeqCst), 2);
        assert_eq!(messages.catch_up(&HashSet::new()), None);
        // The entries of the queue are delivered. The database has more, which are not known now.
        let (id, found) = oldest(&messages);
        assert_eq!((id < 0, found), (true, message(2, "two")));
        assert!(messages.oldest_message("carol@a").is_err());
        database.is_gone.store(false, Ordering::SeqCst);
        // One is being delivered: it stays in its place.
        let busy = HashSet::from(["bob@a".to_owned()]);
        assert_eq!(messages.catch_up(&busy), Some(vec!["bob@a".to_owned()]));
        assert_eq!(database.bodies(), ["one"]);
        assert!(keep(4, "four"), "behind the others");
        assert_eq!(messages.catch_up(&HashSet::new()), None, "it was not gone");
        assert_eq!(database.bodies(), ["one", "two", "three", "four"]);
        assert!(keep(5, "five"));
        assert!(!keep(6, "six"), "the limit of the user");
        assert_eq!(deliver(&messages, "bob@a"), ["one", "two", "three", "four", "five"]);
        assert_eq!(messages.users_with_messages().expect("users"), Vec::<String>::new());
    }

    #[test]
    fn the_queue_survives_a_restart_and_has_its_limits() {
        let folder = tempfile::tempdir().expect("a folder");
        let database = Database::default();
        database.is_gone.store(true, Ordering::SeqCst);
        let messages = start(&database, folder.path(), PATIENCE.answer);
        for second in 1..=5 {
            assert!(messages.keep_message("bob@a", &message(second, "x"), LIMITS).expect("kept"));
        }
        assert!(!messages.keep_message("bob@a", &message(6, "x"), LIMITS).expect("an answer"));
        drop(messages);
        let messages = start(&database, folder.path(), PATIENCE.answer);
        assert_eq!(messages.users_with_messages().expect("users"), ["bob@a"]);
        assert_eq!(messages.purge_messages(Instant::from_micros(2_000_000)).expect("purged"), 1);
        database.is_gone.store(false, Ordering::SeqCst);
        assert_eq!(messages.catch_up(&HashSet::new()), Some(Vec::new()));
        assert_eq!(database.bodies().len(), 4);
        assert_eq!(messages.purge_messages(Instant::from_micros(5_000_000)).expect("purged"), 3);
    }

    #[test]
    fn a_delivered_message_is_not_delivered_again_when_the_database_comes_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let database = Database::default();
        let messages = start(&database, folder.path(), PATIENCE.answer);
        for (second, body) in [(1, "one"), (2, "two")] {
            assert!(messages.keep_message("bob@a", &message(second, body), LIMITS).expect("kept"));
        }
        let (id, _) = oldest(&messages);
        database.is_gone.store(true, Ordering::SeqCst);
        messages.delete_message(id).expect("it is noted");
        database.is_gone.store(false, Ordering::SeqCst);
        assert_eq!(deliver(&messages, "bob@a"), ["two"]);
    }

    #[test]
    fn a_database_that_does_not_answer_holds_nothing_up_and_stores_nothing_twice() {
        let folder = tempfile::tempdir().expect("a folder");
        let database = Database::default();
        let (answer, answers): (Sender<()>, _) = channel();
        *database.answers.lock() = Some(answers);
        let messages = start(&database, folder.path(), Duration::from_millis(1));
        // The first one is stored late in the database, too.
        for (second, body) in [(1, "one"), (2, "two"), (3, "three")] {
            assert!(messages.keep_message("bob@a", &message(second, body), LIMITS).expect("kept"));
        }
        assert_eq!(messages.queued.load(Ordering::SeqCst), 3);
        drop(answer);
        while messages.queue.oldest_message("bob@a").expect("it") != Oldest::None {
            let _ = messages.catch_up(&HashSet::new());
        }
        assert_eq!(database.bodies(), ["one", "two", "three"]);
    }
}
