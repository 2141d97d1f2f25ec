//! `barebell-bench`: measures what any SIP server carries, and shows it.

mod record;
mod users;

fn main() {}
