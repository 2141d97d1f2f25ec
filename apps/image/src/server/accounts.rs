//! The users from the file on the TFTP server.

use super::budget::{Budget, TAKEN_IN, USER};
use super::shortage::Level;
use crate::lock::Lock;
use crate::machine::heap::Heap;
use crate::tftp::{Failure, Progress, Transfer};
use crate::users::{BadLine, Fault, Users};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::{self, Vec};
use core::fmt;
use core::net::{Ipv4Addr, SocketAddrV4};
use sip::Instant;
use sip::digest::Algorithm;
use sip_server::{Logins, Output};

/// Maximum length of the file in bytes.
const MOST_BYTES: u64 = 64 << 20;
/// Estimated bytes of an address-of-record in a list.
const ADDRESS: usize = 80;
/// The part of the memory that must stay free after all users are added: one eighth.
const SPARE: usize = 8;
/// Number of users added per turn, so that messages are not delayed.
const TURN: usize = 64;

/// The reason why a file was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The transfer failed.
    Transfer(Failure),
    /// A line is invalid.
    Line(BadLine),
    /// It contains no users.
    Empty,
    /// There is no hash algorithm that all users have.
    Algorithms,
    /// The memory is too small for its users.
    Memory {
        /// The users of the file.
        users: usize,
        /// Bytes of the machine's memory.
        claimed: usize,
    },
    /// The memory for its users is in use otherwise.
    NoRoom,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transfer(failure) => write!(f, "{failure}"),
            Self::Line(bad) => write!(f, "{bad}"),
            Self::Empty => f.write_str("it names no users"),
            Self::Memory { users, claimed } => {
                let (needed, claimed) = ((users * USER).div_ceil(1 << 20), claimed >> 20);
                write!(
                    f,
                    "{users} users need {needed} MiB of memory, and this machine has {claimed}"
                )
            }
            Self::NoRoom => f.write_str("there is too little free memory"),
            Self::Algorithms => f.write_str(
                "its users have no algorithm in common: one of MD5, SHA-256, SHA-512-256 for all",
            ),
        }
    }
}

/// A transfer to this local port.
#[derive(Debug)]
struct Fetch {
    port: u16,
    transfer: Transfer,
    users: Users,
    /// The name of the file, and its server.
    file: String,
    server: Ipv4Addr,
}

/// The users being added, a few at a time.
struct TakingIn {
    users: Box<dyn Iterator<Item = (Box<[u8]>, Logins)>>,
    /// The addresses-of-record added so far, in order.
    new: Vec<Box<[u8]>>,
    /// The addresses-of-record to remove, once all others are added.
    gone: Option<vec::IntoIter<Box<[u8]>>>,
}

impl fmt::Debug for TakingIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TakingIn({})", self.new.len())
    }
}

/// The users, and the transfer of their file.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    realm: String,
    /// The realm of the current users.
    known_realm: String,
    /// The addresses-of-record of the current users, in order.
    known: Vec<Box<[u8]>>,
    fetch: Option<Fetch>,
    taking_in: Option<TakingIn>,
    /// The algorithms for which all users have a hash.
    pub(super) algorithms: Vec<Algorithm>,
    /// The time at which the current users were read.
    since: Option<Instant>,
}

impl Accounts {
    /// Number of users.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// The time at which the users of `realm` were read, if there are any.
    pub(super) fn since(&self, realm: &str) -> Option<Instant> {
        self.since.filter(|_| self.known_realm == realm)
    }

    /// The file being transferred, and its server.
    pub(super) fn source(&self) -> Option<(&str, Ipv4Addr)> {
        self.fetch.as_ref().map(|fetch| (fetch.file.as_str(), fetch.server))
    }

    /// Returns true while a file is transferred or its users are added.
    pub(super) fn is_busy(&self) -> bool {
        self.fetch.is_some() || self.taking_in.is_some()
    }

    /// Starts the transfer of `file`, with users of `realm`, from `server` to the local `port`.
    pub(super) fn fetch(
        &mut self,
        now: Instant,
        server: Ipv4Addr,
        file: &str,
        realm: &str,
        port: u16,
        memory: Heap,
    ) {
        self.realm = realm.into();
        let transfer = Transfer::new(server, file, MOST_BYTES, now);
        let users = Users::new(realm, Budget::of(memory.claimed).users);
        self.fetch = Some(Fetch { port, transfer, users, file: file.into(), server });
    }

    /// The local port of the transfer.
    pub(super) fn port(&self) -> Option<u16> {
        self.fetch.as_ref().map(|fetch| fetch.port)
    }

    /// Handles a datagram to [`Accounts::port`].
    ///
    /// # Errors
    /// If the file cannot be used: the users stay as they were.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        remote: SocketAddrV4,
        payload: &[u8],
        memory: Heap,
    ) -> Result<(), Trouble> {
        let line = |bad: BadLine| match bad.fault {
            Fault::Many { users, .. } => Trouble::Memory { users, claimed: memory.claimed },
            _ => Trouble::Line(bad),
        };
        if Level::of(memory) != Level::Plenty {
            return Err(Trouble::NoRoom);
        }
        let Some(fetch) = &mut self.fetch else { return Ok(()) };
        match fetch.transfer.receive(now, remote, payload) {
            Progress::Nothing => Ok(()),
            Progress::More(bytes) => fetch.users.read(bytes).map_err(line),
            Progress::End(bytes) => {
                let read = fetch.users.read(bytes).and_then(|()| fetch.users.end());
                read.map_err(line)?;
                self.begin_taking_in(memory)
            }
            Progress::Failed(failure) => Err(Trouble::Transfer(failure)),
        }
    }

    /// Returns the datagram to send from [`Accounts::port`], and its destination.
    ///
    /// # Errors
    /// After a timeout.
    pub(super) fn transmit(
        &mut self,
        now: Instant,
    ) -> Result<Option<(SocketAddrV4, &[u8])>, Trouble> {
        let Some(fetch) = &mut self.fetch else { return Ok(None) };
        fetch.transfer.on_time(now).map_err(Trouble::Transfer)?;
        Ok(fetch.transfer.transmit())
    }

    /// Returns true if the file is complete, so that its port is no longer needed.
    pub(super) fn has_come(&self) -> bool {
        self.fetch.is_some() && self.taking_in.is_some()
    }

    /// Ends the transfer and closes [`Accounts::port`].
    pub(super) fn end_fetch(&mut self) {
        self.fetch = None;
    }

    fn begin_taking_in(&mut self, memory: Heap) -> Result<(), Trouble> {
        let Some(fetch) = &mut self.fetch else { return Ok(()) };
        let users = core::mem::replace(&mut fetch.users, Users::new("", 0));
        if users.is_empty() {
            return Err(Trouble::Empty);
        }
        let algorithms = users.algorithms();
        if algorithms.is_empty() {
            return Err(Trouble::Algorithms);
        }
        // Nothing is changed unless all users fit.
        let more = users.len().saturating_sub(self.known.len());
        let needed = more * TAKEN_IN + users.len() * ADDRESS;
        if memory.free() < needed + memory.claimed / SPARE {
            return Err(Trouble::NoRoom);
        }
        self.algorithms = algorithms;
        let new = Vec::with_capacity(users.len());
        let users = Box::new(users.into_users());
        self.taking_in = Some(TakingIn { users, new, gone: None });
        Ok(())
    }

    /// Adds a few users. Returns true after the last ones.
    pub(super) fn take_in(
        &mut self,
        now: Instant,
        engine: &sip_server::Server<Lock>,
        out: &mut Output,
    ) -> bool {
        let Some(work) = &mut self.taking_in else { return false };
        for _ in 0..TURN {
            if let Some(gone) = &mut work.gone {
                match gone.next() {
                    Some(address) => {
                        engine.remove_user(&address, out);
                    }
                    None => {
                        self.known = core::mem::take(&mut work.new);
                        self.since = Some(now);
                        self.known_realm = self.realm.clone();
                        self.taking_in = None;
                        return true;
                    }
                }
            } else if let Some((name, logins)) = work.users.next() {
                let address: Box<[u8]> = [&name, &b"@"[..], self.realm.as_bytes()].concat().into();
                engine.add_user(&address, logins);
                work.new.push(address);
            } else {
                let mut gone = core::mem::take(&mut self.known);
                // `@` sorts behind some characters of names, so addresses are not in the order of
                // names.
                work.new.sort_unstable();
                gone.retain(|address| work.new.binary_search(address).is_err());
                work.gone = Some(gone.into_iter());
            }
        }
        false
    }
}
