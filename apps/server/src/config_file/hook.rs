//! The section `[numbers.hook]`: an HTTP hook that decides on calls to and from trunks.

use super::push::url;
use super::reader::Section;
use super::values::{at_least, some_duration, unknown, word};
use crate::decisions::DecisionSettings;
use sip::Duration;
use std::time;

/// The longest time that a call may wait. A phone repeats its INVITE for 32 s (RFC 3261 section
/// 17.1.1.2, timer B), and a caller hears nothing meanwhile.
const LONGEST: time::Duration = time::Duration::from_secs(10);

pub(super) fn read(section: &mut Section<'_, '_>, hook: &mut DecisionSettings) {
    section.read_some("url", &mut hook.url, word(url));
    let mut timeout = Duration::from(hook.timeout);
    section.read("timeout", &mut timeout, some_duration);
    hook.timeout = time::Duration::from_micros(timeout.as_micros());
    section.read("fallback", &mut hook.refuses, word(fallback));
    section.read("max_waiting", &mut hook.max_waiting, at_least(1));
    let keys = ["url", "timeout", "fallback", "max_waiting"];
    section.check(hook.url.is_some(), &keys, || {
        "[numbers.hook] has no url; expected one such as url = \"http://127.0.0.1:8080/route\""
            .to_owned()
    });
    section.check(hook.timeout <= LONGEST, &["timeout"], || {
        "numbers.hook.timeout is longer than 10s, for which a caller hears nothing".to_owned()
    });
}

/// True for calls that are refused without a decision.
fn fallback(text: &str) -> Result<bool, String> {
    match text {
        "allow" => Ok(false),
        "refuse" => Ok(true),
        other => Err(unknown(other, "allow, refuse")),
    }
}
