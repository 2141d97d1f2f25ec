//! The phones that were registered on a connection which has ended: a dialog that began there goes
//! on by the binding that the same phone has made since.

use crate::core::flow::Connection;
use alloc::collections::VecDeque;
use sip::{Duration, Instant};

/// The number of entries in a table. The oldest makes room.
const MOST: usize = 256;
/// The number of entries of one address of record.
const MOST_OF_ADDRESS: usize = 8;
/// The lifetime of an entry after the expiry of the binding, that of a dialog's token.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// The identity of a phone, as keyed hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phone {
    /// `+sip.instance`, if it has one.
    pub(crate) instance: Option<u64>,
    /// The Call-ID of its REGISTER, which a phone keeps while it runs (RFC 3261 section 10.2).
    pub(crate) call_id: u64,
}

impl Phone {
    /// True where both are one phone; `None` where nothing tells.
    pub(crate) fn is(&self, other: &Self) -> Option<bool> {
        match (self.instance, other.instance) {
            (Some(one), Some(other)) => Some(one == other),
            _ => (self.call_id == other.call_id).then_some(true),
        }
    }
}

/// A phone on a connection, with the expiry of its binding there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnConnection {
    pub(crate) connection: Connection,
    pub(crate) phone: Phone,
    pub(crate) expires: Instant,
}

/// The bindings on connections that are gone, the oldest first, each with the hash of its address
/// of record.
#[derive(Debug, Default)]
pub(crate) struct Ended(VecDeque<(u64, OnConnection)>);

impl Ended {
    /// Remembers that `address` had the binding `was`.
    pub(crate) fn note(&mut self, address: u64, was: OnConnection) {
        let is_of_address = |(other, _): &(u64, OnConnection)| *other == address;
        let known = self.0.iter().filter(|entry| is_of_address(entry)).count();
        let excess = match known >= MOST_OF_ADDRESS {
            true => self.0.iter().position(is_of_address),
            false => (self.0.len() >= MOST).then_some(0),
        };
        excess.and_then(|place| self.0.remove(place));
        self.0.push_back((address, was));
    }

    /// The phone of `address` that was registered on `connection`; `None` also where several were.
    pub(crate) fn phone(
        &self,
        address: u64,
        connection: Connection,
        now: Instant,
    ) -> Option<Phone> {
        let is_it = |(other, was): &&(u64, OnConnection)| {
            *other == address && was.connection == connection && was.expires + LIFETIME > now
        };
        // The last one knows the Call-ID that it has registered with since.
        let mut found = self.0.iter().rev().filter(is_it).map(|(_, was)| was.phone);
        let phone = found.next()?;
        found.all(|other| other.is(&phone) == Some(true)).then_some(phone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroU64;

    const START: Instant = Instant::from_micros(1_800_000_000_000_000);

    fn on(connection: u64, instance: u64) -> OnConnection {
        let connection = Connection(NonZeroU64::new(connection).unwrap());
        let phone = Phone { instance: Some(instance), call_id: instance };
        OnConnection { connection, phone, expires: START }
    }

    #[test]
    fn an_entry_is_of_one_address_and_one_phone_and_ends() {
        let mut ended = Ended::default();
        ended.note(1, on(5, 7));
        let connection = on(5, 7).connection;
        let found = |ended: &Ended, address, now| ended.phone(address, connection, now);
        assert_eq!(found(&ended, 1, START), Some(on(5, 7).phone));
        assert_eq!(found(&ended, 2, START), None);
        assert_eq!(found(&ended, 1, START + LIFETIME), None);
        assert_eq!(ended.phone(1, on(6, 7).connection, START), None);
        ended.note(1, on(5, 8));
        assert_eq!(found(&ended, 1, START), None, "one of two");
    }

    #[test]
    fn one_address_displaces_no_other_one() {
        let mut ended = Ended::default();
        ended.note(1, on(1, 1));
        for connection in 1..2000 {
            ended.note(2, on(connection, 2));
        }
        assert_eq!(ended.0.len(), 1 + MOST_OF_ADDRESS);
        assert!(ended.phone(1, on(1, 1).connection, START).is_some());
        assert!(ended.phone(2, on(1999, 2).connection, START).is_some(), "the newest is kept");
        for address in 3..2000 {
            ended.note(address, on(1, 3));
        }
        assert_eq!(ended.0.len(), MOST);
    }
}
