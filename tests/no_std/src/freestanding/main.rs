//! The program that has nothing below it but the processor, and of the system one call, to end.
//!
//! Its status is 0 where every crate did its work, else 1; where it panics, 101.
#![no_std]
#![no_main]

mod machine;

use machine::exit;

extern "C" fn start() -> ! {
    exit(i32::from(no_std_guard::run().is_err()))
}
