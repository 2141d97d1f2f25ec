//! The limits on the number of HTTP connections.

use sip_server::Source;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

/// The maximum number of open connections. They are taken from the files that are reserved for
/// other uses than SIP and media.
pub(super) const MAX_CONNECTIONS: usize = 32;
/// The maximum number of open connections from one source.
pub(super) const MAX_PER_SOURCE: usize = 16;

/// The counters of the listener.
#[derive(Debug, Default)]
pub(crate) struct HttpCounters {
    /// Connections closed because of their address or a limit.
    pub(crate) refused: AtomicU64,
    /// Connections that ended with an error.
    pub(crate) failures: AtomicU64,
}

/// The open connections of each source.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Rc<RefCell<HashMap<Source, usize>>>);

/// The place of one connection. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    source: Source,
}

impl Places {
    /// Takes a place for a connection from `address`. Returns `None` if no place is free.
    pub(super) fn take(&self, address: IpAddr) -> Option<Place> {
        let source = Source::of(address);
        let mut open = self.0.borrow_mut();
        let has_room = open.values().sum::<usize>() < MAX_CONNECTIONS
            && open.get(&source).is_none_or(|count| *count < MAX_PER_SOURCE);
        if !has_room {
            return None;
        }
        *open.entry(source).or_default() += 1;
        Some(Place { places: self.clone(), source })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.places.0.borrow_mut();
        if let Some(count) = open.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_limited_for_a_source_and_in_all_and_free_again() {
        let places = Places::default();
        let of = |last: u8| places.take(IpAddr::from([192, 0, 2, last]));
        let mut taken: Vec<Place> = (0..MAX_PER_SOURCE).map(|_| of(1).unwrap()).collect();
        assert!(of(1).is_none());
        taken.extend((MAX_PER_SOURCE..MAX_CONNECTIONS).map(|_| of(2).unwrap()));
        assert!(of(3).is_none());
        drop(taken);
        assert!(of(1).is_some() && places.0.borrow().is_empty());
    }
}
