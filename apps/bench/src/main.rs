//! `barebell-bench`: measures what any SIP server carries, and shows it.

mod record;
#[expect(dead_code, reason = "the commands that write reports are not here yet")]
mod report;
mod users;

fn main() {}
