//! The memory of an export: one part of the records, and the lines so far.

use crate::rig::{Rig, text};
use panel::Role;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the memory of each thread.
struct Counted;

std::thread_local! {
    /// The bytes in use, and their maximum.
    static USED: Cell<[isize; 2]> = const { Cell::new([0; 2]) };
}

fn count(bytes: isize) {
    USED.with(|used| {
        let now = used.get()[0] + bytes;
        used.set([now, used.get()[1].max(now)]);
    });
}

// SAFETY: all calls go to the system's allocator.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's obligations are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's obligations are the same.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;

#[test]
fn an_export_has_only_a_part_of_the_records_in_memory() {
    let mut rig = Rig::of_role(Role::Reader);
    "text".clone_into(&mut *rig.server.text.lock());
    *rig.server.records.lock() = 20_000;
    let before = USED.with(|used| {
        let now = used.get()[0];
        used.set([now; 2]);
        now
    });
    let reply = rig.get("/panel/records.csv");
    let peak = USED.with(Cell::get)[1] - before;
    let lines = text(&reply);
    assert!(lines.lines().count() > 20_000, "{} lines", lines.lines().count());
    // The lines, twice while their buffer grows, and the rows of a part.
    let most = 4 * lines.len() as isize + (4 << 20);
    assert!(peak < most, "{peak} bytes for {} bytes of lines", lines.len());
}
