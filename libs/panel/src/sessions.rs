//! Sessions of people at the panel, in memory. A restart ends them.

use crate::role::Role;
use crate::server::Mark;
use std::collections::HashMap;
use std::time::Duration;

/// The time after which a session ends, however it is used.
const LIFE: Duration = Duration::from_secs(12 * 3600);
/// The maximum number of sessions of accounts. Beyond it, the one that was used least recently
/// ends.
pub(crate) const MAX_SESSIONS: usize = 256;
/// The same of users.
pub(crate) const MAX_USER_SESSIONS: usize = 4096;
/// The maximum number of sessions of an account.
const MAX_OF_ACCOUNT: usize = 16;

/// The role of an account, and a mark that changes with its password and its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) role: Role,
    pub(crate) mark: Mark,
}

/// A session of an account, or of a user. It ends when `proof` is not that of the owner any more.
#[derive(Clone, Debug)]
pub(crate) struct Session<R = Standing> {
    /// The account, or the user as `name@domain`.
    pub(crate) account: String,
    pub(crate) proof: R,
    /// The value that each form of the session contains.
    pub(crate) csrf: String,
    /// A message for the next page: true if it is about a failure.
    pub(crate) notice: Option<(bool, String)>,
    began: Duration,
    used: Duration,
}

/// All sessions, by their identifiers.
#[derive(Debug)]
pub(crate) struct Sessions<R = Standing> {
    /// The time without use after which a session ends.
    idle: Duration,
    /// The maximum number.
    most: usize,
    open: HashMap<String, Session<R>>,
}

impl Session {
    /// The role of the account.
    pub(crate) const fn role(&self) -> Role {
        self.proof.role
    }
}

impl<R> Sessions<R> {
    pub(crate) fn new(idle: Duration, most: usize) -> Self {
        Self { idle, most, open: HashMap::new() }
    }

    /// Opens a session with the identifier `id`, and the value `csrf` in its forms. Both are
    /// random.
    pub(crate) fn open(
        &mut self,
        id: String,
        csrf: String,
        account: &str,
        proof: R,
        now: Duration,
    ) {
        self.end_old(now);
        let least_used = |open: &HashMap<String, Session<R>>, account: Option<&str>| {
            let of = open.iter().filter(|(_, it)| account.is_none_or(|name| name == it.account));
            of.min_by_key(|(_, it)| it.used).map(|(id, _)| id.clone())
        };
        let own = self.open.values().filter(|it| it.account == account).count();
        let surplus = if own >= MAX_OF_ACCOUNT {
            least_used(&self.open, Some(account))
        } else if self.open.len() >= self.most {
            least_used(&self.open, None)
        } else {
            None
        };
        surplus.map(|id| self.open.remove(&id));
        let account = account.to_owned();
        let session = Session { account, proof, csrf, notice: None, began: now, used: now };
        self.open.insert(id, session);
    }

    /// The session `id`, if it has not ended. `is_use` extends it.
    pub(crate) fn find(
        &mut self,
        id: &str,
        now: Duration,
        is_use: bool,
    ) -> Option<&mut Session<R>> {
        self.end_old(now);
        let session = self.open.get_mut(id)?;
        if is_use {
            session.used = now;
        }
        Some(session)
    }

    /// Ends the session `id`.
    pub(crate) fn end(&mut self, id: &str) {
        self.open.remove(id);
    }

    /// Ends the sessions of an account, except `kept`.
    pub(crate) fn end_of(&mut self, account: &str, kept: Option<&str>) {
        self.open.retain(|id, session| session.account != account || kept == Some(id));
    }

    fn end_old(&mut self, now: Duration) {
        let idle = self.idle;
        self.open.retain(|_, session| {
            now.saturating_sub(session.used) < idle && now.saturating_sub(session.began) < LIFE
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(1_800_000_000 + seconds)
    }

    #[test]
    fn a_session_ends_without_use_and_at_the_end_of_its_life() {
        let mut sessions = Sessions::new(Duration::from_secs(600), MAX_SESSIONS);
        let open = |sessions: &mut Sessions<Role>, id: &str| {
            sessions.open(id.to_owned(), "c".to_owned(), "eve", Role::Reader, at(0));
        };
        open(&mut sessions, "a");
        assert!(sessions.find("a", at(599), false).is_some());
        assert!(sessions.find("a", at(600), false).is_none(), "a poll is no use");
        open(&mut sessions, "b");
        let mut time = 0;
        while sessions.find("b", at(time), true).is_some() {
            time += 300;
        }
        assert_eq!(Duration::from_secs(time), LIFE);
    }

    #[test]
    fn sessions_are_bounded_and_end_with_their_account() {
        let mut sessions = Sessions::new(Duration::from_secs(600), MAX_SESSIONS);
        for number in 0..MAX_OF_ACCOUNT as u64 + 1 {
            let id = format!("eve{number}");
            sessions.open(id, "c".to_owned(), "eve", Role::Reader, at(number));
        }
        assert!(sessions.find("eve0", at(30), false).is_none());
        assert!(sessions.find("eve1", at(30), false).is_some());
        for number in 0..MAX_SESSIONS {
            let account = format!("other{number}");
            sessions.open(account.clone(), "c".to_owned(), &account, Role::Reader, at(40));
        }
        assert_eq!(sessions.open.len(), MAX_SESSIONS);
        sessions.end_of("other9", None);
        assert!(sessions.find("other9", at(50), false).is_none());
        sessions.end("other8");
        assert!(sessions.find("other8", at(50), false).is_none());
    }
}
