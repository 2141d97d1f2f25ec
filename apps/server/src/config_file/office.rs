//! The section `[office]`: subscriptions to message counts and to the calls of users, the pickup of
//! calls, and automatic answers.

use super::media_server::name;
use super::reader::Section;
use super::values::{self, any_array_of, at_least, word};
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

/// A name that phones show, without the characters that end it in a header field.
fn display_name(text: &str) -> Result<String, String> {
    let is_name = (1..=64).contains(&text.chars().count())
        && !text.contains(|it: char| it.is_control() || matches!(it, '"' | '\\'));
    is_name.then(|| text.to_owned()).ok_or_else(|| {
        format!("`{}` is no name; expected 1 to 64 characters, without quotes", text.escape_debug())
    })
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
    section.read_whole("auto_answer", &mut engine.auto_answer, any_array_of(word(name)));
    section.tables("names", "[office.names]", |section| {
        section.require("user", "a name has no user; expected user = \"10\"");
        section.require("name", "a user has no name; expected name = \"Anna Meyer\"");
        let (mut user, mut shown) = (None, None);
        section.read_some("user", &mut user, word(name));
        section.read_some("name", &mut shown, word(display_name));
        if let Some((user, shown)) = user.zip(shown) {
            let known = engine.caller_names.insert(user.into_bytes(), shown);
            section.check(known.is_none(), &["user"], || "this user has a name already".to_owned());
        }
    });
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
