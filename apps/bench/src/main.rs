//! `barebell-bench`: measures what any SIP server carries, and shows it.

mod analysis;
mod metrics;
mod record;
#[cfg_attr(not(test), expect(dead_code, reason = "the commands will call it"))]
mod report;
#[cfg_attr(not(test), expect(dead_code, reason = "the commands will call it"))]
mod require;
mod users;

fn main() {}
