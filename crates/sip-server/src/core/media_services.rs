//! The services of the owner's media server, as the owner sets them.

use alloc::string::String;
use alloc::vec::Vec;

/// A service of the owner's media server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaService {
    /// The sound of the caller returns. For users.
    Echo,
    /// Music. For all callers.
    Music,
    /// A sound of the operator is played. For all callers.
    Announcement,
    /// A conference room. For users, unless rooms are open.
    Conference,
    /// A message is recorded for a user. For all callers.
    Deposit,
    /// The messages of the caller are played. For users.
    Retrieval,
    /// A call waits in a slot, or joins the one that waits there. For users.
    Park,
}

impl MediaService {
    /// True if the name of the service has a rest, which names the announcement, the room, the user
    /// or, by one digit, the slot.
    #[must_use]
    pub const fn has_rest(self) -> bool {
        matches!(self, Self::Announcement | Self::Conference | Self::Deposit | Self::Park)
    }
}

/// The names of services, and the mailboxes. Without names there is no media server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MediaServices {
    /// The user parts of services, in each domain. They have precedence over users of the same
    /// name. A service [with a rest](MediaService::has_rest), such as a room
    /// or a slot, is called by its name followed by the rest.
    pub names: Vec<(String, MediaService)>,
    /// The names of users with a mailbox. A name that ends in `*` is a prefix.
    pub mailboxes: Vec<String>,
    /// True if callers that have not authenticated may enter conference rooms.
    pub open_conferences: bool,
}

impl MediaServices {
    /// The longest rest of a name in bytes.
    const LONGEST: usize = 64;

    /// The service of the user part `user`, and the rest of the name. `None` if it is not the name
    /// of a service.
    #[must_use]
    pub fn find<'u>(&self, user: &'u [u8]) -> Option<(MediaService, &'u [u8])> {
        let whole = self
            .names
            .iter()
            .find(|(name, service)| !service.has_rest() && user == name.as_bytes());
        if let Some((_, service)) = whole {
            return Some((*service, b""));
        }
        let with_rest = self.names.iter().filter(|(_, service)| service.has_rest());
        with_rest
            .filter_map(|(name, service)| Some((*service, user.strip_prefix(name.as_bytes())?)))
            .find(|(service, rest)| match service {
                MediaService::Park => matches!(rest, [b'0'..=b'9']),
                _ => (1..=Self::LONGEST).contains(&rest.len()),
            })
    }

    /// True if only users may call `service`.
    #[must_use]
    pub const fn is_for_users(&self, service: MediaService) -> bool {
        match service {
            MediaService::Echo | MediaService::Retrieval | MediaService::Park => true,
            MediaService::Conference => !self.open_conferences,
            MediaService::Music | MediaService::Announcement | MediaService::Deposit => false,
        }
    }

    /// True if there is a media server.
    pub(crate) const fn has_names(&self) -> bool {
        !self.names.is_empty()
    }

    /// True if the user `name` has a mailbox.
    #[must_use]
    pub fn has_mailbox(&self, name: &[u8]) -> bool {
        !self.names.is_empty() && is_among(name, &self.mailboxes)
    }
}

/// True if `names` has the user `name`. A value that ends in `*` is a prefix.
pub(crate) fn is_among(name: &[u8], names: &[String]) -> bool {
    names.iter().any(|known| match known.strip_suffix('*') {
        Some(start) => name.starts_with(start.as_bytes()),
        None => name == known.as_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_or_prefixes_by_their_service() {
        let services = MediaServices {
            names: [
                ("voicemail", MediaService::Retrieval),
                ("voicemail-", MediaService::Deposit),
                ("room-", MediaService::Conference),
                ("70", MediaService::Park),
            ]
            .map(|(name, service)| (name.into(), service))
            .into(),
            mailboxes: ["alice", "1*"].map(String::from).into(),
            open_conferences: false,
        };
        assert_eq!(services.find(b"voicemail"), Some((MediaService::Retrieval, &b""[..])));
        assert_eq!(services.find(b"voicemail-bob"), Some((MediaService::Deposit, &b"bob"[..])));
        assert_eq!(services.find(b"room-1"), Some((MediaService::Conference, &b"1"[..])));
        assert_eq!(services.find(b"701"), Some((MediaService::Park, &b"1"[..])));
        let long = [&b"room-"[..], &[b'a'; 65]].concat();
        for other in
            [&b"voicemails"[..], b"voicemail-", b"room-", b"Room-1", b"70", b"7012", b"", &long]
        {
            assert_eq!(services.find(other), None, "{}", other.escape_ascii());
        }
        let has = |name: &str| services.has_mailbox(name.as_bytes());
        assert_eq!(["alice", "123", "alice1", "bob"].map(has), [true, true, false, false]);
        let without_names = MediaServices { names: Vec::new(), ..services };
        assert!(!without_names.has_mailbox(b"alice"));
    }
}
