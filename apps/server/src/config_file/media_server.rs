//! The section `[media_server]`.

use super::reader::Section;
use super::values::{any_array_of, at_least, flag, memory, some_duration, text, word};
use crate::settings::Settings;
use sip::Duration;
use sip_server::MediaService;
use sip_server::config::{Mode, State};

/// The keys with the names of services.
const NAMES: [(&str, MediaService); 7] = [
    ("echo", MediaService::Echo),
    ("music", MediaService::Music),
    ("voicemail", MediaService::Retrieval),
    ("message", MediaService::Deposit),
    ("conference", MediaService::Conference),
    ("announcement", MediaService::Announcement),
    ("park", MediaService::Park),
];

/// The longest message.
const LONGEST_MESSAGE: Duration = Duration::from_secs(600);

/// Reads the section into `settings`.
pub(super) fn read(section: &mut Section<'_, '_>, all: &mut Settings) {
    let Settings { engine, media_server: settings, .. } = all;
    section.read("enabled", &mut settings.enabled, flag);
    for (key, service) in NAMES {
        let mut names = settings.names(service);
        section.read_whole(key, &mut names, any_array_of(word(name)));
        settings.set_names(service, names);
    }
    let services = &mut settings.services;
    section.read_whole("mailboxes", &mut services.mailboxes, any_array_of(word(name)));
    section.read("open_conferences", &mut services.open_conferences, flag);
    section.read("max_calls", &mut settings.calls, at_least(1));
    section.read("max_calls_per_source", &mut settings.calls_of_source, at_least(1));
    section.read("max_calls_per_mailbox", &mut settings.calls_of_mailbox, at_least(1));
    section.read("max_members", &mut settings.members, at_least(2));
    section.read("call_length", &mut settings.call_length, some_duration);
    section.read("park_time", &mut settings.park_time, some_duration);
    section.read("message_length", &mut settings.message_length, some_duration);
    section.read("message_silence", &mut settings.message_silence, some_duration);
    section.read("mailbox_size", &mut settings.mailbox_size, memory);
    section.read("mailboxes_size", &mut settings.mailboxes_size, memory);
    section.read_some("sounds", &mut settings.sounds, text);
    section.read_some("command", &mut settings.command, text);
    section.read("command_timeout", &mut settings.command_timeout, some_duration);
    section.check(settings.message_length <= LONGEST_MESSAGE, &["message_length"], || {
        "message_length is longer than ten minutes; a message is held in memory until it is stored"
            .to_owned()
    });
    let is_usable = (engine.mode, engine.state) == (Mode::Proxy, State::Stateful);
    section.check(!settings.enabled || (is_usable && engine.record_route), &["enabled"], || {
        "the media server needs mode = \"proxy\", state = \"stateful\" and record_route = true"
            .to_owned()
    });
    let is_program = settings.command.as_ref().is_none_or(|command| command.is_absolute());
    section.check(is_program, &["command"], || {
        "command: expected the absolute path of a program; it gets the message in environment \
         variables, and no arguments"
            .to_owned()
    });
}

/// The name of a user or service, or a prefix of names.
pub(super) fn name(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty()
        && text.len() <= 64
        && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'@');
    is_name.then(|| text.to_owned()).ok_or_else(|| {
        format!("\"{text}\" is no user part of a SIP URI; expected one such as \"voicemail\"")
    })
}
