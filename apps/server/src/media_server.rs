//! The settings of the media server.

use media_server::Config;
use sip::Duration;
use sip_server::{MediaService, MediaServices};
use std::path::PathBuf;

/// The settings of the media server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MediaServerSettings {
    /// True if the server has a media server.
    pub(crate) enabled: bool,
    /// The names of services, and the mailboxes.
    pub(crate) services: MediaServices,
    /// The maximum number of calls.
    pub(crate) calls: usize,
    /// The maximum number of calls of one source.
    pub(crate) calls_of_source: usize,
    /// The maximum number of calls that record a message for one mailbox.
    pub(crate) calls_of_mailbox: usize,
    /// The maximum number of members of a conference room.
    pub(crate) members: usize,
    /// The maximum duration of a call.
    pub(crate) call_length: Duration,
    /// The time after which a parked call returns.
    pub(crate) park_time: Duration,
    /// The maximum duration of a message.
    pub(crate) message_length: Duration,
    /// The silence that ends a message.
    pub(crate) message_silence: Duration,
    /// The maximum size of a mailbox in bytes, and of all of them.
    pub(crate) mailbox_size: usize,
    pub(crate) mailboxes_size: usize,
    /// The folder with the sounds of the operator.
    pub(crate) sounds: Option<PathBuf>,
    /// The program that is run for a new message.
    pub(crate) command: Option<PathBuf>,
    /// The time after which that program is killed.
    pub(crate) command_timeout: Duration,
}

/// The default names of services.
const NAMES: [(&str, MediaService); 7] = [
    ("echo", MediaService::Echo),
    ("music", MediaService::Music),
    ("voicemail", MediaService::Retrieval),
    ("*97", MediaService::Retrieval),
    ("voicemail-", MediaService::Deposit),
    ("conference-", MediaService::Conference),
    ("announcement-", MediaService::Announcement),
];

impl Default for MediaServerSettings {
    fn default() -> Self {
        let limits = Config::default();
        Self {
            enabled: false,
            services: MediaServices {
                names: NAMES.map(|(name, service)| (name.to_owned(), service)).to_vec(),
                mailboxes: Vec::new(),
                open_conferences: false,
            },
            calls: limits.calls,
            calls_of_source: limits.calls_of_source,
            calls_of_mailbox: limits.calls_of_mailbox,
            members: limits.members,
            call_length: limits.call_length,
            park_time: limits.park_time,
            message_length: limits.message_length,
            message_silence: limits.silence,
            mailbox_size: 64 << 20,
            mailboxes_size: 2 << 30,
            sounds: None,
            command: None,
            command_timeout: Duration::from_secs(30),
        }
    }
}

impl MediaServerSettings {
    /// The names of a service.
    pub(crate) fn names(&self, service: MediaService) -> Vec<String> {
        let names = self.services.names.iter().filter(|(_, known)| *known == service);
        names.map(|(name, _)| name.clone()).collect()
    }

    /// Replaces the names of a service.
    pub(crate) fn set_names(&mut self, service: MediaService, names: Vec<String>) {
        self.services.names.retain(|(_, known)| *known != service);
        self.services.names.extend(names.into_iter().map(|name| (name, service)));
    }

    /// The services of the engine: none without a media server.
    pub(crate) fn engine_services(&self) -> MediaServices {
        if self.enabled { self.services.clone() } else { MediaServices::default() }
    }

    /// The configuration of the media server with the product name `product`.
    pub(crate) fn config(&self, product: &str) -> Config {
        let mut config = Config {
            calls: self.calls,
            calls_of_source: self.calls_of_source,
            calls_of_mailbox: self.calls_of_mailbox,
            members: self.members,
            call_length: self.call_length,
            park_time: self.park_time,
            message_length: self.message_length,
            silence: self.message_silence,
            ..Config::default()
        };
        if !product.is_empty() {
            config.product = product.to_owned();
        }
        config
    }
}
