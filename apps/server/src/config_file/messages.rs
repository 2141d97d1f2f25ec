//! The section `[messages]`: messages that are kept for users without a reachable phone.

use super::reader::Section;
use super::values::{at_least, flag, some_duration};
use crate::settings::Settings;
use sip::Duration;
use sip_server::config::{Mode, State};
use std::time;

pub(super) fn read(section: &mut Section<'_, '_>, settings: &mut Settings) {
    let (engine, kept) = (&mut settings.engine, &mut settings.kept_messages);
    section.read("keep", &mut engine.keeps_messages, flag);
    section.read("max_per_user", &mut kept.limits.of_user, at_least(1));
    section.read("max_messages", &mut kept.limits.all, at_least(1));
    let mut age = Duration::from(kept.time);
    section.read("keep_for", &mut age, some_duration);
    kept.time = time::Duration::from_micros(age.as_micros());
    let is_usable = (engine.mode, engine.state) == (Mode::Proxy, State::Stateful);
    section.check(!engine.keeps_messages || is_usable, &["keep"], || {
        "messages.keep needs mode = \"proxy\" and state = \"stateful\"".to_owned()
    });
}
