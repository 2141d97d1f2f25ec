//! The section `[accounts]`.

use super::reader::Section;
use super::values::{flag, some_duration, text};
use crate::settings::AccountsSettings;

/// Reads the section.
pub(super) fn read(section: &mut Section<'_, '_>, accounts: &mut Option<AccountsSettings>) {
    let mut read = AccountsSettings::default();
    let mut url: Option<String> = None;
    section.read_some("url", &mut url, text);
    section.read_some("password_file", &mut read.place.password_file, text);
    section.read("table", &mut read.place.table, text);
    section.read("poll", &mut read.poll, some_duration);
    section.read("records", &mut read.has_records, flag);
    section.read("messages", &mut read.has_messages, flag);
    section.read("voicemail", &mut read.has_voicemail, flag);
    let keys = ["url", "password_file", "table", "poll", "records", "messages", "voicemail"];
    section.check(url.is_some(), &keys, || {
        "[accounts] needs url, as in \"postgresql://barebell@db.example.com/sip\"".to_owned()
    });
    let Some(url) = url else { return };
    read.place.url = url;
    let checked = read.place.check();
    section.check(checked.is_ok(), &["url", "table"], || {
        checked.err().map_or_else(String::new, |error| error.to_string())
    });
    *accounts = Some(read);
}
