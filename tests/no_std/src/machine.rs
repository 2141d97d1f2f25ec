//! What `std` would have brought: nobody calls it, since the library is built and never run.

use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;

struct Nothing;

// SAFETY: there is never any memory, which is allowed.
unsafe impl GlobalAlloc for Nothing {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: Nothing = Nothing;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
