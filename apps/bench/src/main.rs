//! `barebell-bench`: measures what any SIP server carries, and shows it.

mod agents;
mod analysis;
mod bare;
mod capture;
mod cli;
mod commands;
mod cpu;
mod flood;
mod load;
mod measure;
mod metrics;
mod peer;
mod record;
mod report;
mod require;
mod ssh;
mod sut;
mod traffic;
mod users;
mod watch;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    commands::execute(&cli::Cli::parse())
}
