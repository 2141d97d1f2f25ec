//! `barebell-bench`: measures what any SIP server carries, and shows it.

#[cfg_attr(not(test), expect(dead_code, reason = "the commands will call it"))]
mod analysis;
#[cfg_attr(not(test), expect(dead_code, reason = "the commands will call it"))]
mod bare;
#[cfg_attr(not(test), expect(dead_code, reason = "the commands will call it"))]
mod metrics;
#[cfg_attr(not(test), expect(dead_code, unused_imports, reason = "the commands will call it"))]
mod peer;
mod record;
#[cfg_attr(not(test), expect(dead_code, reason = "the commands will call it"))]
mod require;
mod users;

fn main() {}
