//! A page of the registered users, in the order of names.
//!
//! The engine keeps bindings unordered and in many parts. A page is found by scanning one part at a
//! time, and keeping as many bindings as the page has rows. Memory and time per turn stay small for
//! any number of bindings.

use crate::lock::Lock;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;
use sip::Instant;
use sip_server::BindingView;

type Engine = sip_server::Server<Lock>;

/// The sort key of a binding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// The address of record.
    pub(super) name: Box<[u8]>,
    /// The contact URI.
    pub(super) contact: Box<[u8]>,
}

/// A binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) key: Key,
    pub(super) remote: SocketAddr,
    pub(super) expires: Instant,
}

/// The position of the page searched for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The first rows.
    First,
    /// From this row on, or from its successor.
    From(Key),
    /// The rows behind this one.
    Behind(Key),
    /// The rows before this one.
    Before(Key),
    /// The last rows.
    Last,
}

impl Place {
    fn holds(&self, name: &[u8], contact: &[u8]) -> bool {
        let key = (name, contact);
        match self {
            Self::First | Self::Last => true,
            Self::From(other) => key >= (&*other.name, &*other.contact),
            Self::Behind(other) => key > (&*other.name, &*other.contact),
            Self::Before(other) => key < (&*other.name, &*other.contact),
        }
    }

    fn is_backwards(&self) -> bool {
        matches!(self, Self::Before(_) | Self::Last)
    }
}

/// The search for a page.
#[derive(Debug)]
struct Search {
    place: Place,
    /// The part to scan next.
    part: usize,
    /// Number of rows wanted.
    wanted: usize,
    rows: Vec<Row>,
    /// Number of bindings before the rows.
    before: usize,
    total: usize,
    /// Number of changes when the search began.
    changes: u64,
}

impl Search {
    fn add(&mut self, binding: &BindingView<'_>) {
        self.total += 1;
        let (name, contact) = (binding.address_of_record, binding.contact);
        if !self.place.holds(name, contact) {
            self.before += usize::from(!self.place.is_backwards());
            return;
        }
        let is_before = |row: &Row| (&*row.key.name, &*row.key.contact) < (name, contact);
        let at = self.rows.partition_point(is_before);
        let is_full = self.rows.len() == self.wanted;
        let key = || Key { name: name.into(), contact: contact.into() };
        let row = || Row { key: key(), remote: binding.flow.remote, expires: binding.expires };
        if self.place.is_backwards() {
            self.before += usize::from(is_full);
            if !is_full {
                self.rows.insert(at, row());
            } else if at > 0 {
                self.rows.insert(at, row());
                self.rows.remove(0);
            }
        } else if at < self.wanted {
            self.rows.truncate(self.wanted - 1);
            self.rows.insert(at, row());
        }
    }
}

/// A page of bindings.
#[derive(Debug, Default)]
pub(super) struct List {
    /// The rows shown.
    pub(super) rows: Vec<Row>,
    /// Number of bindings before them.
    pub(super) before: usize,
    /// Number of all bindings.
    pub(super) total: usize,
    search: Option<Search>,
    /// Number of changes at the time of the search.
    seen: u64,
}

impl List {
    /// Starts the search for a page of `wanted` rows, at least one, at the change number `changes`.
    pub(super) fn look(&mut self, place: Place, wanted: usize, changes: u64) {
        let wanted = wanted.max(1);
        let rows = Vec::with_capacity(wanted);
        self.search = Some(Search { place, part: 0, wanted, rows, before: 0, total: 0, changes });
    }

    /// Searches again from the first row of the present page.
    pub(super) fn look_again(&mut self, wanted: usize, changes: u64) {
        let first = self.rows.first().filter(|_| self.before > 0);
        let place = first.map_or(Place::First, |row| Place::From(row.key.clone()));
        self.look(place, wanted, changes);
    }

    /// Searches for the next page, if there is one.
    pub(super) fn look_on(&mut self, wanted: usize, changes: u64) {
        let has_more = self.before + self.rows.len() < self.total;
        if let Some(last) = self.rows.last().filter(|_| has_more) {
            self.look(Place::Behind(last.key.clone()), wanted, changes);
        }
    }

    /// Searches for the previous page, if there is one.
    pub(super) fn look_back(&mut self, wanted: usize, changes: u64) {
        if let Some(first) = self.rows.first().filter(|_| self.before > 0) {
            self.look(Place::Before(first.key.clone()), wanted, changes);
        }
    }

    /// Returns true if no search is running and bindings have changed since.
    pub(super) fn is_old(&self, changes: u64) -> bool {
        self.search.is_none() && self.seen != changes
    }

    /// Scans one part. Returns true if the page is found.
    pub(super) fn turn(&mut self, engine: &Engine, now: Instant) -> bool {
        let Some(search) = &mut self.search else { return false };
        engine.for_each_binding_of(search.part, now, &mut |binding| search.add(&binding));
        search.part += 1;
        if search.part < Engine::PARTS {
            return false;
        }
        let Some(found) = self.search.take() else { return false };
        let is_short = found.rows.len() < found.wanted.min(found.total);
        match found.place {
            // A first page is full, and a page without remaining rows becomes the last one.
            Place::Before(_) if is_short => {
                self.look(Place::First, found.wanted, found.changes);
                return false;
            }
            Place::From(_) | Place::Behind(_) if is_short && found.rows.is_empty() => {
                self.look(Place::Last, found.wanted, found.changes);
                return false;
            }
            _ => {}
        }
        (self.rows, self.before, self.total) = (found.rows, found.before, found.total);
        self.seen = found.changes;
        true
    }
}
