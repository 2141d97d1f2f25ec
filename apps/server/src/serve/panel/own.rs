//! The data of a user for the user's own pages: the login, and the mailbox.

use super::parts::Parts;
use crate::accounts::{self, Identity};
use crate::admin::desk::Desk;
use crate::voicemail::{Files, Message};
use ::panel::{Login, Mark};
use serde_json::{Value, json};
use sip::digest::Ha1Set;
use std::fs;

/// The running server, for the pages of users.
pub(super) struct Own<'p>(pub(super) &'p Parts);

impl Own<'_> {
    /// The user `name@domain` with this name.
    pub(super) fn canonical(&self, user: &str) -> Option<String> {
        let identity = accounts::identify(user, None, &self.0.desk.domains()).ok()?;
        Some(format!("{}@{}", identity.name, identity.domain))
    }

    /// The user with this name and SIP password.
    pub(super) fn log_in(&self, user: &str, password: &str) -> Result<Option<Login>, String> {
        let identity = accounts::identify(user, None, &self.0.desk.domains()).ok();
        let unknown = Identity { name: String::new(), domain: String::new() };
        let Identity { name, domain } = identity.as_ref().unwrap_or(&unknown);
        // An unknown user takes as long as a known one.
        let realm = accounts::realm(&*self.0.storage, domain).map_err(|it| it.to_string())?;
        let given = Ha1Set::new(name.as_bytes(), realm.as_bytes(), password.as_bytes());
        let stored = self.0.storage.login_of(name, domain).map_err(|error| error.to_string())?;
        // Users of another database may have one of the hashes only.
        let is_right = |stored: &Ha1Set| {
            stored.md5 == given.md5
                || stored.sha256 == given.sha256
                || stored.sha512_256 == given.sha512_256
        };
        let proved = stored.filter(is_right);
        Ok(proved.map(|stored| Login { user: format!("{name}@{domain}"), mark: mark(&stored) }))
    }

    /// The mark of the password of the user `name@domain`.
    pub(super) fn mark(&self, user: &str) -> Result<Option<Mark>, String> {
        let (name, domain) = user.rsplit_once('@').unwrap_or((user, ""));
        let stored = self.0.storage.login_of(name, domain).map_err(|error| error.to_string())?;
        Ok(stored.as_ref().map(mark))
    }

    fn files(&self) -> Files {
        Files::new(&self.0.desk.data, false)
    }

    fn mailbox(&self, user: &str) -> Result<Vec<Message>, String> {
        let messages = self.files().messages(user);
        messages.map_err(|error| format!("cannot read the mailbox {user}: {error}"))
    }

    fn message(&self, user: &str, id: u64) -> Result<Message, String> {
        let found = self.mailbox(user)?.into_iter().find(|message| message.id == id);
        found.ok_or_else(|| format!("there is no message {id}"))
    }

    /// The messages of a mailbox, the latest first.
    pub(super) fn messages(&self, user: &str) -> Result<Vec<Value>, String> {
        let row = |message: &Message| {
            json!({
                "id": message.id,
                "caller": message.caller,
                "proved": message.proved,
                "at": message.at,
                "seconds": message.duration().as_secs(),
                "heard": message.heard,
            })
        };
        Ok(self.mailbox(user)?.iter().rev().map(row).collect())
    }

    /// The WAV file of a message, which is heard then.
    pub(super) fn sound(&self, user: &str, id: u64) -> Result<Vec<u8>, String> {
        let (files, message) = (self.files(), self.message(user, id)?);
        let failed = |error| format!("cannot read message {id} of {user}: {error}");
        let sound = fs::read(files.sound(user, id)).map_err(failed)?;
        if !message.heard {
            files.mark_heard(user, &message).map_err(failed)?;
        }
        Ok(sound)
    }

    /// Deletes a message.
    pub(super) fn delete(&self, user: &str, id: u64) -> Result<Vec<Value>, String> {
        self.message(user, id)?;
        let deleted = self.files().delete(user, id);
        deleted.map_err(|error| format!("cannot delete message {id} of {user}: {error}"))?;
        Ok(vec![json!({ "id": id })])
    }
}

/// The mark of a password: a hash of its hashes, which are equivalent to the password.
fn mark(stored: &Ha1Set) -> Mark {
    Ha1Set::new(&stored.md5, &stored.sha256, &stored.sha512_256).sha256
}
