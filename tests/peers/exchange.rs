//! A server with a few users and their phones, one at a time.

use crate::phone::{Account, Kind, Phone, Transport};
use crate::server::{Barebell, Options};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by the test that is using the machine: phones with sound take most of a small one.
static TURN: Mutex<()> = Mutex::new(());

/// The users of every exchange, each with the tone that their phones send, in Hz.
const USERS: [(&str, u32); 3] = [("alice", 440), ("bob", 1000), ("carol", 620)];
/// The password of all of them.
pub const PASSWORD: &str = "secret";

/// A running server with the users alice, bob and carol.
#[derive(Debug)]
pub struct Exchange {
    /// The server.
    pub server: Barebell,
    _turn: MutexGuard<'static, ()>,
}

impl Exchange {
    /// Waits for the other tests of this program to end, then starts a server.
    #[must_use]
    pub fn open() -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let users = USERS.map(|(name, _)| (name.to_owned(), PASSWORD.to_owned())).to_vec();
        // Registrations this short let a test see them refreshed.
        let config = "[registrar]\nmin_expires = \"5s\"\n".to_owned();
        Self { server: Barebell::start(&Options { users, config }), _turn: turn }
    }

    /// What a phone of `user` needs to know.
    #[must_use]
    pub fn account(&self, user: &str, transport: Transport) -> Account {
        Account {
            user: user.to_owned(),
            password: PASSWORD.to_owned(),
            server: self.server.address(),
            transport,
            listens: true,
            expires: 600,
            tone: tone_of(user),
        }
    }

    /// Starts a phone of `user` and waits until it is registered.
    #[must_use]
    pub fn phone(&self, kind: Kind, user: &str, transport: Transport) -> Phone {
        Phone::registered(kind, self.account(user, transport))
    }
}

/// The tone that phones of `user` send, in Hz; 350 for one who is no user.
fn tone_of(user: &str) -> u32 {
    USERS.iter().find(|(name, _)| *name == user).map_or(350, |(_, tone)| *tone)
}
