//! Who is registered, a page of it, in the order of names.
//!
//! The engine keeps bindings in no order and in many parts. A page is found by going through them,
//! a part at a time, and keeping as many as the page has rows: memory and time for a turn stay
//! small however many there are.

use crate::lock::Lock;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;
use sip::Instant;
use sip_server::BindingView;

type Engine = sip_server::Server<Lock>;

/// What tells bindings apart, and puts them in order.
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

/// Which rows are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The first ones.
    First,
    /// This one, or what is behind it, and on.
    From(Key),
    /// Those behind this one.
    Behind(Key),
    /// Those before this one.
    Before(Key),
    /// The last ones.
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

/// A page that is looked for.
#[derive(Debug)]
struct Search {
    place: Place,
    /// The part that is looked at next.
    part: usize,
    /// How many rows are wanted.
    wanted: usize,
    rows: Vec<Row>,
    /// How many bindings are before the rows, or none of the place.
    before: usize,
    total: usize,
    /// Changes there were when it began.
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
    /// What is shown.
    pub(super) rows: Vec<Row>,
    /// How many there are before it.
    pub(super) before: usize,
    /// How many there are in all.
    pub(super) total: usize,
    search: Option<Search>,
    /// Changes that there were when it was looked for.
    seen: u64,
}

impl List {
    /// Looks for a page of `wanted` rows, of which there is at least one, where there were so many
    /// `changes` by now.
    pub(super) fn look(&mut self, place: Place, wanted: usize, changes: u64) {
        let wanted = wanted.max(1);
        let rows = Vec::with_capacity(wanted);
        self.search = Some(Search { place, part: 0, wanted, rows, before: 0, total: 0, changes });
    }

    /// Looks for the same page again.
    pub(super) fn look_again(&mut self, wanted: usize, changes: u64) {
        let first = self.rows.first().filter(|_| self.before > 0);
        let place = first.map_or(Place::First, |row| Place::From(row.key.clone()));
        self.look(place, wanted, changes);
    }

    /// Looks for the next page, if there is one.
    pub(super) fn look_on(&mut self, wanted: usize, changes: u64) {
        let has_more = self.before + self.rows.len() < self.total;
        if let Some(last) = self.rows.last().filter(|_| has_more) {
            self.look(Place::Behind(last.key.clone()), wanted, changes);
        }
    }

    /// Looks for the page before, if there is one.
    pub(super) fn look_back(&mut self, wanted: usize, changes: u64) {
        if let Some(first) = self.rows.first().filter(|_| self.before > 0) {
            self.look(Place::Before(first.key.clone()), wanted, changes);
        }
    }

    /// Whether it is looked for no more, but something has changed since.
    pub(super) fn is_old(&self, changes: u64) -> bool {
        self.search.is_none() && self.seen != changes
    }

    /// Looks at one part. Returns whether the page has been found.
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
            // A first page is full; a page whose rows are all gone is the last one.
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
