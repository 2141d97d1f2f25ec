//! `barebell-bench`: measures what any SIP server carries, and shows it.

#[expect(dead_code, reason = "the command line that runs it comes with the other commands")]
mod capture;
mod record;
mod users;

fn main() {}
