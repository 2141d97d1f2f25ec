//! A program without an operating system interface, except for one system call to exit.
//!
//! The exit status is 0 if every crate works, 1 if not, and 101 after a panic.
#![no_std]
#![no_main]

mod machine;

use machine::exit;

extern "C" fn start() -> ! {
    exit(i32::from(no_std_guard::run().is_err()))
}
