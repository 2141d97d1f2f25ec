//! The names of the folders of mailboxes.

use std::fmt::Write;

/// The name of the folder of `mailbox`: other characters than letters, digits and a few marks are
/// escaped by a percent sign.
pub(super) fn folder_of(mailbox: &str) -> String {
    let mut name = String::new();
    for byte in mailbox.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'@' | b'-' | b'_' | b'+' => {
                name.push(char::from(byte));
            }
            b'.' if !name.is_empty() => name.push('.'),
            _ => _ = write!(name, "%{byte:02X}"),
        }
    }
    name
}

/// The mailbox of the folder `name`. `None` if it is no folder of a mailbox.
pub(super) fn mailbox_of(name: &str) -> Option<String> {
    let mailbox = String::from_utf8(sip::uri::unescape(name.as_bytes()).into_owned()).ok()?;
    (mailbox.contains('@') && folder_of(&mailbox) == name).then_some(mailbox)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_names_its_mailbox_and_stays_in_the_folder_of_all() {
        for (mailbox, name) in [
            ("bob@example.com", "bob@example.com"),
            ("+49 1@d", "+49%201@d"),
            ("../x@d", "%2E.%2Fx@d"),
            ("ä%@d", "%C3%A4%25@d"),
        ] {
            assert_eq!(folder_of(mailbox), name);
            assert_eq!(mailbox_of(name).as_deref(), Some(mailbox));
        }
        assert_eq!(folder_of(".."), "%2E.");
        for other in ["", "lost+found", "..", "a%40b", "a@%zz"] {
            assert_eq!(mailbox_of(other), None, "{other}");
        }
    }
}
