//! `barebell-bench`: measures what any SIP server carries, and shows it.

mod record;
#[cfg_attr(not(test), expect(dead_code, reason = "no command measures yet"))]
mod sut;
mod users;
#[cfg_attr(not(test), expect(dead_code, unused_imports, reason = "no command measures yet"))]
mod watch;

fn main() {}
