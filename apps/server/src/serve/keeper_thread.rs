//! The thread of the keeper: it stores messages, and delivers them one after the other.

use super::hub::Hub;
use super::keeper::{ACCEPTED, Input, Outcome, Request, SharedKeeper, deliver, respond};
use super::local::{CarryOut, Local};
use super::record_copy::server_name;
use crate::failure::Failure;
use crate::kept_messages::KeptMessagesSettings;
use crate::log;
use crate::settings::Settings;
use crate::storage::LOG;
use net::wall_clock;
use sip::{Flow, Message, Status};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use store::postgres::MessageTable;
use store::{Error, KeptMessages, Oldest, Patience, QueuedMessages, Storage};

/// The time after which the thread looks for the end of the server.
const TURN: Duration = Duration::from_millis(200);
/// The time without a response after which a delivery has failed: longer than a transaction.
const PATIENCE: Duration = Duration::from_secs(70);
/// The number of deliveries at once.
const AT_ONCE: usize = 100;
/// The interval between deletions of old messages.
const PURGE: Duration = Duration::from_secs(600);
/// The interval between moves of messages to the database of accounts.
const CATCH_UP: Duration = Duration::from_secs(1);

/// The running thread. Dropping it ends the thread.
pub(crate) struct KeeperThread {
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl KeeperThread {
    /// Starts the thread, if the server keeps messages. `flow` is the internal flow of deliveries.
    ///
    /// # Errors
    /// The storage fails, or the system gives no thread.
    pub(crate) fn start(
        hub: &Arc<Hub>,
        storage: &Arc<dyn Storage>,
        settings: &Settings,
        flow: Option<Flow>,
    ) -> Result<Option<Self>, Failure> {
        let accounts = settings.accounts.as_ref().filter(|accounts| accounts.has_messages);
        let (Some(shared), Some(flow)) = (&hub.keeper, flow) else {
            if accounts.is_some() {
                log::warn("messages", || {
                    "accounts.messages has no effect without messages.keep".to_owned()
                });
            }
            return Ok(None);
        };
        let Some(inputs) = shared.waiting.lock().take() else { return Ok(None) };
        let queue: Arc<dyn KeptMessages> = Arc::<dyn Storage>::clone(storage);
        let name = server_name(&storage.secret()?);
        let queued = accounts.map(|accounts| {
            let table = Box::new(MessageTable::new(accounts.place.clone(), name.clone()));
            let (queue, count) = (Arc::clone(&queue), Arc::clone(&shared.queued));
            QueuedMessages::start(table, queue, Patience::default(), LOG, count).map(Arc::new)
        });
        let queued = queued.transpose()?;
        let messages: Arc<dyn KeptMessages> = match &queued {
            Some(queued) => Arc::<QueuedMessages>::clone(queued),
            None => queue,
        };
        let keeper = Keeper {
            shared: Arc::clone(shared),
            local: Local::new(0, &hub.engine),
            hub: Arc::clone(hub),
            messages,
            queued,
            settings: settings.kept_messages,
            flow,
            waiting: VecDeque::new(),
            busy: HashSet::new(),
            sent: HashMap::new(),
        };
        let ending = Arc::<AtomicBool>::default();
        let ended = Arc::clone(&ending);
        let thread = std::thread::Builder::new().name("messages".to_owned());
        let thread = Some(thread.spawn(move || keeper.run(&inputs, &ended))?);
        Ok(Some(Self { ending, thread }))
    }
}

impl Drop for KeeperThread {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A delivery that waits for its response.
struct Sent {
    user: String,
    /// The identifier of the message in the storage.
    id: i64,
    until: Instant,
}

/// The state of the thread.
struct Keeper {
    shared: Arc<SharedKeeper>,
    hub: Arc<Hub>,
    local: Local,
    messages: Arc<dyn KeptMessages>,
    /// The same messages, if they are in the database of accounts.
    queued: Option<Arc<QueuedMessages>>,
    settings: KeptMessagesSettings,
    flow: Flow,
    /// The users with messages that are to be delivered.
    waiting: VecDeque<String>,
    /// The users in `waiting` and in `sent`.
    busy: HashSet<String>,
    /// The deliveries, by the random part of their branch.
    sent: HashMap<String, Sent>,
}

impl Keeper {
    fn run(mut self, inputs: &Receiver<Input>, ending: &AtomicBool) {
        let [mut next_purge, mut next_catch_up] = [Instant::now(); 2];
        while !ending.load(Ordering::SeqCst) {
            match inputs.recv_timeout(TURN) {
                Ok(Input::Message((flow, bytes))) => self.receive(&flow, &bytes),
                Ok(Input::Registered(user)) => self.begin(user),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = Instant::now();
            let late = self.sent.extract_if(|_, sent| sent.until <= now);
            let late: Vec<_> = late.map(|(_, sent)| sent).collect();
            late.into_iter().for_each(|sent| self.end(sent, Outcome::Away));
            if now >= next_catch_up {
                next_catch_up = now + CATCH_UP;
                self.catch_up();
            }
            if now >= next_purge {
                next_purge = now + PURGE;
                self.purge();
            }
            self.deliver_next();
            self.hub.carry_out(&mut self.local);
        }
    }

    fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a message of the engine.
    fn receive(&mut self, flow: &Flow, bytes: &[u8]) {
        let Ok(message) = Message::parse(bytes) else { return };
        if let Some(status) = message.status() {
            let branch = message.top_via().ok();
            let branch = branch.as_ref().and_then(|via| via.branch()?.strip_prefix(b"z9hG4bK"));
            let id = branch.and_then(|branch| std::str::from_utf8(branch).ok());
            if status >= 200
                && let Some(sent) = id.and_then(|id| self.sent.remove(id))
            {
                self.end(sent, Outcome::of(status));
            }
            return;
        }
        let status = self.keep(&message);
        if status != ACCEPTED {
            Self::count(&self.shared.refused);
        }
        let response = respond(&message, flow, status, &random());
        let Local { worker, out, .. } = &mut self.local;
        worker.receive(self.hub.clock.now(), flow, &response, out);
    }

    /// Stores the request `message`. Returns the status of the response.
    fn keep(&mut self, message: &Message<'_>) -> Status {
        let Request { user, message } = match Request::read(message, wall_clock()) {
            Ok(request) => request,
            Err(status) => return status,
        };
        match self.messages.keep_message(&user, &message, self.settings.limits) {
            Ok(true) => {
                Self::count(&self.shared.kept);
                self.shared.users.lock().insert(user);
                ACCEPTED
            }
            Ok(false) => Status::TEMPORARILY_UNAVAILABLE,
            Err(error) => {
                log::error("messages", || error.to_string());
                Status::SERVER_INTERNAL_ERROR
            }
        }
    }

    /// Begins the delivery of the messages of `user`, unless it is under way.
    fn begin(&mut self, user: String) {
        if self.busy.insert(user.clone()) {
            self.waiting.push_back(user);
        }
    }

    /// Sends the oldest messages of users that wait.
    fn deliver_next(&mut self) {
        while self.sent.len() < AT_ONCE
            && let Some(user) = self.waiting.pop_front()
        {
            match self.messages.oldest_message(&user) {
                Ok(Oldest::Message { id, message }) => {
                    let branch = random();
                    let request = deliver(&user, &message, &self.flow, &branch);
                    let until = Instant::now() + PATIENCE;
                    self.sent.insert(branch, Sent { user, id, until });
                    let Local { worker, out, .. } = &mut self.local;
                    worker.receive(self.hub.clock.now(), &self.flow, &request, out);
                }
                Ok(Oldest::None) => {
                    self.busy.remove(&user);
                    self.shared.users.lock().remove(&user);
                }
                // If that server fails, the next REGISTER begins again.
                Ok(Oldest::Claimed) => {
                    self.busy.remove(&user);
                }
                Err(error) => {
                    self.busy.remove(&user);
                    log::error("messages", || error.to_string());
                }
            }
        }
    }

    /// Takes the outcome of a delivery.
    fn end(&mut self, sent: Sent, outcome: Outcome) {
        let Sent { user, id, .. } = sent;
        match outcome {
            Outcome::Delivered => Self::count(&self.shared.delivered),
            Outcome::Rejected => log::warn("messages", || {
                format!("a message for {user} is deleted: the phone rejects it")
            }),
            // The next REGISTER begins again.
            Outcome::Away => {
                self.busy.remove(&user);
                return;
            }
        }
        if let Err(error) = self.messages.delete_message(id) {
            log::error("messages", || error.to_string());
            self.busy.remove(&user);
            return;
        }
        self.waiting.push_back(user);
    }

    /// Moves messages to the database of accounts, if they are kept there.
    fn catch_up(&self) {
        let Some(queued) = &self.queued else { return };
        if let Some(users) = queued.catch_up(&self.busy) {
            log::info("messages", || "the database of kept messages answers".to_owned());
            self.shared.users.lock().extend(users);
        }
    }

    /// Deletes the messages that are too old.
    fn purge(&mut self) {
        let oldest = wall_clock() - sip::Duration::from(self.settings.time);
        let purged = self.messages.purge_messages(oldest);
        let report = |error: Error| log::error("messages", || error.to_string());
        match purged {
            Ok(0) => {}
            Ok(count) => log::info("messages", || format!("{count} old messages are deleted")),
            Err(error) => report(error),
        }
        if self.queued.is_some() {
            // Another server, or SQL, may have added some.
            match self.messages.users_with_messages() {
                Ok(users) => self.shared.users.lock().extend(users),
                Err(error) => report(error),
            }
        }
    }
}

/// A random text of 32 hexadecimal digits.
fn random() -> String {
    let mut bytes = [0; 16];
    // Without randomness of the system the server could not have started.
    let _ = getrandom::fill(&mut bytes);
    format!("{:032x}", u128::from_ne_bytes(bytes))
}
