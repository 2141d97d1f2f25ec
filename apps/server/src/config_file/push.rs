//! The section `[push]`: push notifications to phones that sleep.

use super::reader::Section;
use super::values::{self, at_least, some_duration, word};
use crate::settings::Settings;
use hyper::Uri;
use sip::Duration;
use sip_server::config::{Mode, Push, State};
use std::time;

/// The time for which a phone on UDP is awake after its REGISTER.
const AWAKE: Duration = Duration::from_secs(20);

/// The URL of a hook.
pub(super) fn url(text: &str) -> Result<String, String> {
    match text.parse::<Uri>() {
        Ok(uri)
            if matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(|host| !host.is_empty()) =>
        {
            Ok(text.to_owned())
        }
        _ => Err(format!(
            "\"{text}\" is no URL of a hook; expected one that begins with http:// or https://"
        )),
    }
}

/// The value of `pn-provider` of a push notification service.
fn provider(text: &str) -> Result<String, String> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    match (1..=64).contains(&text.len()) && text.chars().all(is_token) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err(format!("`{text}` is no service; expected a name such as \"fcm\"")),
    }
}

pub(super) fn read(section: &mut Section<'_, '_>, settings: &mut Settings) {
    let push = &mut settings.push;
    section.read_some("url", &mut push.url, word(url));
    let mut providers = Vec::new();
    section.read_whole("providers", &mut providers, values::any_array_of(word(provider)));
    let mut awake = AWAKE;
    section.read("awake", &mut awake, some_duration);
    for (key, time) in [("timeout", &mut push.timeout), ("wait", &mut push.wait)] {
        let mut read = Duration::from(*time);
        section.read(key, &mut read, some_duration);
        *time = time::Duration::from_micros(read.as_micros());
    }
    section.read("max_waiting", &mut push.max_waiting, at_least(1));
    section.read("user_rate", &mut push.user_rate, at_least(1));
    let keys = ["url", "providers", "awake", "timeout", "wait", "max_waiting", "user_rate"];
    section.check(push.url.is_some() && !providers.is_empty(), &keys, || {
        "[push] needs url, the hook, and providers, the names of push notification services in the \
         contacts of phones"
            .to_owned()
    });
    // The sender of a MESSAGE gives it up after 32 s (RFC 3261 section 17.1.2.2, timer F).
    section.check(push.wait <= time::Duration::from_secs(30), &["wait"], || {
        "push.wait is longer than 30s, after which the sender of a message gives it up".to_owned()
    });
    let engine = &mut settings.engine;
    let is_usable = (engine.mode, engine.state) == (Mode::Proxy, State::Stateful);
    section.check(is_usable, &["url"], || {
        "[push] needs mode = \"proxy\" and state = \"stateful\"".to_owned()
    });
    engine.push = push.url.as_ref().map(|_| Push { providers, awake });
}
