//! The keys of a handshake.

use super::Session;
use super::keys::Protection;
use crate::error::SessionError;
use srtp::{MasterKey, Suite};

impl Session {
    /// Sets the keys that a handshake has yielded for the stream.
    ///
    /// # Errors
    /// [`SessionError::Keys`] if they are unusable. The session is unchanged.
    pub fn set_keys(
        &mut self,
        suite: Suite,
        local: MasterKey,
        remote: MasterKey,
    ) -> Result<(), SessionError> {
        let keys = Protection::of_keys(suite, local, remote, &mut self.measured)?;
        self.protection = Some(keys);
        Ok(())
    }

    /// Returns the suite of the packets, if they are encrypted and the keys are known.
    #[must_use]
    pub fn suite(&self) -> Option<Suite> {
        self.protection.as_ref().map(|protection| protection.suite)
    }

    /// Returns true if the stream is encrypted and its keys are not known yet. Nothing is sent or
    /// received until then.
    #[must_use]
    pub const fn awaits_keys(&self) -> bool {
        self.stream.keying.is_encrypted() && self.protection.is_none()
    }
}
