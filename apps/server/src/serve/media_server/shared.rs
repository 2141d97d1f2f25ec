//! The media server, as the other threads see it.

use super::command::Commands;
use super::index::{Index, Limits};
use super::input::{Counts, Input};
use super::sounds;
use super::storage::Storage;
use crate::failure::{Failure, during};
use crate::log;
use crate::media_server::MediaServerSettings;
use crate::serve::counted::Named;
use crate::serve::local::Local;
use crate::voicemail::Files;
use media_server::Sounds;
use sip::Endpoint;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use store::Sync;

/// The maximum number of messages and replies that wait for the thread.
const QUEUE: usize = 4096;

/// The media server, as the other threads see it.
pub(crate) struct SharedMediaServer {
    pub(in crate::serve) inputs: SyncSender<Input>,
    pub(in crate::serve) index: Arc<Index>,
    pub(in crate::serve) counts: Arc<Counts>,
    product: String,
}

/// The parts of a media server before the start of its thread.
pub(crate) struct Prepared {
    pub(in crate::serve) queue: Receiver<Input>,
    pub(in crate::serve) storage: Storage,
    pub(in crate::serve) sounds: Sounds,
    pub(in crate::serve) config: media_server::Config,
}

impl SharedMediaServer {
    /// Opens the mailboxes in the data directory `data`, and reads the sounds. Stored messages
    /// survive a power loss as `sync` says.
    ///
    /// # Errors
    /// [`Failure`] if the mailboxes cannot be read, or the system gives no thread.
    pub(in crate::serve) fn open(
        settings: &MediaServerSettings,
        product: &str,
        data: &Path,
        sync: Sync,
    ) -> Result<(Self, Prepared), Failure> {
        let files = Files::new(data, sync != Sync::Never);
        let index = Index::open(files, limits(settings));
        let index = Arc::new(index.map_err(during("cannot read the folder voicemail"))?);
        let (inputs, queue) = sync_channel(QUEUE);
        let timeout = Duration::from(settings.command_timeout);
        let commands = Commands::start(settings.command.clone(), timeout)?;
        let storage = Storage::start(&index, commands, inputs.clone())?;
        let sounds = sounds::read(settings.sounds.as_deref());
        let (config, counts) = (settings.config(product), Arc::default());
        let prepared = Prepared { queue, storage, sounds, config };
        Ok((Self { inputs, index, counts, product: product.to_owned() }, prepared))
    }

    /// Passes the messages in `local.internal` that are for it to the media server.
    pub(in crate::serve) fn take(&self, local: &mut Local) {
        for (flow, bytes) in local.take_internal(Endpoint::MediaServer) {
            if let Err(TrySendError::Full(_)) = self.inputs.try_send(Input::Message(flow, bytes)) {
                self.counts.dropped.fetch_add(1, Ordering::Relaxed);
                log::warn("media-server", || {
                    "messages for the media server are dropped: too many wait".to_owned()
                });
            }
        }
    }

    /// Applies the settings that can change while the server runs, and reads the sounds again.
    pub(in crate::serve) fn configure(&self, settings: &MediaServerSettings) {
        self.index.limit(limits(settings));
        let sounds = sounds::read(settings.sounds.as_deref());
        let config = Box::new(settings.config(&self.product));
        if self.inputs.try_send(Input::Configure(sounds, config)).is_err() {
            log::warn("reload", || "the media server is too busy: it is as before".to_owned());
        }
    }

    /// The counters with their names.
    pub(in crate::serve) fn counters(&self) -> [Named; 11] {
        let Counts { engine, dropped, late, copy_failures } = &*self.counts;
        let counters = *engine.lock();
        [
            ("media-server-calls", "Calls that the media server has answered.", counters.calls),
            (
                "media-server-limit",
                "Calls refused at the limit of calls of the media server.",
                counters.over_limit,
            ),
            (
                "media-server-share",
                "Calls refused at the limits of a source, a conference, a mailbox, a slot or of strangers.",
                counters.over_share,
            ),
            ("media-server-ended", "Calls ended by their length or without media.", counters.ended),
            (
                "media-server-dropped",
                "Messages for the media server dropped because too many waited.",
                dropped.load(Ordering::Relaxed),
            ),
            (
                "media-server-late",
                "Intervals of 20 ms that the media server left out.",
                late.load(Ordering::Relaxed),
            ),
            ("calls-parked", "Calls that were parked by a transfer.", counters.parked),
            (
                "calls-returned",
                "Parked calls returned to the party that had parked them.",
                counters.returned,
            ),
            ("voicemail-recorded", "Messages that were recorded.", counters.recorded),
            ("voicemail-full", "Calls refused since the mailbox was full.", counters.full),
            (
                "voicemail-copy-failures",
                "Failed attempts to copy the state of voice messages to the database of accounts.",
                copy_failures.load(Ordering::Relaxed),
            ),
        ]
    }
}

/// The limits of mailboxes.
fn limits(settings: &MediaServerSettings) -> Limits {
    Limits {
        services: settings.engine_services(),
        mailbox: settings.mailbox_size as u64,
        all: settings.mailboxes_size as u64,
        message: Limits::space(settings.message_length.as_secs() + 1),
    }
}
