//! The section `[registrar]`.

use super::reader::Section;
use super::values::{self, at_least, duration, flag, networks, word};
use crate::keep_alive::KeepAliveSettings;
use crate::settings::Settings;
use sip::Duration;
use sip_server::config::KeepAlive;
use std::time;

pub(super) fn read(section: &mut Section<'_, '_>, settings: &mut Settings) {
    read_keep_alive(section, &mut settings.keep_alive);
    let registrar = &mut settings.engine.registrar;
    section.read("min_expires", &mut registrar.min_expires, duration);
    section.read("max_expires", &mut registrar.max_expires, duration);
    section.read("default_expires", &mut registrar.default_expires, duration);
    section.read("max_contacts", &mut registrar.max_contacts, at_least(1));
    section.read("max_contact_bytes", &mut registrar.max_bytes, at_least(1024));
    section.read("gruu", &mut registrar.gruu, flag);
    section.read("flow_timer", &mut registrar.flow_timer, duration);
    section.read_whole("by_flow", &mut registrar.by_flow, networks());
    section.read_whole("by_contact", &mut registrar.by_contact, networks());
    let (min, max) = (registrar.min_expires, registrar.max_expires);
    section.check(min <= max, &["min_expires", "max_expires"], || {
        format!(
            "min_expires ({}) is longer than max_expires ({}): no expiry would be accepted",
            values::show(min),
            values::show(max)
        )
    });
    let default = registrar.default_expires;
    section.check(
        min > max || (min..=max).contains(&default),
        &["default_expires", "min_expires", "max_expires"],
        || {
            format!(
                "default_expires ({}) is not between min_expires ({}) and max_expires ({})",
                values::show(default),
                values::show(min),
                values::show(max)
            )
        },
    );
    section.check(min <= Duration::from_secs(3600), &["min_expires"], || {
        "min_expires is longer than an hour, which a registrar must not require (RFC 3261 section \
         10.3 step 7); expected at most \"1h\""
            .to_owned()
    });
}

fn keep_alive(name: &str) -> Result<Option<KeepAlive>, String> {
    match name {
        "off" => Ok(None),
        "crlf" => Ok(Some(KeepAlive::EmptyLine)),
        "options" => Ok(Some(KeepAlive::Options)),
        _ => Err(values::unknown(name, "off, crlf, options")),
    }
}

fn read_keep_alive(section: &mut Section<'_, '_>, settings: &mut KeepAliveSettings) {
    section.read("keepalive", &mut settings.kind, word(keep_alive));
    let mut interval = Duration::from(settings.interval);
    section.read("keepalive_interval", &mut interval, duration);
    settings.interval = time::Duration::from_micros(interval.as_micros());
    section.read("keepalive_rate", &mut settings.rate, at_least(1));
    let bounds = Duration::from_secs(5)..=Duration::from_secs(3600);
    section.check(bounds.contains(&interval), &["keepalive_interval"], || {
        format!("keepalive_interval ({}) is not between 5s and 1h", values::show(interval))
    });
}
