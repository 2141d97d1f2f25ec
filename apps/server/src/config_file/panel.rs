//! The section `[panel]`: web pages for administrators, and the HTTP API.

use super::reader::Section;
use super::values::{duration, flag};
use crate::settings::Settings;
use sip::Duration;

/// The shortest time without use after which a session ends.
const MIN_IDLE: Duration = Duration::from_secs(60);

pub(super) fn read(section: &mut Section<'_, '_>, settings: &mut Settings) {
    let panel = &mut settings.panel;
    section.read("enabled", &mut panel.enabled, flag);
    section.read("users", &mut panel.users, flag);
    let mut idle = Duration::from(panel.idle);
    section.read("idle", &mut idle, duration);
    panel.idle = idle.into();
    section.check(idle >= MIN_IDLE, &["idle"], || {
        "panel.idle is too short; expected at least a minute".to_owned()
    });
    let is_served = !panel.enabled || settings.http.listen.is_some();
    section.check(is_served, &["enabled"], || {
        "panel.enabled needs http.listen, the address at which the panel is served, such as \
         \"127.0.0.1:8080\""
            .to_owned()
    });
}
