//! The section `[office]`: subscriptions to message counts and to the calls of users, and the
//! pickup of calls.

use super::reader::Section;
use super::values::{self, at_least, word};
use crate::settings::Settings;
use sip_server::Watch;
use sip_server::config::{Mode, State};

/// The phones that get message counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MessageWatch {
    Off,
    Subscribed,
    All,
}

fn message_watch(name: &str) -> Result<MessageWatch, String> {
    match name {
        "off" => Ok(MessageWatch::Off),
        "subscribed" => Ok(MessageWatch::Subscribed),
        "all" => Ok(MessageWatch::All),
        _ => Err(values::unknown(name, "subscribed, all, off")),
    }
}

fn watch(name: &str) -> Result<Watch, String> {
    match name {
        "off" => Ok(Watch::Off),
        "state" => Ok(Watch::State),
        "calls" => Ok(Watch::Calls),
        _ => Err(values::unknown(name, "off, state, calls")),
    }
}

/// The characters of a feature code. A user name cannot be dialed by phones behind a letter.
fn code(text: &str) -> Result<String, String> {
    let is_code = |it: char| matches!(it, '*' | '#' | '0'..='9');
    match text.len() {
        1..=8 if text.chars().all(is_code) => Ok(text.to_owned()),
        _ => Err(format!("`{text}` is no code; expected 1 to 8 of * # 0-9, such as \"**\"")),
    }
}

pub(super) fn read(section: &mut Section<'_, '_>, settings: &mut Settings) {
    let mut messages = MessageWatch::Subscribed;
    section.read("messages", &mut messages, word(message_watch));
    settings.tells_all_phones = messages == MessageWatch::All;
    let limits = &mut settings.notifier;
    section.read("max_subscriptions", &mut limits.subscriptions, at_least(1));
    section.read("max_subscriptions_per_user", &mut limits.subscriptions_of_user, at_least(1));
    section.read("max_subscriptions_per_source", &mut limits.subscriptions_of_source, at_least(1));
    let engine = &mut settings.engine;
    engine.watching.messages = messages != MessageWatch::Off;
    section.read("watch", &mut engine.watching.calls, word(watch));
    let mut pickup = None;
    section.read_some("pickup", &mut pickup, word(code));
    engine.watching.pickup = pickup.unwrap_or_default();
    let is_usable = (engine.mode, engine.state) == (Mode::Proxy, State::Stateful);
    let watch = engine.watching.calls;
    section.check(watch == Watch::Off || (is_usable && engine.record_route), &["watch"], || {
        "office.watch needs mode = \"proxy\", state = \"stateful\" and record_route = true"
            .to_owned()
    });
    let has_pickup = !engine.watching.pickup.is_empty();
    section.check(!has_pickup || watch == Watch::Calls, &["pickup"], || {
        "office.pickup needs watch = \"calls\", the right to take over the calls of others"
            .to_owned()
    });
}
