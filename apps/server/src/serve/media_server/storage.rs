//! The thread that reads and writes messages, so that no call waits for a disk.

use super::command::{Commands, NewMessage};
use super::index::Index;
use super::input::Input;
use crate::log;
use crate::voicemail::Message;
use media_server::{Ask, CallId, MessageId, Recording, Reply};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

/// The maximum number of waiting requests.
const QUEUE: usize = 256;
/// The interval between two looks for changes by commands.
const INTERVAL: Duration = Duration::from_secs(2);

/// A request of a call.
struct Job {
    call: CallId,
    mailbox: String,
    ask: Ask,
}

/// The storage of messages. When it is dropped, all requests so far are carried out.
pub(in crate::serve) struct Storage {
    index: Arc<Index>,
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Storage {
    /// Starts the thread. Its replies go to `replies`.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(
        index: &Arc<Index>,
        commands: Commands,
        replies: SyncSender<Input>,
    ) -> io::Result<Self> {
        let (jobs, queue) = sync_channel(QUEUE);
        let (index, worker) = (Arc::clone(index), Worker { index: Arc::clone(index), commands });
        let thread = std::thread::Builder::new()
            .name("voicemail".to_owned())
            .spawn(move || worker.run(&queue, &replies))?;
        Ok(Self { index, jobs: Some(jobs), thread: Some(thread) })
    }

    /// Carries out a request of `call`. Returns the reply if it is known at once.
    pub(in crate::serve) fn ask(&self, call: CallId, mailbox: String, ask: Ask) -> Option<Reply> {
        if ask == Ask::List {
            return Some(Reply::Listed(self.index.list(&mailbox)));
        }
        let Some(jobs) = &self.jobs else { return Some(failure(&ask)) };
        match jobs.try_send(Job { call, mailbox, ask }) {
            Ok(()) => None,
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => {
                log::error("voicemail", || {
                    format!("a request for mailbox {} is dropped: too many wait", job.mailbox)
                });
                Some(failure(&job.ask))
            }
        }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The reply to a request that failed.
const fn failure(ask: &Ask) -> Reply {
    match ask {
        Ask::Load(_) => Reply::Loaded(None),
        _ => Reply::Done(false),
    }
}

struct Worker {
    index: Arc<Index>,
    commands: Commands,
}

impl Worker {
    fn run(&self, queue: &Receiver<Job>, replies: &SyncSender<Input>) {
        loop {
            match queue.recv_timeout(INTERVAL) {
                Ok(Job { call, mailbox, ask }) => {
                    if let Some(reply) = self.carry_out(&mailbox, ask) {
                        // The call may have ended, and the media server with it.
                        let _ = replies.try_send(Input::Reply(call, reply));
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.index.refresh(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn carry_out(&self, mailbox: &str, ask: Ask) -> Option<Reply> {
        let note = |action: &str, error: &io::Error| {
            log::error("voicemail", || {
                format!("a message of mailbox {mailbox} cannot be {action}: {error}")
            });
        };
        match ask {
            Ask::List => Some(Reply::Listed(self.index.list(mailbox))),
            Ask::Load(id) => {
                let samples = self.index.files().load(mailbox, id);
                let samples = samples.inspect_err(|error| note("read", error));
                Some(Reply::Loaded(samples.ok().map(Into::into)))
            }
            Ask::Keep(recording) => {
                let kept = self.keep(mailbox, &recording);
                Some(Reply::Done(kept.inspect_err(|error| note("stored", error)).is_ok()))
            }
            Ask::Delete(id) => {
                let deleted = self.index.files().delete(mailbox, id);
                if deleted.is_ok() {
                    self.index.remove(mailbox, id);
                }
                Some(Reply::Done(deleted.inspect_err(|error| note("deleted", error)).is_ok()))
            }
            Ask::MarkHeard(id) => {
                let marked = self.mark_heard(mailbox, id);
                let _ = marked.inspect_err(|error| note("marked", error));
                None
            }
        }
    }

    fn keep(&self, mailbox: &str, recording: &Recording) -> io::Result<()> {
        let now = SystemTime::now();
        let id = self.index.next_id(mailbox, now);
        let message = self.index.files().keep(mailbox, id, recording, now)?;
        let Message { caller, proved, .. } = &message;
        log::info("voicemail", || {
            let seconds = message.duration().as_secs_f32();
            let claim = if *proved { "" } else { " (not authenticated)" };
            format!("mailbox {mailbox} has a new message of {seconds:.1} s from {caller}{claim}")
        });
        let sound = self.index.files().sound(mailbox, id);
        self.commands.run(NewMessage::new(mailbox, &message, sound));
        self.index.add(mailbox, message);
        Ok(())
    }

    fn mark_heard(&self, mailbox: &str, id: MessageId) -> io::Result<()> {
        let Some(message) = self.index.message(mailbox, id) else { return Ok(()) };
        self.index.files().mark_heard(mailbox, &message)?;
        self.index.mark_heard(mailbox, id);
        Ok(())
    }
}
